//! The other process, which answers every message at once, until the connection is closed.

use rustix::time::{ClockId, clock_gettime};
use superpipe::os::monotonic_ns;
use superpipe::{Address, ErrorKind, Listener, Options as ConnectionOptions};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::map;

/// Messages with this tag are answered with the same contents.
pub(crate) const TAG_ECHO: u64 = 0;
/// Messages with this tag are answered with a [`Stamp`].
pub(crate) const TAG_STAMP: u64 = 1;
/// Bytes of a stamp.
pub(crate) const STAMP_BYTES: usize = 16;

/// The time at which the server received a message, and its CPU time by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) received_ns: u64,
    pub(crate) cpu_ns: u64,
}

impl Stamp {
    const fn to_words(self) -> [[u8; 8]; 2] {
        [self.received_ns.to_le_bytes(), self.cpu_ns.to_le_bytes()]
    }

    /// The inverse of [`to_words`](Self::to_words).
    pub(crate) const fn from_words([received_ns, cpu_ns]: [[u8; 8]; 2]) -> Self {
        Self { received_ns: u64::from_le_bytes(received_ns), cpu_ns: u64::from_le_bytes(cpu_ns) }
    }
}

pub(crate) fn serve(address: &Address, with: ConnectionOptions, bytes_max: usize) -> Result<(), Failure> {
    let mut listener = Listener::bind(address, with).map_err(fail)?;
    let mut connection = listener.accept(DEADLINE).map_err(fail)?;
    drop(listener);
    let mut buffer = map::resident(bytes_max, false)?;
    loop {
        let received = match connection.recv_into(&mut [&mut buffer], DEADLINE) {
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::Closed(_)) => return Ok(()),
            Err(error) => return Err(fail(error)),
        };
        let sent = if received.tag == TAG_STAMP {
            let stamp = Stamp { received_ns: monotonic_ns(), cpu_ns: thread_cpu_ns() };
            let [received_ns, cpu_ns] = stamp.to_words();
            connection.send(TAG_STAMP, &[&received_ns, &cpu_ns], DEADLINE)
        } else {
            connection.send(TAG_ECHO, &[&buffer[..received.bytes]], DEADLINE)
        };
        sent.map_err(fail)?;
    }
}

/// Nanoseconds that the calling thread has spent on a core.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
