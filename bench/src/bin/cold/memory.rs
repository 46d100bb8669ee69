//! What can be received into.

use core::fmt;

use clap::ValueEnum;
use superpipe::{Connection, Error, Received, RecvBuf};
use superpipe_bench::failure::Failure;
use superpipe_bench::map::Buffer;
use superpipe_bench::meeting::{DEADLINE, fail};

/// A kind of memory, and how it is received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// the caller's, resident, used again and again
    Reused,
    /// the caller's, never written
    Plain,
    /// the caller's, never written, with `recv_into_cold`
    PlainCold,
    /// a `RecvBuf`, never written
    RecvBuf,
    /// a `RecvBuf`, never written, with `recv_into_cold`
    RecvBufCold,
    /// a `RecvBuf` used again and again
    RecvBufReused,
}

/// Memory for one message.
pub(crate) enum Memory {
    Callers(Buffer),
    Ours(RecvBuf),
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Reused, Self::Plain, Self::PlainCold, Self::RecvBuf, Self::RecvBufCold, Self::RecvBufReused];

    /// What the command line and the JSON call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reused => "reused",
            Self::Plain => "plain",
            Self::PlainCold => "plain-cold",
            Self::RecvBuf => "recv-buf",
            Self::RecvBufCold => "recv-buf-cold",
            Self::RecvBufReused => "recv-buf-reused",
        }
    }

    /// Whether each message gets memory of its own.
    pub(crate) const fn is_fresh(self) -> bool {
        !matches!(self, Self::Reused | Self::RecvBufReused)
    }

    pub(crate) fn make(self, bytes: usize) -> Result<Memory, Failure> {
        Ok(match self {
            Self::Reused => Memory::Callers(Buffer::new(bytes, false)?),
            Self::Plain | Self::PlainCold => Memory::Callers(Buffer::untouched(bytes)?),
            Self::RecvBuf | Self::RecvBufCold => Memory::Ours(RecvBuf::new(bytes).map_err(fail)?),
            Self::RecvBufReused => {
                let mut buffer = RecvBuf::new(bytes).map_err(fail)?;
                buffer.make_resident().map_err(fail)?;
                Memory::Ours(buffer)
            }
        })
    }

    pub(crate) fn receive(self, connection: &mut Connection, into: &mut [u8]) -> Result<Received, Error> {
        match self {
            Self::PlainCold | Self::RecvBufCold => connection.recv_into_cold(&mut [into], DEADLINE),
            Self::Reused | Self::Plain | Self::RecvBuf | Self::RecvBufReused => {
                connection.recv_into(&mut [into], DEADLINE)
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Memory {
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Callers(buffer) => buffer.bytes_mut(),
            Self::Ours(buffer) => buffer,
        }
    }
}
