//! Events wait to be taken; of too many, the oldest is forgotten.

use superpipe_core::{Config, Endpoint, Event, FlagPlace, Layout, Origin, Reason};
use superpipe_testkit::{Direct, Memory, Rig, Setup, Stage, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

#[test]
fn the_newest_rejects_are_told_in_their_order() {
    let fabric = &mut Direct::new(&Setup::new(LAYOUT, 1));
    let mut end = Endpoint::new(fabric, fabric.attachment(0), Config::default(), Origin::default()).unwrap();
    for slot in 0..6_u32 {
        let number = end.try_send(fabric, 1, &[b"tiny"]).unwrap().number();
        let line = wire::reject(number, u64::from(slot) + 10, number);
        fabric.forge(Memory::seat(0), wire::mailbox(slot), &line);
        end.progress(fabric);
    }
    let mut told = core::iter::from_fn(|| end.poll_event()).collect::<Vec<_>>();
    let rejected = |slot: u32| Event::Rejected { transfer: u64::from(slot) + 1, reason: Reason(slot + 10) };
    assert!((2..=6).contains(&told.len()), "some wait, and not only the last");
    for slot in (0..6).rev().take(told.len()) {
        assert_eq!(told.pop(), Some(rejected(slot)));
    }
    assert_eq!(end.closed(), None);
}
