//! Policy of an endpoint, and the counts from which a connection starts.

use core::fmt;

use crate::copying::CopyKernel;
use crate::fabric::Caps;
use crate::plan::Terms;
use crate::protocol::{Protocol, Q_ONE};
use crate::wire::arrival::Arrival;
use crate::wire::header::INLINE_BYTES_MAX;
use crate::wire::layout::{FlagPlace, Layout};
use crate::wire::notification::NOTIFICATIONS_MIN;

/// When the first chunk of a message longer than C0, or of a stream, is copied and sent by the superpipeline. Denis, section 4; wire.md 4.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FirstChunk {
    /// It is the RTS: C0 bytes leave at once, and the others after the CTS. The optimistic start.
    #[default]
    WithRts,
    /// It is copied into blocks while RTS and CTS are under way, and sent after the CTS: the overlap of Denis, which hides up to a round trip of
    /// the copy. Bytes that were copied so count as taken. They leave with a later call of this end, once the CTS is here, or are dropped with a transfer
    /// that is cancelled before: the only way in which what was taken needs a further call.
    DuringRendezvous,
    /// It is copied and sent after the CTS.
    AfterCts,
    /// It is the RTS, and the others follow it without a CTS: no rendezvous. Of messages of the superpipeline protocol only, since remote writes need a
    /// CTS.
    WithoutCts,
}

impl FirstChunk {
    /// Every value.
    pub const ALL: [Self; 4] = [Self::WithRts, Self::DuringRendezvous, Self::AfterCts, Self::WithoutCts];

    /// Returns the name that reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithRts => "with-rts",
            Self::DuringRendezvous => "during-rendezvous",
            Self::AfterCts => "after-cts",
            Self::WithoutCts => "without-cts",
        }
    }
}

impl fmt::Display for FirstChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The policy of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Protocol of transfers. Default: superpipeline.
    pub protocol: Protocol,
    /// Arrival mode, which both ends must agree on. Default: flag.
    pub arrival: Arrival,
    /// C0: bytes that go with the RTS, before a CTS, since a round trip takes as long as their copy. A message up to this size needs no
    /// CTS. Default 12 KiB (Denis, section 4); the handshake sets 64 KiB on both fabrics of the library.
    pub c0_bytes: u32,
    /// A message of this length and more goes by one copy if the peer has mapped its memory (wire.md 4.9), also where it is not longer than C0: 1
    /// to 2^30. Default 4 KiB: there it takes 0.4 to 0.6 of the time that the ring takes, at 2 KiB about as long between near cores.
    pub one_copy_bytes: u32,
    /// q, the growth of chunks, in 1/256: 256 to 1024. Default 384, which is 1.5 (Denis, section 4).
    pub growth_q8: u32,
    /// When the first chunk of a message longer than C0 is copied and sent. Default: with the RTS.
    pub first_chunk: FirstChunk,
    /// The receiver copies a chunk out block by block while it arrives. If false, once all of it is there. Default true. The protocols
    /// copy and pipeline copy whole chunks in any case.
    pub sub_blocks: bool,
    /// Bytes of a chunk of the pipeline protocol, and, unless 0, of the largest chunk of the superpipeline. Default 0: the pipeline
    /// uses C_opt (Denis, equation 3), and 64 KiB for a stream; the superpipeline is limited by the fold only.
    pub chunk_bytes: u32,
    /// g · B_copy: bytes that a core copies during the gap between two chunks, with which the pipeline protocol computes
    /// C_opt = √(L · g · B_copy / 2) (Denis, equation 3): 1 to 2^20. Default 2 KiB: 0.2 µs at 10 GB/s.
    pub gap_bytes: u32,
    /// Folds of the landing buffer or, with a window, of that, 1 to 255: a chunk takes at most one of them. Default 3 (Denis: triple buffering).
    pub folds: u8,
    /// Chunk i of a transfer also waits for the acknowledgement of chunk i - 2, as Denis does, and not only for free blocks. Messages that are sent at once
    /// wait for free blocks only. Default false.
    pub triple_buffer: bool,
    /// Messages of this length and more are copied out with streaming stores. Default 32 MiB. Where kernels are chosen, classes of messages
    /// ([`size_class_bytes`](crate::size_class_bytes)) of this length and more begin with them.
    pub streaming_bytes: u64,
    /// Fewest bytes of a message whose kernels are chosen, and of a group whose copy may be timed: 1 to 2^30. Default 4 KiB: the copy of less takes no
    /// longer than the clock is read.
    pub timed_bytes: u32,
    /// Kernel of all copies into blocks, and of those out of them, of messages of that length and more. Default `None`: the kernels are chosen while data
    /// flow (wire.md 4.12). If the fabric lacks this kernel, kernels are chosen as with `None`.
    pub copy_in: Option<CopyKernel>,
    /// See [`copy_in`](Self::copy_in).
    pub copy_out: Option<CopyKernel>,
    /// Bytes of the peer's landing buffer that this end cycles through ([`Endpoint::set_window`](crate::Endpoint::set_window)). Default [`u32::MAX`], all;
    /// `None`: the window is chosen while data flow (wire.md 4.11). Direct store only. Not checked: it is rounded down to whole blocks, at least what
    /// holds a message of C0 bytes wherever that begins, at most the ring.
    pub window_bytes: Option<u32>,
    /// Smallest window that is chosen: 1 to 2^30. Default 128 KiB: a lap of 32 blocks, in eight groups, of the default size. Smaller ones
    /// were not measured to gain (docs/performance.md, "The bare ring at each distance"), and a sender would wait for its receiver after
    /// few groups.
    pub least_window_bytes: u32,
    /// The user asserts that writes become visible in order, although the device does not promise it. Default false.
    pub order_asserted: bool,
    /// Bytes of the small landing buffer with which a connection by the provision protocol begins: 100 to 2,000.
    /// [`small_layout`] rounds them to a layout. Default 1,024: 8 blocks of 128 bytes, so that whatever goes through it at once is one
    /// packet at an MTU of 1,024, which is what RoCE has in Ethernet frames of 1,500 bytes. Each end holds as much, and as much again for
    /// its image of the peer's.
    pub small_buffer_bytes: u32,
    /// Threshold of the provision protocol: a message larger than this, or with a larger element in its I/O vector, waits for a larger
    /// landing buffer. 40 (a message in a line needs no buffer) up to what the small buffer holds at once. Default 904, which is what the
    /// default small buffer holds: a smaller threshold would provision memory for messages that fit, a larger one fold messages that do
    /// not.
    pub threshold_bytes: u32,
}

/// Range of [`Config::small_buffer_bytes`].
const SMALL_BUFFER_BYTES: [u32; 2] = [100, 2000];

/// Bytes of a block of the small landing buffer, the smallest possible: a short message takes one block, so small blocks hold most.
const SMALL_BLOCK_BYTES: u32 = 128;

/// Returns the layout of the small landing buffer for `bytes` bytes: blocks of 128 bytes with their slot lines inside, as many as fit, and
/// at least the two that every ring has. So it has 256, 384, .. or 1,920 bytes, all of which are blocks.
#[must_use]
pub const fn small_layout(bytes: u32) -> Layout {
    let blocks = bytes / SMALL_BLOCK_BYTES;
    let block_count = if blocks < 2 { 2 } else { blocks };
    Layout { block_bytes: SMALL_BLOCK_BYTES, block_count, flags: FlagPlace::Inside }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            protocol: Protocol::Superpipeline,
            arrival: Arrival::Flag,
            c0_bytes: 12 << 10,
            one_copy_bytes: 4 << 10,
            growth_q8: Q_ONE * 3 / 2,
            first_chunk: FirstChunk::WithRts,
            sub_blocks: true,
            chunk_bytes: 0,
            gap_bytes: 2 << 10,
            folds: 3,
            triple_buffer: false,
            streaming_bytes: 32 << 20,
            timed_bytes: 4 << 10,
            copy_in: None,
            copy_out: None,
            window_bytes: Some(u32::MAX),
            least_window_bytes: 128 << 10,
            order_asserted: false,
            small_buffer_bytes: 1024,
            threshold_bytes: 904,
        }
    }
}

impl Config {
    /// Returns the terms of a planner of the messages into a landing buffer of so many bytes; `is_direct`: by direct store. `None` if these are never planned, by eager, copy, pipeline and provision.
    #[must_use]
    pub fn planning_terms(&self, is_direct: bool, landing_bytes: u64) -> Option<Terms> {
        self.protocol.may_be_planned().then(|| Terms {
            is_direct,
            landing_bytes,
            folds: self.folds,
            c0_bytes: self.c0_bytes,
            one_copy_bytes: self.one_copy_bytes,
            has_zero_copy: self.protocol.is_zero_copy(),
            // Split messages go past the planner.
            has_split: false,
            asks_cts: self.first_chunk != FirstChunk::WithoutCts,
            is_default: self.protocol == Protocol::Auto,
        })
    }

    /// Returns true if a message longer than C0, or a stream, asks for a CTS.
    pub(crate) const fn asks_cts(&self) -> bool {
        match self.protocol {
            Protocol::Eager | Protocol::Provision => false,
            Protocol::Superpipeline | Protocol::Auto => !matches!(self.first_chunk, FirstChunk::WithoutCts),
            Protocol::Copy | Protocol::Pipeline | Protocol::Register | Protocol::RegisterCached => true,
        }
    }

    /// Returns true if the receiver copies a chunk only once all of its blocks have arrived.
    pub(crate) const fn copies_whole_chunks(&self) -> bool {
        !self.sub_blocks || matches!(self.protocol, Protocol::Copy | Protocol::Pipeline)
    }

    /// Checks every field against its range, and `layouts`, those of the two landing buffers, against the fabric; `direct`: it stores directly.
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
        field("one_copy_bytes", u64::from(self.one_copy_bytes), 1, 1 << 30)?;
        field("timed_bytes", u64::from(self.timed_bytes), 1, 1 << 30)?;
        field("least_window_bytes", u64::from(self.least_window_bytes), 1, 1 << 30)?;
        field("growth_q8", u64::from(self.growth_q8), u64::from(Q_ONE), u64::from(4 * Q_ONE))?;
        field("chunk_bytes", u64::from(self.chunk_bytes), 0, 1 << 30)?;
        field("gap_bytes", u64::from(self.gap_bytes), 1, 1 << 20)?;
        field("folds", u64::from(self.folds), 1, 255)?;
        let [least, most] = SMALL_BUFFER_BYTES.map(u64::from);
        field("small_buffer_bytes", u64::from(self.small_buffer_bytes), least, most)?;
        let small = small_layout(self.small_buffer_bytes);
        let held = u64::from(small.capacity(small.block_count));
        field("threshold_bytes", u64::from(self.threshold_bytes), INLINE_BYTES_MAX as u64, held)?;
        for layout in layouts {
            layout.validate().map_err(ConfigError::Layout)?;
            if layout.flags != FlagPlace::Inside && !direct {
                return Err(ConfigError::ApartNeedsDirectStore);
            }
        }
        let ordered = direct || caps.order_inside_write || self.order_asserted;
        match self.arrival {
            Arrival::Flag if !ordered => Err(ConfigError::FlagNeedsOrder),
            Arrival::Notify if direct => Err(ConfigError::NotifyNeedsPostedWrites),
            Arrival::Notify if caps.notifications_max < NOTIFICATIONS_MIN => {
                Err(ConfigError::NotifyNeedsReceives { receives: caps.notifications_max })
            }
            Arrival::Flag | Arrival::CheckedFlag | Arrival::Notify => Ok(()),
        }
    }
}

/// Invalid configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A field is out of its range.
    Range {
        /// The field.
        name: &'static str,
        /// The value.
        value: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// The layout of a landing buffer is invalid.
    Layout(crate::wire::layout::BadLayout),
    /// Slot lines that lie apart need direct store.
    ApartNeedsDirectStore,
    /// Plain flags need order inside a write.
    FlagNeedsOrder,
    /// Notify mode needs posted writes, and this fabric stores directly.
    NotifyNeedsPostedWrites,
    /// The fabric keeps too few receives posted for notifications.
    NotifyNeedsReceives {
        /// Receives that it keeps posted; 0: it has no notifications.
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
            Self::ApartNeedsDirectStore => f.write_str("slot lines that lie apart need direct stores; use slot lines inside the blocks"),
            Self::FlagNeedsOrder => f.write_str(
                "plain flags need order inside a write, which this device does not promise; use checked flags or notify",
            ),
            Self::NotifyNeedsPostedWrites => {
                f.write_str("stores that go direct cannot be notified; use flags or checked flags")
            }
            Self::NotifyNeedsReceives { receives } => write!(
                f,
                "notify mode needs {NOTIFICATIONS_MIN} posted receives, and this device keeps {receives}; use checked flags"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Counts from which both ends start. Other values than the default let tests cross the wrap of a count.
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
    /// Keepalives sent before the first.
    pub keepalives: u64,
    /// Notifications sent and taken before the first.
    pub notifications: u64,
}

impl Default for Origin {
    fn default() -> Self {
        Self { sequence: 1, blocks: 0, controls: 1, transfers: 0, keepalives: 0, notifications: 0 }
    }
}
