//! A peer that is gone: what it left is taken before that is told.

use superpipe_core::driver::{Drive, Ended, Next, RecvFailed, RecvOperation, RefusedRecv, Rest};
use superpipe_core::{Closed, Failure, Incoming, Length, Line, ProtocolError, Reason};
use superpipe_testkit::{TestFabric, wire, wire::kind};

use crate::driver::{BEFORE_FIRST, One, after, message, stream, taken};

tables! {
    a_peer_that_is_gone_is_lost_after_a_round_without_work
    everything_that_was_left_is_taken
    what_is_behind_a_rejected_transfer_is_taken
    a_close_that_was_left_is_told
    a_peer_that_closed_is_closed_while_all_that_it_sent_is_here
    a_try_tells_of_a_message_that_never_comes_whole
    the_end_is_told_as_it_is
}

fn a_peer_that_is_gone_is_lost_after_a_round_without_work<F: TestFabric>() {
    let mut t = One::<F>::new();
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Rest(Rest::Spin));
    t.driver.note_peer_gone();
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, true), Next::Again);
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Ended(Ended::Lost));
    assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Lost));
    assert!(t.driver.check_time(&mut t.fabric, &mut wait, after(0), after(9)).is_ok());
}

fn everything_that_was_left_is_taken<F: TestFabric>() {
    let mut t = One::<F>::new();
    // Messages, and one of which only the beginning came.
    for block in 0..3 {
        t.slot(block, message(10 + u64::from(block), u64::from(block) + 1, u64::from(block) + 1));
    }
    t.slot(3, wire::chunk(kind::RTS, 7, 300, 100, 4, 4));
    t.driver.note_peer_gone();
    let mut place = [0; 300];
    for bytes in 10..13 {
        let mut wait = t.driver.begin_wait();
        let mut receive = RecvOperation::new();
        let driven = t.receive(&mut receive, &mut place);
        assert_eq!(driven, Drive::Done(Ok(taken(7, bytes))));
        assert_eq!(t.driver.round(&mut t.fabric, &mut wait, true), Next::Again);
    }
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Moved);
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Idle);
    t.settle();
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Ended(Ended::Lost));
    assert_eq!(receive.taken(), 100);
}

/// A REJECT that waits for room closes the gate; a peer that is gone makes none, and what it sent behind is taken.
fn what_is_behind_a_rejected_transfer_is_taken<F: TestFabric>() {
    let mut t = One::<F>::new();
    for block in 0..2 {
        t.slot(block, wire::inline(7, b"away", u64::from(block) + 1));
    }
    t.slot(2, wire::inline(8, b"kept", 3));
    assert!(t.driver.reject(&mut t.fabric, Reason(1)));
    t.settle();
    assert!(t.driver.reject(&mut t.fabric, Reason(2)));
    t.settle();
    let mut receive = RecvOperation::new();
    let mut place = [0; 4];
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Idle, "the peer has not seen the first");
    t.driver.note_peer_gone();
    let mut wait = t.driver.begin_wait();
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Again, "more may be behind it");
    assert_eq!(t.receive(&mut receive, &mut place), Drive::Done(Ok(taken(8, 4))));
    assert_eq!(&place, b"kept");
    t.settle();
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Ended(Ended::Lost));
}

fn a_close_that_was_left_is_told<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"last", 1));
    t.control(wire::close(1, 0, 1));
    t.driver.note_peer_gone();
    let mut wait = t.driver.begin_wait();
    let mut receive = RecvOperation::new();
    // The close is read first, and not told before the message is taken.
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Again);
    assert_eq!(t.driver.endpoint().closed(), None);
    let incoming = Incoming { transfer: 1, tag: 7, length: Length::Exact(4) };
    assert_eq!(t.driver.try_peek(&mut t.fabric), Some(incoming));
    let small = Drive::Done(Err(RecvFailed::TooSmall(incoming)));
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 3]), small);
    assert_eq!(t.receive(&mut receive, &mut [0; 4]), Drive::Done(Ok(taken(7, 4))));
    t.settle();
    let ended = Ended::Closed(Closed::ByPeer(Reason::DONE));
    assert_eq!(t.driver.round(&mut t.fabric, &mut wait, false), Next::Ended(ended));
    assert_eq!(t.driver.try_peek(&mut t.fabric), None);

    // To try takes what is left, too.
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"last", 1));
    t.slot(1, message(300, 2, 2));
    t.control(wire::close(2, 0, 1));
    t.settle();
    assert!(t.driver.endpoint().peer_closes());
    let mut place = [9; 300];
    assert_eq!(t.driver.try_recv(&mut t.fabric, &mut [&mut place]), Ok(Some(taken(7, 4))));
    let incoming = Incoming { transfer: 2, tag: 7, length: Length::Exact(300) };
    let late = t.driver.try_recv(&mut t.fabric, &mut [&mut place]);
    assert_eq!(late, Err(RefusedRecv::Long(incoming)), "its second block is late");
    assert_eq!(&place[..5], b"last\x09");

    // A stream that stopped in the middle is no close.
    let mut t = One::<F>::new();
    t.slot(0, stream(10, 1, 1));
    t.driver.note_peer_gone();
    assert!(t.driver.try_peek(&mut t.fabric).is_some());
    assert_eq!(t.driver.endpoint_mut().pull(&mut t.fabric, &mut [&mut [0; 90]]).bytes, 10);
    t.settle();
    assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Lost));
    t.control(wire::close(BEFORE_FIRST, 0, 1));
    t.settle();
    assert_ne!(t.driver.ended(&t.fabric), Some(Ended::Lost));
}

/// It was not killed, though nobody has taken what it sent. One that has not sent what its CLOSE names was.
fn a_peer_that_closed_is_closed_while_all_that_it_sent_is_here<F: TestFabric>() {
    let done = Ended::Closed(Closed::ByPeer(Reason::DONE));
    // Two messages, one of which lies in two blocks, and a stream in two chunks.
    let lines: [(u32, Line); 5] = [
        (0, wire::inline(7, b"line", 1)),
        (1, message(300, 2, 2)),
        (2, Line([0, 0, 0, 0, 0, 0, 0, 2])),
        (3, stream(10, 3, 3)),
        (4, wire::chunk(kind::FIN, 0, 0, 10, 3, 4)),
    ];
    for missing in 0..=lines.len() {
        for rejects in [false, true] {
            let mut t = One::<F>::new();
            for (index, (block, line)) in lines.iter().enumerate() {
                if index != missing {
                    t.slot(*block, *line);
                }
            }
            t.control(wire::close(4, 0, 1));
            t.settle();
            if rejects && missing > 0 {
                assert!(t.driver.reject(&mut t.fabric, Reason(9)));
                t.settle();
            }
            assert_eq!(t.driver.ended(&t.fabric), None, "it may be there");
            t.driver.note_peer_gone();
            let ended = if missing == lines.len() { done } else { Ended::Lost };
            assert_eq!(t.driver.ended(&t.fabric), Some(ended), "without {missing}");
        }
    }
    // It cannot have closed in the middle of a transfer.
    let mut t = One::<F>::new();
    t.slot(0, stream(10, 1, 1));
    t.control(wire::close(1, 0, 1));
    t.settle();
    t.driver.note_peer_gone();
    assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Lost));
    // Without its CLOSE it is lost, whatever it has sent.
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"line", 1));
    t.driver.note_peer_gone();
    assert_eq!(t.driver.ended(&t.fabric), Some(Ended::Lost));
}

/// A try reports the lost peer only if no operation could still receive the end of the message: its last chunk, or its CANCEL.
fn a_try_tells_of_a_message_that_never_comes_whole<F: TestFabric>() {
    let incoming = Incoming { transfer: 1, tag: 7, length: Length::Exact(300) };
    let ends: [(&[(u32, Line)], _); 4] = [
        (&[], Some(Ended::Lost)),
        (&[(1, wire::chunk(0, 0, 0, 100, 1, 2))], Some(Ended::Lost)),
        (&[(1, wire::chunk(0, 0, 0, 100, 1, 2)), (2, wire::chunk(kind::FIN, 0, 0, 100, 1, 3))], None),
        (&[(1, wire::cancel(1, 5, 2))], None),
    ];
    for (lines, ended) in ends {
        let mut t = One::<F>::new();
        t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
        for (block, line) in lines {
            t.slot(*block, *line);
        }
        let tried = t.driver.try_recv(&mut t.fabric, &mut [&mut [0; 300]]);
        assert_eq!(tried, Err(RefusedRecv::Long(incoming)));
        assert_eq!(t.driver.ended_in_message(&t.fabric), None, "the peer is there");
        t.driver.note_peer_gone();
        assert_eq!(t.driver.ended_in_message(&t.fabric), ended);
    }
}

fn the_end_is_told_as_it_is<F: TestFabric>() {
    let failed = Closed::Failed(Failure::Protocol(ProtocolError::CloseTwice));
    for (ended, text) in [
        (Ended::Closed(Closed::Here(Reason(3))), "the connection was closed here (reason 3)"),
        (Ended::Closed(Closed::ByPeer(Reason(4))), "the peer closed the connection (reason 4)"),
        (Ended::Closed(Closed::ByPeer(Reason::PROTOCOL)), "the peer says that this end broke the protocol"),
        (Ended::Closed(failed), "the peer broke the protocol: CLOSE twice (wire.md 5.3)"),
        (Ended::Lost, "the peer is gone: it ended or was killed without closing the connection"),
    ] {
        assert_eq!(ended.to_string(), text);
    }
    let idle: Drive<u8> = Drive::from(None);
    assert_eq!([idle.map(u32::from), Drive::from(Some(3)).map(|n| n + 1)], [Drive::Idle, Drive::Done(4)]);
    assert_eq!(Drive::<u8>::Moved.map(u32::from), Drive::Moved);
    let t = One::<F>::new();
    let text = format!("{:?}", t.driver);
    assert!(text.starts_with("Driver { state: State {") && text.contains("peer_is_gone: false"), "{text}");
}
