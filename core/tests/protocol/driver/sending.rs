//! Messages that are sent as operations.

use superpipe_core::driver::{Drive, RecvOperation, SendFailed, SendOperation};
use superpipe_core::{Arrival, Length, Reason, RefusedSend};
use superpipe_testkit::{TestFabric, wire, wire::kind};

use crate::driver::{C0_BYTES, GIVEN_UP, One, ROUNDS, Two, payload, taken};

tables! {
    a_message_goes_at_once_or_in_parts
    a_message_that_begins_is_sent_or_becomes_an_operation
    a_message_waits_for_another_transfer
    a_message_waits_for_room
    a_message_waits_for_its_cts
    a_place_is_kept_across_slices
    other_slices_than_before_are_given_up
    longer_slices_than_before_are_given_up
    more_bytes_than_were_said_are_refused
    many_empty_slices_are_walked_a_part_at_a_time
    a_message_is_cancelled_in_each_stage
    a_message_is_rejected
    a_close_ends_a_message
}

const LONG: usize = 5000;

fn a_message_goes_at_once_or_in_parts<F: TestFabric>() {
    for bytes in [0, 8, 40, 41, 600, 601, 1928, 1929, LONG] {
        let message = payload(bytes);
        let mut t = Two::<F>::new();
        let (mut send, mut receive) = (SendOperation::new(5, bytes), RecvOperation::new());
        let mut place = vec![0; bytes + 3];
        let (sent, received) = t.carry(0, (&mut send, &[&message]), (&mut receive, &mut [&mut place]));
        assert_eq!((sent, received), (Ok(()), Ok(taken(5, bytes))));
        assert_eq!((send.sent(), send.has_begun()), (bytes, false));
        assert_eq!((receive.taken(), receive.has_begun()), (bytes, false));
        assert_eq!(place[..bytes], message);
        assert_eq!(t.drive_send(0, &mut send, &[&message]), Drive::Done(Err(SendFailed::NotOpen)));
    }
}

fn a_message_that_begins_is_sent_or_becomes_an_operation<F: TestFabric>() {
    let message = payload(LONG);
    for bytes in [0, 8, 40, 41] {
        let mut t = One::<F>::new();
        assert_eq!(t.driver.begin_send(&mut t.fabric, 1, &[&message[..bytes]]), None, "{bytes} bytes");
    }
    // No room, a longer message, another transfer, a close: the operation is not open, and knows if it needs a transfer.
    let mut t = One::<F>::new();
    while t.driver.begin_send(&mut t.fabric, 1, &[&message[..8]]).is_none() {}
    let full = t.driver.begin_send(&mut t.fabric, 1, &[&message[..8]]).unwrap();
    let long = t.driver.begin_send(&mut t.fabric, 1, &[&message]).unwrap();
    t.driver.close(&mut t.fabric, Reason::DONE);
    let closed = t.driver.begin_send(&mut t.fabric, 1, &[&message]).unwrap();
    for (send, needs_transfer, bytes) in [(full, false, 8), (long, true, LONG), (closed, false, LONG)] {
        let mut send = send;
        assert_eq!((send.needs_transfer(), send.has_begun(), send.sent()), (needs_transfer, false, 0));
        let driven = t.driver.drive_send(&mut t.fabric, &mut send, &[&message[..bytes]]);
        assert_eq!(driven, Drive::Done(Err(SendFailed::Closed)));
    }
    let mut t = Two::<F>::new();
    let mut send = t.ends[0].begin_send(&mut t.fabric, 5, &[&message]).unwrap();
    let mut place = vec![0; LONG];
    let mut receive = RecvOperation::new();
    let (sent, received) = t.carry(0, (&mut send, &[&message]), (&mut receive, &mut [&mut place]));
    assert_eq!((sent, received, send.sent()), (Ok(()), Ok(taken(5, LONG)), LONG));
    assert!(place == message && !send.needs_transfer());
}

fn a_message_waits_for_another_transfer<F: TestFabric>() {
    let mut t = One::<F>::new();
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    let long = payload(LONG);
    let (mut short, mut longer) = (SendOperation::new(2, 8), SendOperation::new(3, LONG));
    for _ in 0..3 {
        assert_eq!(t.driver.drive_send(&mut t.fabric, &mut short, &[&long[..8]]), Drive::Idle);
        assert_eq!(t.driver.drive_send(&mut t.fabric, &mut longer, &[&long]), Drive::Idle);
        assert!(!short.has_begun() && !longer.has_begun());
    }
    t.driver.cancel_stream(&mut t.fabric, id, Reason(1));
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut longer, &[&long]), Drive::Moved);
    assert!(longer.has_begun() && longer.sent() > 0);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut short, &[&long[..8]]), Drive::Idle);
    t.driver.cancel_send(&mut t.fabric, &mut longer, Reason(1));
    t.settle();
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut short, &[&long[..8]]), Drive::Done(Ok(())));
    assert_eq!(short.sent(), 8);
}

fn a_message_waits_for_room<F: TestFabric>() {
    let mut t = One::<F>::new();
    for _ in 0..8 {
        t.driver.try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
        t.settle();
    }
    let mut send = SendOperation::new(2, 100);
    let message = payload(100);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Idle);
    assert!(!send.has_begun());
    t.ack(1, super::BEFORE_FIRST, 0);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Done(Ok(())));
    t.settle();
    assert_eq!(t.sent(0), wire::chunk(kind::RTS | kind::FIN, 2, 100, 100, 9, 9));
}

fn a_message_waits_for_its_cts<F: TestFabric>() {
    let mut t = One::<F>::new();
    let message = payload(1000);
    let mut send = SendOperation::new(2, 1000);
    let mut moved = 0;
    for _ in 0..ROUNDS {
        match t.driver.drive_send(&mut t.fabric, &mut send, &[&message]) {
            Drive::Moved => moved += 1,
            driven => assert_eq!(driven, Drive::Idle),
        }
        t.settle();
    }
    assert!(send.sent() == C0_BYTES as usize && moved > 0, "{} of it is sent before", send.sent());
    assert!(send.has_begun());
    t.control(wire::cts(1, 1));
    t.settle();
    let driven = t.driver.drive_send(&mut t.fabric, &mut send, &[&message]);
    assert_eq!((driven, send.sent()), (Drive::Done(Ok(())), 1000));
}

/// Parts end anywhere in the slices: what follows is what was not sent.
fn a_place_is_kept_across_slices<F: TestFabric>() {
    for (arrival, every) in [(Arrival::Flag, 7), (Arrival::CheckedFlag, 333), (Arrival::Flag, 4000)] {
        let message = payload(LONG);
        let mut t = Two::<F>::with(arrival);
        let mut slices: Vec<&[u8]> = vec![&[]];
        for piece in message.chunks(every) {
            slices.extend([piece, &[]]);
        }
        let mut place = vec![0; LONG];
        let mut places: Vec<&mut [u8]> = vec![&mut []];
        for piece in place.chunks_mut(every * 2 / 3) {
            places.push(piece);
            places.push(&mut []);
        }
        let (mut send, mut receive) = (SendOperation::new(5, LONG), RecvOperation::new());
        let done = t.carry(0, (&mut send, &slices), (&mut receive, &mut places));
        assert_eq!(done, (Ok(()), Ok(taken(5, LONG))));
        assert_eq!(place, message);
    }
}

/// A message that has begun, of which slices are given that have less.
fn other_slices_than_before_are_given_up<F: TestFabric>() {
    let message = payload(LONG);
    let longer = &[&message[..], &[], &[1]][..];
    for other in [&[][..], &[&message[..100]], &[&message[..400], &[], &message[..250]], longer] {
        let mut t = One::<F>::new();
        let mut send = SendOperation::new(2, LONG);
        while t.driver.drive_send(&mut t.fabric, &mut send, &[&message]) != Drive::Idle {
            t.settle();
        }
        assert_eq!(send.sent(), C0_BYTES as usize);
        t.control(wire::cts(1, 1));
        t.settle();
        let failed = (0..ROUNDS).find_map(|_| {
            let driven = t.driver.drive_send(&mut t.fabric, &mut send, other);
            t.settle();
            if let Drive::Done(done) = driven { Some(done) } else { None }
        });
        assert_eq!(failed, Some(Err(SendFailed::WrongLength)), "{}", other.len());
        assert!(!send.has_begun());
        let blocks = t.driver.endpoint().counters().chunks_sent;
        t.settle();
        let lines: Vec<_> = (0..8).map(|block| t.sent(block).0).collect();
        let cancel = |flag| wire::cancel(1, u64::from(GIVEN_UP.0), flag).0;
        assert!((2..=blocks).any(|flag| lines.contains(&cancel(flag))), "{lines:?}");
        assert_eq!(
            t.driver.drive_send(&mut t.fabric, &mut send, &[&message]),
            Drive::Done(Err(SendFailed::NotOpen))
        );
        // The next message goes.
        assert!(t.driver.try_send(&mut t.fabric, 3, &[b"next"]).is_ok());
    }
}

/// Gives up a message whose slices are longer than it: their first bytes must not be received as the message.
fn longer_slices_than_before_are_given_up<F: TestFabric>() {
    let message = payload(LONG);
    for slices in
        [&[&message[..], &message][..], &[&message[..3000], &[], &message[..1]], &[&message[..3001]]]
    {
        let mut t = Two::<F>::new();
        let mut send = SendOperation::new(5, 3000);
        assert_eq!(t.drive_send(0, &mut send, slices), Drive::Done(Err(SendFailed::WrongLength)));
        assert_eq!((send.has_begun(), t.ends[0].counters().bytes_sent), (false, 0));
        // Empty slices are no bytes.
        let (mut send, mut receive, mut place) =
            (SendOperation::new(5, 3000), RecvOperation::new(), [0; 3000]);
        let sent = &[&message[..3000], &[], &[]][..];
        let done = t.carry(0, (&mut send, sent), (&mut receive, &mut [&mut place]));
        assert_eq!(done, (Ok(()), Ok(taken(5, 3000))));
    }
}

/// All bytes of a message that may be sent at once are counted before anything is sent.
fn more_bytes_than_were_said_are_refused<F: TestFabric>() {
    let message = payload(LONG);
    for bytes in [0, 3, 8, 40, 41, 192, 193, 600] {
        for more in [0, 1, 2, 5, 100, LONG] {
            for slices in [&[&message[..more]][..], &[&message[..more / 2], &[], &message[more / 2..more]]] {
                if more == bytes {
                    continue;
                }
                let mut t = One::<F>::new();
                let mut send = SendOperation::new(2, bytes);
                let driven = t.driver.drive_send(&mut t.fabric, &mut send, slices);
                assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)), "{bytes} {more}");
                assert_eq!(t.sent(0).0, [0; 8], "{bytes} {more}");
                assert_eq!(t.driver.counters().bytes_sent + t.driver.counters().inline_sent, 0);
                assert_eq!(t.driver.try_send(&mut t.fabric, 3, &[b"next"]).unwrap().number(), 1);
            }
        }
    }
}

fn many_empty_slices_are_walked_a_part_at_a_time<F: TestFabric>() {
    const EMPTY: usize = 3 << 14;
    let message = payload(700);
    let mut t = Two::<F>::new();
    let mut slices = vec![&message[..650]];
    slices.resize(EMPTY, &[]);
    slices.push(&message[650..]);
    let (mut send, mut receive) = (SendOperation::new(5, 700), RecvOperation::new());
    let mut place = vec![0; 700];
    let mut walks = 0;
    let mut rounds = 0;
    let received = loop {
        let before = send.sent();
        let driven = t.drive_send(0, &mut send, &slices);
        walks += u32::from(driven == Drive::Moved && send.sent() == before);
        if let Drive::Done(received) = t.drive_recv(1, &mut receive, &mut [&mut place]) {
            break received;
        }
        t.settle();
        rounds += 1;
        assert!(rounds < 100, "stuck");
    };
    assert_eq!(received, Ok(taken(5, 700)));
    assert_eq!(place, message);
    assert!(walks >= 2, "{walks}");
}

fn a_message_is_cancelled_in_each_stage<F: TestFabric>() {
    let message = payload(LONG);
    // Before anything of it, and before it could start.
    let mut t = One::<F>::new();
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    for drives in [0, 1] {
        let mut send = SendOperation::new(2, LONG);
        for _ in 0..drives {
            assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Idle);
        }
        t.driver.cancel_send(&mut t.fabric, &mut send, Reason(1));
        let stale = t.driver.drive_send(&mut t.fabric, &mut send, &[&message]);
        assert_eq!(stale, Drive::Done(Err(SendFailed::NotOpen)));
    }
    // The other transfer goes on.
    assert_eq!(t.driver.endpoint_mut().push(&mut t.fabric, id, &[&[1; 50]]), Ok(50));

    // Begun: the receiver is told.
    let mut t = One::<F>::new();
    let mut send = SendOperation::new(2, LONG);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Moved);
    assert!(send.has_begun());
    t.settle();
    t.driver.cancel_send(&mut t.fabric, &mut send, Reason(4));
    assert!(!send.has_begun());
    t.settle();
    let blocks = u32::try_from(t.driver.counters().chunks_sent).unwrap();
    let cancelled = (0..8).any(|block| t.sent(block) == wire::cancel(1, 4, u64::from(blocks)));
    assert!(cancelled);
    // Ended: cancelling again changes nothing, also not the transfer behind it.
    let id = t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    t.driver.cancel_send(&mut t.fabric, &mut send, Reason(5));
    assert_eq!(
        t.driver.drive_send(&mut t.fabric, &mut send, &[&message]),
        Drive::Done(Err(SendFailed::NotOpen))
    );
    assert_eq!(t.driver.try_send(&mut t.fabric, 3, &[b"tiny"]), Err(RefusedSend::Busy));
    t.driver.cancel_stream(&mut t.fabric, id, Reason(1));
    assert!(t.driver.try_send(&mut t.fabric, 3, &[b"tiny"]).is_ok());
}

fn a_message_is_rejected<F: TestFabric>() {
    let message = payload(LONG);
    let mut t = One::<F>::new();
    let mut send = SendOperation::new(2, LONG);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Moved);
    t.settle();
    t.control(wire::reject(1, 44, 1));
    t.settle();
    assert_eq!(
        t.driver.drive_send(&mut t.fabric, &mut send, &[&message]),
        Drive::Done(Err(SendFailed::Rejected(Reason(44))))
    );
    assert!(!send.has_begun());
    assert_eq!(
        t.driver.drive_send(&mut t.fabric, &mut send, &[&message]),
        Drive::Done(Err(SendFailed::NotOpen))
    );
}

fn a_close_ends_a_message<F: TestFabric>() {
    let message = payload(LONG);
    for drives in [0, 1] {
        for bytes in [8, LONG] {
            let mut t = One::<F>::new();
            let mut send = SendOperation::new(2, bytes);
            if drives > 0 && bytes == LONG {
                assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Moved);
            }
            t.driver.close(&mut t.fabric, Reason::DONE);
            let driven = t.driver.drive_send(&mut t.fabric, &mut send, &[&message[..bytes]]);
            assert_eq!(driven, Drive::Done(Err(SendFailed::Closed)));
            let stale = t.driver.drive_send(&mut t.fabric, &mut send, &[&message[..bytes]]);
            assert_eq!(stale, Drive::Done(Err(SendFailed::NotOpen)));
        }
    }
    // Between its being found too long and its start.
    let mut t = One::<F>::new();
    t.driver.endpoint_mut().start(1, Length::Stream).unwrap();
    let mut send = SendOperation::new(2, LONG);
    assert_eq!(t.driver.drive_send(&mut t.fabric, &mut send, &[&message]), Drive::Idle);
    t.driver.close(&mut t.fabric, Reason::DONE);
    assert_eq!(
        t.driver.drive_send(&mut t.fabric, &mut send, &[&message]),
        Drive::Done(Err(SendFailed::Closed))
    );
}
