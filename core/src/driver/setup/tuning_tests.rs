extern crate std;

use super::*;
use std::string::ToString;

#[test]
fn one_side_is_enough() {
    let wish = Tuning { block_bytes: Some(4096), folds: Some(2), ..Tuning::default() };
    let a = wish.settle(&Tuning::default(), &Terms::SHM);
    let b = Tuning::default().settle(&wish, &Terms::SHM);
    assert_eq!(a, b);
    assert_eq!(a.map(|s| s.layout.block_bytes), Ok(4096));
}

#[test]
fn notify_is_a_wish_that_some_fabrics_can_grant() {
    let wish = Tuning { arrival: Some(Arrival::Notify), ..Tuning::default() };
    assert_eq!(wish.validate(), Ok(()));
    let shm = wish.settle(&Tuning::default(), &Terms::SHM).unwrap_err().to_string();
    assert_eq!(shm, "stores that go direct cannot be notified; use flags or checked flags");
    let posted = Terms { flags: FlagPlace::Inside, ..Terms::SHM };
    assert!(
        wish.settle(&Tuning::default(), &posted).is_err_and(|error| error.to_string().contains("keeps 0;"))
    );
    let posted = Terms { notices: NOTICES_MIN, ..posted };
    assert_eq!(wish.settle(&Tuning::default(), &posted).map(|s| s.config.arrival), Ok(Arrival::Notify));
}

#[test]
fn two_different_wishes_are_refused_with_both_values() {
    let of = |folds| Tuning { folds: Some(folds), ..Tuning::default() };
    let text = of(2).settle(&of(3), &Terms::SHM).unwrap_err().to_string();
    assert_eq!(text, "the two ends disagree: folds is 2 here and 3 at the peer; set it on one side only");
    assert!(of(2).settle(&of(2), &Terms::SHM).is_ok());
}

#[test]
fn what_is_settled_survives_the_wire() {
    let wish = Tuning { chunk_bytes: Some(100_000), protocol: Some(Protocol::Pipeline), ..Tuning::default() };
    let settled = wish.settle(&Tuning::default(), &Terms::SHM).unwrap();
    assert_eq!(Settled::from_tuning(&settled.to_tuning(), &Terms::SHM), Ok(settled));
    assert_eq!(wish.check(&settled, &Terms::SHM), Ok(()));
    let wish = Tuning { landing_bytes: Some(100_000), ..Tuning::default() };
    let settled = Tuning::default().settle(&wish, &Terms::SHM).unwrap();
    assert_eq!(settled.layout.block_count, 6);
    assert_eq!(wish.check(&settled, &Terms::SHM), Ok(()));
}

#[test]
fn absurd_wishes_are_refused() {
    for block_bytes in [1, 100, 64, 2 << 20, u32::MAX] {
        assert!(Tuning { block_bytes: Some(block_bytes), ..Tuning::default() }.validate().is_err());
    }
    assert!(Tuning { landing_bytes: Some(1 << 31), ..Tuning::default() }.validate().is_err());
    assert!(Tuning { landing_bytes: Some(100), ..Tuning::default() }.validate().is_err());
}
