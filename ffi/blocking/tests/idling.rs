//! An idle end costs no CPU time, and shows life.

use core::time::Duration;
use std::io::{Write, pipe};
use std::os::fd::OwnedFd;
use std::thread;

use super::attempts::one_of;
use super::doomed::{DEADLINE, PLAYS, cpu_time, is_little, pair, pipe_bytes};
use super::played;
use crate::io::{Digest, DigestKind, Sink, Source};
use crate::{ErrorKind, Options};

const WAIT: Duration = Duration::from_secs(1);

#[test]
fn a_stray_wake_up_does_not_keep_a_sender_awake() {
    one_of(PLAYS, wait_for_a_source);
}

fn wait_for_a_source() -> Result<(), String> {
    let (mut honest, doomed) = pair();
    doomed.wake();
    let (reader, mut writer) = pipe().unwrap();
    let late = thread::spawn(move || {
        thread::sleep(WAIT);
        writer.write_all(b"late").unwrap();
        writer
    });
    let mut source = Source::new(OwnedFd::from(reader)).unwrap();
    let mut stream = honest.open_stream(1, DEADLINE).unwrap();
    let before = cpu_time();
    assert_eq!(stream.read_from(&mut source, 1000, &mut Digest::new(DigestKind::None)).unwrap(), 4);
    let cost = cpu_time() - before;
    stream.cancel(crate::Reason::DONE);
    late.join().unwrap();
    is_little(cost)
}

#[test]
fn nor_a_receiver_whose_sink_is_full() {
    one_of(PLAYS, wait_for_a_sink);
}

fn wait_for_a_sink() -> Result<(), String> {
    let (mut honest, mut doomed) = pair();
    let (reader, writer) = pipe().unwrap();
    let mut sink = Sink::new(OwnedFd::from(writer)).unwrap();
    // More than it has room for.
    let all = vec![7; pipe_bytes(&sink) + 100_000];
    let sending = thread::spawn(move || {
        let mut stream = doomed.connection.open_stream(1, DEADLINE).unwrap();
        stream.write_all(&all).unwrap();
        core::mem::forget(stream);
        doomed.wake();
        doomed
    });
    let late = thread::spawn(move || {
        thread::sleep(WAIT);
        drop(reader);
    });
    let mut stream = honest.accept_stream(DEADLINE).unwrap();
    let before = cpu_time();
    let mut digest = Digest::new(DigestKind::None);
    while stream.write_to(&mut sink, &mut digest).is_ok() {}
    let cost = cpu_time() - before;
    late.join().unwrap();
    sending.join().unwrap();
    is_little(cost)
}

#[test]
fn whoever_waits_shows_that_it_lives() {
    let mut waiting = played::over(Options::default(), |_, _| {});
    // Twice the period of keepalives.
    let error = waiting.recv_into(&mut [&mut [0; 8]], Duration::from_millis(400)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(waiting.access().fabric.heard() > 0);
}
