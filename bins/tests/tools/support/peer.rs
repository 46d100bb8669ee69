//! Peers other than the tools: the library, with messages of wire.md 8.1 built by hand.

use super::process::BOUND;
use super::scratch::Scratch;
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;
use superpipe::{Connection, Drive, Options, SendOperation, Tuning};

/// Time for [`in_time`].
const IN_TIME: Duration = Duration::from_millis(500);

impl Scratch {
    /// Connects to this directory's socket with the library.
    pub(crate) fn connect(&self) -> Connection {
        let address = self.address().parse().unwrap();
        Connection::connect(&address, Options::default(), BOUND).unwrap()
    }

    /// Connects with a first chunk of 64 bytes: what is longer goes in parts, of which all but the first wait for an answer.
    pub(crate) fn connect_by_parts(&self) -> Connection {
        let options =
            Options { tuning: Tuning { c0_bytes: Some(64), ..Tuning::default() }, ..Options::default() };
        Connection::connect(&self.address().parse().unwrap(), options, BOUND).unwrap()
    }
}

/// Sends the first part of a message of `bytes` bytes, whose rest never comes.
pub(crate) fn send_a_part(connection: &mut Connection, tag: u64, bytes: usize) {
    let mut send = SendOperation::new(tag, bytes);
    assert_eq!(connection.drive_send(&mut send, &[&vec![7; bytes]]).unwrap(), Drive::Moved);
}

/// Does the work while these connections show life, and send nothing else.
pub(crate) fn beside_silent<T>(mut silent: Vec<Connection>, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        // dropped when the work ends, also by a panic
        let (_working, is_over) = mpsc::channel::<()>();
        scope.spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
                for connection in &mut silent {
                    connection.progress();
                }
            }
        });
        work()
    })
}

/// Repeats what a peer with an idle timeout of a second must not find silent, until it was done in half of that. Each attempt returns how long
/// it took, and its outcome.
pub(crate) fn in_time<T>(mut attempt: impl FnMut() -> (Duration, T)) -> T {
    let deadline = Instant::now() + BOUND;
    loop {
        let (took, outcome) = attempt();
        if took < IN_TIME {
            return outcome;
        }
        assert!(Instant::now() < deadline, "the host is too busy: what has {IN_TIME:?} took {took:?}");
    }
}

/// Returns the HELLO of an rsend that announces this length and no checksum.
pub(crate) fn rsend_hello(announced_bytes: u64) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5], hello[6]) = (1, 1, 1);
    hello[8..16].copy_from_slice(&announced_bytes.to_le_bytes());
    hello
}
