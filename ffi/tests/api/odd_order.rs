//! Calls in an odd order, and deadlines that are met where a caller does not expect it.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::thread;
use std::time::Instant;

use superpipe::io::{Digest, DigestKind, Sink, Source};
use superpipe::os::pin_current_thread;
use superpipe::{
    Address, Connection, Drive, ErrorKind, Event, Listener, Options, Protocol, Reason, RecvOperation,
    SendOperation, TryRecv, TrySend,
};

use crate::attempts::one_of;
use crate::support::{DEADLINE, bytes, disturbing, pair, pair_with, path, undisturbed};

const LONG: usize = 1 << 20;

/// Drives both ends until a part of the message was taken.
fn take_a_part(
    (sender, send, message): (&mut Connection, &mut SendOperation, &[u8]),
    (receiver, receive, room): (&mut Connection, &mut RecvOperation, &mut [u8]),
) {
    while receive.taken() == 0 {
        let _ = sender.drive_send(send, &[message]).unwrap();
        let _ = receiver.drive_recv(receive, &mut [&mut *room]).unwrap();
    }
}

/// Drives an operation to its end, which may be an error.
fn drive_to_the_end(sender: &mut Connection, send: &mut SendOperation, message: &[u8]) {
    while let Ok(Drive::Moved | Drive::Idle) = sender.drive_send(send, &[message]) {}
}
/// Two connections, each with an open message: what is begun on one is driven on the other.
#[test]
fn an_operation_of_another_connection_sends_nothing() {
    let (mut one, _) = pair();
    let (mut two, mut receiver) = pair();
    let (ones, twos) = (vec![1; LONG], vec![2; LONG]);
    let (mut send_one, mut send_two) = (SendOperation::new(1, LONG), SendOperation::new(2, LONG));
    let _ = one.drive_send(&mut send_one, &[&ones]).unwrap();
    let _ = two.drive_send(&mut send_two, &[&twos]).unwrap();
    let (mut receive, mut room) = (RecvOperation::new(), vec![0; LONG]);
    for _ in 0..1000 {
        let _ = two.drive_send(&mut send_one, &[&ones]);
        if matches!(receiver.drive_recv(&mut receive, &mut [&mut room]), Ok(Drive::Done(_)) | Err(_)) {
            break;
        }
    }
    let wrong = room.iter().filter(|byte| **byte == 1).count();
    assert_eq!(wrong, 0, "bytes of another connection's message, in the message of tag 2");
}

/// The same at the receiving end: the room has bytes of both, and nobody is told.
#[test]
fn an_operation_of_another_connection_receives_nothing() {
    let (mut one, mut from_one) = pair();
    let (mut two, mut from_two) = pair();
    let (ones, twos) = (vec![1; LONG], vec![2; LONG]);
    let (mut send_one, mut send_two) = (SendOperation::new(1, LONG), SendOperation::new(2, LONG));
    let (mut receive, mut room) = (RecvOperation::new(), vec![0; LONG]);
    take_a_part((&mut one, &mut send_one, &ones), (&mut from_one, &mut receive, &mut room));
    let _ = two.drive_send(&mut send_two, &[&twos]).unwrap();
    from_two.peek(DEADLINE).unwrap();
    let _ = from_two.drive_recv(&mut receive, &mut [&mut room]);
    let wrong = room.iter().filter(|byte| **byte == 2).count();
    assert_eq!(wrong, 0, "bytes of another connection's message, behind those of the one that was begun");
}

/// An operation can be cloned: both go on where the first was, and the message has the same bytes twice.
#[test]
fn a_clone_of_an_operation_sends_nothing_twice() {
    let (mut sender, mut receiver) = pair();
    let message = bytes(1, LONG);
    let mut send = SendOperation::new(1, LONG);
    let (mut receive, mut room) = (RecvOperation::new(), vec![0; LONG]);
    take_a_part((&mut sender, &mut send, &message), (&mut receiver, &mut receive, &mut room));
    let mut clone = send.clone();
    for _ in 0..1000 {
        core::mem::swap(&mut send, &mut clone);
        let _ = sender.drive_send(&mut send, &[&message]);
        match receiver.drive_recv(&mut receive, &mut [&mut room]) {
            Ok(Drive::Done(_)) => {
                assert!(room == message, "a message was received whole that was never sent");
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
/// Drives the rest of a message whose beginning an operation has taken, while `receive` is called: its result is the bytes of a
/// message that it says it has received.
fn behind_an_operation(receive: impl FnOnce(&mut Connection, &mut [u8]) -> Option<usize>) {
    let (mut sender, mut receiver) = pair();
    let message = bytes(1, LONG);
    let mut send = SendOperation::new(7, LONG);
    let (mut begun, mut room) = (RecvOperation::new(), vec![0; LONG]);
    take_a_part((&mut sender, &mut send, &message), (&mut receiver, &mut begun, &mut room));
    let (got, other) = thread::scope(|scope| {
        scope.spawn(|| drive_to_the_end(&mut sender, &mut send, &message));
        let mut other = vec![0; LONG];
        let got = receive(&mut receiver, &mut other);
        receiver.close(Reason(1), DEADLINE).unwrap();
        (got, other)
    });
    if let Some(bytes) = got {
        assert!(bytes == LONG && other == message, "{bytes} bytes of {LONG} passed for the message");
    }
}

#[test]
fn the_rest_of_a_begun_message_is_none_for_a_blocking_call() {
    behind_an_operation(|receiver, room| {
        receiver.recv_into(&mut [room], Duration::from_secs(2)).ok().map(|received| received.bytes)
    });
}

/// It is what `try_recv` says is to be done, too: of the begun message it says that it is `Long`.
#[test]
fn the_rest_of_a_begun_message_is_none_for_another_operation() {
    behind_an_operation(|receiver, room| {
        let mut receive = RecvOperation::new();
        loop {
            match receiver.drive_recv(&mut receive, &mut [&mut *room]) {
                Ok(Drive::Done(received)) => return Some(received.bytes),
                Ok(Drive::Moved | Drive::Idle) => {}
                Err(_) => return None,
            }
        }
    });
}

#[test]
fn the_rest_of_a_begun_message_is_none_for_a_stream() {
    behind_an_operation(|receiver, room| {
        let mut stream = receiver.accept_stream(DEADLINE).ok()?;
        stream.set_deadline(Duration::from_secs(2));
        let mut bytes = 0;
        loop {
            match stream.read(room.get_mut(bytes..)?) {
                Ok(0) => return Some(bytes),
                Ok(count) => bytes += count,
                Err(_) => return None,
            }
        }
    });
}
/// The peer has said why it closes, in the same memory that it is gone from.
#[test]
fn a_close_is_seen_before_the_messages_are_read() {
    for flushes in [false, true] {
        let (mut sender, mut peer) = pair();
        peer.send(1, &[b"unread"], DEADLINE).unwrap();
        sender.send(2, &[b"nobody takes it"], DEADLINE).unwrap();
        peer.close(Reason::DONE, DEADLINE).unwrap();
        let error = if flushes {
            sender.flush(DEADLINE).unwrap_err()
        } else {
            loop {
                if let Err(error) = sender.send(3, &[&[1; 10_000]], DEADLINE) {
                    break error;
                }
            }
        };
        assert_eq!(error.kind(), ErrorKind::Closed(Reason::DONE), "flushes {flushes}: {error}");
    }
}
fn time_of(call: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    call();
    begun.elapsed()
}

/// Makes calls until one takes less than `bound`, so that a busy host does not decide. One that puts its deadline off does so each time.
fn assert_shorter(bound: Duration, mut call: impl FnMut()) {
    one_of(50, || {
        let took = time_of(&mut call);
        if took < bound { Ok(()) } else { Err(format!("took {took:?} of {bound:?}")) }
    });
}

#[test]
fn a_source_without_data_meets_the_deadline_of_its_stream() {
    const LIMIT: Duration = Duration::from_millis(2);
    let _undisturbed = undisturbed();
    let (mut sender, _receiver) = pair();
    let (reader, _writer) = pipe().unwrap();
    let mut source = Source::new(reader.into()).unwrap();
    let mut stream = sender.open_stream(1, DEADLINE).unwrap();
    for is_time in [false, true] {
        assert_shorter(10 * LIMIT, || {
            if is_time {
                stream.set_deadline(Instant::now() + LIMIT);
            } else {
                stream.set_deadline(LIMIT);
            }
            stream.read_from(&mut source, 1000, &mut Digest::new(DigestKind::None)).unwrap_err();
        });
    }
}

#[test]
fn a_sink_without_room_meets_the_deadline_of_its_stream() {
    const LIMIT: Duration = Duration::from_millis(2);
    let _undisturbed = undisturbed();
    let (mut sender, mut receiver) = pair();
    let (_reader, writer) = pipe().unwrap();
    let mut sink = Sink::new(writer.into()).unwrap();
    let message = vec![1; 8 * LONG];
    let mut send = SendOperation::new(1, 8 * LONG);
    let _ = sender.drive_send(&mut send, &[&message]).unwrap();
    let mut stream = receiver.accept_stream(DEADLINE).unwrap();
    stream.set_deadline(LIMIT);
    let mut digest = Digest::new(DigestKind::None);
    while stream.write_to(&mut sink, &mut digest).is_ok() {
        let _ = sender.drive_send(&mut send, &[&message]).unwrap();
    }
    let _ = sender.drive_send(&mut send, &[&message]).unwrap();
    assert_shorter(10 * LIMIT, || _ = stream.write_to(&mut sink, &mut digest).unwrap_err());
}
/// Two threads that never rest have the core, too: a yield lasts their time slices.
#[test]
fn a_busy_core_does_not_put_a_deadline_off() {
    const LIMIT: Duration = Duration::from_millis(2);
    let _disturbing = disturbing();
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let busy = [(); 2].map(|()| {
        thread::spawn(|| {
            pin_current_thread(0).unwrap();
            while !IS_OVER.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        })
    });
    let (mut receiver, _sender) = pair();
    let waiting = thread::spawn(move || {
        pin_current_thread(0).unwrap();
        let asleep = (0..3).map(|_| time_of(|| thread::sleep(LIMIT))).min().unwrap();
        assert_shorter(10 * asleep, || _ = receiver.recv_into(&mut [&mut [0; 8]], LIMIT).unwrap_err());
    });
    let waited = waiting.join();
    IS_OVER.store(true, Ordering::Relaxed);
    for busy in busy {
        busy.join().unwrap();
    }
    waited.unwrap();
}
/// Of `recv_into` its documentation says that a deadline of zero loses nothing, and of this one that it is as that.
#[test]
fn a_cold_receive_with_a_deadline_of_zero_loses_nothing() {
    let (mut sender, mut receiver) = pair();
    let (message, mut room) = (bytes(1, LONG), vec![0; LONG]);
    let mut send = SendOperation::new(7, LONG);
    let _ = sender.drive_send(&mut send, &[&message]).unwrap();
    let error = receiver.recv_into_cold(&mut [&mut room], Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let next = receiver.peek(Duration::from_millis(100));
    assert_eq!(next.map(|incoming| incoming.tag).map_err(|error| error.kind()), Ok(7));
}
/// Documented: "a message of which nothing was taken is still there". Where the sender waits for the CTS, nothing has come of it.
#[test]
fn a_message_of_which_nothing_was_taken_is_still_there() {
    for protocol in [Protocol::Copy, Protocol::Pipeline] {
        let (mut sender, mut receiver) = pair();
        sender.set_protocol(protocol);
        let (message, mut room) = (bytes(1, LONG), vec![0; LONG]);
        let mut send = SendOperation::new(7, LONG);
        let _ = sender.drive_send(&mut send, &[&message]).unwrap();
        assert_eq!(send.sent(), 0);
        let error = receiver.recv_into(&mut [&mut room], Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let next = receiver.peek(Duration::from_millis(100));
        assert_eq!(next.map(|incoming| incoming.tag).map_err(|error| error.kind()), Ok(7), "{protocol:?}");
    }
}
/// All of a message has come, in two chunks around the end of the ring: it is said not to have, however often one tries.
#[test]
fn every_message_that_was_sent_at_once_can_be_tried() {
    for is_poll in [false, true] {
        let (mut sender, mut receiver) = pair();
        let (message, mut room) = (bytes(1, 48 << 10), vec![0; 48 << 10]);
        for tag in 0..20 {
            assert_eq!(sender.try_send(tag, &[&message]).unwrap(), TrySend::Sent);
            if is_poll {
                let polled = receiver.recv_into(&mut [&mut room], Duration::ZERO);
                assert!(polled.is_ok(), "message {tag}: {polled:?}");
            } else {
                let tried = receiver.try_recv(&mut [&mut room]).unwrap();
                assert!(matches!(tried, TryRecv::Received(_)), "message {tag}: {tried:?}");
            }
        }
    }
}
/// Documented: "`Usage`: the slices have not the bytes that the message was begun with; it was given up".
#[test]
fn longer_slices_than_a_message_was_begun_with_are_told() {
    let (mut sender, mut receiver) = pair();
    let (message, mut room) = (bytes(1, 150_000), vec![0; LONG]);
    let (mut send, mut receive) = (SendOperation::new(7, 100_000), RecvOperation::new());
    let sent = loop {
        match sender.drive_send(&mut send, &[&message]) {
            Ok(Drive::Moved | Drive::Idle) => {}
            ended => break ended,
        }
        let _ = receiver.drive_recv(&mut receive, &mut [&mut room]);
    };
    assert_eq!(sent.map_err(|error| error.kind()), Err(ErrorKind::Usage));
}

/// `Idle` is documented as "nothing more has come".
#[test]
fn less_room_than_a_message_was_begun_with_is_told() {
    let (mut sender, mut receiver) = pair();
    let (message, mut room) = (bytes(1, LONG), vec![0; LONG]);
    let (mut send, mut receive) = (SendOperation::new(7, LONG), RecvOperation::new());
    take_a_part((&mut sender, &mut send, &message), (&mut receiver, &mut receive, &mut room));
    for _ in 0..10_000 {
        let _ = sender.drive_send(&mut send, &[&message]);
        if receiver.drive_recv(&mut receive, &mut [&mut room[..100]]).is_err() {
            return;
        }
    }
    panic!("idle, with {} bytes sent and {} taken", send.sent(), receive.taken());
}
/// Documented: what was taken is lost, and the rest is rejected. A receive that came after it could not go on: nothing tells whether its
/// memory still has the beginning. An operation can, and an interrupt is nothing to it.
#[test]
fn an_interrupted_receive_is_lost_and_an_operation_goes_on() {
    static FLAG: AtomicBool = AtomicBool::new(false);
    let options = Options { interrupt: Some(&FLAG), ..Options::default() };
    let (mut sender, mut receiver) = pair_with(Options::default(), options);
    let (message, mut room) = (bytes(1, LONG), vec![0; LONG]);
    let mut send = SendOperation::new(7, LONG);
    let _ = sender.drive_send(&mut send, &[&message]).unwrap();
    FLAG.store(true, Ordering::Relaxed);
    let error = receiver.recv_into(&mut [&mut room], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    // It may have been sent whole before that is seen.
    while let Ok(Drive::Moved | Drive::Idle) = sender.drive_send(&mut send, &[&message]) {
        receiver.progress();
    }
    let event = loop {
        sender.progress();
        receiver.progress();
        if let Some(event) = sender.poll_event() {
            break event;
        }
    };
    assert!(matches!(event, Event::Rejected { reason: Reason::GIVEN_UP, .. }), "{event:?}");
    let (mut send, mut receive) = (SendOperation::new(8, LONG), RecvOperation::new());
    take_a_part((&mut sender, &mut send, &message), (&mut receiver, &mut receive, &mut room));
    let error = receiver.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "the message is the operation's: {error}");
    let error = receiver.open_stream(1, DEADLINE).unwrap().write_all(&vec![1; LONG]).unwrap_err();
    assert!(error.to_string().starts_with("interrupted: the flag"), "{error}");
    thread::scope(|scope| {
        scope.spawn(|| drive_to_the_end(&mut sender, &mut send, &message));
        let received = loop {
            match receiver.drive_recv(&mut receive, &mut [&mut room]).unwrap() {
                Drive::Done(received) => break received,
                Drive::Moved | Drive::Idle => thread::yield_now(),
            }
        };
        assert!((received.tag, received.bytes) == (8, LONG) && room == message);
    });
}
#[test]
fn every_rejection_is_an_event() {
    for rejections in [6, 40] {
        let (mut sender, mut receiver) = pair();
        for tag in 0..rejections {
            sender.send(tag, &[b"unwanted"], DEADLINE).unwrap();
            receiver.peek(DEADLINE).unwrap();
            assert!(receiver.reject(Reason(7)));
            // It takes the rejection, and says so.
            (0..300).for_each(|_| _ = sender.progress() | receiver.progress());
        }
        let mut events = 0;
        while let Some(event) = sender.poll_event() {
            events += if let Event::Missed { count } = event { count } else { 1 };
        }
        assert_eq!(events, rejections);
    }
}
/// `accept` names the kinds that one attempt may end with, and `connect` says that its time was over.
#[test]
fn an_attempt_that_is_given_up_has_a_kind_that_is_documented() {
    let address = Address::Shm(path());
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE));
    let impatient = Options { idle_timeout: Duration::from_nanos(1), ..Options::default() };
    let begun = Instant::now();
    let connected = Connection::connect(&address, impatient, DEADLINE);
    let accepted = accepting.join().unwrap();
    // It may come through before it looks at the clock.
    if let Err(error) = connected {
        let took = begun.elapsed();
        assert!(!error.to_string().contains("took too long"), "after {took:?} of {DEADLINE:?}: {error}");
    }
    if let Err(error) = accepted {
        assert!(!matches!(error.kind(), ErrorKind::Cancelled(_) | ErrorKind::Rejected(_)), "{error}");
    }
}
/// The first write says it; whoever does not look, since it is a `BufWriter` that is dropped, or ends the stream all the same, is told
/// of a mistake of its own.
#[test]
fn a_rejected_stream_stays_rejected() {
    let (mut sender, mut receiver) = pair();
    let mut stream = sender.open_stream(1, DEADLINE).unwrap();
    stream.write_all(&[1; 1000]).unwrap();
    receiver.peek(DEADLINE).unwrap();
    assert!(receiver.reject(Reason(7)));
    stream.set_deadline(Duration::from_secs(2));
    assert!(stream.write_all(&vec![1; LONG]).is_err());
    let ended = stream.finish(DEADLINE);
    assert_eq!(ended.map_err(|error| error.kind()), Err(ErrorKind::Rejected(Reason(7))));
}

/// A stream has no number of bytes.
#[test]
fn a_read_of_at_most_no_bytes_is_told_as_that() {
    let (mut sender, _receiver) = pair();
    let (reader, _writer) = pipe().unwrap();
    let mut source = Source::new(reader.into()).unwrap();
    let mut stream = sender.open_stream(1, DEADLINE).unwrap();
    stream.set_deadline(Duration::from_millis(20));
    let read = stream.read_from(&mut source, 0, &mut Digest::new(DigestKind::None));
    if let Err(error) = read {
        assert!(!error.to_string().contains("started with"), "{error}");
    }
}
/// The same memory can be sent many times in one message, so that the slices together have more bytes than a number has room for.
#[test]
fn slices_of_more_bytes_than_can_be_counted_are_refused() {
    const BYTES: usize = 1 << 46;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            BYTES,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return;
    }
    // SAFETY: it is mapped until the process ends, and nobody writes it.
    let slice: &[u8] = unsafe { core::slice::from_raw_parts(memory.cast(), BYTES) };
    let slices = vec![slice; 1 << 18];
    let (mut sender, _receiver) = pair();
    let tried = sender.try_send(1, &slices);
    assert_ne!(tried.ok(), Some(TrySend::Sent));
}

/// Documented: a peer that has closed is seen by what waits and by `progress`, and sent a full ring at most until then. (A look before each
/// message would cost each of them, and find no peer that closes a moment later.)
#[test]
fn a_closed_peer_is_sent_a_ring_at_most() {
    const BLOCKS: usize = 128;
    for is_looked_for in [false, true] {
        for reason in [Reason::DONE, Reason(3)] {
            let (mut sender, peer) = pair();
            peer.close(reason, DEADLINE).unwrap();
            if is_looked_for {
                sender.progress();
            }
            let mut sent = 0;
            let error = loop {
                match sender.send(1, &[b"nobody takes it"], DEADLINE) {
                    Ok(()) => sent += 1,
                    Err(error) => break error,
                }
            };
            assert!(sent <= if is_looked_for { 0 } else { BLOCKS }, "{sent}");
            assert_eq!(error.kind(), ErrorKind::Closed(reason));
            assert_eq!(sender.try_send(1, &[b"nor this"]).unwrap_err().kind(), ErrorKind::Closed(reason));
            // Of nothing that was sent there is nothing to wait for.
            let flushed = sender.flush(DEADLINE).map_err(|error| error.kind());
            assert!(sent == 0 || flushed == Err(ErrorKind::Closed(reason)), "{flushed:?}");
        }
    }
}
