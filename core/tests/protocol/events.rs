//! Events wait to be taken; of too many, the oldest are counted.

use superpipe_core::{Config, Endpoint, Event, FlagPlace, Layout, Origin, Reason};
use superpipe_testkit::{Direct, Memory, PairFabric, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

#[test]
fn rejects_are_reported_in_order_and_dropped_ones_counted() {
    for (rejects, missed) in [(1, 0), (16, 0), (17, 1), (40, 24)] {
        for times in 1..3 {
            told(rejects, missed, times);
        }
    }
}

fn told(rejects: u32, missed: u64, times: u32) {
    let fabric = &mut Direct::new(&Setup::new(LAYOUT, 1));
    let mut end = Endpoint::new(fabric, fabric.attachment(0), Config::default(), Origin::default()).unwrap();
    for time in 0..times {
        for reject in time * rejects..(time + 1) * rejects {
            let number = end.try_send(fabric, 1, &[b"tiny"]).unwrap().number();
            let line = wire::reject(number, u64::from(reject) + 10, number);
            fabric.forge(Memory::control_page(0), wire::mailbox(reject % 16), &line);
            let blocks = wire::ack(number, u64::MAX, 0);
            fabric.forge(Memory::control_page(0), 0, &blocks);
            end.progress(fabric);
        }
        let mut told = core::iter::from_fn(|| end.poll_event()).collect::<Vec<_>>();
        for reject in (time * rejects..(time + 1) * rejects).rev().take(16) {
            let rejected = Event::Rejected { transfer: u64::from(reject) + 1, reason: Reason(reject + 10) };
            assert_eq!(told.pop(), Some(rejected));
        }
        let first = told.pop();
        assert_eq!((first, told.len()), ((missed > 0).then_some(Event::Missed { count: missed }), 0));
    }
    assert_eq!(end.closed(), None);
}
