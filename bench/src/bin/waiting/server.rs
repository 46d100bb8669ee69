//! The other process: answers every message at once, until the connection is closed.

use superpipe::{Address, ErrorKind, Listener, Options as ConnectionOptions};
use superpipe_bench::clock::{now_ns, thread_cpu_ns};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::Buffer;
use superpipe_bench::meeting::{DEADLINE, fail};

/// Messages with this tag are answered with the same contents.
pub(crate) const TAG_ECHO: u64 = 0;
/// Messages with this tag are answered with a [`Stamp`].
pub(crate) const TAG_STAMP: u64 = 1;
/// Bytes of a stamp.
pub(crate) const STAMP_BYTES: usize = 16;

/// When the server had received a message, and how much of a core it had used by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) received_ns: u64,
    pub(crate) cpu_ns: u64,
}

impl Stamp {
    const fn to_words(self) -> [[u8; 8]; 2] {
        [self.received_ns.to_le_bytes(), self.cpu_ns.to_le_bytes()]
    }

    /// What [`to_words`](Self::to_words) made.
    pub(crate) const fn from_words([received_ns, cpu_ns]: [[u8; 8]; 2]) -> Self {
        Self { received_ns: u64::from_le_bytes(received_ns), cpu_ns: u64::from_le_bytes(cpu_ns) }
    }
}

pub(crate) fn serve(address: &Address, with: ConnectionOptions, bytes_max: usize) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, with).map_err(fail)?;
    let mut connection = listener.accept(DEADLINE).map_err(fail)?;
    drop(listener);
    let mut buffer = Buffer::new(bytes_max, false)?;
    loop {
        let received = match connection.recv_into(&mut [buffer.bytes_mut()], DEADLINE) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::Closed(_)) => return Ok(()),
            Err(error) => return Err(fail(error)),
        };
        let sent = if received.tag == TAG_STAMP {
            let stamp = Stamp { received_ns: now_ns(), cpu_ns: thread_cpu_ns() };
            let [received_ns, cpu_ns] = stamp.to_words();
            connection.send(TAG_STAMP, &[&received_ns, &cpu_ns], DEADLINE)
        } else {
            connection.send(TAG_ECHO, &[&buffer.bytes()[..received.bytes]], DEADLINE)
        };
        sent.map_err(fail)?;
    }
}
