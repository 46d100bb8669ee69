//! Protocols of transfers.

use core::fmt;

use crate::wire::grant::PeerAccess;

/// The growth factor q is in units of 1/256.
pub(crate) const Q_ONE: u32 = 256;

/// Protocol of a transfer that does not fit a line. Each is a variant of the same chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// No rendezvous: chunks as large as can be, as soon as there is room.
    Eager,
    /// Rendezvous, then chunks as large as can be, copied out only once they are whole: the naive copy of the papers.
    Copy,
    /// Rendezvous, then chunks of one size, copied out once they are whole (Denis, equations 1 to 3).
    Pipeline,
    /// Growing chunks, copied out block by block, the first during the rendezvous (Denis, section 4).
    #[default]
    Superpipeline,
    /// A small landing buffer first. A transfer larger than a threshold waits until both ends have provisioned a larger one, then is
    /// one copy, one write and one copy. wire.md 4.7.
    Provision,
    /// Rendezvous, and then remote writes out of the sender's memory into the receiver's, which both ends register while the
    /// rendezvous is under way. For messages longer than C0 whose operations name their memory at both ends; all others are sent as with
    /// superpipeline. The handshake refuses it over shared memory, which has no device. wire.md 4.8.
    Register,
    /// With posted writes, [`Register`](Self::Register) out of memory that stays registered. With direct store the receiver maps that
    /// memory, and copies messages of [`Config::one_copy_bytes`](crate::Config::one_copy_bytes) (4 KiB) and more straight out of it. All others are sent as with
    /// superpipeline. wire.md 4.8, 4.9.
    RegisterCached,
    /// Each message goes the way that is expected to be fastest. With posted writes a planner chooses, which the fabric lends (docs/model.md): through the landing buffer
    /// as superpipeline or as pipeline, or out of buffers that can stay registered as with [`RegisterCached`](Self::RegisterCached). With
    /// direct store messages go as with register-cached, but no memory is mapped for writing. No memory of a sender is registered for one message only. Without a planner, messages are superpipelines, but for those out of
    /// buffers that are registered or may stay so.
    Auto,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 8] = [
        Self::Eager,
        Self::Copy,
        Self::Pipeline,
        Self::Superpipeline,
        Self::Provision,
        Self::Register,
        Self::RegisterCached,
        Self::Auto,
    ];

    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Copy => "copy",
            Self::Pipeline => "pipeline",
            Self::Superpipeline => "superpipeline",
            Self::Provision => "provision",
            Self::Register => "register",
            Self::RegisterCached => "register-cached",
            Self::Auto => "auto",
        }
    }

    /// Returns true if a message goes by remote writes where both ends have registered memory for it.
    pub(crate) const fn is_zero_copy(self) -> bool {
        matches!(self, Self::Register | Self::RegisterCached | Self::Auto)
    }

    /// Returns true if a message may go by remote writes out of memory that is registered for it alone.
    #[must_use]
    pub const fn registers_each(self) -> bool {
        matches!(self, Self::Register)
    }

    /// Returns true if a message may go out of memory that stays registered, or that the receiver maps.
    #[must_use]
    pub const fn uses_registered(self) -> bool {
        matches!(self, Self::RegisterCached | Self::Auto)
    }

    /// Returns the access to memory of an end that its peer may have with direct store. [`Auto`](Self::Auto) is the default, so it must be safe without
    /// consent: nothing is mapped whose pages either end can remove. wire.md 6.4.
    pub(crate) const fn peer_access(self) -> Option<PeerAccess> {
        match self {
            Self::RegisterCached => Some(PeerAccess::Write),
            Self::Auto => Some(PeerAccess::Read),
            _ => None,
        }
    }

    /// Returns true if messages may be planned: eager, copy, pipeline and provision are what was asked for, and never are.
    pub(crate) const fn may_be_planned(self) -> bool {
        matches!(self, Self::Superpipeline | Self::Register | Self::RegisterCached | Self::Auto)
    }

    /// Returns true if a transfer in chunks begins with C0 bytes.
    pub(crate) const fn starts_with_c0(self) -> bool {
        matches!(self.in_chunks(), Self::Superpipeline)
    }

    /// Returns the protocol of a transfer whose payload comes in chunks.
    pub(crate) const fn in_chunks(self) -> Self {
        match self {
            Self::Register | Self::RegisterCached | Self::Auto => Self::Superpipeline,
            Self::Eager | Self::Copy | Self::Pipeline | Self::Superpipeline | Self::Provision => self,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
