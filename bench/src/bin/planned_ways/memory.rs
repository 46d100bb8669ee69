//! Memory that messages are sent out of.

use superpipe::{Connection, Protocol, RegisteredBuf};
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;

/// Tag of the messages.
pub(crate) const TAG: u64 = 2;

/// Kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// one buffer of plain memory for all messages
    PlainReused,
    /// a new buffer of plain memory for each message, which was written before
    PlainFresh,
    /// one registered buffer
    RegisteredReused,
    /// a new registered buffer for each message, which was written before and is registered with the connection by its message
    RegisteredFresh,
}

impl MemoryKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 4] =
        [Self::PlainReused, Self::PlainFresh, Self::RegisteredReused, Self::RegisteredFresh];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PlainReused => "plain, reused",
            Self::PlainFresh => "plain, fresh",
            Self::RegisteredReused => "registered, reused",
            Self::RegisteredFresh => "registered, fresh",
        }
    }

    pub(crate) const fn is_registered(self) -> bool {
        matches!(self, Self::RegisteredReused | Self::RegisteredFresh)
    }

    const fn is_fresh(self) -> bool {
        matches!(self, Self::PlainFresh | Self::RegisteredFresh)
    }

    /// Returns true if messages out of this memory may go like those of a protocol between ends that have agreed on nothing: none eagerly, and none out of memory
    /// that is registered for it.
    pub(crate) fn goes_by_default(self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Superpipeline | Protocol::Pipeline => true,
            Protocol::RegisterCached => self == Self::RegisteredReused,
            _ => false,
        }
    }

    /// Returns true if messages out of this memory can go by a protocol.
    pub(crate) fn goes_by(self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Register => !self.is_registered(),
            Protocol::RegisterCached => self.is_registered(),
            _ => true,
        }
    }
}

/// Memory of one message, or of many.
enum Buffer {
    Plain(Vec<u8>),
    Registered(RegisteredBuf),
}

/// Source of the messages of one size of a connection.
pub(crate) struct Source {
    kind: MemoryKind,
    bytes: usize,
    buffer: Buffer,
    sent: u8,
}

impl Source {
    pub(crate) fn new(kind: MemoryKind, bytes: usize) -> Result<Self, Failure> {
        Ok(Self { kind, bytes, buffer: make(kind, bytes)?, sent: 0 })
    }

    /// Returns the bytes of a message.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Prepares the next message, and returns the value of its bytes. All of it is written anew.
    pub(crate) fn prepare(&mut self, connection: &mut Connection) -> Result<u8, Failure> {
        self.sent = self.sent.wrapping_add(1);
        if self.kind.is_fresh() {
            self.buffer = make(self.kind, self.bytes)?;
        }
        match &mut self.buffer {
            Buffer::Plain(plain) => plain.fill(self.sent),
            Buffer::Registered(registered) => {
                connection.wait_unshared(registered, DEADLINE).map_err(fail)?;
                registered.fill(self.sent);
            }
        }
        Ok(self.sent)
    }

    /// Sends the message.
    pub(crate) fn send(&self, connection: &mut Connection) -> Result<(), Failure> {
        let sent = match &self.buffer {
            Buffer::Plain(plain) => connection.send(TAG, &[plain], DEADLINE),
            Buffer::Registered(registered) => {
                connection.send_registered(TAG, registered, 0..self.bytes, DEADLINE)
            }
        };
        sent.map_err(fail)
    }
}

/// Makes a buffer.
fn make(kind: MemoryKind, bytes: usize) -> Result<Buffer, Failure> {
    if kind.is_registered() {
        return RegisteredBuf::new(bytes).map(Buffer::Registered).map_err(fail);
    }
    Ok(Buffer::Plain(vec![0; bytes]))
}
