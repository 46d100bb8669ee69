//! Streams that a server receives piece by piece, beside others.

use core::time::Duration;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::thread;

use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{
    Connection, Drive, ErrorKind, PollEvent, PollerOptions, Reason, RecvStreamOperation, StreamError,
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

/// Drives the operation until it is done or fails.
fn drive(
    connection: &mut Connection,
    receive: &mut RecvStreamOperation,
    sink: &mut Sink,
    digest: &mut Digest,
) -> Result<(), StreamError> {
    let until = std::time::Instant::now() + DEADLINE;
    while connection.drive_recv_stream(receive, sink, digest)? != Drive::Done(()) {
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
                    open.insert(
                        connection,
                        (RecvStreamOperation::new(), file(), Digest::new(DigestKind::Crc64), None),
                    );
                }
                PollEvent::Readable { connection: key } => {
                    let Some((receive, (_, sink), digest, tag)) = open.get_mut(&key) else { return false };
                    let connection = poller.connection(key).unwrap();
                    if let (None, Some(incoming)) = (&tag, connection.try_peek().unwrap()) {
                        *tag = Some(incoming.tag);
                    }
                    let driven = connection.drive_recv_stream(receive, sink, digest).unwrap();
                    if driven == Drive::Done(()) {
                        let (_, (file, _), digest, tag) = open.remove(&key).unwrap();
                        let index = usize::try_from(tag.unwrap()).unwrap();
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
            (RecvStreamOperation::new(), file(), Digest::new(DigestKind::None));
        while digest.bytes() < 1 << 20 {
            let _ = connection.drive_recv_stream(&mut first, &mut sink, &mut digest).unwrap();
        }
        let mut rival = RecvStreamOperation::new();
        let failed = connection.drive_recv_stream(&mut rival, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
        assert!(connection.reject(Reason(5)));
        let failed = connection.drive_recv_stream(&mut first, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
        // what is discarded is taken by nobody
        let incoming = connection.peek(DEADLINE).unwrap();
        assert_eq!(incoming.tag, 2);
        let failed = connection.drive_recv_stream(&mut first, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
        let mut second = RecvStreamOperation::new();
        let failed = drive(&mut connection, &mut second, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Cancelled(Reason(77)));
        let (third, mut sink) = file();
        let (mut receive, mut digest) = (RecvStreamOperation::new(), Digest::new(DigestKind::None));
        drive(&mut connection, &mut receive, &mut sink, &mut digest).unwrap();
        assert!(contents(third) == noise(3, 10_000));
        let failed = connection.drive_recv_stream(&mut receive, &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Usage);
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
            (RecvStreamOperation::new(), file(), Digest::new(DigestKind::None));
        let failed = drive(&mut connection, &mut receive, &mut sink, &mut digest).unwrap_err();
        // whichever is seen first
        assert!([ErrorKind::Cancelled(Reason(9)), ErrorKind::Closed(Reason(9))].contains(&kind(failed)));
        let failed =
            drive(&mut connection, &mut RecvStreamOperation::new(), &mut sink, &mut digest).unwrap_err();
        assert_eq!(kind(failed), ErrorKind::Closed(Reason(9)));
    });
}
