//! Peers other than the tools: the library, with messages of wire.md 8.1 built by hand.

use super::process::BOUND;
use super::scratch::Scratch;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use superpipe::{Connection, Drive, Options, SendOperation, Tuning};

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

/// Sends the first part of a message of `bytes` bytes, and then only shows life for so long.
pub(crate) fn send_a_part(connection: &mut Connection, tag: u64, bytes: usize, time: Duration) {
    let mut send = SendOperation::new(tag, bytes);
    let message = vec![7; bytes];
    assert_eq!(connection.drive_send(&mut send, &[&message]).unwrap(), Drive::Moved);
    let end = Instant::now() + time;
    while Instant::now() < end {
        connection.progress();
        thread::sleep(Duration::from_millis(5));
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
