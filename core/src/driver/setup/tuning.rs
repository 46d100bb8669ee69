//! Proposals of the two ends, and their negotiation. A value that one end proposes holds for both. If both ends propose different values,
//! the handshake fails.

mod disagreement;

pub use disagreement::{Disagreement, Proposal};

use crate::wire::layout::{BLOCKS_MAX, GROUP_BLOCKS_MAX, control_page};
use crate::{
    Arrival, Caps, Config, ConfigError, FirstChunk, FlagPlace, GrowthDelay, Layout, Protocol, small_layout,
};
use disagreement::proposed_by_either;

/// Default bytes of a block over RDMA, where a chunk is a contiguous write of blocks, so they cost little.
pub const BLOCK_BYTES: u32 = 16 << 10;

/// Default bytes of a block over shared memory: a short message takes one, and successive ones lie so close together that prefetchers follow
/// (docs/architecture.md, decision 3).
pub const SHM_BLOCK_BYTES: u32 = 4 << 10;

/// Bytes of a group, if no end proposes one: the unit in which a long message is flagged and copied. It is within 5 % of the best from 64 KiB up, and
/// does not collapse between cache clusters as smaller units do (docs/architecture.md, decision 3).
const GROUP_BYTES: u32 = 16 << 10;

/// Default bytes of a landing buffer's blocks (docs/architecture.md, decision 3).
pub const LANDING_BYTES: u32 = 512 << 10;

/// Most bytes of C0 that an end may propose: both ends allocate a message of twice as much for the warm-up.
const C0_BYTES_MAX: u32 = 1 << 20;

/// Bytes of the blocks of the first landing buffer that a connection grows to, if its landing is on demand.
pub const GROWTH_SLAB_BYTES: u32 = 64 << 10;

/// Delay of growth over shared memory, where a connection makes do with its control page first (docs/architecture/memory.md). A ring takes
/// about a microsecond, and provisioning about as long as the rings of the delay. That many tries take 10 µs.
pub const GROWTH_DELAY: GrowthDelay = GrowthDelay { rings: 96, tries: 256 };

/// Default of the receives that each end keeps posted over RDMA, and the most: what is left of them beside [`Negotiated::notifications_max`]
/// is for signals and packets, and all 32 blocks of a landing buffer of the default size can be notified, with their control messages and
/// acknowledgements.
pub const RECEIVES: u8 = 144;
/// The same if landing is on demand.
pub const RECEIVES_ON_DEMAND: u8 = 16;
/// Fewest receives. As many are posted before the handshake, which has no more packets under way.
pub const RECEIVES_MIN: u8 = 8;

/// When an end provisions its landing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandingMode {
    /// While connecting, for as long as the connection lives.
    AtConnect,
    /// When the peer sends more than fits in the control page, up to the negotiated size. Memory that is not used for a while is
    /// released. wire.md 2.5.
    OnDemand,
}

/// Defaults of a fabric, for values that neither end proposes, and its capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Place of the slot lines. Their groups are those of [`default_group_blocks`], whatever this says.
    pub flags: FlagPlace,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// C0: bytes that go before a CTS.
    pub c0_bytes: u32,
    /// Arrival mode.
    pub arrival: Arrival,
    /// The bytes of a write become visible in order at both ends, or their users assert it.
    pub ordered: bool,
    /// The fabric has notifications, which take receives.
    pub has_receives: bool,
}

impl Defaults {
    /// Defaults of shared memory, with direct store and short round trips.
    pub const SHM: Self = Self {
        flags: FlagPlace::Apart { group_blocks: default_group_blocks(SHM_BLOCK_BYTES) },
        block_bytes: SHM_BLOCK_BYTES,
        c0_bytes: 64 << 10,
        arrival: Arrival::Flag,
        ordered: true,
        has_receives: false,
    };
}

/// Proposed values. `None` leaves a value to the other end, or to the default. Both ends may propose the same value. If they propose different
/// ones, or one that is out of its range, the handshake fails with [`Disagreement`], which the library reports as `Usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Protocol of transfers. Default: [`Auto`](Protocol::Auto), chosen for each message.
    pub protocol: Option<Protocol>,
    /// Arrival mode. Default: the fastest that the fabric supports. Over shared memory, notify is refused.
    pub arrival: Option<Arrival>,
    /// Folds of a landing buffer, 1 to 255: a chunk takes at most one of them. Default 3.
    pub folds: Option<u8>,
    /// C0 in bytes, at most 1 MiB, since a connection is warmed up with messages of twice as much: what goes before a CTS, and the first chunk. A message up to this size needs no rendezvous. Default 64 KiB.
    pub c0_bytes: Option<u32>,
    /// q in 1/256, 256 to 1024: how much larger each chunk of the superpipeline is than the one before. Default 384, which is 1.5. Of messages that are planned
    /// with posted writes the planner chooses it.
    pub growth_q8: Option<u32>,
    /// When the first chunk of a message longer than C0 is copied and sent. Default: with the RTS.
    pub first_chunk: Option<FirstChunk>,
    /// Whether chunks are copied out block by block while they arrive. Default: they are.
    pub sub_blocks: Option<bool>,
    /// Whether chunk i of a transfer also waits until chunk i - 2 is acknowledged. Default: it does not.
    pub triple_buffer: Option<bool>,
    /// Bytes of a block: a multiple of 64, 128 to 1 MiB. Default 4 KiB over shared memory, 16 KiB over RDMA.
    pub block_bytes: Option<u32>,
    /// Blocks of a group over shared memory: 1, 2, 4, 8 or 16. One flag proves all blocks of a group, and they are copied together. Default: as many
    /// as have 16 KiB, at most 16; one, if blocks are larger. Without effect over RDMA, where each block has its flag.
    pub group_blocks: Option<u8>,
    /// Bytes of all blocks of a landing buffer, rounded down to whole blocks: 2 to 65,536 blocks, less than 1 GiB. Default 512 KiB, or four
    /// blocks if that is more. Each end of a connection holds as much, and over RDMA as much again for its image of the peer's; with landing on
    /// demand, at most. The peer may refuse more than its `landing_bytes_max`.
    pub landing_bytes: Option<u32>,
    /// Bytes of the largest chunk, at most 1 GiB; with the pipeline protocol, of every chunk. Default: the folds are the limit; with the
    /// pipeline protocol C_opt (Denis, equation 3).
    pub chunk_bytes: Option<u32>,
    /// When landing buffers are provisioned. Default: while connecting; by the provision protocol on demand, and it refuses the other.
    pub landing: Option<LandingMode>,
    /// Bytes of the small landing buffer of the provision protocol: 100 to 2,000, rounded down to blocks of 128 bytes, at least two. Default
    /// 1,024. Without effect by other protocols.
    pub small_buffer_bytes: Option<u32>,
    /// Threshold of the provision protocol, in bytes: a message above it, or with a slice above it, waits for a larger landing buffer. 40 up to
    /// what the small landing buffer holds at once, which is the default: 904 of 1,024. Without effect by other protocols.
    pub threshold_bytes: Option<u32>,
    /// Receives that each end keeps posted over RDMA, 8 to 144: each has 256 bytes. In notify mode they also bound the writes (chunks,
    /// control messages, acknowledgements) that the peer has not taken yet. Default 144, and 16 if landing is on demand. Without effect over
    /// shared memory.
    pub receives: Option<u8>,
}

/// Negotiated configuration and layout, the same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The policy.
    pub config: Config,
    /// The layout of both landing buffers; of the largest ones, if landing is on demand.
    pub layout: Layout,
    /// When landing buffers are provisioned.
    pub landing: LandingMode,
    /// Receives that each end keeps posted over RDMA.
    pub receives: u8,
}

impl Defaults {
    /// Negotiates the values of the two ends over this fabric.
    ///
    /// # Errors
    /// The ends propose different values, or values that make no valid configuration.
    pub fn negotiate(&self, listening: &Tuning, connecting: &Tuning) -> Result<Negotiated, Disagreement> {
        let number = |name, ours, theirs| proposed_by_either(name, ours, theirs, Proposal::Number);
        let (ours_folds, their_folds) = (listening.folds, connecting.folds);
        let protocol =
            proposed_by_either("protocol", listening.protocol, connecting.protocol, Proposal::Protocol)?;
        let arrival =
            proposed_by_either("arrival", listening.arrival, connecting.arrival, Proposal::Arrival)?;
        let folds =
            proposed_by_either("folds", ours_folds, their_folds, |folds| Proposal::Number(folds.into()))?;
        let landing =
            proposed_by_either("landing", listening.landing, connecting.landing, Proposal::Landing)?;
        let (ours_receives, their_receives) = (listening.receives, connecting.receives);
        let receives = proposed_by_either("receives", ours_receives, their_receives, |receives| {
            Proposal::Number(receives.into())
        })?;
        let block_bytes = number("block-bytes", listening.block_bytes, connecting.block_bytes)?;
        let landing_bytes = number("landing-bytes", listening.landing_bytes, connecting.landing_bytes)?;
        let chunk_bytes = number("chunk-bytes", listening.chunk_bytes, connecting.chunk_bytes)?;
        let base = self.refined(listening, connecting)?;
        let small_buffer_bytes =
            number("small-buffer", listening.small_buffer_bytes, connecting.small_buffer_bytes)?;
        let threshold_bytes = number("threshold", listening.threshold_bytes, connecting.threshold_bytes)?;
        let block_bytes = block_bytes.unwrap_or_else(|| default_block_bytes(self.block_bytes, landing_bytes));
        let landing_bytes = landing_bytes.unwrap_or(LANDING_BYTES.max(block_bytes.saturating_mul(4)));
        let block_count = landing_bytes / block_bytes.max(1);
        let flags = match self.flags {
            FlagPlace::Inside => FlagPlace::Inside,
            FlagPlace::Apart { .. } => {
                let (ours, theirs) = (listening.group_blocks, connecting.group_blocks);
                let shown = |blocks: u8| Proposal::Number(blocks.into());
                let proposed = proposed_by_either("group-blocks", ours, theirs, shown)?;
                FlagPlace::Apart { group_blocks: proposed.unwrap_or(default_group_blocks(block_bytes)) }
            }
        };
        let layout = Layout { block_bytes, block_count, flags };
        let small_buffer_bytes = small_buffer_bytes.unwrap_or(base.small_buffer_bytes);
        let small = small_layout(small_buffer_bytes);
        let config = Config {
            protocol: protocol.unwrap_or(Protocol::Auto),
            arrival: arrival.unwrap_or(self.arrival),
            folds: folds.unwrap_or(base.folds),
            chunk_bytes: chunk_bytes.unwrap_or(base.chunk_bytes),
            order_asserted: self.ordered && self.flags == FlagPlace::Inside,
            small_buffer_bytes,
            threshold_bytes: threshold_bytes.unwrap_or(small.capacity(small.block_count)),
            ..base
        };
        let direct = self.flags != FlagPlace::Inside;
        if direct && config.protocol == Protocol::Register {
            return Err(Disagreement::RegisterWithoutDevice);
        }
        let landing = match (config.protocol, landing) {
            (Protocol::Provision, Some(LandingMode::AtConnect)) => {
                return Err(Disagreement::ProvisionAtConnect);
            }
            (Protocol::Provision, None) => LandingMode::OnDemand,
            (_, landing) => landing.unwrap_or(LandingMode::AtConnect),
        };
        let receives = receives.unwrap_or(match landing {
            LandingMode::AtConnect => RECEIVES,
            LandingMode::OnDemand => RECEIVES_ON_DEMAND,
        });
        if !(RECEIVES_MIN..=RECEIVES).contains(&receives) {
            return Err(Disagreement::Receives(receives));
        }
        let negotiated = Negotiated { config, layout, landing, receives };
        let notifications_max = if self.has_receives { negotiated.notifications_max() } else { 0 };
        let caps = Caps { order_inside_write: self.ordered, notifications_max };
        config.validate(direct, caps, [layout; 2]).map_err(Disagreement::Config)?;
        Ok(negotiated)
    }

    /// Returns the default policy, with what the ends propose of the refinements of the superpipeline.
    fn refined(&self, listening: &Tuning, connecting: &Tuning) -> Result<Config, Disagreement> {
        let base = Config::default();
        let c0_bytes = proposed_by_either("c0", listening.c0_bytes, connecting.c0_bytes, Proposal::Number)?;
        let (ours, theirs) = (listening.growth_q8, connecting.growth_q8);
        let growth_q8 = proposed_by_either("growth", ours, theirs, Proposal::Number)?;
        let first_chunk = proposed_by_either(
            "first-chunk",
            listening.first_chunk,
            connecting.first_chunk,
            Proposal::FirstChunk,
        )?;
        let sub_blocks =
            proposed_by_either("sub-blocks", listening.sub_blocks, connecting.sub_blocks, Proposal::Switch)?;
        let (ours, theirs) = (listening.triple_buffer, connecting.triple_buffer);
        let triple_buffer = proposed_by_either("triple-buffer", ours, theirs, Proposal::Switch)?;
        let c0_bytes = c0_bytes.unwrap_or(self.c0_bytes);
        if !(1..=C0_BYTES_MAX).contains(&c0_bytes) {
            let (value, most) = (c0_bytes.into(), C0_BYTES_MAX.into());
            return Err(Disagreement::Config(ConfigError::Range { name: "c0_bytes", value, least: 1, most }));
        }
        Ok(Config {
            c0_bytes,
            growth_q8: growth_q8.unwrap_or(base.growth_q8),
            first_chunk: first_chunk.unwrap_or(base.first_chunk),
            sub_blocks: sub_blocks.unwrap_or(base.sub_blocks),
            triple_buffer: triple_buffer.unwrap_or(base.triple_buffer),
            ..base
        })
    }

    /// Checks the values without those of a peer, for either fabric.
    ///
    /// # Errors
    /// The field, the value and the range.
    pub fn validate(proposed: &Tuning) -> Result<(), Disagreement> {
        // The fabric is not known yet: these are the defaults of one that supports the proposed arrival mode.
        let posted = Self { flags: FlagPlace::Inside, has_receives: true, ..Self::SHM };
        let is_posted =
            proposed.arrival == Some(Arrival::Notify) || proposed.protocol == Some(Protocol::Register);
        let defaults = if is_posted { posted } else { Self::SHM };
        defaults.negotiate(proposed, &Tuning::default()).map(|_| ())
    }
}

impl Tuning {
    /// Checks that the result of the listening end respects these values of the connecting end.
    ///
    /// # Errors
    /// The first value that it does not respect.
    pub(super) fn check(&self, negotiated: &Negotiated, defaults: &Defaults) -> Result<(), Disagreement> {
        // A landing buffer holds complete blocks: as many as the proposed bytes have room for.
        let landing_bytes = self.landing_bytes.map(|bytes| bytes - bytes % negotiated.layout.block_bytes);
        defaults.negotiate(&negotiated.to_tuning(), &Self { landing_bytes, ..*self }).map(|_| ())
    }
}

impl Negotiated {
    /// Returns proposed values whose negotiation gives exactly this.
    #[must_use]
    pub const fn to_tuning(&self) -> Tuning {
        let Self { config, layout, landing, receives } = self;
        Tuning {
            protocol: Some(config.protocol),
            arrival: Some(config.arrival),
            folds: Some(config.folds),
            c0_bytes: Some(config.c0_bytes),
            growth_q8: Some(config.growth_q8),
            first_chunk: Some(config.first_chunk),
            sub_blocks: Some(config.sub_blocks),
            triple_buffer: Some(config.triple_buffer),
            block_bytes: Some(layout.block_bytes),
            group_blocks: match layout.flags {
                FlagPlace::Inside => None,
                FlagPlace::Apart { group_blocks } => Some(group_blocks),
            },
            landing_bytes: Some(layout.block_bytes * layout.block_count),
            chunk_bytes: if config.chunk_bytes == 0 { None } else { Some(config.chunk_bytes) },
            landing: Some(*landing),
            small_buffer_bytes: Some(config.small_buffer_bytes),
            threshold_bytes: Some(config.threshold_bytes),
            receives: Some(*receives),
        }
    }

    /// Returns the layout of the small landing buffer, memory of its own with which a connection by the provision protocol begins. `None` by
    /// other protocols.
    #[must_use]
    pub const fn small_buffer(&self) -> Option<Layout> {
        match self.config.protocol {
            Protocol::Provision => Some(small_layout(self.config.small_buffer_bytes)),
            Protocol::Eager
            | Protocol::Copy
            | Protocol::Pipeline
            | Protocol::Superpipeline
            | Protocol::Register
            | Protocol::RegisterCached
            | Protocol::Auto => None,
        }
    }

    /// Returns the most notifications that are under way to an end. The other receives are for signals and packets. wire.md 10.3.
    #[must_use]
    pub const fn notifications_max(&self) -> u16 {
        let [receives, others] = [self.receives as u16, (self.receives / 4) as u16];
        receives - if others < 16 { others } else { 16 }
    }

    /// Returns the layout of the landing buffers with which the connection begins.
    #[must_use]
    pub const fn first_layout(&self) -> Layout {
        match self.landing {
            LandingMode::AtConnect => self.layout,
            LandingMode::OnDemand => control_page::BASE_LAYOUT,
        }
    }

    /// Returns the bytes of the longest message that is sent as a whole, whatever the receiver does: it needs no CTS, and fits the landing buffers with which the connection begins, also around the end of the
    /// ring, where it takes two chunks.
    #[must_use]
    pub fn whole_bytes_max(&self) -> u32 {
        let first = self.small_buffer().unwrap_or(self.first_layout());
        self.config.c0_bytes.min(first.capacity(first.block_count / 2))
    }

    /// Returns the result that a peer names.
    ///
    /// # Errors
    /// A phrase, if that is invalid.
    pub fn from_tuning(tuning: &Tuning, defaults: &Defaults) -> Result<Self, &'static str> {
        defaults.negotiate(tuning, &Tuning::default()).map_err(|_| "the values that it chose are invalid")
    }

    /// Refuses a landing buffer of more than `bytes_max`, the limit that the end named `by` sets its peer. A landing buffer as large
    /// as that end's own proposal makes it, slot lines included, is allowed.
    pub(super) fn check_landing(
        &self,
        bytes_max: u32,
        proposed: &Tuning,
        by: &'static str,
    ) -> Result<(), Disagreement> {
        let bytes = self.layout.bytes();
        let own_bytes = proposed.landing_bytes.map_or(0, |landing_bytes| {
            let default_bytes = match self.layout.flags {
                FlagPlace::Inside => BLOCK_BYTES,
                FlagPlace::Apart { .. } => SHM_BLOCK_BYTES,
            };
            let block_bytes = proposed
                .block_bytes
                .unwrap_or_else(|| default_block_bytes(default_bytes, Some(landing_bytes)));
            let block_count = landing_bytes / block_bytes.max(1);
            Layout { block_bytes, block_count, ..self.layout }.bytes()
        });
        let bytes_max = bytes_max.max(own_bytes);
        if bytes <= bytes_max { Ok(()) } else { Err(Disagreement::Landing { bytes, bytes_max, by }) }
    }
}

/// Returns the bytes of a block that no end proposes: those of the fabric, or the smallest power of two times these with which a ring of the proposed
/// bytes has no more blocks than it may.
fn default_block_bytes(fabrics: u32, landing_bytes: Option<u32>) -> u32 {
    let mut block_bytes = fabrics;
    while landing_bytes.unwrap_or(0) / block_bytes > BLOCKS_MAX {
        block_bytes *= 2;
    }
    block_bytes
}

/// Returns the blocks of a group that no end proposes: as many as have 16 KiB, rounded down to a power of two, at most 16; one, if blocks are larger.
#[must_use]
pub const fn default_group_blocks(block_bytes: u32) -> u8 {
    let mut group_blocks = 1;
    while group_blocks < GROUP_BLOCKS_MAX && block_bytes <= GROUP_BYTES / (2 * group_blocks as u32) {
        group_blocks *= 2;
    }
    group_blocks
}

impl LandingMode {
    /// Returns the name that options and reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtConnect => "at-connect",
            Self::OnDemand => "on-demand",
        }
    }
}

/// Returns the name that reports use.
#[must_use]
pub const fn arrival_name(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "flag",
        Arrival::CheckedFlag => "checked-flag",
        Arrival::Notify => "notify",
    }
}

#[cfg(test)]
mod tests;
