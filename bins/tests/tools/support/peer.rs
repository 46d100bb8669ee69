//! Peers other than the tools: the library, with messages of wire.md 8.1 built by hand.

use super::process::BOUND;
use super::scratch::Scratch;
use superpipe::{Connection, Options};

impl Scratch {
    /// Connects to this directory's socket with the library.
    pub(crate) fn connect(&self) -> Connection {
        let address = self.address().parse().unwrap();
        Connection::connect(&address, Options::default(), BOUND).unwrap()
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
