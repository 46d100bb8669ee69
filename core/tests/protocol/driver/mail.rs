//! Control messages to an end whose operations are all done at once, so that it never waits and makes no round of progress of its own.

use superpipe_core::driver::{Drive, RecvOperation, SendOperation};
use superpipe_core::{Closed, Driver, Reason};
use superpipe_testkit::TestFabric;

use crate::driver::{ROUNDS, Two, taken};

tables! {
    an_end_that_only_sends_reads_its_mail
    an_end_that_only_receives_reads_its_mail
    a_reject_that_a_round_has_read_is_acknowledged
    messages_before_a_close_with_a_reason_are_taken
}

const TINY: &[u8] = b"tiny";

/// Returns true once the peer shows a message, and rejects it. None is shown while a REJECT waits for the acknowledgement of the one before.
fn rejects<F: TestFabric>(t: &mut Two<F>) -> bool {
    let is_shown = (0..ROUNDS).any(|_| {
        t.fabric.step();
        t.ends[1].progress(&mut t.fabric);
        t.ends[1].try_peek(&mut t.fabric).is_some()
    });
    is_shown && t.ends[1].reject(&mut t.fabric, Reason(9))
}

/// Returns the control messages that the peer has sent once all that was written has arrived.
fn controls_sent<F: TestFabric>(t: &mut Two<F>) -> u64 {
    for _ in 0..ROUNDS {
        t.fabric.step();
        t.ends[1].progress(&mut t.fabric);
    }
    t.ends[1].counters().controls_sent
}

fn an_end_that_only_sends_reads_its_mail<F: TestFabric>() {
    type Send<F> = fn(&mut Two<F>, u64) -> bool;
    let ways: [(&str, Send<F>); 2] = [
        ("drive_send", |t, tag| {
            t.drive_send(0, &mut SendOperation::new(tag, TINY.len()), &[TINY]) == Drive::Done(Ok(()))
        }),
        ("attempt", |t, tag| {
            let Two { fabric, ends: [end, _] } = t;
            let send = |driver: &mut Driver<F>, fabric: &mut F| {
                driver.endpoint_mut().try_send(fabric, tag, &[TINY]).ok().into()
            };
            matches!(end.attempt(fabric, send), Drive::Done(_))
        }),
    ];
    for (way, send) in ways {
        let mut t = Two::<F>::new();
        // Fewer than the ring has room for: no call is refused.
        let rejected = (1..=5).filter(|tag| {
            assert!(send(&mut t, *tag), "{way}: message {tag} is not sent at once");
            rejects(&mut t)
        });
        let rejected = rejected.count();
        let read = t.ends[0].counters().controls_received;
        assert!(
            rejected >= 4 && read >= 2,
            "{way}: {rejected} messages were rejected, and {read} REJECTs read"
        );
    }
}

fn an_end_that_only_receives_reads_its_mail<F: TestFabric>() {
    type Recv<F> = fn(&mut Two<F>, &mut [&mut [u8]]) -> bool;
    let ways: [(&str, Recv<F>); 2] = [
        ("drive_recv", |t, place| {
            let mut receive = RecvOperation::new();
            t.ends[0].drive_recv(&mut t.fabric, &mut receive, place) == Drive::Done(Ok(taken(3, TINY.len())))
        }),
        ("recv_part", |t, place| {
            let mut receive = RecvOperation::cold();
            let begun = t.ends[0].drive_recv(&mut t.fabric, &mut receive, place) == Drive::Moved;
            begun && matches!(t.ends[0].recv_part(&mut t.fabric, &mut receive, place[0]), Drive::Done(Ok(_)))
        }),
    ];
    for (way, recv) in ways {
        let mut t = Two::<F>::new();
        for tag in 1..=2 {
            t.ends[0].try_send(&mut t.fabric, tag, &[TINY]).unwrap();
        }
        assert!(rejects(&mut t) && rejects(&mut t), "the first REJECT goes out at once");
        t.ends[1].try_send(&mut t.fabric, 3, &[TINY]).unwrap();
        (0..ROUNDS).for_each(|_| t.fabric.step());
        assert_eq!(t.ends[1].counters().controls_sent, 1, "the second REJECT waits");
        let mut place = [0; 8];
        assert!(recv(&mut t, &mut [&mut place]), "{way}: nothing was received at once");
        assert_eq!(controls_sent(&mut t), 2, "{way}: the first REJECT was not read");
    }
}

/// A wait that ends in the next attempt makes too few rounds to acknowledge.
fn a_reject_that_a_round_has_read_is_acknowledged<F: TestFabric>() {
    let mut t = Two::<F>::new();
    for tag in 1..=2 {
        t.ends[0].try_send(&mut t.fabric, tag, &[TINY]).unwrap();
    }
    assert!(rejects(&mut t) && rejects(&mut t), "the first REJECT goes out at once");
    (0..ROUNDS).for_each(|_| t.fabric.step());
    t.ends[0].progress(&mut t.fabric);
    assert_eq!(t.ends[0].counters().controls_received, 1);
    assert_eq!(controls_sent(&mut t), 1, "the second REJECT waits");
    let sent = t.drive_send(0, &mut SendOperation::new(3, TINY.len()), &[TINY]);
    assert_eq!(sent, Drive::Done(Ok(())));
    assert_eq!(controls_sent(&mut t), 2, "the first REJECT is not acknowledged");
}

/// A wait may find the CLOSE first, and then nothing is delivered any more; a call that finds a message does not look for it.
fn messages_before_a_close_with_a_reason_are_taken<F: TestFabric>() {
    let mut t = Two::<F>::new();
    for tag in 1..=3 {
        t.ends[1].try_send(&mut t.fabric, tag, &[TINY]).unwrap();
        assert_eq!(controls_sent(&mut t), 0);
    }
    t.ends[1].close(&mut t.fabric, Reason(8));
    assert_eq!(controls_sent(&mut t), 1, "CLOSE");
    let mut place = [0; 8];
    for tag in 1..=3 {
        let received = t.drive_recv(0, &mut RecvOperation::new(), &mut [&mut place]);
        assert_eq!(received, Drive::Done(Ok(taken(tag, TINY.len()))));
    }
    let sent = t.drive_send(0, &mut SendOperation::new(4, TINY.len()), &[TINY]);
    assert_eq!(sent, Drive::Done(Ok(())), "nor does one that sends");
    t.ends[0].progress(&mut t.fabric);
    t.ends[0].progress(&mut t.fabric);
    assert_eq!(t.ends[0].endpoint().closed(), Some(Closed::ByPeer(Reason(8))));
}
