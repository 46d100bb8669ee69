//! Messages and streams received as streams, whatever their length: those that travel in a slot line (wire.md 3.2), too.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Length, Reason};

use crate::support::{DEADLINE, bytes, pair, path};

/// Around the payload of a line, of a block and of C0.
const LENGTHS: [usize; 12] = [0, 1, 7, 8, 39, 40, 41, 16_384, 16_385, 65_536, 65_537, 300_000];

/// Runs `work`; panics if it hangs.
fn within_deadline<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let worker = thread::spawn(move || tell.send(work()));
    let value = told.recv_timeout(DEADLINE).expect("it ends within the deadline");
    worker.join().unwrap().unwrap();
    value
}

fn send_all(a: &mut Connection, tag: u64, payload: &[u8], is_stream: bool) {
    if is_stream {
        let mut stream = a.open_stream(tag, DEADLINE).unwrap();
        stream.write_all(payload).unwrap();
        stream.finish(DEADLINE).unwrap();
    } else {
        a.send(tag, &[payload], DEADLINE).unwrap();
    }
}

/// Sends each length both ways of sending, and one more message at the end; `receive` takes one as a stream.
fn play(receive: impl Fn(&mut Connection, usize) -> Vec<u8> + Send + 'static) {
    within_deadline(move || {
        let (mut a, mut b) = pair();
        let sender = thread::spawn(move || {
            for (tag, length) in (0..).zip(LENGTHS) {
                send_all(&mut a, tag, &bytes(tag + 1, length), false);
                send_all(&mut a, tag, &bytes(tag + 2, length), true);
            }
            a.send(99, &[b"last"], DEADLINE).unwrap();
            a.flush(DEADLINE).unwrap();
        });
        for (tag, length) in (0..).zip(LENGTHS) {
            assert!(receive(&mut b, length) == bytes(tag + 1, length), "a message of {length} bytes");
            assert!(receive(&mut b, length) == bytes(tag + 2, length), "a stream of {length} bytes");
        }
        let mut last = [0; 4];
        assert_eq!(b.recv_into(&mut [&mut last], DEADLINE).unwrap().tag, 99);
        b.close(Reason::DONE, DEADLINE).unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn read_gives_transfers_of_any_length() {
    play(|b, length| {
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        assert!(matches!(stream.length(), Length::Stream) || stream.length() == Length::Exact(length as u64));
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
}

#[test]
fn write_to_gives_transfers_of_any_length() {
    play(|b, _| {
        let path = path();
        let mut sink = Sink::new(OwnedFd::from(File::create(&path).unwrap())).unwrap();
        let mut digest = Digest::new(DigestKind::None);
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        while stream.write_to(&mut sink, &mut digest).unwrap() > 0 {}
        let all = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        all
    });
}

/// A short message that is read to its middle, and then refused or dropped: what follows comes whole.
#[test]
fn a_short_message_can_be_left_in_the_middle() {
    within_deadline(|| {
        let (mut a, mut b) = pair();
        let sender = thread::spawn(move || {
            for tag in 0..3 {
                a.send(tag, &[&[5; 40]], DEADLINE).unwrap();
            }
            a.flush(DEADLINE).unwrap();
        });
        let mut some = [0; 10];
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        assert_eq!(stream.read(&mut some).unwrap(), 10);
        stream.reject(Reason(3));
        let mut stream = b.accept_stream(DEADLINE).unwrap();
        assert_eq!((stream.tag(), stream.read(&mut some).unwrap()), (1, 10));
        drop(stream);
        let mut all = [0; 40];
        assert_eq!(b.recv_into(&mut [&mut all], DEADLINE).unwrap().tag, 2);
        assert_eq!(all, [5; 40]);
        b.close(Reason::DONE, DEADLINE).unwrap();
        sender.join().unwrap();
    });
}
