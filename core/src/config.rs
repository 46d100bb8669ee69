//! What can be set: policy in a plain struct, and where counting starts.

use core::fmt;

use crate::arrival::Arrival;
use crate::fabric::Caps;
use crate::layout::{FlagPlace, Layout};
use crate::notice::NOTICES_MIN;

/// The growth factor q is in units of 1/256.
pub(crate) const Q_ONE: u32 = 256;

/// How a transfer that does not fit a line crosses the wire; each is a variant of the same chunks.
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
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Eager, Self::Copy, Self::Pipeline, Self::Superpipeline];

    /// The name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Copy => "copy",
            Self::Pipeline => "pipeline",
            Self::Superpipeline => "superpipeline",
        }
    }

    /// Whether the receiver must wait for a whole chunk before it copies.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self, Self::Copy | Self::Pipeline)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The policy of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How transfers are sent. Default: superpipeline.
    pub protocol: Protocol,
    /// How this end and the peer flag what they write; both ends must agree. Default: flag.
    pub arrival: Arrival,
    /// C0: bytes that go with the RTS, before a CTS; what is copied during a round trip. Default 12 KiB (Denis,
    /// section 5); a message up to this size needs no CTS.
    pub c0_bytes: u32,
    /// q, the growth of chunks, in 1/256: 256 to 1024. Default 384, which is 1.5 (Denis, section 5).
    pub growth_q8: u32,
    /// The chunk of the pipeline protocol, and where not 0 the largest of the superpipeline. Default 0, which lets
    /// the pipeline use 64 KiB.
    pub chunk_bytes: u32,
    /// The landing buffer is at least so many chunks: 1 to 255. Default 3 (Denis: triple buffering).
    pub folds: u8,
    /// Wait for the acknowledgement of chunk i - 2 before chunk i, as Denis does, instead of for free blocks.
    pub triple_buffer: bool,
    /// Messages of this length and more are copied out with streaming stores. Default 32 MiB.
    pub streaming_bytes: u64,
    /// The user's word that writes become visible in order although the device does not say so.
    pub order_asserted: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            protocol: Protocol::Superpipeline,
            arrival: Arrival::Flag,
            c0_bytes: 12 << 10,
            growth_q8: Q_ONE * 3 / 2,
            chunk_bytes: 0,
            folds: 3,
            triple_buffer: false,
            streaming_bytes: 32 << 20,
            order_asserted: false,
        }
    }
}

impl Config {
    /// Checks every field against its range, and the layouts against the fabric.
    ///
    /// # Errors
    /// [`ConfigError`], which names the field, the value and the range.
    pub fn validate(&self, direct: bool, caps: Caps, layouts: [Layout; 2]) -> Result<(), ConfigError> {
        let field = |name, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range { name, value, least, most })
            }
        };
        field("c0_bytes", u64::from(self.c0_bytes), 1, 1 << 30)?;
        field("growth_q8", u64::from(self.growth_q8), u64::from(Q_ONE), u64::from(4 * Q_ONE))?;
        field("chunk_bytes", u64::from(self.chunk_bytes), 0, 1 << 30)?;
        field("folds", u64::from(self.folds), 1, 255)?;
        for layout in layouts {
            layout.validate().map_err(ConfigError::Layout)?;
            if layout.flags == FlagPlace::Apart && !direct {
                return Err(ConfigError::ApartNeedsDirectStore);
            }
        }
        let ordered = direct || caps.order_inside_write || self.order_asserted;
        match self.arrival {
            Arrival::Flag if !ordered => Err(ConfigError::FlagNeedsOrder),
            Arrival::Notify if direct => Err(ConfigError::NotifyNeedsPostedWrites),
            Arrival::Notify if caps.notices < NOTICES_MIN => {
                Err(ConfigError::NotifyNeedsReceives { receives: caps.notices })
            }
            Arrival::Flag | Arrival::CheckedFlag | Arrival::Notify => Ok(()),
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A field is out of its range.
    Range {
        /// The field.
        name: &'static str,
        /// What it was.
        value: u64,
        /// The least it can be.
        least: u64,
        /// The most it can be.
        most: u64,
    },
    /// A landing buffer cannot be divided so.
    Layout(crate::layout::BadLayout),
    /// Slot lines that lie apart need direct store.
    ApartNeedsDirectStore,
    /// Plain flags need order inside a write.
    FlagNeedsOrder,
    /// What goes by direct store cannot be notified.
    NotifyNeedsPostedWrites,
    /// The fabric keeps too few receives posted for notifications, or none, since it has none.
    NotifyNeedsReceives {
        /// So many.
        receives: u16,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { name, value, least, most } => {
                write!(f, "{name} is {value}; it must be {least} to {most}")
            }
            Self::Layout(bad) => bad.fmt(f),
            Self::ApartNeedsDirectStore => f.write_str("slot lines can lie apart only where stores go direct"),
            Self::FlagNeedsOrder => f.write_str(
                "plain flags need order inside a write, which this device does not promise; use checked flags or notify",
            ),
            Self::NotifyNeedsPostedWrites => {
                f.write_str("stores that go direct cannot be notified; use flags or checked flags")
            }
            Self::NotifyNeedsReceives { receives } => write!(
                f,
                "notify mode needs {NOTICES_MIN} posted receives, and this device keeps {receives}; use checked flags"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Where both ends start to count. Anything but the default is there to test what happens when counts wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sequence of the first chunk, never 0.
    pub sequence: u64,
    /// Blocks produced and consumed before the first.
    pub blocks: u64,
    /// The sequence of the first control message, never 0.
    pub controls: u64,
    /// Transfers before the first.
    pub transfers: u64,
    /// The first sign of life.
    pub life: u64,
    /// Notifications sent and taken before the first.
    pub notices: u64,
}

impl Default for Origin {
    fn default() -> Self {
        Self { sequence: 1, blocks: 0, controls: 1, transfers: 0, life: 0, notices: 0 }
    }
}
