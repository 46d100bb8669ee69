//! The other process: receives messages on the connection that it is told, and answers each.
//!
//! ```text
//! client ── connection, count, bytes, registered ──▶ server      on the control connection
//!        ◀── ready ──────────────────────────────────
//!        ══ message ═▶  ◀══ 8 bytes: its first byte ═            on that connection, count times
//! ```

use superpipe::{Address, Connection, Listener, Protocol, RegisteredBuf};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;

use super::memory::TAG;
use super::ways::options;

/// Bytes of a command.
pub(crate) const COMMAND_BYTES: usize = 32;

/// A command. A count of 0 is the end.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) connection: usize,
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    pub(crate) is_registered: bool,
}

impl Command {
    pub(crate) fn encode(self) -> [u8; COMMAND_BYTES] {
        let words = [self.connection, self.count, self.bytes, usize::from(self.is_registered)];
        let mut bytes = [0; COMMAND_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&(word as u64).to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; COMMAND_BYTES]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
        let mut next = || words.next().unwrap_or(0);
        Self { connection: next(), count: next(), bytes: next(), is_registered: next() != 0 }
    }
}

/// Serves until the end.
pub(crate) fn serve(address: &Address, contestants: &[Protocol], bytes_max: usize) -> Result<(), Failure> {
    let mut control = accept(address, Protocol::Superpipeline)?;
    let mut connections = Vec::new();
    for protocol in contestants {
        // Each listener is made for its protocol, so its client waits for it.
        control.send(TAG, &[], DEADLINE).map_err(fail)?;
        connections.push(accept(address, *protocol)?);
    }
    let mut plain = vec![1; bytes_max];
    let mut registered = RegisteredBuf::new(bytes_max).map_err(fail)?;
    registered.fill(1);
    loop {
        let mut command = [0; COMMAND_BYTES];
        control.recv_into(&mut [&mut command], DEADLINE).map_err(fail)?;
        let Command { connection, count, bytes, is_registered } = Command::decode(&command);
        if count == 0 {
            return Ok(());
        }
        control.send(TAG, &[], DEADLINE).map_err(fail)?;
        let connection = &mut connections[connection];
        for _ in 0..count {
            let (received, first) = if is_registered {
                let received = connection.recv_registered(&mut registered, DEADLINE).map_err(fail)?;
                (received, registered[0])
            } else {
                (connection.recv_into(&mut [&mut plain], DEADLINE).map_err(fail)?, plain[0])
            };
            if received.bytes != bytes {
                return Err(Failure::Integrity(format!("{} B instead of {bytes}", received.bytes)));
            }
            connection.send(TAG, &[&[first; 8]], DEADLINE).map_err(fail)?;
        }
    }
}

fn accept(address: &Address, protocol: Protocol) -> Result<Connection, Failure> {
    let mut listener = Listener::bind(address, options(protocol)).map_err(fail)?;
    listener.accept(DEADLINE).map_err(fail)
}
