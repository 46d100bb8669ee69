//! Messages that are received as operations.

use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, SendOperation};
use superpipe_core::{Arrival, Closed, Failure, Incoming, Length, Line, ProtocolError, Reason};
use superpipe_testkit::{Memory, TestFabric, wire, wire::kind};

use crate::driver::{GIVEN_UP, LAYOUT, One, ROUNDS, Two, message, payload, stream, taken};

tables! {
    a_message_that_is_late_is_waited_for
    a_short_message_that_has_begun_goes_on_in_several_slices
    what_does_not_fit_fails_and_stays
    a_long_message_is_answered_once_it_is_taken
    a_cold_message_is_found_and_then_taken
    a_cold_message_is_never_taken_the_short_way
    a_message_that_the_sender_gives_up_is_incomplete
    a_message_is_cancelled_in_each_stage
    a_message_that_was_rejected_is_not_open
    a_closed_connection_tells_so_itself
    the_next_message_is_not_taken_for_the_last
    the_first_looks_find_what_is_there
    less_room_than_before_is_given_up
    a_message_that_has_begun_is_of_one_operation
}

type Driven = Drive<Result<Received, RecvFailed>>;

const NOT_OPEN: Driven = Drive::Done(Err(RecvFailed::NotOpen));

fn incoming(transfer: u64, length: Length) -> Incoming {
    Incoming { transfer, tag: 7, length }
}

fn flag<F: TestFabric>(t: &mut One<F>, block: u32, flag: u64) {
    let mut line = t.fabric.memories().line(Memory::landing(0), LAYOUT.line_at(block));
    line.0[7] = flag;
    t.slot(block, line);
}

fn a_message_that_is_late_is_waited_for<F: TestFabric>() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        let mut t = One::<F>::with(arrival);
        let mut receive = RecvOperation::new();
        let mut place = [9; 10];
        for _ in 0..3 {
            assert_eq!(t.receive(&mut receive, &mut place), Drive::Idle);
        }
        assert_eq!((receive.has_begun(), receive.taken(), receive.length()), (false, 0, 0));
        let line = wire::inline(7, b"late", 1);
        t.slot(0, if arrival == Arrival::Flag { line } else { wire::checked(line, 1) });
        assert_eq!(t.receive(&mut receive, &mut place), Drive::Done(Ok(taken(7, 4))));
        assert_eq!(&place, b"late\x09\x09\x09\x09\x09\x09");
        assert_eq!((receive.has_begun(), receive.taken()), (false, 4));
        assert_eq!(t.receive(&mut receive, &mut place), NOT_OPEN);
    }
}

/// The short way fills one slice and the general way goes on behind it; where there are several it never begins.
fn a_short_message_that_has_begun_goes_on_in_several_slices<F: TestFabric>() {
    let sent = payload(600);
    for cuts in [vec![], vec![1], vec![100, 100, 450], vec![599], vec![0]] {
        for by in [RecvOperation::new, RecvOperation::default] {
            let mut t = One::<F>::new();
            // Offset of the payload of each block, which is right-aligned.
            let mut rest = &sent[..];
            for (block, bytes) in [(0, 600 - 2 * 248), (1, 248), (2, 248)] {
                let (now, after) = rest.split_at(bytes);
                rest = after;
                let room = if block == 0 { 192 } else { 248 };
                let at = block * 256 + room - bytes;
                put(&mut t, at, now);
            }
            let mut place = vec![0; 600];
            let mut receive: RecvOperation = by();
            // Lines come from the payload's memory: the blocks' last lines hold flags and payload.
            let mut moved = vec![];
            for block in 0..3 {
                if block == 0 {
                    t.slot(0, message(600, 1, 1));
                } else {
                    flag(&mut t, block, 1);
                }
                let driven = {
                    let mut slices: Vec<&mut [u8]> = vec![];
                    let mut rest = &mut place[..];
                    let mut at = 0;
                    for cut in &cuts {
                        let (now, after) = rest.split_at_mut(cut - at);
                        slices.push(now);
                        (rest, at) = (after, *cut);
                    }
                    slices.push(rest);
                    if block == 0 {
                        let begun = t.driver.begin_recv(&mut t.fabric, &mut receive, &mut slices);
                        if begun == Drive::Idle {
                            t.driver.drive_recv(&mut t.fabric, &mut receive, &mut slices)
                        } else {
                            begun
                        }
                    } else {
                        t.driver.drive_recv(&mut t.fabric, &mut receive, &mut slices)
                    }
                };
                assert_eq!(receive.length(), 600);
                moved.push((driven, receive.taken(), receive.has_begun()));
            }
            let expected = [
                (Drive::Moved, 104, true),
                (Drive::Moved, 352, true),
                (Drive::Done(Ok(taken(7, 600))), 600, false),
            ];
            assert_eq!(moved, expected, "{cuts:?}");
            assert!(place == sent, "{cuts:?}");
        }
    }
}

/// Puts payload into the landing buffer, around whole lines.
fn put<F: TestFabric>(t: &mut One<F>, at: usize, bytes: &[u8]) {
    let first = at / 64 * 64;
    let end = (at + bytes.len()).div_ceil(64) * 64;
    for line_at in (first..end).step_by(64) {
        let at32 = u32::try_from(line_at).unwrap();
        let mut line = t.fabric.memories().line(Memory::landing(0), at32).0.map(u64::to_le_bytes);
        for (index, byte) in line.as_flattened_mut().iter_mut().enumerate() {
            let place = line_at + index;
            if place >= at && place < at + bytes.len() {
                *byte = bytes[place - at];
            }
        }
        t.fabric.forge(Memory::landing(0), at32, &Line(line.map(u64::from_le_bytes)));
    }
}

fn what_does_not_fit_fails_and_stays<F: TestFabric>() {
    for by in [RecvOperation::new, RecvOperation::cold] {
        for (line, bytes) in [(wire::inline(7, &[5; 30], 1), 30), (message(100, 1, 1), 100)] {
            let mut t = One::<F>::new();
            t.slot(0, line);
            let mut receive: RecvOperation = by();
            let exact = incoming(1, Length::Exact(bytes as u64));
            let failed = t.receive(&mut receive, &mut vec![0; bytes - 1]);
            assert_eq!(failed, Drive::Done(Err(RecvFailed::TooSmall(exact))));
            assert!(!receive.has_begun());
            assert_eq!(t.receive(&mut receive, &mut vec![0; bytes]), NOT_OPEN);
            t.driver.cancel_recv(&mut t.fabric, &mut receive, Reason(1));
            assert_eq!(t.driver.try_peek(&mut t.fabric), Some(exact), "it stays");
            let again = t.receive(&mut RecvOperation::new(), &mut vec![0; bytes]);
            assert_eq!(again, Drive::Done(Ok(taken(7, bytes))));
        }
        let mut t = One::<F>::new();
        t.slot(0, stream(10, 1, 1));
        let failed = t.receive(&mut by(), &mut [0; 100]);
        assert_eq!(failed, Drive::Done(Err(RecvFailed::TooSmall(incoming(1, Length::Stream)))));
    }
}

fn a_long_message_is_answered_once_it_is_taken<F: TestFabric>() {
    let mut t = One::<F>::new();
    let length = 700;
    t.slot(0, wire::chunk(kind::RTS | kind::WANT_CTS, 7, length, 100, 1, 1));
    let mut place = [9; 700];
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    assert_eq!((receive.taken(), receive.length(), receive.has_begun()), (100, 700, true));
    assert_eq!(t.said(0), wire::cts(1, 1));
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Idle);
    for (flag, bytes) in [(2, 192), (3, 192), (4, 192)] {
        t.slot(u32::try_from(flag - 1).unwrap(), wire::chunk(0, 0, 0, bytes, 1, flag));
        assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    }
    t.slot(4, wire::chunk(kind::FIN, 0, 0, 24, 1, 5));
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Done(Ok(taken(7, 700))));
    assert_eq!(place, [0; 700]);
    assert_eq!(t.said(1), Line([0; 8]), "once");
}

fn a_cold_message_is_found_and_then_taken<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS | kind::WANT_CTS, 7, 700, 100, 1, 1));
    let mut receive = RecvOperation::cold();
    let mut room = [9; 700];
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut [0; 9]), NOT_OPEN);
    assert_eq!(t.receive(&mut receive, &mut room), Drive::Moved);
    assert_eq!((room, receive.taken(), receive.has_begun()), ([9; 700], 0, true));
    assert_eq!(t.said(0), Line([0; 8]), "it was only found");
    // An empty part: the sender is told that it may send.
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut []), Drive::Idle);
    assert_eq!(t.said(0), wire::cts(1, 1));
    let part = t.driver.recv_part(&mut t.fabric, &mut receive, &mut room[..60]);
    assert_eq!((part, receive.taken()), (Drive::Moved, 60));
    let part = t.driver.recv_part(&mut t.fabric, &mut receive, &mut room[60..]);
    assert_eq!((part, receive.taken()), (Drive::Moved, 100));
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut room[100..]), Drive::Idle);
    t.slot(1, wire::chunk(kind::FIN, 0, 0, 600, 1, 2));
    flag(&mut t, 2, 2);
    flag(&mut t, 3, 2);
    let part = t.driver.recv_part(&mut t.fabric, &mut receive, &mut room[100..]);
    assert_eq!((part, receive.taken()), (Drive::Done(Ok(taken(7, 700))), 700));
    assert_eq!(room, [0; 700]);
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut room), NOT_OPEN);
    assert!(!receive.has_begun());
}

fn a_cold_message_is_never_taken_the_short_way<F: TestFabric>() {
    for line in [wire::inline(7, b"cold", 1), message(4, 1, 1)] {
        let mut t = One::<F>::new();
        let mut receive = RecvOperation::cold();
        let mut room = [9; 4];
        assert_eq!(t.receive(&mut receive, &mut room), Drive::Idle);
        t.slot(0, line);
        assert_eq!(t.receive(&mut receive, &mut room), Drive::Moved);
        assert_eq!((room, receive.taken()), ([9; 4], 0));
        let part = t.driver.recv_part(&mut t.fabric, &mut receive, &mut room);
        assert_eq!(part, Drive::Done(Ok(taken(7, 4))));
        assert_ne!(room, [9; 4]);
    }
}

fn a_message_that_the_sender_gives_up_is_incomplete<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
    let mut place = [9; 300];
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    t.slot(1, wire::cancel(1, 66, 2));
    let cancelled = Drive::Done(Err(RecvFailed::Cancelled(Reason(66))));
    assert_eq!(t.receive(&mut receive, &mut place), cancelled);
    assert_eq!((receive.taken(), receive.has_begun()), (100, false));
    assert_eq!(t.receive(&mut receive, &mut place), NOT_OPEN);
    assert!(place[..100].iter().all(|byte| *byte == 0) && place[100..].iter().all(|byte| *byte == 9));
}

fn a_message_is_cancelled_in_each_stage<F: TestFabric>() {
    // Before anything came: what comes then is for the next.
    let mut t = One::<F>::new();
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 9]), Drive::Idle);
    t.driver.cancel_recv(&mut t.fabric, &mut receive, Reason(1));
    t.slot(0, wire::inline(7, b"next", 1));
    assert_eq!(t.receive(&mut receive, &mut [0; 9]), NOT_OPEN);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), Drive::Done(Ok(taken(7, 4))));
    assert_eq!(t.said(0), Line([0; 8]));

    // Begun: the sender is told, and what is behind it comes.
    for is_cold in [false, true] {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
        let mut receive = if is_cold { RecvOperation::cold() } else { RecvOperation::new() };
        assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
        t.driver.cancel_recv(&mut t.fabric, &mut receive, Reason(77));
        assert!(!receive.has_begun());
        assert_eq!(t.said(0), wire::reject(1, 77, 1));
        for (block, bits, bytes) in [(1, 0, 190), (2, kind::FIN, 10)] {
            t.slot(block, wire::chunk(bits, 0, 0, bytes, 1, u64::from(block) + 1));
        }
        t.settle();
        t.slot(3, wire::inline(8, b"next", 4));
        // Again: nothing, also not the message behind it.
        t.driver.cancel_recv(&mut t.fabric, &mut receive, Reason(78));
        assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN);
        assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), Drive::Done(Ok(taken(8, 4))));
        assert_eq!(t.said(1), Line([0; 8]));
    }

    // Ended: the message behind it stays.
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"this", 1));
    t.slot(1, wire::inline(8, b"next", 2));
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 9]), Drive::Done(Ok(taken(7, 4))));
    t.driver.cancel_recv(&mut t.fabric, &mut receive, Reason(1));
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), Drive::Done(Ok(taken(8, 4))));
}

fn a_message_that_was_rejected_is_not_open<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
    assert!(t.driver.reject(&mut t.fabric, Reason(5)));
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN);
    assert!(!receive.has_begun());
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN);
}

/// An operation that has begun is idle, and the wait for it ends as the connection did.
fn a_closed_connection_tells_so_itself<F: TestFabric>() {
    for is_cold in [false, true] {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
        let mut receive = if is_cold { RecvOperation::cold() } else { RecvOperation::new() };
        assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
        t.driver.close(&mut t.fabric, Reason(9));
        assert_eq!(t.driver.endpoint().closed(), Some(Closed::Here(Reason(9))));
        for _ in 0..3 {
            assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Idle);
            assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut [0; 3]), Drive::Idle);
        }
        assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 300]), Drive::Idle);
    }
    // A peer that breaks the protocol in the middle of a message.
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
    t.slot(1, wire::chunk(kind::FIN, 0, 0, 100, 1, 2));
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Idle);
    let wrong = Closed::Failed(Failure::Protocol(ProtocolError::WrongEnd));
    assert_eq!(t.driver.endpoint().closed(), Some(wrong));
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Idle);
}

/// A receive whose message ended by other means does not go on with the next one.
fn the_next_message_is_not_taken_for_the_last<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
    t.slot(1, wire::cancel(1, 66, 2));
    assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut []).bytes, 0);
    t.slot(2, message(20, 2, 3));
    assert!(t.driver.try_peek(&mut t.fabric).is_some());
    let mut other = receive.clone();
    t.driver.cancel_recv(&mut t.fabric, &mut other, Reason(1));
    assert_eq!(t.receive(&mut receive, &mut [9; 300]), NOT_OPEN);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [9; 300]), Drive::Done(Ok(taken(7, 20))));
    assert_eq!(t.said(0), Line([0; 8]), "none was rejected");
}

fn the_first_looks_find_what_is_there<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut receive = RecvOperation::new();
    let mut place = [0; 4];
    assert_eq!(t.driver.begin_recv(&mut t.fabric, &mut receive, &mut [&mut place]), Drive::Idle);
    assert!(!receive.has_begun());
    t.slot(0, wire::inline(7, b"here", 1));
    let begun = t.driver.begin_recv(&mut t.fabric, &mut receive, &mut [&mut place]);
    assert_eq!((begun, &place, receive.taken()), (Drive::Done(Ok(taken(7, 4))), b"here", 4));
    assert_eq!(t.receive(&mut receive, &mut place), NOT_OPEN);
    // A message that the fast path does not take is left.
    t.slot(1, wire::chunk(kind::RTS, 7, 300, 100, 2, 2));
    let mut receive = RecvOperation::new();
    assert_eq!(t.driver.begin_recv(&mut t.fabric, &mut receive, &mut [&mut [0; 300]]), Drive::Idle);
    assert!(!receive.has_begun());
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
}

/// Both directions at once, longer than the ring, through operations alone.
#[test]
fn long_messages_cross_both_ways() {
    fn cross<F: TestFabric>(arrival: Arrival) {
        let mut t = Two::<F>::with(arrival);
        let bytes = [20_000, 7777];
        let messages = bytes.map(payload);
        let mut sends = bytes.map(|bytes| SendOperation::new(bytes as u64, bytes));
        let mut receives = [RecvOperation::new(), RecvOperation::new()];
        let mut places = [vec![0; bytes[1]], vec![0; bytes[0]]];
        let mut left = 4;
        for _ in 0..ROUNDS * 100 {
            for side in 0..2 {
                if sends[side].sent() < bytes[side]
                    && let Drive::Done(done) = t.drive_send(side, &mut sends[side], &[&messages[side]])
                {
                    assert_eq!(done, Ok(()));
                    left -= 1;
                }
                if receives[side].taken() < bytes[1 - side]
                    && let Drive::Done(done) =
                        t.drive_recv(side, &mut receives[side], &mut [&mut places[side]])
                {
                    let bytes = bytes[1 - side];
                    assert_eq!(done, Ok(taken(bytes as u64, bytes)));
                    left -= 1;
                }
                t.ends[side].progress(&mut t.fabric);
                t.fabric.step();
            }
            if left == 0 {
                break;
            }
        }
        assert_eq!(left, 0, "stuck");
        assert!(places[0] == messages[1] && places[1] == messages[0]);
    }
    cross::<superpipe_testkit::Direct>(Arrival::Flag);
    cross::<superpipe_testkit::Direct>(Arrival::CheckedFlag);
    cross::<superpipe_testkit::Posted>(Arrival::Flag);
    cross::<superpipe_testkit::Posted>(Arrival::CheckedFlag);
    cross::<superpipe_testkit::Posted>(Arrival::Notify);
}

/// There was room for all of the message when it was begun.
fn less_room_than_before_is_given_up<F: TestFabric>() {
    for room in [0, 40, 100] {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
        let (mut receive, mut place) = (RecvOperation::new(), [9; 300]);
        assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
        assert_eq!(t.receive(&mut receive, &mut place), Drive::Idle, "nothing more has come");
        let wrong: Driven = Drive::Done(Err(RecvFailed::WrongLength));
        assert_eq!(t.receive(&mut receive, &mut place[..room]), wrong, "{room}");
        assert!(!receive.has_begun());
        t.settle();
        assert_eq!(t.said(0), wire::reject(1, u64::from(GIVEN_UP.0), 1));
        assert_eq!(t.receive(&mut receive, &mut place), NOT_OPEN);
        // The next message is received.
        t.slot(1, wire::cancel(1, u64::from(GIVEN_UP.0), 2));
        t.slot(2, wire::inline(8, b"next", 3));
        t.settle();
        assert_eq!(t.receive(&mut RecvOperation::new(), &mut place), Drive::Done(Ok(taken(8, 4))));
    }
}

/// The rest of a message would pass for a message.
fn a_message_that_has_begun_is_of_one_operation<F: TestFabric>() {
    const BUSY: Driven = Drive::Done(Err(RecvFailed::Busy));
    for is_cold in [false, true] {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
        let mut receive = RecvOperation::new();
        let mut place = [0; 300];
        assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
        for _ in 0..2 {
            let mut another = if is_cold { RecvOperation::cold() } else { RecvOperation::new() };
            assert_eq!(t.receive(&mut another, &mut [0; 300]), BUSY);
        }
        let incoming = t.driver.try_peek(&mut t.fabric).unwrap();
        assert!(!t.driver.claim(&incoming), "for a stream neither");
        for (block, bits, bytes) in [(1, 0, 190), (2, kind::FIN, 10)] {
            t.slot(block, wire::chunk(bits, 0, 0, bytes, 1, u64::from(block) + 1));
        }
        t.slot(3, wire::inline(8, b"next", 4));
        while t.receive(&mut receive, &mut place) == Drive::Moved {}
        assert_eq!(receive.taken(), 300);
        let incoming = t.driver.try_peek(&mut t.fabric).unwrap();
        assert!(t.driver.claim(&incoming) && !t.driver.claim(&incoming), "the next is free, once");
        assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), BUSY);
        assert!(t.driver.reject(&mut t.fabric, Reason(5)), "whoever has claimed it");
    }
}
