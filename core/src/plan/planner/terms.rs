//! Memory of a message, ways that it can go, and the terms of its connection.

use crate::protocol::Protocol;

/// What the sender knows of a message's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Plain slices, which cannot be registered.
    Unnamed,
    /// Lent for this message: registered for it, and deregistered after it.
    Fresh,
    /// Not registered now; a registration for this message is kept for later ones. A miss of the cache of registrations.
    Keepable,
    /// The same, and the sender remembers that it sent this buffer before: a miss that would have been a hit if the buffer had been registered then. A sender that
    /// remembers nothing uses [`Keepable`](Self::Keepable).
    KeepableAgain,
    /// Registered or exposed before, and kept. A hit.
    Kept,
}

impl Memory {
    /// Every kind of memory.
    pub const ALL: [Self; 5] = [Self::Unnamed, Self::Fresh, Self::Keepable, Self::KeepableAgain, Self::Kept];

    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unnamed => "unnamed",
            Self::Fresh => "fresh",
            Self::Keepable => "keepable",
            Self::KeepableAgain => "keepable-again",
            Self::Kept => "kept",
        }
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Unnamed => Kind::Unnamed,
            Self::Fresh => Kind::Fresh,
            Self::Keepable | Self::KeepableAgain => Kind::Keepable,
            Self::Kept => Kind::Kept,
        }
    }
}

/// Kinds of memory that have a choice of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unnamed,
    Fresh,
    Keepable,
    Kept,
}

/// Number of kinds.
pub(super) const KINDS: usize = 4;

impl Kind {
    pub(super) const ALL: [Self; KINDS] = [Self::Unnamed, Self::Fresh, Self::Keepable, Self::Kept];
}

/// Way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Growing chunks through the landing buffer, the first with the RTS (Denis, section 4).
    Superpipeline,
    /// Chunks of C_opt through the landing buffer, after a rendezvous (Denis, section 3).
    Pipeline,
    /// Chunks of a whole fold through the landing buffer, without a rendezvous. Always possible.
    Eager,
    /// Remote writes; both ends register for this message. A registration of keepable memory stays.
    Register,
    /// Remote writes out of memory that is registered.
    RegisterCached,
    /// The receiver copies out of the sender's mapped memory.
    OneCopy,
    /// Each end copies a half, both having mapped both buffers.
    SplitCopy,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 7] = [
        Self::Superpipeline,
        Self::Pipeline,
        Self::Eager,
        Self::Register,
        Self::RegisterCached,
        Self::OneCopy,
        Self::SplitCopy,
    ];

    /// Returns the protocol by which an endpoint sends this way.
    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Superpipeline => Protocol::Superpipeline,
            Self::Pipeline => Protocol::Pipeline,
            Self::Eager => Protocol::Eager,
            Self::Register => Protocol::Register,
            Self::RegisterCached | Self::OneCopy | Self::SplitCopy => Protocol::RegisterCached,
        }
    }

    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superpipeline => "superpipeline",
            Self::Pipeline => "pipeline",
            Self::Eager => "eager",
            Self::Register => "register",
            Self::RegisterCached => "register-cached",
            Self::OneCopy => "one-copy",
            Self::SplitCopy => "split-copy",
        }
    }

    /// Returns true if the message is copied into the landing buffer and out of it.
    #[must_use]
    pub const fn is_through_landing(self) -> bool {
        matches!(self, Self::Superpipeline | Self::Pipeline | Self::Eager)
    }
}

/// Terms of a connection, of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Stores go straight into the peer's memory; otherwise writes are posted to a device.
    pub is_direct: bool,
    /// Bytes of the peer's landing buffer.
    pub landing_bytes: u64,
    /// Its folds: a chunk takes at most one of them.
    pub folds: u8,
    /// C0: bytes that go with the RTS. A message up to this size goes as one chunk, except out of mapped memory.
    pub c0_bytes: u32,
    /// Fewest bytes of a message that is copied out of mapped memory ([`Config::one_copy_bytes`](crate::Config::one_copy_bytes)).
    pub one_copy_bytes: u32,
    /// Both ends can do remote writes out of registered memory or, with direct store, the receiver can map the sender's.
    pub has_zero_copy: bool,
    /// With direct store: the peer is trusted, so that each end can copy a half.
    pub has_split: bool,
    /// A message longer than C0 may ask for a CTS. Otherwise nothing goes that does: pipelines and remote writes.
    pub asks_cts: bool,
    /// The ends have agreed on nothing but the default. Then a message that asks for a CTS is not sent without, which would fill the landing buffer of a receiver that does not want it,
    /// and no memory is registered for one message.
    pub is_default: bool,
}

impl Terms {
    /// Returns the kind of memory whose ways a message has. Where the ends have agreed on nothing but the default, a buffer is not registered by the first message out of it,
    /// which most programs that send each once would pay for.
    pub(super) const fn kind(&self, memory: Memory) -> Kind {
        match memory {
            Memory::Keepable if self.is_default => Kind::Unnamed,
            _ => memory.kind(),
        }
    }

    /// Returns the bytes of the largest chunk, at least 1.
    pub(super) fn fold_bytes(&self) -> u64 {
        (self.landing_bytes / u64::from(self.folds.max(1))).max(1)
    }

    /// Returns true if memory of this kind is mapped by the receiver.
    pub(super) fn is_mapped(&self, kind: Kind) -> bool {
        kind == Kind::Kept && self.is_direct && self.has_zero_copy
    }

    /// Returns true if a message is one chunk whatever is chosen.
    pub(super) fn is_short(&self, bytes: u64, kind: Kind) -> bool {
        if self.is_mapped(kind) {
            bytes < u64::from(self.one_copy_bytes)
        } else {
            bytes <= u64::from(self.c0_bytes)
        }
    }

    /// Returns true if some message of less than `below` bytes, of a class, can go this way.
    pub(super) fn allows(&self, way: Way, kind: Kind, below: u64) -> bool {
        let posted = self.has_zero_copy && self.asks_cts && !self.is_direct;
        let is_chunked = !self.is_direct && below - 1 > u64::from(self.c0_bytes);
        match way {
            // What is mapped goes without a rendezvous, so its call does not wait for the receiver's.
            Way::Superpipeline => !self.is_mapped(kind) || below <= u64::from(self.one_copy_bytes),
            // Up to C0 they are the same as the superpipeline. With direct store a chunk costs no write of its own, so none is better than the other.
            Way::Pipeline => self.asks_cts && is_chunked,
            Way::Eager => !(self.asks_cts && self.is_default) && is_chunked,
            Way::Register if kind == Kind::Fresh => posted && !self.is_default,
            Way::Register => posted && kind == Kind::Keepable,
            Way::RegisterCached => posted && kind == Kind::Kept,
            Way::OneCopy => self.is_mapped(kind) && below > u64::from(self.one_copy_bytes),
            Way::SplitCopy => self.has_split && self.allows(Way::OneCopy, kind, below),
        }
    }
}

impl Default for Terms {
    /// Returns posted writes into 512 KiB in 3 folds, a C0 of 64 KiB, and zero copy, of ends that have agreed on all ways.
    fn default() -> Self {
        Self {
            is_direct: false,
            landing_bytes: 512 << 10,
            folds: 3,
            c0_bytes: 64 << 10,
            one_copy_bytes: 4 << 10,
            has_zero_copy: true,
            has_split: false,
            asks_cts: true,
            is_default: false,
        }
    }
}
