//! Messages by remote writes that end before their end, at every moment: memory always comes back, and never while it is in use.

use superpipe_core::driver::{Next, RecvFailed, SendFailed};
use superpipe_core::{Arrival, Closed, Failure, Reason};
use superpipe_testkit::TestFabric;

use super::{ARRIVALS, Incoming, Outgoing, ROUNDS, Terms, Two, payload};

const BYTES: usize = 3000;
const WHY: Reason = Reason(77);

/// Moments at which a message is interrupted: after so many rounds.
const MOMENTS: usize = 160;

/// A message under way from end 0 to end 1.
struct Message {
    out: Outgoing,
    place: Incoming,
}

impl Message {
    fn begin(t: &mut Two) -> Self {
        Self { out: t.outgoing(0, 7, &payload(BYTES, 1)), place: t.incoming(1, BYTES) }
    }

    /// Drives both operations for some rounds. Returns true once both have ended.
    fn drive(&mut self, t: &mut Two, rounds: usize) -> bool {
        for _ in 0..rounds {
            if t.send(0, &mut self.out) & t.receive(1, &mut self.place) {
                return true;
            }
            t.round();
        }
        false
    }

    /// Makes rounds until the memory of both operations is released, and takes it back.
    fn release(self, t: &mut Two, about: &str) -> [Option<bool>; 2] {
        for _ in 0..ROUNDS {
            if t.ends[0].is_send_released(&self.out.op) && t.ends[1].is_recv_released(&self.place.op) {
                let ended = [
                    self.out.result.map(|result| result.is_ok()),
                    self.place.result.map(|result| result.is_ok()),
                ];
                t.sent(self.out);
                t.fabric.take_back(self.place.buffer);
                return ended;
            }
            t.round();
        }
        panic!("memory is never released: {about}, {:?}", [t.closed(0), t.closed(1)]);
    }
}

/// Interrupts a message at each moment, over all arrival modes and several seeds.
fn at_each_moment(mut interrupt: impl FnMut(&mut Two, Message, &str)) {
    for arrival in ARRIVALS {
        for moment in 0..MOMENTS {
            let seed = moment as u64 * 31;
            let terms = Terms { chunk_bytes: 700, send_queue: 3, ..Terms::new(arrival, seed) };
            let mut t = Two::new(&terms);
            let mut message = Message::begin(&mut t);
            if message.drive(&mut t, moment) {
                break;
            }
            interrupt(&mut t, message, &format!("{arrival:?}, moment {moment}"));
        }
    }
}

#[test]
fn a_sender_that_cancels_keeps_the_connection() {
    let mut cancelled = 0;
    at_each_moment(|t, mut message, about| {
        let Two { fabric, ends, .. } = t;
        ends[0].cancel_send(fabric, &mut message.out.op, WHY);
        for _ in 0..ROUNDS {
            // A message of which nothing was sent is never seen.
            let has_begun = message.place.op.length() > 0;
            let is_never = !has_begun && is_quiet(t) && t.ends[1].try_peek(&mut t.fabric).is_none();
            if is_never || t.receive(1, &mut message.place) {
                break;
            }
            t.round();
        }
        match message.place.result {
            Some(Ok(received)) => assert_eq!(received.bytes, BYTES, "{about}"),
            Some(Err(failed)) => {
                assert_eq!(failed, RecvFailed::Cancelled(WHY), "{about}");
                cancelled += 1;
            }
            None => {
                let Two { fabric, ends, .. } = t;
                ends[1].release_recv(fabric, &mut message.place.op, WHY);
            }
        }
        message.release(t, about);
        assert_eq!([t.closed(0), t.closed(1)], [None; 2], "{about}");
        t.settle();
        assert!(t.carry(0, 9, &payload(2000, 2)), "{about}: the next message");
        assert!(t.carry(1, 9, &payload(2000, 3)), "{about}: the next message back");
    });
    assert!(cancelled > 50, "{cancelled} were cancelled on their way");
}

fn is_quiet(t: &mut Two) -> bool {
    t.settle();
    t.ends.iter().all(|end| end.endpoint().is_quiescent())
}

#[test]
fn a_receiver_that_gives_up_loses_only_what_was_granted() {
    let (mut kept, mut lost) = (0, 0);
    at_each_moment(|t, mut message, about| {
        let Two { fabric, ends, .. } = t;
        ends[1].cancel_recv(fabric, &mut message.place.op, WHY);
        for _ in 0..ROUNDS {
            if t.send(0, &mut message.out) {
                break;
            }
            // A peer that has ended the link is noticed by its device.
            if t.closed(0).is_some() || t.fabric.has_ended() {
                let Two { fabric, ends, .. } = t;
                ends[0].cancel_send(fabric, &mut message.out.op, WHY);
                break;
            }
            // An operation that had not begun leaves the message to the next one.
            if message.place.result.is_none()
                && !message.place.op.has_begun()
                && t.ends[1].try_peek(&mut t.fabric).is_some()
            {
                t.ends[1].reject(&mut t.fabric, WHY);
            }
            t.round();
        }
        let is_closed = t.closed(1) == Some(Closed::Here(Reason::GIVEN_UP))
            || matches!(t.closed(1), Some(Closed::Failed(Failure::Device(_))));
        if let Some(Err(failed)) = message.out.result {
            assert!(is_closed || failed == SendFailed::Rejected(WHY), "{about}: {failed:?}");
        }
        message.release(t, about);
        if is_closed {
            assert!(t.fabric.has_ended(), "{about}: closed, and the peer may still write");
            lost += 1;
        } else {
            assert_eq!([t.closed(0), t.closed(1)], [None; 2], "{about}");
            t.settle();
            assert!(t.carry(0, 9, &payload(2000, 2)), "{about}: the next message");
            kept += 1;
        }
    });
    assert!(kept > 20 && lost > 20, "{kept} connections were kept, and {lost} were lost");
}

#[test]
fn a_close_in_the_middle_gives_the_memory_back() {
    for side in 0..2 {
        for reason in [Reason::DONE, WHY] {
            at_each_moment(|t, mut message, about| {
                let Two { fabric, ends, .. } = t;
                ends[side].close(fabric, reason);
                message.drive(t, 300);
                for end in 0..2 {
                    t.ends[end].close(&mut t.fabric, reason);
                }
                message.drive(t, 300);
                let Two { fabric, ends, .. } = t;
                ends[0].cancel_send(fabric, &mut message.out.op, WHY);
                ends[1].cancel_recv(fabric, &mut message.place.op, WHY);
                message.release(t, about);
            });
        }
    }
}

/// By another thread, or by the peer: the receive learns of it when it is given up.
#[test]
fn a_receive_is_given_up_after_a_close() {
    for side in 0..2 {
        let mut ended = 0;
        at_each_moment(|t, mut message, about| {
            t.ends[side].close(&mut t.fabric, WHY);
            if side == 0 {
                // The look at the next message finds the peer's CLOSE.
                for _ in 0..200 {
                    t.ends[0].progress(&mut t.fabric);
                    t.fabric.step();
                }
                let _ = t.ends[1].try_peek(&mut t.fabric);
            }
            let Two { fabric, ends, .. } = t;
            ends[1].release_recv(fabric, &mut message.place.op, WHY);
            for _ in 0..ROUNDS {
                if t.send(0, &mut message.out) {
                    break;
                }
                t.round();
            }
            let Two { fabric, ends, .. } = t;
            ends[0].cancel_send(fabric, &mut message.out.op, WHY);
            message.release(t, about);
            ended += u32::from(t.fabric.has_ended());
        });
        assert!(ended > 20, "end {side} closes: the peer may write at {ended} moments");
    }
}

/// A receive that was given up is given up again, while another has lent its memory to the same message.
#[test]
fn a_receive_that_has_ended_withdraws_no_memory_of_another() {
    for arrival in ARRIVALS {
        let mut t = Two::new(&Terms::new(arrival, 8));
        let mut message = Message::begin(&mut t);
        t.fabric.hold_jobs(true);
        for _ in 0..ROUNDS {
            if message.place.op.has_begun() {
                break;
            }
            message.drive(&mut t, 1);
        }
        let Message { mut out, mut place } = message;
        let mut give_up = |t: &mut Two| {
            let Two { fabric, ends, .. } = t;
            ends[1].release_recv(fabric, &mut place.op, WHY);
        };
        give_up(&mut t);
        t.fabric.hold_jobs(false);
        t.settle();
        t.fabric.hold_jobs(true);
        let mut next = t.incoming(1, BYTES);
        for _ in 0..20 {
            t.receive(1, &mut next);
            t.round();
        }
        assert!(!t.ends[1].is_recv_released(&next.op), "lent, and not registered yet");
        give_up(&mut t);
        t.fabric.hold_jobs(false);
        for _ in 0..ROUNDS {
            if t.send(0, &mut out) & t.receive(1, &mut next) {
                break;
            }
            t.round();
        }
        assert_eq!(t.sent(out), Some(Ok(())), "{arrival:?}");
        assert_eq!(t.ends[1].counters().remote_bytes_received, BYTES as u64, "{arrival:?}");
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
        t.fabric.take_back(place.buffer);
        t.fabric.take_back(next.buffer);
    }
}

#[test]
fn a_link_that_ends_gives_the_memory_back() {
    at_each_moment(|t, mut message, about| {
        t.fabric.end_link();
        t.ends.iter_mut().for_each(|end| end.note_peer_gone());
        message.drive(t, 100);
        let Two { fabric, ends, .. } = t;
        ends[0].cancel_send(fabric, &mut message.out.op, WHY);
        ends[1].cancel_recv(fabric, &mut message.place.op, WHY);
        let ended = message.release(t, about);
        assert!(ended != [Some(true); 2] || t.fabric.has_ended(), "{about}");
    });
}

#[test]
fn a_rejected_message_is_not_written() {
    for arrival in ARRIVALS {
        let mut t = Two::new(&Terms::new(arrival, 8));
        let mut out = t.outgoing(0, 7, &payload(BYTES, 1));
        for _ in 0..ROUNDS {
            if t.ends[1].try_peek(&mut t.fabric).is_some() {
                break;
            }
            t.send(0, &mut out);
            t.round();
        }
        assert!(t.ends[1].reject(&mut t.fabric, WHY));
        for _ in 0..ROUNDS {
            if t.send(0, &mut out) {
                break;
            }
            t.round();
        }
        assert_eq!(t.sent(out), Some(Err(SendFailed::Rejected(WHY))), "{arrival:?}");
        t.settle();
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
        assert!(t.carry(0, 9, &payload(2000, 2)), "{arrival:?}");
    }
}

#[test]
fn a_reject_of_a_granted_message_ends_the_connection() {
    let mut t = Two::new(&Terms::new(Arrival::Flag, 8));
    let mut message = Message::begin(&mut t);
    // The sender does not see the CTS, so nothing is written.
    for _ in 0..ROUNDS {
        t.receive(1, &mut message.place);
        if t.ends[1].counters().controls_sent > 0 {
            break;
        }
        if message.out.op.sent() == 0 && t.ends[0].counters().chunks_sent == 0 {
            t.send(0, &mut message.out);
        }
        t.ends[1].progress(&mut t.fabric);
        t.fabric.step();
    }
    assert!(!t.ends[1].reject(&mut t.fabric, WHY), "it cannot be rejected");
    assert_eq!(t.closed(1), Some(Closed::Here(Reason::GIVEN_UP)));
    for _ in 0..ROUNDS {
        if t.ends[1].is_recv_released(&message.place.op) {
            break;
        }
        t.ends[1].progress(&mut t.fabric);
        t.fabric.step();
    }
    assert!(t.fabric.has_ended(), "the memory came back, and the peer may still write");
    t.fabric.take_back(message.place.buffer);
}

#[test]
fn memory_that_was_not_written_needs_no_peer_to_come_back() {
    for arrival in ARRIVALS {
        let mut t = Two::new(&Terms::new(arrival, 8));
        let mut out = t.outgoing(0, 7, &payload(BYTES, 1));
        for _ in 0..20 {
            t.send(0, &mut out);
            t.ends[0].progress(&mut t.fabric);
            t.fabric.step();
        }
        use_up_credits(&mut t);
        let Two { fabric, ends, .. } = &mut t;
        ends[0].cancel_send(fabric, &mut out.op, WHY);
        for _ in 0..600 {
            ends[0].progress(fabric);
            fabric.step();
        }
        assert!(ends[0].is_send_released(&out.op), "{arrival:?}");
        t.sent(out);
        // The peer goes on, and the CANCEL is not lost.
        let mut place = t.incoming(1, BYTES);
        for _ in 0..ROUNDS {
            if t.receive(1, &mut place) {
                break;
            }
            t.round();
        }
        assert_eq!(place.result, Some(Err(RecvFailed::Cancelled(WHY))), "{arrival:?}");
        t.fabric.take_back(place.buffer);
        t.settle();
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
        assert!(t.carry(0, 9, &payload(2000, 2)), "{arrival:?}: the next message");
    }
}

/// Sends keepalives until no credit is left. The peer is stopped, and gives none back.
fn use_up_credits(t: &mut Two) {
    for _ in 0..200 {
        let Two { fabric, ends, .. } = &mut *t;
        ends[0].endpoint_mut().send_keepalive(fabric);
        ends[0].progress(fabric);
        fabric.step();
    }
}
#[test]
fn memory_comes_back_from_a_peer_that_dies_without_credit() {
    for is_cancelled in [true, false] {
        let mut t = Two::new(&Terms { chunk_bytes: 700, ..Terms::new(Arrival::Notify, 8) });
        let mut message = Message::begin(&mut t);
        while t.ends[1].counters().controls_sent == 0 {
            message.drive(&mut t, 1);
        }
        use_up_credits(&mut t);
        for _ in 0..600 {
            t.send(0, &mut message.out);
            let Two { fabric, ends, .. } = &mut t;
            ends[0].progress(fabric);
            fabric.step();
            if is_cancelled && ends[0].counters().remote_bytes_sent > 0 {
                ends[0].cancel_send(fabric, &mut message.out.op, WHY);
            }
        }
        assert!(t.ends[0].counters().remote_bytes_sent > 0 && !t.ends[0].is_send_released(&message.out.op));
        t.fabric.end_link();
        t.ends.iter_mut().for_each(|end| end.note_peer_gone());
        let Two { fabric, ends, .. } = &mut t;
        ends[1].cancel_recv(fabric, &mut message.place.op, WHY);
        message.release(&mut t, "the peer is gone");
        let Two { fabric, ends, .. } = &mut t;
        assert!(ends[0].ended(fabric).is_some(), "it is reported");
    }
}

/// A device may repeat a write without end to a peer that is gone: rxe does, if the peer's queue pair does not answer.
#[test]
fn memory_comes_back_from_a_device_that_completes_nothing() {
    for arrival in ARRIVALS {
        let mut awaited = 0;
        for seed in 0..30 {
            let mut t = Two::new(&Terms::new(arrival, seed));
            let mut message = Message::begin(&mut t);
            while !t.send(0, &mut message.out) && !message.out.op.awaits_release() {
                t.receive(1, &mut message.place);
                t.round();
            }
            awaited += usize::from(!t.ends[0].is_send_released(&message.out.op));
            // The device makes no step from here on.
            let Two { fabric, ends, .. } = &mut t;
            ends[0].note_peer_gone();
            let mut wait = ends[0].begin_wait();
            let ended = (0..ROUNDS).find_map(|_| match ends[0].round(fabric, &mut wait, false) {
                Next::Ended(ended) => Some(ended),
                _ => None,
            });
            assert!(ended.is_some(), "{arrival:?} {seed}: it is reported");
            assert!(t.send(0, &mut message.out) && message.out.result == Some(Ok(())), "{arrival:?} {seed}");
            // The fabric panics if its memory is still used.
            t.sent(message.out);
        }
        assert!(awaited > 20, "{arrival:?}: {awaited}");
    }
}
