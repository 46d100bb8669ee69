//! What the two ends may wish for, and how it is settled: each wish of either side counts, so that only one side needs
//! to have any; two different wishes for one thing are refused.

use crate::os::Bytes;
use core::fmt::Display;

use superpipe_core::{Arrival, Caps, Config, FlagPlace, Layout, NOTICES_MIN, Protocol};

/// Bytes of a block on shared memory where nobody wishes otherwise: within 5 % of the best from 64 KiB up, and
/// without the collapse of smaller ones where the cores are far apart (docs/architecture.md).
pub const BLOCK_BYTES: u32 = 16 << 10;

/// Bytes of a landing buffer's blocks where nobody wishes otherwise.
pub const LANDING_BYTES: u32 = 512 << 10;

/// What a fabric settles for where nobody wishes, and what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Where slot lines lie.
    pub flags: FlagPlace,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// C0: bytes that go before a CTS.
    pub c0_bytes: u32,
    /// How arrival is seen.
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
    /// How transfers cross. Default: superpipeline.
    pub protocol: Option<Protocol>,
    /// How arrival is seen. Default: what the fabric can do at least cost.
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

/// What both ends keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The policy.
    pub config: Config,
    /// The layout of both landing buffers.
    pub layout: Layout,
}

impl Tuning {
    /// Settles our wishes and the peer's.
    ///
    /// # Errors
    /// A sentence: both wish for the same thing differently, or what is wished for cannot be.
    pub fn settle(&self, theirs: &Self, terms: &Terms) -> Result<Settled, String> {
        let merged = Self {
            protocol: one("protocol", self.protocol, theirs.protocol)?,
            arrival: one("arrival", self.arrival.map(Shown), theirs.arrival.map(Shown))?.map(|shown| shown.0),
            folds: one("folds", self.folds, theirs.folds)?,
            block_bytes: one("block-bytes", self.block_bytes, theirs.block_bytes)?,
            landing_bytes: one("landing-bytes", self.landing_bytes, theirs.landing_bytes)?,
            chunk_bytes: one("chunk-bytes", self.chunk_bytes, theirs.chunk_bytes)?,
        };
        let block_bytes = merged.block_bytes.unwrap_or(terms.block_bytes);
        let landing_bytes = merged.landing_bytes.unwrap_or(LANDING_BYTES.max(block_bytes.saturating_mul(4)));
        let block_count = landing_bytes / block_bytes.max(1);
        let layout = Layout { block_bytes, block_count, flags: terms.flags };
        let defaults = Config::default();
        let config = Config {
            protocol: merged.protocol.unwrap_or(defaults.protocol),
            arrival: merged.arrival.unwrap_or(terms.arrival),
            folds: merged.folds.unwrap_or(defaults.folds),
            chunk_bytes: merged.chunk_bytes.unwrap_or(defaults.chunk_bytes),
            c0_bytes: terms.c0_bytes,
            order_asserted: terms.ordered && terms.flags == FlagPlace::Inside,
            ..defaults
        };
        let direct = terms.flags == FlagPlace::Apart;
        let caps = Caps { order_inside_write: terms.ordered, notices: terms.notices };
        config.validate(direct, caps, [layout; 2]).map_err(|error| error.to_string())?;
        Ok(Settled { config, layout })
    }

    /// Whether what was settled respects our wishes.
    ///
    /// # Errors
    /// A sentence that names the wish.
    pub fn check(&self, settled: &Settled, terms: &Terms) -> Result<(), String> {
        // A landing buffer holds whole blocks: the wish for one is met by as many as it has room for.
        let landing_bytes = self.landing_bytes.map(|bytes| bytes - bytes % settled.layout.block_bytes);
        Self { landing_bytes, ..*self }.settle(&settled.to_tuning(), terms).map(|_| ())
    }

    /// Checks the wishes by themselves.
    ///
    /// # Errors
    /// A sentence that names the field, the value and the range.
    pub fn validate(&self) -> Result<(), String> {
        // Which fabric it will be is not known yet: one that can what is wished for.
        let posted = Terms { flags: FlagPlace::Inside, notices: NOTICES_MIN, ..Terms::SHM };
        let terms = if self.arrival == Some(Arrival::Notify) { posted } else { Terms::SHM };
        self.settle(&Self::default(), &terms).map(|_| ())
    }
}

impl Settled {
    /// As wishes that leave nothing open.
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

    /// What a peer says was settled.
    ///
    /// # Errors
    /// A phrase, where that cannot be.
    pub fn from_tuning(tuning: &Tuning, terms: &Terms) -> Result<Self, &'static str> {
        tuning.settle(&Tuning::default(), terms).map_err(|_| "what it settled cannot be")
    }

    /// Refuses a landing buffer that is larger than a listener allows.
    ///
    /// # Errors
    /// A sentence with both sizes.
    pub(crate) fn allow_landing(&self, bytes_max: u32) -> Result<(), String> {
        let bytes = self.layout.bytes();
        if bytes <= bytes_max {
            return Ok(());
        }
        let (bytes, bytes_max) = (Bytes(bytes.into()), Bytes(bytes_max.into()));
        Err(format!("a landing buffer of {bytes} is more than the {bytes_max} that the listener allows"))
    }
}

/// The one wish of two.
fn one<T: PartialEq + Display>(name: &str, ours: Option<T>, theirs: Option<T>) -> Result<Option<T>, String> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(format!(
            "the two ends disagree: {name} is {ours} here and {theirs} at the peer; set it on one side only"
        )),
        (ours, theirs) => Ok(ours.or(theirs)),
    }
}

#[derive(PartialEq)]
struct Shown(Arrival);

impl Display for Shown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(arrival_name(self.0))
    }
}

/// What reports call it.
#[must_use]
pub const fn arrival_name(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Flag => "flag",
        Arrival::CheckedFlag => "checked-flag",
        Arrival::Notify => "notify",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_is_enough() {
        let wish = Tuning { block_bytes: Some(4096), folds: Some(2), ..Tuning::default() };
        let a = wish.settle(&Tuning::default(), &Terms::SHM);
        let b = Tuning::default().settle(&wish, &Terms::SHM);
        assert_eq!(a, b);
        assert_eq!(a.map(|s| s.layout.block_bytes), Ok(4096));
    }

    #[test]
    fn notify_is_a_wish_that_some_fabrics_can_grant() {
        let wish = Tuning { arrival: Some(Arrival::Notify), ..Tuning::default() };
        assert_eq!(wish.validate(), Ok(()));
        let shm = wish.settle(&Tuning::default(), &Terms::SHM).map(|_| ());
        assert_eq!(
            shm,
            Err("stores that go direct cannot be notified; use flags or checked flags".to_owned())
        );
        let posted = Terms { flags: FlagPlace::Inside, ..Terms::SHM };
        assert!(wish.settle(&Tuning::default(), &posted).is_err_and(|text| text.contains("keeps 0;")));
        let posted = Terms { notices: NOTICES_MIN, ..posted };
        assert_eq!(wish.settle(&Tuning::default(), &posted).map(|s| s.config.arrival), Ok(Arrival::Notify));
    }

    #[test]
    fn two_different_wishes_are_refused_with_both_values() {
        let of = |folds| Tuning { folds: Some(folds), ..Tuning::default() };
        let text = of(2).settle(&of(3), &Terms::SHM).unwrap_err();
        assert_eq!(text, "the two ends disagree: folds is 2 here and 3 at the peer; set it on one side only");
        assert!(of(2).settle(&of(2), &Terms::SHM).is_ok());
    }

    #[test]
    fn what_is_settled_survives_the_wire() {
        let wish =
            Tuning { chunk_bytes: Some(100_000), protocol: Some(Protocol::Pipeline), ..Tuning::default() };
        let settled = wish.settle(&Tuning::default(), &Terms::SHM).unwrap();
        assert_eq!(Settled::from_tuning(&settled.to_tuning(), &Terms::SHM), Ok(settled));
        assert_eq!(wish.check(&settled, &Terms::SHM), Ok(()));
        let wish = Tuning { landing_bytes: Some(100_000), ..Tuning::default() };
        let settled = Tuning::default().settle(&wish, &Terms::SHM).unwrap();
        assert_eq!(settled.layout.block_count, 6);
        assert_eq!(wish.check(&settled, &Terms::SHM), Ok(()));
    }

    #[test]
    fn absurd_wishes_are_refused() {
        for block_bytes in [1, 100, 64, 2 << 20, u32::MAX] {
            assert!(Tuning { block_bytes: Some(block_bytes), ..Tuning::default() }.validate().is_err());
        }
        assert!(Tuning { landing_bytes: Some(1 << 31), ..Tuning::default() }.validate().is_err());
        assert!(Tuning { landing_bytes: Some(100), ..Tuning::default() }.validate().is_err());
    }
}
