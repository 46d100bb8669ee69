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
    assert_eq!(
        text,
        "the two ends disagree: folds is 2 at the listening end and 3 at the connecting end; set it at one end only"
    );
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

#[test]
fn what_nobody_wishes_is_the_fabrics() {
    let settled = Tuning::default().settle(&Tuning::default(), &Terms::SHM).unwrap();
    assert_eq!((settled.config.c0_bytes, settled.config.order_asserted), (64 << 10, false));
    assert_eq!((settled.layout.block_bytes, settled.layout.block_count), (BLOCK_BYTES, 32));
    assert_eq!(settled.to_tuning().chunk_bytes, None);
    for ordered in [false, true] {
        let arrival = if ordered { Arrival::Flag } else { Arrival::CheckedFlag };
        let posted = Terms { flags: FlagPlace::Inside, ordered, arrival, c0_bytes: 100, ..Terms::SHM };
        let config = Tuning::default().settle(&Tuning::default(), &posted).unwrap().config;
        assert_eq!((config.c0_bytes, config.order_asserted, config.arrival), (100, ordered, arrival));
    }
}

#[test]
fn a_landing_buffer_has_four_blocks_where_nobody_wishes_for_its_bytes() {
    let wish = Tuning { block_bytes: Some(1 << 20), ..Tuning::default() };
    let settled = wish.settle(&Tuning::default(), &Terms::SHM).unwrap();
    assert_eq!(settled.layout.block_count, 4);
}
