//! The two halves of a connection, a thread each: what comes out, what one learns of the other, and what waiting costs.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::sync::mpsc;
use std::thread;

use superpipe::io::{Digest, DigestKind, Sink, Source};
use superpipe::{
    Connection, Drive, ErrorKind, Options, Reason, RecvHalf, RecvOperation, SendHalf, SendOperation, TryRecv,
    TrySend, WaitStrategy,
};

use crate::support::{DEADLINE, bytes, pair, pair_with};

const SOON: Duration = Duration::from_millis(50);
/// For another thread to be asleep where it waits.
const A_WHILE: Duration = Duration::from_millis(200);

fn split_pair(options: Options) -> [(SendHalf, RecvHalf); 2] {
    let (a, b) = pair_with(options, options);
    [a.split(), b.split()]
}

fn waiting(wait: WaitStrategy) -> Options {
    Options { wait, ..Options::default() }
}

/// The size of the transfer of this number: mostly short, now and then longer than the landing buffer.
fn size(seed: u64, number: u64) -> usize {
    let random = bytes(seed ^ number.wrapping_mul(0x1234_5678_9abc_def1), 8);
    let random = usize::from_le_bytes(random.try_into().unwrap());
    match random % 16 {
        0 => random >> 8 & 0x3f_ffff,
        1..4 => random >> 8 & 0x1_ffff,
        4..8 => random >> 8 & 0xfff,
        _ => random >> 8 & 0x3f,
    }
}

/// Sends transfers of all kinds, by all kinds of calls.
fn send_all(mut half: SendHalf, seed: u64, count: u64) -> SendHalf {
    for number in 0..count {
        let message = bytes(seed + number, size(seed, number));
        match number % 5 {
            0 => {
                let mut stream = half.open_stream(number, DEADLINE).unwrap();
                stream.write_all(&message).unwrap();
                stream.finish(DEADLINE).unwrap();
            }
            1 => {
                let mut send = SendOperation::new(number, message.len());
                while half.drive_send(&mut send, &[&message]).unwrap() != Drive::Done(()) {
                    thread::yield_now();
                }
            }
            2 => loop {
                match half.try_send(number, &[&message]).unwrap() {
                    TrySend::Sent => break,
                    TrySend::Full => thread::yield_now(),
                    TrySend::TooLong => break half.send(number, &[&message], DEADLINE).unwrap(),
                }
            },
            _ => half
                .send(number, &[&message[..message.len() / 2], &message[message.len() / 2..]], DEADLINE)
                .unwrap(),
        }
        if number % 16 == 15 {
            half.flush(DEADLINE).unwrap();
        }
    }
    half
}

/// Receives what [`send_all`] sends, by all kinds of calls.
fn receive_all(mut half: RecvHalf, seed: u64, count: u64) -> RecvHalf {
    let mut room = vec![0; 4 << 20];
    for number in 0..count {
        let message = bytes(seed + number, size(seed, number));
        let received = match number % 5 {
            0 => {
                let mut stream = half.accept_stream(DEADLINE).unwrap();
                assert_eq!(stream.tag(), number);
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                room[..got.len()].copy_from_slice(&got);
                got.len()
            }
            1 => {
                let mut receive = RecvOperation::new();
                loop {
                    match half.drive_recv(&mut receive, &mut [&mut room]).unwrap() {
                        Drive::Done(received) => break received.bytes,
                        Drive::Moved | Drive::Idle => thread::yield_now(),
                    }
                }
            }
            2 => loop {
                match half.try_recv(&mut [&mut room]).unwrap() {
                    TryRecv::Received(received) => break received.bytes,
                    TryRecv::Nothing => thread::yield_now(),
                    TryRecv::Incomplete(_) => {
                        break half.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes;
                    }
                    TryRecv::TooSmall(incoming) => panic!("{incoming:?}"),
                }
            },
            3 => {
                assert_eq!(half.peek(DEADLINE).unwrap().tag, number);
                half.recv_into_cold(&mut [&mut room], DEADLINE).unwrap().bytes
            }
            _ => half.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes,
        };
        assert_eq!(received, message.len(), "{number}");
        assert!(room[..received] == message[..], "{number}");
    }
    half
}

#[test]
fn messages_and_streams_go_both_ways_at_once() {
    for wait in WaitStrategy::ALL {
        // Four threads that spin on two cores advance a time slice at a time.
        let count = if wait == WaitStrategy::Spin { 20 } else { 120 };
        let [(a_sends, a_receives), (b_sends, b_receives)] = split_pair(waiting(wait));
        thread::scope(|scope| {
            let sending = [
                scope.spawn(move || send_all(a_sends, 1000, count)),
                scope.spawn(move || send_all(b_sends, 2000, count)),
            ];
            let receiving = [
                scope.spawn(move || receive_all(a_receives, 2000, count)),
                scope.spawn(move || receive_all(b_receives, 1000, count)),
            ];
            for (sent, received) in sending.into_iter().zip(receiving) {
                let mut whole = sent.join().unwrap().reunite(received.join().unwrap()).unwrap();
                assert!(whole.counters().chunks_sent > 0 && whole.counters().chunks_received > 0);
            }
        });
    }
}

/// While the other half waits for something that does not come: room, which the peer makes none of.
#[test]
fn a_half_that_sleeps_is_woken_while_the_other_sleeps_on() {
    let [(mut a_sends, mut a_receives), (mut b_sends, mut b_receives)] = split_pair(Options::default());
    let long = bytes(7, 6 << 20);
    thread::scope(|scope| {
        let long = &long;
        let sending = scope.spawn(move || {
            a_sends.send(1, &[long], DEADLINE).unwrap();
            a_sends
        });
        let receiving = scope.spawn(move || {
            let mut message = [0; 8];
            for number in 0..20_u64 {
                a_receives.recv_into(&mut [&mut message], DEADLINE).unwrap();
                assert_eq!(u64::from_le_bytes(message), number);
            }
            a_receives
        });
        for number in 0..20_u64 {
            thread::sleep(Duration::from_millis(20));
            b_sends.send(number, &[&number.to_le_bytes()], DEADLINE).unwrap();
        }
        let mut a_receives = receiving.join().unwrap();
        // And the other way round: the receiver waits for nothing.
        let waiting = scope.spawn(move || {
            assert_eq!(a_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap().tag, 99);
        });
        thread::sleep(A_WHILE);
        let mut room = vec![0; 6 << 20];
        b_receives.recv_into(&mut [&mut room], DEADLINE).unwrap();
        assert!(room == *long);
        sending.join().unwrap().send(2, &[b"more"], DEADLINE).unwrap();
        assert_eq!(b_receives.recv_into(&mut [&mut room], DEADLINE).unwrap().tag, 2);
        b_sends.send(99, &[b"last"], DEADLINE).unwrap();
        waiting.join().unwrap();
    });
}

/// Rounds in which each half of both ends sleeps for what the other end's halves do: a wake-up that is lost costs 50 ms.
#[test]
fn no_wake_up_is_lost_between_halves_that_play_in_turns() {
    const ROUNDS: u64 = 20_000;
    let [(mut a_sends, mut a_receives), (mut b_sends, mut b_receives)] = split_pair(Options::default());
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..ROUNDS {
                a_sends.send(number, &[&number.to_le_bytes()], DEADLINE).unwrap();
                a_sends.flush(DEADLINE).unwrap();
            }
        });
        scope.spawn(move || {
            let mut message = [0; 8];
            for number in 0..ROUNDS {
                assert_eq!(a_receives.recv_into(&mut [&mut message], DEADLINE).unwrap().tag, number);
            }
        });
        scope.spawn(move || {
            let mut message = [0; 8];
            for number in 0..ROUNDS {
                assert_eq!(b_receives.recv_into(&mut [&mut message], DEADLINE).unwrap().tag, number);
                assert_eq!(u64::from_le_bytes(message), number);
                b_sends.send(number, &[&message], DEADLINE).unwrap();
            }
        });
    });
}

#[test]
fn one_half_dropped_in_mid_transfer_leaves_the_other() {
    // The receiving half, with a message begun that nobody takes any more.
    let [(mut a_sends, a_receives), (mut b_sends, b_receives)] = split_pair(Options::default());
    let sending = thread::spawn(move || {
        assert_eq!(b_sends.send(1, &[&bytes(1, 5 << 20)], SOON).unwrap_err().kind(), ErrorKind::Timeout);
        b_sends
    });
    drop(a_receives);
    a_sends.send(2, &[b"still there"], DEADLINE).unwrap();
    let (mut b_sends, mut b_receives) = (sending.join().unwrap(), b_receives);
    assert_eq!(b_receives.recv_into(&mut [&mut [0; 16]], DEADLINE).unwrap().tag, 2);
    // The second closes.
    a_sends.send(3, &[b"last"], DEADLINE).unwrap();
    drop(a_sends);
    assert_eq!(b_receives.recv_into(&mut [&mut [0; 16]], DEADLINE).unwrap().tag, 3);
    let end = b_receives.recv_into(&mut [&mut [0; 16]], DEADLINE).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::Closed(Reason::DONE));
    assert_eq!(b_sends.send(4, &[b"x"], DEADLINE).unwrap_err().kind(), ErrorKind::Closed(Reason::DONE));
}

#[test]
fn a_dropped_sending_half_cancels_its_stream_only() {
    let [(mut a_sends, mut a_receives), (mut b_sends, mut b_receives)] = split_pair(Options::default());
    let sending = thread::spawn(move || {
        let mut stream = a_sends.open_stream(1, DEADLINE).unwrap();
        stream.write_all(&bytes(1, 300_000)).unwrap();
        drop(stream);
        drop(a_sends);
    });
    let mut stream = b_receives.accept_stream(DEADLINE).unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).is_err());
    drop(stream);
    sending.join().unwrap();
    let receiving =
        thread::spawn(move || a_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).map(|got| got.tag));
    thread::sleep(SOON);
    // The direction is open, though nobody is left to send.
    assert_eq!(b_receives.recv_into(&mut [&mut [0; 8]], SOON).unwrap_err().kind(), ErrorKind::Timeout);
    b_sends.send(2, &[b"to you"], DEADLINE).unwrap();
    assert_eq!(receiving.join().unwrap().unwrap(), 2);
    let end = b_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::Closed(Reason::DONE));
}

/// Starts both waits of an end: for room, and for a message. They end with these kinds.
fn ends_of_both(halves: (SendHalf, RecvHalf), meanwhile: impl FnOnce()) -> [ErrorKind; 2] {
    let (mut sends, mut receives) = halves;
    let sending = thread::spawn(move || sends.send(1, &[&bytes(1, 9 << 20)], DEADLINE).unwrap_err().kind());
    let receiving =
        thread::spawn(move || receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err().kind());
    thread::sleep(A_WHILE);
    meanwhile();
    [sending, receiving].map(|half| half.join().unwrap())
}

#[test]
fn both_halves_learn_that_the_peer_closed() {
    for wait in WaitStrategy::ALL {
        let (a, b) = pair_with(waiting(wait), Options::default());
        assert_eq!(ends_of_both(a.split(), || drop(b)), [ErrorKind::Closed(Reason::DONE); 2], "{wait}");
    }
}

#[test]
fn both_halves_meet_their_own_deadlines_and_the_peers_silence() {
    let options = Options { idle_timeout: Duration::from_millis(1500), ..Options::default() };
    let (a, _silent) = pair_with(options, Options::default());
    let (mut sends, mut receives) = a.split();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let error = sends.send(1, &[&bytes(1, 9 << 20)], SOON).unwrap_err();
            (error.to_string(), sends.flush(DEADLINE).unwrap_err().to_string())
        });
        let receiving = scope.spawn(|| {
            let soon = receives.recv_into(&mut [&mut [0; 8]], SOON * 2).unwrap_err();
            (soon.to_string(), receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err().to_string())
        });
        for half in [sending, receiving] {
            let (soon, late) = half.join().unwrap();
            assert_eq!(soon, "the deadline passed; set a later one, or find what the peer waits for");
            assert_eq!(
                late,
                "the peer was silent for 1.5s, the idle timeout; raise it if the peer may be stopped or busy for longer"
            );
        }
    });
}

#[test]
fn a_set_flag_interrupts_both_halves() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let (a, _b) = pair_with(Options { interrupt: Some(&STOP), ..Options::default() }, Options::default());
    let ends = ends_of_both(a.split(), || STOP.store(true, Ordering::Relaxed));
    assert_eq!(ends, [ErrorKind::Interrupted; 2]);
}

#[test]
fn a_close_by_one_half_ends_the_others_wait() {
    for wait in WaitStrategy::ALL {
        let (a, mut b) = pair_with(waiting(wait), Options::default());
        let (a_sends, mut a_receives) = a.split();
        let receiving = thread::spawn(move || {
            let first = a_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
            (first.kind(), a_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err().kind())
        });
        thread::sleep(A_WHILE);
        a_sends.close(Reason(5), DEADLINE).unwrap();
        assert_eq!(receiving.join().unwrap(), (ErrorKind::Usage, ErrorKind::Usage), "{wait}");
        let end = b.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::Closed(Reason(5)));
    }
}

/// The other half reads a stream in place, whose blocks are away then.
#[test]
fn a_close_by_one_half_harms_no_stream_of_the_other() {
    let (a, mut b) = pair();
    let (a_sends, mut a_receives) = a.split();
    let sending = thread::spawn(move || {
        let mut stream = b.open_stream(1, DEADLINE).unwrap();
        while stream.write_all(&bytes(1, 300_000)).is_ok() {}
    });
    let (mut reader, writer) = pipe().unwrap();
    let reading = thread::spawn(move || {
        let mut got = Vec::new();
        reader.read_to_end(&mut got).map(|_| got)
    });
    let (told, waits) = mpsc::channel();
    let receiving = thread::spawn(move || {
        let mut sink = Sink::new(writer.into()).unwrap();
        let mut digest = Digest::new(DigestKind::Crc64);
        let mut stream = a_receives.accept_stream(DEADLINE).unwrap();
        assert!(stream.write_to(&mut sink, &mut digest).unwrap() > 0);
        told.send(()).unwrap();
        while stream.write_to(&mut sink, &mut digest).is_ok() {}
    });
    waits.recv().unwrap();
    a_sends.close(Reason(5), DEADLINE).unwrap();
    let got = reading.join().unwrap().unwrap();
    receiving.join().unwrap();
    sending.join().unwrap();
    assert!(got.chunks(300_000).all(|part| part == &bytes(1, 300_000)[..part.len()]));
}

/// Straight from and to pipes, both ways at once, which wait for each other's descriptors.
#[test]
fn streams_go_between_pipes_both_ways_at_once() {
    const BYTES: usize = 3_000_000;
    let ends = split_pair(Options::default());
    thread::scope(|scope| {
        for (seed, (mut sends, mut receives)) in (1..).zip(ends) {
            let (from, mut into) = pipe().unwrap();
            scope.spawn(move || {
                for part in bytes(seed, BYTES).chunks(100_000) {
                    thread::sleep(Duration::from_millis(1));
                    into.write_all(part).unwrap();
                }
            });
            scope.spawn(move || {
                let mut source = Source::new(from.into()).unwrap();
                let mut stream = sends.open_stream(seed, DEADLINE).unwrap();
                let mut digest = Digest::new(DigestKind::None);
                while stream.read_from(&mut source, 1 << 20, &mut digest).unwrap() > 0 {}
                stream.finish(DEADLINE).unwrap();
            });
            let (mut out, to) = pipe().unwrap();
            scope.spawn(move || {
                let mut sink = Sink::new(to.into()).unwrap();
                let mut stream = receives.accept_stream(DEADLINE).unwrap();
                let mut digest = Digest::new(DigestKind::None);
                while stream.write_to(&mut sink, &mut digest).unwrap() > 0 {}
            });
            scope.spawn(move || {
                let mut got = Vec::new();
                out.read_to_end(&mut got).unwrap();
                assert!(got == bytes(3 - seed, BYTES));
            });
        }
    });
}

#[test]
fn a_half_that_is_blocked_shows_life() {
    let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let (mut waits, blocked) = pair_with(options, Options::default());
    let (mut sends, receives) = blocked.split();
    let blocking = thread::spawn(move || {
        sends.keep_alive_while(|| thread::sleep(2 * options.idle_timeout));
        sends.send(1, &[b"back"], DEADLINE).unwrap();
        (sends, receives)
    });
    assert_eq!(waits.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap().tag, 1);
    blocking.join().unwrap();
}

#[test]
fn only_halves_of_one_connection_reunite() {
    let [(a_sends, a_receives), (b_sends, b_receives)] = split_pair(Options::default());
    let (a_sends, b_receives) = a_sends.reunite(b_receives).unwrap_err();
    let mut a: Connection = a_sends.reunite(a_receives).unwrap();
    let (mut b_sends, mut b_receives) = b_sends.reunite(b_receives).unwrap().split();
    a.send(1, &[b"one"], DEADLINE).unwrap();
    assert_eq!(b_receives.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap().tag, 1);
    b_sends.send(2, &[b"two"], DEADLINE).unwrap();
    assert_eq!(a.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap().tag, 2);
    a.close(Reason::DONE, DEADLINE).unwrap();
}

#[test]
fn halves_are_send() {
    fn is_send<T: Send>() {}
    is_send::<SendHalf>();
    is_send::<RecvHalf>();
}
