//! A peer that dies: what it wrote before is taken out first, and then it is lost, soon and at no cost.

use core::mem;
use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::thread;

use super::doomed::{DEADLINE, cpu_time, pair, pipe_bytes};
use crate::error::StreamError;
use crate::io::{Digest, DigestKind, Sink, Source};
use crate::{Connection, ErrorKind, Reason};

/// For the other thread to be where it waits.
const A_WHILE: Duration = Duration::from_millis(200);
/// A hundred times what a loss costs, and a fraction of what spinning until the deadline does.
const CPU_TIME_MAX: Duration = Duration::from_secs(1);
/// Fits the ring.
const BYTES: usize = 300_000;

fn message(bytes: usize) -> Vec<u8> {
    (0..=u8::MAX - 4).cycle().take(bytes).collect()
}

/// Checks that `wait` ends with a loss, at little CPU time.
fn assert_lost<T: core::fmt::Debug>(wait: impl FnOnce() -> Result<T, crate::Error>) {
    let before = cpu_time();
    let error = wait().unwrap_err();
    let cost = cpu_time() - before;
    assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
    assert!(cost < CPU_TIME_MAX, "{cost:?}");
}

/// The library's own error inside an `io::Error`.
fn own(error: std::io::Error) -> crate::Error {
    *error.into_inner().unwrap().downcast().unwrap()
}

/// Starts a stream of so many bytes that never ends.
fn begin_stream(connection: &mut Connection, bytes: usize) {
    let mut stream = connection.open_stream(1, DEADLINE).unwrap();
    stream.write_all(&message(bytes)).unwrap();
    mem::forget(stream);
}

#[test]
fn a_torn_acknowledgement_does_not_hide_a_dead_peer() {
    let (mut honest, doomed) = pair();
    honest.send(1, &[b"nobody takes it"], DEADLINE).unwrap();
    doomed.tear_acknowledgement();
    doomed.die();
    assert_lost(|| honest.recv_into(&mut [&mut [0; 8]], DEADLINE));
    assert_lost(|| honest.peek(DEADLINE));
    assert_lost(|| honest.flush(DEADLINE));
}

#[test]
fn a_torn_acknowledgement_does_not_hide_it_from_a_stream() {
    let (mut honest, mut doomed) = pair();
    honest.send(1, &[b"nobody takes it"], DEADLINE).unwrap();
    begin_stream(&mut doomed.connection, 1000);
    doomed.tear_acknowledgement();
    doomed.die();
    let mut stream = honest.accept_stream(DEADLINE).unwrap();
    let mut bytes = vec![0; 1000];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes == message(1000));
    assert_lost(|| stream.read(&mut bytes).map_err(own));
}

#[test]
fn whatever_arrived_is_received_and_then_the_peer_is_lost() {
    for sizes in [[8, 1000, 60_000], [60_000, 8, 8], [200_000, 1, 41]] {
        let (mut honest, mut doomed) = pair();
        let sending = thread::spawn(move || {
            for bytes in sizes {
                doomed.connection.send(1, &[&message(bytes)], DEADLINE).unwrap();
            }
            doomed
        });
        let mut room = vec![0; 200_000];
        let mut taken = 0;
        // One that is longer than C0 waits for whoever receives it.
        if sizes[0] > 100_000 {
            taken = 1;
            let received = honest.recv_into(&mut [&mut room], DEADLINE).unwrap();
            assert!(room[..received.bytes] == message(sizes[0]));
        }
        sending.join().unwrap().die();
        for bytes in &sizes[taken..] {
            assert_eq!(honest.peek(DEADLINE).unwrap().tag, 1);
            let received = honest.recv_into(&mut [&mut room], DEADLINE).unwrap();
            assert!(room[..received.bytes] == message(*bytes));
        }
        assert_lost(|| honest.recv_into(&mut [&mut room], DEADLINE));
    }
}

#[test]
fn what_it_acknowledged_is_flushed() {
    let (mut honest, mut doomed) = pair();
    honest.send(1, &[&message(1000)], DEADLINE).unwrap();
    doomed.connection.recv_into(&mut [&mut [0; 1000]], DEADLINE).unwrap();
    doomed.die();
    honest.flush(DEADLINE).unwrap();
}

#[test]
fn a_slow_sink_gets_all_that_arrived_before_the_peer_is_lost() {
    let (mut honest, mut doomed) = pair();
    let (mut reader, writer) = pipe().unwrap();
    let mut sink = Sink::new(OwnedFd::from(writer)).unwrap();
    let all = pipe_bytes(&sink) + BYTES;
    // It goes on once the stream is received.
    let sending = thread::spawn(move || {
        begin_stream(&mut doomed.connection, all);
        doomed
    });
    let writing = thread::spawn(move || {
        let mut stream = honest.accept_stream(DEADLINE).unwrap();
        let mut digest = Digest::new(DigestKind::None);
        loop {
            if let Err(error) = stream.write_to(&mut sink, &mut digest) {
                return error;
            }
        }
    });
    let doomed = sending.join().unwrap();
    // The pipe is full, and somebody waits for it.
    thread::sleep(A_WHILE);
    doomed.die();
    thread::sleep(A_WHILE);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == message(all), "{} of {all} bytes", bytes.len());
    let error = writing.join().unwrap();
    assert!(matches!(&error, StreamError::Connection(lost) if lost.kind() == ErrorKind::PeerLost), "{error}");
}

/// A sender that waits for its source, which is silent.
fn sends_from_a_silent_source(mut honest: Connection) -> thread::JoinHandle<(StreamError, Duration)> {
    thread::spawn(move || {
        let (reader, _writer) = pipe().unwrap();
        let mut source = Source::new(OwnedFd::from(reader)).unwrap();
        let mut digest = Digest::new(DigestKind::None);
        let mut stream = honest.open_stream(1, DEADLINE).unwrap();
        stream.write_all(b"a beginning").unwrap();
        let before = cpu_time();
        let error = stream.read_from(&mut source, 1000, &mut digest).unwrap_err();
        (error, cpu_time() - before)
    })
}

#[test]
fn a_rejection_is_told_before_the_loss_of_whoever_said_it() {
    let (honest, mut doomed) = pair();
    let sending = sends_from_a_silent_source(honest);
    doomed.connection.peek(DEADLINE).unwrap();
    thread::sleep(A_WHILE);
    assert!(doomed.connection.reject(Reason(42)));
    doomed.die();
    let (error, _) = sending.join().unwrap();
    assert!(
        matches!(&error, StreamError::Connection(error) if error.kind() == ErrorKind::Rejected(Reason(42))),
        "{error}"
    );
}

#[test]
fn whoever_waits_for_a_silent_source_learns_of_the_loss() {
    let (honest, mut doomed) = pair();
    let sending = sends_from_a_silent_source(honest);
    doomed.connection.peek(DEADLINE).unwrap();
    doomed.die();
    let (error, cost) = sending.join().unwrap();
    assert!(matches!(&error, StreamError::Connection(lost) if lost.kind() == ErrorKind::PeerLost), "{error}");
    assert!(cost < CPU_TIME_MAX, "{cost:?}");
}
