//! Wishes of the two ends, and how they are settled: each wish of either side counts, so that only one side needs to have any;
//! two different wishes for one thing are refused.

use super::text::Bytes;
use crate::{Arrival, Caps, Config, ConfigError, FlagPlace, Layout, NOTICES_MIN, Protocol};
use core::{error, fmt};

/// Bytes of a block where nobody wishes otherwise. On shared memory: within 5 % of the best from 64 KiB up, and
/// without the collapse of smaller ones where the cores are far apart (docs/architecture.md). Over RDMA a chunk is a
/// contiguous write of blocks, so they cost little.
pub const BLOCK_BYTES: u32 = 16 << 10;

/// Bytes of a landing buffer's blocks where nobody wishes otherwise.
pub const LANDING_BYTES: u32 = 512 << 10;

/// Settings of a fabric for which neither end has a wish, and its capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Place of the slot lines.
    pub flags: FlagPlace,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// C0: bytes that go before a CTS.
    pub c0_bytes: u32,
    /// Arrival mode.
    pub arrival: Arrival,
    /// The bytes of a write become visible in order, at both ends, or their users say so.
    pub ordered: bool,
    /// Receives that each end keeps posted for notifications; 0: there are none.
    pub notices: u16,
}

impl Terms {
    /// Shared memory: stores go direct, a round trip is short, and the landing buffer is granted already.
    pub const SHM: Self = Self {
        flags: FlagPlace::Apart,
        block_bytes: BLOCK_BYTES,
        c0_bytes: 64 << 10,
        arrival: Arrival::Flag,
        ordered: true,
        notices: 0,
    };
}

/// Wishes; `None` leaves it to the other side, or to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Protocol of transfers. Default: superpipeline.
    pub protocol: Option<Protocol>,
    /// Arrival mode. Default: the cheapest that the fabric supports.
    pub arrival: Option<Arrival>,
    /// Chunks in a landing buffer. Default 3.
    pub folds: Option<u8>,
    /// Bytes of a block: a multiple of 64, 128 to 1 MiB. Default 16 KiB.
    pub block_bytes: Option<u32>,
    /// Bytes of all blocks of a landing buffer. Default 512 KiB. Each end of a connection holds as much.
    pub landing_bytes: Option<u32>,
    /// Bytes of the largest chunk; with the pipeline protocol, of every chunk.
    pub chunk_bytes: Option<u32>,
}

/// Configuration and layout that both ends keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The policy.
    pub config: Config,
    /// The layout of both landing buffers.
    pub layout: Layout,
}

/// Reason why wishes cannot be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The two ends wish for different things.
    Wishes {
        /// what for
        name: &'static str,
        /// wish of the listening end
        listening: Wish,
        /// wish of the connecting end
        connecting: Wish,
    },
    /// The wishes make an invalid configuration.
    Config(ConfigError),
    /// The peer makes the landing buffer larger than this end allows.
    Landing {
        /// bytes of it
        bytes: u32,
        /// the most that is allowed
        bytes_max: u32,
        /// who allows no more
        by: &'static str,
    },
    /// Plain flags are wished for at one end, and a device there or at the other promises no order.
    FlagAtOneEnd,
    /// The peer settled for an arrival mode that it may not choose.
    Mode {
        /// the peer's
        said: Arrival,
        /// the one that is due
        due: Arrival,
    },
}

/// One wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// For a number.
    Number(u32),
    /// For a protocol.
    Protocol(Protocol),
    /// For an arrival mode.
    Arrival(Arrival),
}

impl Tuning {
    /// Settles the wishes of the listening end, which these are, and those of the connecting end.
    ///
    /// # Errors
    /// Both wish for the same thing differently, or what is wished for cannot be.
    pub fn settle(&self, theirs: &Self, terms: &Terms) -> Result<Settled, Disagreement> {
        let number = |name, ours, theirs| one(name, ours, theirs, Wish::Number);
        let (ours_folds, their_folds) = (self.folds, theirs.folds);
        let protocol = one("protocol", self.protocol, theirs.protocol, Wish::Protocol)?;
        let arrival = one("arrival", self.arrival, theirs.arrival, Wish::Arrival)?;
        let folds = one("folds", ours_folds, their_folds, |folds| Wish::Number(folds.into()))?;
        let block_bytes = number("block-bytes", self.block_bytes, theirs.block_bytes)?;
        let landing_bytes = number("landing-bytes", self.landing_bytes, theirs.landing_bytes)?;
        let chunk_bytes = number("chunk-bytes", self.chunk_bytes, theirs.chunk_bytes)?;
        let block_bytes = block_bytes.unwrap_or(terms.block_bytes);
        let landing_bytes = landing_bytes.unwrap_or(LANDING_BYTES.max(block_bytes.saturating_mul(4)));
        let block_count = landing_bytes / block_bytes.max(1);
        let layout = Layout { block_bytes, block_count, flags: terms.flags };
        let defaults = Config::default();
        let config = Config {
            protocol: protocol.unwrap_or(defaults.protocol),
            arrival: arrival.unwrap_or(terms.arrival),
            folds: folds.unwrap_or(defaults.folds),
            chunk_bytes: chunk_bytes.unwrap_or(defaults.chunk_bytes),
            c0_bytes: terms.c0_bytes,
            order_asserted: terms.ordered && terms.flags == FlagPlace::Inside,
            ..defaults
        };
        let direct = terms.flags == FlagPlace::Apart;
        let caps = Caps { order_inside_write: terms.ordered, notices: terms.notices };
        config.validate(direct, caps, [layout; 2]).map_err(Disagreement::Config)?;
        Ok(Settled { config, layout })
    }

    /// Checks that what the listening end settled respects the wishes of the connecting end, which these are.
    ///
    /// # Errors
    /// The wish that it does not.
    pub fn check(&self, settled: &Settled, terms: &Terms) -> Result<(), Disagreement> {
        // A landing buffer holds whole blocks: the wish for one is met by as many as it has room for.
        let landing_bytes = self.landing_bytes.map(|bytes| bytes - bytes % settled.layout.block_bytes);
        settled.to_tuning().settle(&Self { landing_bytes, ..*self }, terms).map(|_| ())
    }

    /// Checks the wishes by themselves.
    ///
    /// # Errors
    /// The field, the value and the range.
    pub fn validate(&self) -> Result<(), Disagreement> {
        // The fabric is not known yet: these are the terms of one that supports the wished arrival mode.
        let posted = Terms { flags: FlagPlace::Inside, notices: NOTICES_MIN, ..Terms::SHM };
        let terms = if self.arrival == Some(Arrival::Notify) { posted } else { Terms::SHM };
        self.settle(&Self::default(), &terms).map(|_| ())
    }
}

impl Settled {
    /// Returns wishes that settle to exactly this.
    #[must_use]
    pub const fn to_tuning(&self) -> Tuning {
        let Self { config, layout } = self;
        Tuning {
            protocol: Some(config.protocol),
            arrival: Some(config.arrival),
            folds: Some(config.folds),
            block_bytes: Some(layout.block_bytes),
            landing_bytes: Some(layout.block_bytes * layout.block_count),
            chunk_bytes: if config.chunk_bytes == 0 { None } else { Some(config.chunk_bytes) },
        }
    }

    /// Returns the settlement that a peer names.
    ///
    /// # Errors
    /// A phrase, if that is impossible.
    pub fn from_tuning(tuning: &Tuning, terms: &Terms) -> Result<Self, &'static str> {
        tuning.settle(&Tuning::default(), terms).map_err(|_| "what it settled cannot be")
    }

    /// Refuses a landing buffer of more than `bytes_max`, the bound that the end called `by` sets its peer. A landing buffer as large
    /// as that end's own `wishes` make it, slot lines included, is not the peer's doing and is allowed.
    pub(super) fn allow_landing(
        &self,
        bytes_max: u32,
        wishes: &Tuning,
        by: &'static str,
    ) -> Result<(), Disagreement> {
        let bytes = self.layout.bytes();
        let own_bytes = wishes.landing_bytes.map_or(0, |landing_bytes| {
            let block_bytes = wishes.block_bytes.unwrap_or(BLOCK_BYTES);
            let block_count = landing_bytes / block_bytes.max(1);
            Layout { block_bytes, block_count, ..self.layout }.bytes()
        });
        let bytes_max = bytes_max.max(own_bytes);
        if bytes <= bytes_max { Ok(()) } else { Err(Disagreement::Landing { bytes, bytes_max, by }) }
    }
}

/// The one wish of two.
fn one<T: PartialEq + Copy>(
    name: &'static str,
    ours: Option<T>,
    theirs: Option<T>,
    shown: impl Fn(T) -> Wish,
) -> Result<Option<T>, Disagreement> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            Err(Disagreement::Wishes { name, listening: shown(ours), connecting: shown(theirs) })
        }
        (ours, theirs) => Ok(ours.or(theirs)),
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Protocol(protocol) => protocol.fmt(f),
            Self::Arrival(arrival) => f.write_str(arrival_name(*arrival)),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wishes { name, listening, connecting } => write!(
                f,
                "the two ends disagree: {name} is {listening} at the listening end and {connecting} at the connecting end; set it at \
                 one end only"
            ),
            Self::Config(error) => error.fmt(f),
            Self::Landing { bytes, bytes_max, by } => {
                let (bytes, bytes_max) = (Bytes(u64::from(*bytes)), Bytes(u64::from(*bytes_max)));
                write!(f, "a landing buffer of {bytes} is more than the {bytes_max} that the {by} allows")
            }
            Self::FlagAtOneEnd => f.write_str(
                "plain flags need order inside a write, which a device of one of the two ends does not promise: wish for \
                 flag at both ends, or at none",
            ),
            Self::Mode { said, due } => write!(
                f,
                "the peer settled for arrival mode {}, which is not {}",
                arrival_name(*said),
                arrival_name(*due)
            ),
        }
    }
}

impl error::Error for Disagreement {}

/// Returns what reports call it.
#[must_use]
pub const fn arrival_name(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "flag",
        Arrival::CheckedFlag => "checked-flag",
        Arrival::Notify => "notify",
    }
}

#[cfg(test)]
#[path = "tuning_tests.rs"]
mod tests;
