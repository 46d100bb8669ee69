//! Rejecting where control messages have to wait for each other.

use superpipe_core::{Config, Endpoint, FlagPlace, Layout, Length, Origin, Reason};
use superpipe_testkit::{PairFabric, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

/// A CTS and a REJECT wait for a send queue of one: once there is room for the CTS alone, the next transfer must not be
/// shown, since it could not be rejected.
#[test]
fn what_is_shown_can_be_rejected_although_a_reject_waits() {
    let mut rejected = 0;
    for seed in 0..300 {
        let mut fabric = Posted::new(&Setup { send_queue: 1, ..Setup::new(LAYOUT, seed) });
        let config = Config { c0_bytes: 100, ..Config::default() };
        let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
        let mut ends = [end(0), end(1)];
        let first = ends[0].start(1, Length::Stream).unwrap();
        ends[0].push(&mut fabric, first, &[&[7; 100]]).unwrap();
        for _ in 0..50 {
            fabric.step();
            ends[0].progress(&mut fabric);
        }
        // The send queue is full of an acknowledgement, which gives its place back without being polled for: so what is said
        // next waits, and goes out in whatever call comes next.
        ends[1].send_keepalive(&mut fabric);
        let mut place = [0; 50];
        assert_eq!(ends[1].pull(&mut fabric, &mut [&mut place]).bytes, 50, "seed {seed}");
        assert!(ends[1].reject(&mut fabric, Reason(3)));
        ends[0].cancel(&mut fabric, first, Reason(4)).unwrap();
        let mut second = None;
        for _ in 0..500 {
            fabric.step();
            ends[0].progress(&mut fabric);
            second = second.or_else(|| ends[0].start(2, Length::Stream).ok());
            if let Some(id) = second {
                let _ = ends[0].push(&mut fabric, id, &[&[8; 50]]);
            }
            if ends[1].incoming(&mut fabric).is_some() {
                assert!(ends[1].reject(&mut fabric, Reason(5)), "seed {seed}: shown, and cannot be rejected");
                rejected += 1;
                break;
            }
            ends[1].progress(&mut fabric);
        }
    }
    assert!(rejected > 250, "only {rejected}");
}
