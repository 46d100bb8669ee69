//! Tries: a message is taken completely, or refused and still there.

use superpipe_core::driver::{
    ATTEMPTS_PER_ROUND, Drive, Received, RecvFailed, RecvOperation, RefusedRecv, TRIES_PER_TICK,
};
use superpipe_core::{
    Arrival, Closed, Event, Failure, Incoming, Length, Notification, Protocol, ProtocolError, Reason,
    RefusedSend,
};
use superpipe_testkit::{
    Direct, Posted, TestFabric,
    wire::{self, kind},
};

use crate::driver::{BEFORE_FIRST, C0_BYTES, LAYOUT, One, Two, message, payload, stream, taken};

tables! {
    nothing_has_come
    a_message_that_is_whole_is_taken
    what_does_not_fit_stays
    a_part_of_a_message_is_never_taken
    whichever_block_is_late_it_is_awaited
    a_message_in_two_chunks_is_taken_once_both_are_here
    a_message_that_was_given_up_is_left_to_an_operation
    checked_flags_are_awaited_whole
    a_long_message_is_left_to_an_operation
    what_is_begun_is_not_tried
    what_is_sent_at_once_or_refused
    what_is_refused_is_rejected
    a_peer_that_lies_is_found_out
}

fn try_recv<F: TestFabric>(t: &mut One<F>, to: &mut [u8]) -> Result<Option<Received>, RefusedRecv> {
    t.driver.try_recv(&mut t.fabric, &mut [to])
}

fn incoming(transfer: u64, length: u64) -> Incoming {
    Incoming { transfer, tag: 7, length: Length::Exact(length) }
}

/// Writes a block's flag, behind payload that is whatever was there.
fn flag<F: TestFabric>(t: &mut One<F>, block: u32, flag: u64) {
    let mut line = t.fabric.memories().line(superpipe_testkit::Memory::landing(0), LAYOUT.line_at(block));
    line.0[7] = flag;
    t.slot(block, line);
}

fn nothing_has_come<F: TestFabric>() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        let mut t = One::<F>::with(arrival);
        assert_eq!(try_recv(&mut t, &mut [0; 9]), Ok(None));
        assert_eq!(t.driver.try_peek(&mut t.fabric), None);
        assert!(!t.driver.reject(&mut t.fabric, Reason(1)));
    }
}

/// In a line, in a block and in several; into one slice, and into several of which some are empty.
fn a_message_that_is_whole_is_taken<F: TestFabric>() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        for bytes in [0, 1, 8, 40, 41, 192, 193, 400, 600] {
            let sent = payload(bytes);
            for cuts in [None, Some([0, bytes / 3, bytes / 2]), Some([1, 1, bytes])] {
                let mut t = Two::<F>::with(arrival);
                t.send(0, 3, &sent);
                let peeked = Incoming { transfer: 1, tag: 3, length: Length::Exact(bytes as u64) };
                if cuts.is_some() {
                    assert_eq!(t.ends[1].try_peek(&mut t.fabric), Some(peeked));
                    assert_eq!(t.ends[1].try_peek(&mut t.fabric), Some(peeked), "it stays");
                }
                let mut place = [0; 900];
                let got = if let Some([a, b, c]) = cuts {
                    let (first, rest) = place.split_at_mut(a.min(bytes));
                    let (second, rest) = rest.split_at_mut(b.min(bytes) - a.min(bytes));
                    let (third, fourth) = rest.split_at_mut(c - b.min(bytes));
                    t.ends[1].try_recv(&mut t.fabric, &mut [&mut [], first, second, third, &mut [], fourth])
                } else {
                    t.ends[1].try_recv(&mut t.fabric, &mut [&mut place[..bytes]])
                };
                assert_eq!(got, Ok(Some(taken(3, bytes))), "{bytes} {cuts:?}");
                assert_eq!(place[..bytes], sent);
                assert!(place[bytes..].iter().all(|byte| *byte == 0));
                assert_eq!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut place]), Ok(None));
                assert!(t.ends.iter().all(|end| end.endpoint().closed().is_none()));
            }
        }
    }
}

fn what_does_not_fit_stays<F: TestFabric>() {
    // A byte too long, in a line and in a block; then it fits exactly.
    for (line, bytes) in [(wire::inline(7, &[5; 30], 1), 30), (message(100, 1, 1), 100)] {
        let mut t = One::<F>::new();
        t.slot(0, line);
        let too_small = Err(RefusedRecv::TooSmall(incoming(1, bytes as u64)));
        let mut place = [9; 200];
        for _ in 0..2 {
            assert_eq!(try_recv(&mut t, &mut place[..bytes - 1]), too_small);
            let (a, b) = place.split_at_mut(bytes / 2);
            let refused = t.driver.try_recv(&mut t.fabric, &mut [a, &mut b[..bytes - bytes / 2 - 1]]);
            assert_eq!(refused, too_small);
            assert_eq!(t.driver.try_recv(&mut t.fabric, &mut []), too_small);
        }
        assert_eq!(place, [9; 200], "nothing of it was written");
        assert_eq!(try_recv(&mut t, &mut place[..bytes]), Ok(Some(taken(7, bytes))));
    }

    // A stream never fits.
    let mut t = One::<F>::new();
    t.slot(0, stream(10, 1, 1));
    let streamed = Incoming { transfer: 1, tag: 7, length: Length::Stream };
    assert_eq!(try_recv(&mut t, &mut [0; 900]), Err(RefusedRecv::TooSmall(streamed)));
    assert_eq!(t.driver.try_peek(&mut t.fabric), Some(streamed));
}

/// Later blocks are late: nothing is taken before the last of them is there.
fn a_part_of_a_message_is_never_taken<F: TestFabric>() {
    for (slices, late) in [(1, [1, 2]), (1, [2, 1]), (2, [1, 2]), (2, [2, 1])] {
        let mut t = One::<F>::new();
        let mut place = [9; 600];
        t.slot(0, message(600, 1, 1));
        for block in late {
            for _ in 0..3 {
                let got = if slices == 1 {
                    try_recv(&mut t, &mut place)
                } else {
                    let (a, b) = place.split_at_mut(100);
                    t.driver.try_recv(&mut t.fabric, &mut [a, b])
                };
                assert_eq!(got, Err(RefusedRecv::Long(incoming(1, 600))), "block {block} is late");
                assert_eq!(t.driver.try_peek(&mut t.fabric), Some(incoming(1, 600)));
            }
            flag(&mut t, block, 1);
        }
        assert_eq!(place, [9; 600]);
        assert_eq!(t.driver.counters().bytes_received, 0);
        assert_eq!(t.acked(), superpipe_core::Line([0; 8]), "no block was given back");
        assert_eq!(try_recv(&mut t, &mut place), Ok(Some(taken(7, 600))));
        assert!(place[..100].iter().all(|byte| *byte == 0));
        assert_eq!(t.driver.counters().bytes_received, 600);
    }
}

/// The same on the fast path, which polls once: for each block that is late.
fn whichever_block_is_late_it_is_awaited<F: TestFabric>() {
    for late in [1, 2] {
        let mut t = One::<F>::new();
        t.slot(0, message(600, 1, 1));
        flag(&mut t, 3 - late, 1);
        let mut place = [9; 600];
        assert_eq!(try_recv(&mut t, &mut place), Err(RefusedRecv::Long(incoming(1, 600))));
        assert_eq!((place, t.driver.counters().bytes_received), ([9; 600], 0), "block {late} is late");
    }
}

/// A short message around the end of the ring.
fn a_message_in_two_chunks_is_taken_once_both_are_here<F: TestFabric>() {
    let mut t = One::<F>::new();
    let long = Err(RefusedRecv::Long(incoming(1, 600)));
    let mut place = [9; 600];
    // Blocks of the first chunk, and of the second.
    t.slot(0, wire::chunk(kind::RTS, 7, 600, 300, 1, 1));
    assert_eq!(try_recv(&mut t, &mut place), long);
    t.slot(2, wire::chunk(kind::FIN, 0, 0, 300, 1, 2));
    assert_eq!(try_recv(&mut t, &mut place), long);
    flag(&mut t, 1, 1);
    assert_eq!(try_recv(&mut t, &mut place), long);
    assert_eq!((place, t.driver.counters().bytes_received), ([9; 600], 0));
    flag(&mut t, 3, 2);
    assert_eq!(try_recv(&mut t, &mut place), Ok(Some(taken(7, 600))));
    assert!(place[..100].iter().all(|byte| *byte == 0), "it was written");
    assert_eq!(try_recv(&mut t, &mut place), Ok(None));
    // One that comes in three is not sent at once, and one whose second chunk is wrong ends the connection.
    for (second, wrong) in [(kind::FIN, true), (0, false)] {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 100, 20, 1, 1));
        t.slot(1, wire::chunk(second, 0, 0, 40, 1, 2));
        t.slot(2, wire::chunk(kind::FIN, 0, 0, 40, 1, 3));
        let long = Err(RefusedRecv::Long(incoming(1, 100)));
        assert_eq!(try_recv(&mut t, &mut place), if wrong { Ok(None) } else { long });
        let broken = Closed::Failed(Failure::Protocol(ProtocolError::WrongEnd));
        assert_eq!(t.driver.endpoint().closed(), wrong.then_some(broken));
    }
}

/// The sender gives a message up before any byte of it: who tries leaves that to be told.
fn a_message_that_was_given_up_is_left_to_an_operation<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 100, 0, 1, 1));
    let long = Err(RefusedRecv::Long(incoming(1, 100)));
    assert_eq!(try_recv(&mut t, &mut [0; 100]), long);
    t.slot(1, wire::cancel(1, 55, 2));
    assert_eq!(try_recv(&mut t, &mut [0; 100]), long);
    assert_eq!(t.driver.try_peek(&mut t.fabric), Some(incoming(1, 100)), "it stays");
    let mut receive = RecvOperation::new();
    let cancelled = Drive::Done(Err(RecvFailed::Cancelled(Reason(55))));
    assert_eq!(t.receive(&mut receive, &mut [0; 100]), cancelled);
    assert_eq!(try_recv(&mut t, &mut [0; 100]), Ok(None));
}

/// A line whose flag does not match its contents has not come.
fn checked_flags_are_awaited_whole<F: TestFabric>() {
    let mut t = One::<F>::with(Arrival::CheckedFlag);
    let whole = wire::checked(wire::inline(7, b"whole", 0), 1);
    let mut torn = whole;
    torn.0[2] ^= 1 << 8;
    t.slot(0, torn);
    assert_eq!(try_recv(&mut t, &mut [0; 40]), Ok(None));
    t.slot(0, whole);
    let mut place = [0; 40];
    assert_eq!(try_recv(&mut t, &mut place[..4]), Err(RefusedRecv::TooSmall(incoming(1, 5))));
    assert_eq!(try_recv(&mut t, &mut place), Ok(Some(taken(7, 5))));
    assert_eq!(&place[..5], b"whole");
    assert_eq!(t.driver.counters().check_misses, 1);
}

/// A message over C0 waits for its CTS: to try does not say that anything is there for it.
fn a_long_message_is_left_to_an_operation<F: TestFabric>() {
    let length = C0_BYTES as usize + 1;
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS | kind::WANT_CTS, 7, length as u64, 100, 1, 1));
    let mut place = vec![9; length];
    for _ in 0..3 {
        assert_eq!(try_recv(&mut t, &mut place), Err(RefusedRecv::Long(incoming(1, length as u64))));
        assert_eq!(try_recv(&mut t, &mut place[1..]), Err(RefusedRecv::TooSmall(incoming(1, length as u64))));
    }
    assert!(place.iter().all(|byte| *byte == 9));
    assert_eq!(t.said(0), superpipe_core::Line([0; 8]));
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut place), Drive::Moved);
    assert_eq!(t.said(0), wire::cts(1, 1));
}

/// A message that an operation has begun is not taken by a try.
fn what_is_begun_is_not_tried<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, message(300, 1, 1));
    let mut place = [9; 300];
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    flag(&mut t, 1, 1);
    assert_eq!(try_recv(&mut t, &mut [0; 300]), Err(RefusedRecv::Long(incoming(1, 300))));
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Done(Ok(taken(7, 300))));
    assert_eq!(place, [0; 300]);
    // All that is left is there: it is not all.
    let mut receive = RecvOperation::new();
    t.slot(2, wire::chunk(kind::RTS, 7, 100, 60, 2, 2));
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    t.slot(3, wire::chunk(kind::FIN, 0, 0, 40, 2, 3));
    assert_eq!(try_recv(&mut t, &mut [0; 300]), Err(RefusedRecv::Long(incoming(2, 100))));
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Done(Ok(taken(7, 100))));
    // The same of what a stream reads.
    for (at, line) in [(4, wire::inline(7, b"lines", 4)), (5, message(5, 4, 5))] {
        t.slot(at, line);
        assert!(t.driver.try_peek(&mut t.fabric).is_some());
        assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut [0; 2]]).bytes, 2);
        let transfer = u64::from(at) - 1;
        assert_eq!(try_recv(&mut t, &mut [0; 300]), Err(RefusedRecv::Long(incoming(transfer, 5))));
        assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut [0; 9]]).bytes, 3);
    }
}

fn what_is_sent_at_once_or_refused<F: TestFabric>() {
    let mut t = One::<F>::new();
    let long = payload(C0_BYTES as usize + 1);
    let full = &long[..C0_BYTES as usize];
    let (driver, fabric) = (&mut t.driver, &mut t.fabric);
    assert_eq!(driver.try_send(fabric, 1, &[&long]), Err(RefusedSend::TooLong));
    assert_eq!(driver.try_send(fabric, 1, &[full, &long[..1]]), Err(RefusedSend::TooLong));
    assert_eq!(driver.try_send(fabric, 1, &[&full[1..], &long[..1]]).unwrap().number(), 1);
    // Three blocks each of eight, and two in a line: nothing more fits until they are given back.
    t.settle();
    assert_eq!(t.driver.try_send(&mut t.fabric, 2, &[full]).unwrap().number(), 2);
    for number in [3, 4] {
        t.settle();
        assert_eq!(t.driver.try_send(&mut t.fabric, 3, &[b"tiny"]).unwrap().number(), number);
    }
    t.settle();
    for bytes in [&full[..40], &full[..41]] {
        assert_eq!(t.driver.try_send(&mut t.fabric, 4, &[bytes]), Err(RefusedSend::NoCredit));
    }
    t.ack(3, BEFORE_FIRST, 0);
    assert_eq!(t.driver.try_send(&mut t.fabric, 4, &[&full[..41]]).unwrap().number(), 5);

    // While another transfer is open, and once it is closed.
    let mut t = One::<F>::new();
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    assert_eq!(t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]), Err(RefusedSend::Busy));
    t.driver.cancel_stream(&mut t.fabric, id, Reason(5));
    t.driver.cancel_stream(&mut t.fabric, id, Reason(6));
    assert_eq!(t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap().number(), 1);
    t.driver.close(&mut t.fabric, Reason::DONE);
    assert_eq!(t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]), Err(RefusedSend::Closed));
    assert_eq!(t.driver.try_send(&mut t.fabric, 1, &[&long]), Err(RefusedSend::Closed));

    // A stream that has begun is cancelled with the reason.
    let mut t = One::<F>::new();
    t.driver.set_protocol(Protocol::Eager);
    assert_eq!(t.driver.endpoint().config().protocol, Protocol::Eager);
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    assert_eq!(t.driver.endpoint_mut().push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));
    t.driver.cancel_stream(&mut t.fabric, id, Reason(5));
    assert_eq!(t.sent(1), wire::cancel(1, 5, 2));
}

fn what_is_refused_is_rejected<F: TestFabric>() {
    let mut t = Two::<F>::new();
    t.send(0, 1, b"not this");
    t.send(0, 2, b"but this");
    assert!(t.ends[1].reject(&mut t.fabric, Reason(9)));
    t.settle();
    let mut place = [0; 8];
    assert_eq!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut place]), Ok(Some(taken(2, 8))));
    assert_eq!(&place, b"but this");
    assert_eq!(t.ends[0].poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(9) }));
    assert_eq!(t.ends[0].poll_event(), None);
}

fn a_peer_that_lies_is_found_out<F: TestFabric>() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        let mut t = One::<F>::with(arrival);
        let line = message(100, 2, 1);
        t.slot(0, if arrival == Arrival::Flag { line } else { wire::checked(wire::cancel(1, 1, 0), 1) });
        assert_eq!(try_recv(&mut t, &mut [0; 100]), Ok(None));
        let rule = [ProtocolError::NoTransferOpen, ProtocolError::WrongTransfer]
            [usize::from(arrival == Arrival::Flag)];
        assert_eq!(t.driver.endpoint().closed(), Some(Closed::Failed(Failure::Protocol(rule))));
        assert_eq!(try_recv(&mut t, &mut [0; 100]), Ok(None));
    }
    // More than the ring holds: no flag is looked for beyond its end.
    for bytes in [1 << 20, 1 << 40] {
        let mut t = One::<F>::new();
        t.slot(0, message(bytes, 1, 1));
        (1..LAYOUT.block_count).for_each(|block| flag(&mut t, block, 1));
        assert_eq!(try_recv(&mut t, &mut [0; 300]), Ok(None));
        let long = Closed::Failed(Failure::Protocol(ProtocolError::ChunkTooLong));
        assert_eq!(t.driver.endpoint().closed(), Some(long));
    }
}

/// Messages that are notified are tried once the notification is there.
#[test]
fn notified_messages_are_taken_complete() {
    for bytes in [0, 8, 40, 41, 300, 600] {
        let sent = payload(bytes);
        let mut t = Two::<Posted>::with(Arrival::Notify);
        t.ends[0].try_send(&mut t.fabric, 3, &[&sent]).unwrap();
        let mut place = [0; 600];
        let mut tries = 0;
        let got = loop {
            match t.ends[1].try_recv(&mut t.fabric, &mut [&mut place]) {
                Ok(None) => {}
                got => break got,
            }
            assert_eq!(t.ends[1].try_peek(&mut t.fabric), None, "nothing is seen before its notification");
            tries += 1;
            assert!(tries < 20_000, "stuck");
            t.fabric.step();
        };
        assert!(tries > 0, "posted writes take a while");
        assert_eq!(got, Ok(Some(taken(3, bytes))));
        assert_eq!(place[..bytes], sent);
    }
}

/// A message of two blocks is notified, and the second is not there: nothing stays of it.
#[test]
fn what_is_notified_and_not_there_ends_the_connection() {
    let mut t = One::<Posted>::with(Arrival::Notify);
    t.slot(0, message(300, 1, 1));
    t.fabric.forge_notification(1, Notification(1 << 28 | 1));
    assert_eq!(try_recv(&mut t, &mut [0; 300]), Ok(None));
    let wrong = Closed::Failed(Failure::Protocol(ProtocolError::NotificationWithoutFlag));
    assert_eq!(t.driver.endpoint().closed(), Some(wrong));
}

#[test]
fn a_loop_of_empty_tries_makes_rounds_and_ticks() {
    let mut t = One::<Direct>::new();
    for _ in 0..3 {
        for tries in 1..=TRIES_PER_TICK {
            assert!(!t.driver.is_tick_due(), "after {tries} tries");
            assert_eq!(t.driver.count_empty(), tries % ATTEMPTS_PER_ROUND == 0, "after {tries} tries");
        }
        assert!(t.driver.is_tick_due());
    }
    assert_eq!((TRIES_PER_TICK, ATTEMPTS_PER_ROUND), (1024, 8));
    // A connection that may have ended is asked at once.
    assert!(!t.driver.count_empty());
    let mut gone = t.driver.clone();
    gone.note_peer_gone();
    assert!((0..20).all(|_| gone.count_empty()));
    t.driver.close(&mut t.fabric, Reason::DONE);
    assert!((0..20).all(|_| t.driver.count_empty()));
}
