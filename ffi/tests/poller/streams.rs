//! Streams that a server receives piece by piece, beside others.

use core::time::Duration;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::thread;

use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{
    Connection, Drive, ErrorKind, IncomingStream, PollEvent, PollerOptions, Reason, StreamError,
};

use crate::support::{DEADLINE, client, poll_until, server};

/// A file without a name, and a sink that writes to it.
fn file() -> (File, Sink) {
    let path: PathBuf = std::env::temp_dir().join(format!(
        "superpipe-streams-{:?}-{}",
        thread::current().id(),
        std::process::id()
    ));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let sink = Sink::new(file.try_clone().unwrap().into()).unwrap();
    (file, sink)
}

fn contents(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at.wrapping_mul(31) >> 3 ^ seed.wrapping_mul(7) ^ at >> 11).to_le_bytes()[0])
        .collect()
}

fn send(connection: &mut Connection, tag: u64, bytes: &[u8]) {
    let mut stream = connection.open_stream(tag, DEADLINE).unwrap();
    stream.write_all(bytes).unwrap();
    stream.finish(DEADLINE).unwrap();
}

/// Waits for the next transfer, and takes it as a stream.
fn accept(connection: &mut Connection) -> IncomingStream {
    connection.peek(DEADLINE).unwrap();
    connection.try_accept_stream().unwrap().unwrap()
}

/// Reads the stream until it has ended or fails.
fn drive(
    connection: &mut Connection,
    receive: &mut IncomingStream,
    sink: &mut Sink,
    digest: &mut Digest,
) -> Result<(), StreamError> {
    let until = std::time::Instant::now() + DEADLINE;
    while connection.read_stream_to(receive, sink, digest)? != Drive::Done(()) {
        assert!(std::time::Instant::now() < until, "the stream does not end");
    }
    Ok(())
}

fn kind(failed: StreamError) -> ErrorKind {
    match failed {
        StreamError::Connection(error) => error.kind(),
        StreamError::Local(error) => panic!("{error}"),
    }
}

#[test]
fn streams_of_many_are_received_side_by_side() {
    const CLIENTS: usize = 12;
    let length = |index: usize| [0, 1, 5000, 300_000, 3 << 20, 777_777][index % 6];
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        for index in 0..CLIENTS {
            client(scope, &address, move |mut connection| {
                send(&mut connection, index as u64, &noise(index, length(index)));
                // It is closed once everything was taken.
                connection.flush(DEADLINE).unwrap();
            });
        }
        let (mut open, mut done) = (HashMap::new(), 0);
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    open.insert(connection, (None, file(), Digest::new(DigestKind::Crc64)));
                }
                PollEvent::Readable { connection: key } => {
                    let Some((stream, (_, sink), digest)) = open.get_mut(&key) else { return false };
                    let connection = poller.connection(key).unwrap();
                    if stream.is_none() {
                        *stream = connection.try_accept_stream().unwrap();
                    }
                    let Some(stream) = stream else { return false };
                    let driven = connection.read_stream_to(stream, sink, digest).unwrap();
                    if driven == Drive::Done(()) {
                        let index = usize::try_from(stream.tag()).unwrap();
                        let (_, (file, _), digest) = open.remove(&key).unwrap();
                        let mut expected = Digest::new(DigestKind::Crc64);
                        expected.update(&noise(index, length(index)));
                        assert!(contents(file) == noise(index, length(index)), "{index}");
                        assert_eq!((digest.bytes(), digest.value()), (expected.bytes(), expected.value()));
                        done += 1;
                    }
                }
                PollEvent::Ended { connection } => drop(poller.remove(connection)),
                _ => {}
            }
            done == CLIENTS
        });
    });
}

#[test]
fn an_operation_takes_its_stream_and_no_other() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        client(scope, &address, |mut connection| {
            let mut stream = connection.open_stream(1, DEADLINE).unwrap();
            let piece = noise(1, 1 << 20);
            while stream.write_all(&piece).is_ok() {}
            drop(stream);
            let mut cancelled = connection.open_stream(2, DEADLINE).unwrap();
            cancelled.write_all(&noise(2, 1000)).unwrap();
            cancelled.cancel(Reason(77));
            send(&mut connection, 3, &noise(3, 10_000));
            connection.flush(DEADLINE).unwrap();
        });
        let mut key = None;
        poll_until(&mut poller, |_, event| {
            if let PollEvent::Readable { connection } = event {
                key = Some(connection);
            }
            key.is_some()
        });
        let mut connection = poller.remove(key.unwrap()).unwrap();
        let (mut first, (_, mut sink), mut digest) =
            (accept(&mut connection), file(), Digest::new(DigestKind::None));
        while digest.bytes() < 1 << 20 {
            let _ = connection.read_stream_to(&mut first, &mut sink, &mut digest).unwrap();
        }
        assert_eq!(connection.try_accept_stream().map(drop).unwrap_err().kind(), ErrorKind::Usage);
        assert!(connection.reject(Reason(5)));
        let failed = connection.read_stream_to(&mut first, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
        // what is discarded is taken by nobody
        let incoming = connection.peek(DEADLINE).unwrap();
        assert_eq!(incoming.tag, 2);
        let failed = connection.read_stream_to(&mut first, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
        let mut second = accept(&mut connection);
        for _ in 0..2 {
            let failed = drive(&mut connection, &mut second, &mut sink, &mut digest).unwrap_err();
            assert_eq!(kind(failed), ErrorKind::Cancelled(Reason(77)));
        }
        let (third, mut sink) = file();
        let (mut receive, mut digest) = (accept(&mut connection), Digest::new(DigestKind::None));
        drive(&mut connection, &mut receive, &mut sink, &mut digest).unwrap();
        assert!(contents(third) == noise(3, 10_000));
        drive(&mut connection, &mut receive, &mut sink, &mut digest).unwrap();
    });
}

#[test]
fn a_stream_whose_sender_closes_is_cancelled() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        client(scope, &address, |mut connection| {
            let mut stream = connection.open_stream(1, DEADLINE).unwrap();
            stream.write_all(&noise(1, 100_000)).unwrap();
            core::mem::forget(stream);
            connection.close(Reason(9), Duration::from_secs(1)).unwrap();
        });
        let mut key = None;
        poll_until(&mut poller, |_, event| {
            if let PollEvent::Readable { connection } = event {
                key = Some(connection);
            }
            key.is_some()
        });
        let mut connection = poller.remove(key.unwrap()).unwrap();
        let (mut receive, (_, mut sink), mut digest) =
            (accept(&mut connection), file(), Digest::new(DigestKind::None));
        let failed = drive(&mut connection, &mut receive, &mut sink, &mut digest).unwrap_err();
        // whichever is seen first
        assert!([ErrorKind::Cancelled(Reason(9)), ErrorKind::Closed(Reason(9))].contains(&kind(failed)));
        let failed = connection.peek(DEADLINE).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Closed(Reason(9)));
    });
}
