//! Two honest ends, no sign of life.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Length, Origin, Protocol, Reason, Sending};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

fn ends<F: TestFabric>(config: Config, send_queue: usize) -> (F, [Endpoint<F>; 2]) {
    let fabric = F::new(&Setup { send_queue, ..Setup::new(LAYOUT, 1) });
    let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
    let ends = [end(0), end(1)];
    (fabric, ends)
}

/// `has_arrivals`: "Whether the peer has written something that no call has looked at yet: the last question before a sleep." The
/// acknowledgement of a REJECT, for which the next one waits, and with it the gate, is such a thing.
#[test]
fn an_acknowledged_control_message_is_an_arrival() {
    let (mut fabric, mut ends) = ends::<Direct>(Config { c0_bytes: 1000, ..Config::default() }, 2);
    for tag in 0..3 {
        ends[0].try_send(&mut fabric, tag, &[&[7; 300]]).unwrap();
    }
    assert!(ends[1].reject(&mut fabric, Reason(1)));
    ends[1].progress(&mut fabric);
    assert!(ends[1].reject(&mut fabric, Reason(2)));
    for _ in 0..20 {
        ends[1].progress(&mut fabric);
    }
    // The third has been looked at: of what lies there nothing is new.
    while ends[1].has_arrivals(&fabric) {}
    assert_eq!(
        ends[1].counters().controls_sent,
        1,
        "the second REJECT waits for the first to be acknowledged"
    );
    for _ in 0..20 {
        ends[0].progress(&mut fabric);
    }
    assert!(
        ends[1].has_arrivals(&fabric),
        "the first is acknowledged: there is work, and this end goes to sleep"
    );
}

/// wire.md 4.6: a receiver must acknowledge in finite time. One whose own writes complete in every so many rounds is never idle.
#[test]
fn a_busy_receiver_acknowledges() {
    let config = Config {
        triple_buffer: true,
        protocol: Protocol::Eager,
        folds: 16,
        c0_bytes: 200,
        ..Config::default()
    };
    let (mut fabric, mut ends) = ends::<Posted>(config, 4);
    let id = ends[0].start(1, Length::Stream).unwrap();
    let (mut pushed, mut pulled, mut back) = (0, 0, 0);
    for _ in 0..50_000 {
        (0..4).for_each(|_| fabric.step());
        pushed += ends[0].push(&mut fabric, id, &[&[7; 100]]).unwrap();
        pulled += ends[1].pull(&mut fabric, &mut [&mut [0; 500]]).bytes;
        _ = ends[1].try_send(&mut fabric, 2, &[&[8; 100]]);
        back += usize::from(ends[0].pull(&mut fabric, &mut [&mut [0; 200]]).end == End::Fin);
        ends.iter_mut().for_each(|end| _ = end.progress(&mut fabric));
    }
    assert!(
        pushed > 1000 && pulled > 1000,
        "{pushed} bytes went there and {pulled} were taken, while {back} messages came back"
    );
}

/// `delivered`: "Whether all that was sent was taken out by the peer". A CANCEL that waits for the send queue was not even sent.
#[test]
fn a_cancel_that_waits_is_not_delivered() {
    let (mut fabric, mut ends) = ends::<Posted>(Config::default(), 1);
    let id = ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50));
    for _ in 0..300 {
        fabric.step();
        ends[0].progress(&mut fabric);
        ends[1].progress(&mut fabric);
        ends[1].pull(&mut fabric, &mut [&mut [0; 100]]);
        ends[0].poll_acknowledgements(&mut fabric);
    }
    ends[1].acknowledge(&mut fabric);
    for _ in 0..100 {
        fabric.step();
        ends[0].poll_acknowledgements(&mut fabric);
    }
    assert!(ends[0].poll_delivered());
    // The one place in the send queue is taken.
    ends[0].send_keepalive(&mut fabric);
    ends[0].cancel(&mut fabric, id, Reason(3)).unwrap();
    assert_eq!(ends[0].state().sending, Sending::Cancelling);
    assert!(!ends[0].poll_delivered(), "the CANCEL is not in the ring, and all is said to be delivered");
}

/// The same with the default policy: one message, whose sender waits until it is delivered.
#[test]
fn what_a_busy_receiver_has_taken_is_delivered() {
    let (mut fabric, mut ends) = ends::<Posted>(Config::default(), 4);
    ends[0].try_send(&mut fabric, 1, &[&[7; 100]]).unwrap();
    let (mut taken, mut back) = (false, 0);
    for _ in 0..50_000 {
        (0..4).for_each(|_| fabric.step());
        taken |= ends[1].pull(&mut fabric, &mut [&mut [0; 500]]).end == End::Fin;
        _ = ends[1].try_send(&mut fabric, 2, &[&[8; 100]]);
        back += usize::from(ends[0].pull(&mut fabric, &mut [&mut [0; 200]]).end == End::Fin);
        ends.iter_mut().for_each(|end| _ = end.progress(&mut fabric));
        if ends[0].poll_delivered() {
            return;
        }
    }
    panic!("taken: {taken}; not delivered while {back} messages came back");
}
