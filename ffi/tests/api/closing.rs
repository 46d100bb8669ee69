//! Closing where a REJECT is due: one is on the way at most, and an idle peer acknowledges none. Nobody who closes waits for
//! that, and nobody loses what arrived behind it.

use core::time::Duration;
use std::io::{Write, pipe};
use std::thread;

use superpipe::io::{Digest, DigestKind, Source};
use superpipe::{Connection, ErrorKind, Reason};

use crate::support::{DEADLINE, pair};

/// An end that has rejected two messages of a peer whose application does something else meanwhile, and that peer.
fn two_rejected() -> (Connection, Connection) {
    let (mut idle, mut end) = pair();
    for tag in 0..2 {
        idle.send(tag, &[b"unwanted"], DEADLINE).unwrap();
    }
    for _ in 0..2 {
        end.peek(DEADLINE).unwrap();
        assert!(end.reject(Reason(7)));
    }
    (idle, end)
}

#[test]
fn close_waits_for_no_reject() {
    let (mut idle, end) = two_rejected();
    end.close(Reason::DONE, DEADLINE).unwrap();
    let seen = idle.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
    assert_eq!(seen.kind(), ErrorKind::Closed(Reason::DONE));
}

#[test]
fn messages_before_a_close_arrive_after_many_rejects() {
    for reads in [0, 1, 2] {
        let (mut sender, mut receiver) = pair();
        for tag in 0..4 {
            sender.send(tag, &[b"a message"], DEADLINE).unwrap();
        }
        sender.close(Reason::DONE, DEADLINE).unwrap();
        let mut got = [0; 9];
        for _ in 0..reads {
            assert_eq!(receiver.recv_into(&mut [&mut got], DEADLINE).unwrap().bytes, 9);
        }
        for _ in 0..2 {
            receiver.peek(DEADLINE).unwrap();
            assert!(receiver.reject(Reason(7)));
        }
        for _ in reads..2 {
            receiver.recv_into(&mut [&mut got], DEADLINE).unwrap();
            assert_eq!(&got, b"a message");
        }
        let end = receiver.recv_into(&mut [&mut got], DEADLINE).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::Closed(Reason::DONE), "after {reads} read");
    }
}

/// Streams that are dropped in the middle are rejected, too.
#[test]
fn what_was_sent_before_a_drop_comes_behind_dropped_streams() {
    let (mut sender, mut receiver) = pair();
    for tag in 0..2 {
        sender.send(tag, &[&[5; 1000]], DEADLINE).unwrap();
    }
    sender.send(2, &[b"wanted"], DEADLINE).unwrap();
    drop(sender);
    for _ in 0..2 {
        drop(receiver.accept_stream(DEADLINE).unwrap());
    }
    let mut got = [0; 6];
    assert_eq!(receiver.recv_into(&mut [&mut got], DEADLINE).unwrap().tag, 2);
    assert_eq!(&got, b"wanted");
}

/// A peer that has closed and is gone takes nothing, also while something of its own waits here.
#[test]
fn a_sender_that_waits_for_its_source_sees_the_peers_close() {
    for unread in [false, true] {
        let (mut sender, mut peer) = pair();
        if unread {
            peer.send(1, &[b"unread"], DEADLINE).unwrap();
        }
        let (reader, mut writer) = pipe().unwrap();
        let sending = thread::spawn(move || {
            let mut source = Source::new(reader.into()).unwrap();
            let mut stream = sender.open_stream(2, DEADLINE).unwrap();
            stream.read_from(&mut source, 1 << 20, &mut Digest::new(DigestKind::None)).is_err()
        });
        drop(peer);
        for _ in 0..1000 {
            if sending.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = writer.write_all(b"at last");
        assert!(sending.join().unwrap(), "unread {unread}: it waited for its source");
    }
}
