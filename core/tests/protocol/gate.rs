//! One gate for every way to begin a transfer: none begins while a REJECT is due, so that whatever is shown can be
//! rejected. wire.md 5.2.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Origin, Readable, Reason, TryRecv};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const BYTES: usize = 700;

/// An end that has rejected two messages: the REJECT of the first is on the way, and not acknowledged, so that of the
/// second waits. A third message has arrived.
fn two_rejected<F: TestFabric>() -> (F, [Endpoint<F>; 2]) {
    let mut fabric = F::new(&Setup::new(LAYOUT, 1));
    let config = Config { c0_bytes: 1000, ..Config::default() };
    let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
    let mut ends = [end(0), end(1)];
    for tag in 1..=2 {
        ends[0].try_send(&mut fabric, tag, &[&[7; BYTES]]).unwrap();
        for _ in 0..300 {
            fabric.step();
            // No control message is taken, and so none acknowledged.
            ends[0].poll_delivered();
            ends[0].poll_acknowledgements(&mut fabric);
            if ends[1].incoming(&mut fabric).is_some() {
                break;
            }
        }
        assert!(ends[1].reject(&mut fabric, Reason(9)), "message {tag}");
        for _ in 0..50 {
            fabric.step();
            ends[1].progress(&mut fabric);
        }
    }
    ends[1].acknowledge(&mut fabric);
    for _ in 0..50 {
        fabric.step();
        ends[0].poll_acknowledgements(&mut fabric);
    }
    ends[0].try_send(&mut fabric, 3, &[&[8; BYTES]]).unwrap();
    (0..50).for_each(|_| fabric.step());
    assert_eq!(ends[0].counters().controls_received, 0);
    assert_eq!(ends[1].counters().controls_sent, 1);
    (fabric, ends)
}

fn nothing_begins_while_a_reject_is_due<F: TestFabric>() {
    type Try<F> = fn(&mut Endpoint<F>, &mut F, &mut [u8]) -> bool;
    let ways: [(&str, Try<F>); 5] = [
        ("try_recv", |end, fabric, place| {
            !matches!(end.try_recv(fabric, &mut [place], 3), TryRecv::Nothing | TryRecv::Other)
        }),
        ("incoming", |end, fabric, _| end.incoming(fabric).is_some()),
        ("pull", |end, fabric, place| {
            let pulled = end.pull(fabric, &mut [place]);
            pulled.bytes > 0 || pulled.end != End::No
        }),
        ("readable", |end, fabric, _| !matches!(end.readable(fabric, 100), Readable::Nothing)),
        ("reject", |end, fabric, _| end.reject(fabric, Reason(1))),
    ];
    for (way, begins) in ways {
        let (mut fabric, mut ends) = two_rejected::<F>();
        let mut place = [0; BYTES];
        for _ in 0..3 {
            assert!(!begins(&mut ends[1], &mut fabric, &mut place), "{way} began a transfer");
            ends[1].progress(&mut fabric);
        }
        // The sender learns of the first REJECT, the second goes out, and the third message comes whole.
        let mut bytes = 0;
        for _ in 0..1000 {
            fabric.step();
            ends[0].progress(&mut fabric);
            ends[1].progress(&mut fabric);
            let pulled = ends[1].pull_from(&mut fabric, &mut [&mut place], bytes);
            bytes += pulled.bytes;
            if pulled.end == End::Fin {
                break;
            }
        }
        assert_eq!((bytes, place), (BYTES, [8; BYTES]), "{way}");
    }
}

#[test]
fn direct() {
    nothing_begins_while_a_reject_is_due::<Direct>();
}

#[test]
fn posted() {
    nothing_begins_while_a_reject_is_due::<Posted>();
}
