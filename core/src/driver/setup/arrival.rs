//! Choice of the arrival mode of a connection over RDMA, with its reason. A promise that a device does not make is not relied on,
//! unless both users say so. wire.md 10.2.

use super::tuning::{BLOCK_BYTES, Disagreement, Terms, Wish};
use crate::{Arrival, FlagPlace};

/// Bytes that can be copied during a round trip of tens of microseconds.
const C0_BYTES: u32 = 64 << 10;

/// Capabilities of one end, and its wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// The bytes of a write that arrives here become visible in order.
    pub keeps_order: bool,
    /// Its CRC32C is fast enough to be no loss.
    pub has_fast_crc: bool,
    /// The mode that its user wishes for.
    pub wish: Option<Arrival>,
}

/// Reason why a mode was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Why {
    /// Both devices promise order inside a write.
    Ordered = 1,
    /// A user wishes it.
    Wished = 2,
    /// A device promises no order; both users say that it keeps it.
    Asserted = 3,
    /// A device promises no order; both CPUs check faster than they copy.
    FastCrc = 4,
    /// A device promises no order.
    Unordered = 5,
}

impl Why {
    const ALL: [Self; 5] = [Self::Ordered, Self::Wished, Self::Asserted, Self::FastCrc, Self::Unordered];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == number)
    }

    /// Returns the reason for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ordered => "both devices promise order inside a write",
            Self::Wished => "asked for",
            Self::Asserted => "asked for at both ends, though a device promises no order inside a write",
            Self::FastCrc => {
                "a device promises no order inside a write, and both CPUs check faster than they copy"
            }
            Self::Unordered => "a device promises no order inside a write",
        }
    }
}

/// Settles the mode. A peer can only make it stricter: plain flags need both devices' promise, or both users' word.
///
/// # Errors
/// The wishes differ, or one end wishes for what the other cannot have.
pub(super) fn settle(ours: Means, theirs: Means) -> Result<(Arrival, Why), Disagreement> {
    let wish = match (ours.wish, theirs.wish) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            let (ours, theirs) = (Wish::Arrival(ours), Wish::Arrival(theirs));
            return Err(Disagreement::Wishes { name: "arrival", listening: ours, connecting: theirs });
        }
        (ours, theirs) => ours.or(theirs),
    };
    let is_ordered = ours.keeps_order && theirs.keeps_order;
    match wish {
        Some(Arrival::Flag) if is_ordered => Ok((Arrival::Flag, Why::Wished)),
        Some(Arrival::Flag) => {
            let may = |end: Means| end.keeps_order || end.wish == Some(Arrival::Flag);
            if may(ours) && may(theirs) {
                return Ok((Arrival::Flag, Why::Asserted));
            }
            Err(Disagreement::FlagAtOneEnd)
        }
        Some(mode) => Ok((mode, Why::Wished)),
        None if is_ordered => Ok((Arrival::Flag, Why::Ordered)),
        None if ours.has_fast_crc && theirs.has_fast_crc => Ok((Arrival::CheckedFlag, Why::FastCrc)),
        None => Ok((UNORDERED, Why::Unordered)),
    }
}

/// The mode where nothing is promised.
const UNORDERED: Arrival = Arrival::Notify;

/// Terms of this fabric. `mode` is the result of [`settle`], which is the same at both ends.
pub(super) const fn terms(mode: Arrival, notices: u16) -> Terms {
    Terms {
        flags: FlagPlace::Inside,
        block_bytes: BLOCK_BYTES,
        c0_bytes: C0_BYTES,
        arrival: mode,
        ordered: matches!(mode, Arrival::Flag),
        notices,
    }
}

/// Checks that our own wishes are respected by what the peer says was settled.
///
/// # Errors
/// The wishes differ, or the mode is laxer than what this end would have settled.
pub(super) fn check(ours: Means, theirs: Means, said: Arrival) -> Result<(), Disagreement> {
    match settle(ours, theirs) {
        // Stricter than what we would have settled is the peer's right.
        Ok((mode, _)) if mode == said || ours.wish.is_none() && said != Arrival::Flag => Ok(()),
        Ok((mode, _)) => Err(Disagreement::Mode { said, due: mode }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    const NOTHING: Means = Means { keeps_order: false, has_fast_crc: false, wish: None };
    const ORDERED: Means = Means { keeps_order: true, ..NOTHING };

    fn wish(mode: Arrival, of: Means) -> Means {
        Means { wish: Some(mode), ..of }
    }

    #[test]
    fn flags_need_both_devices() {
        assert_eq!(settle(ORDERED, ORDERED), Ok((Arrival::Flag, Why::Ordered)));
        assert_eq!(settle(ORDERED, NOTHING), Ok((UNORDERED, Why::Unordered)));
        let fast = Means { has_fast_crc: true, ..NOTHING };
        assert_eq!(settle(fast, fast), Ok((Arrival::CheckedFlag, Why::FastCrc)));
        assert_eq!(settle(fast, NOTHING), Ok((UNORDERED, Why::Unordered)));
    }

    #[test]
    fn or_the_word_of_whoever_has_no_promise() {
        let flag = |of| wish(Arrival::Flag, of);
        assert_eq!(settle(flag(NOTHING), flag(NOTHING)), Ok((Arrival::Flag, Why::Asserted)));
        assert_eq!(settle(flag(NOTHING), ORDERED), Ok((Arrival::Flag, Why::Asserted)));
        for (ours, theirs) in [(flag(ORDERED), NOTHING), (NOTHING, flag(NOTHING))] {
            let text = settle(ours, theirs).unwrap_err().to_string();
            assert!(text.contains("wish for flag at both ends"), "{text}");
        }
    }

    #[test]
    fn a_peer_makes_it_stricter_and_never_laxer() {
        let checked = wish(Arrival::CheckedFlag, ORDERED);
        assert_eq!(settle(checked, ORDERED), Ok((Arrival::CheckedFlag, Why::Wished)));
        assert!(settle(checked, wish(Arrival::Flag, ORDERED)).is_err());
        assert_eq!(check(ORDERED, ORDERED, Arrival::CheckedFlag), Ok(()));
        assert!(check(NOTHING, ORDERED, Arrival::Flag).is_err());
        assert!(check(wish(Arrival::Flag, ORDERED), ORDERED, Arrival::CheckedFlag).is_err());
    }

    #[test]
    fn reasons_survive_the_way() {
        for why in Why::ALL {
            assert_eq!(Why::from_number(why as u8), Some(why));
        }
        assert_eq!((Why::from_number(0), Why::from_number(6)), (None, None));
    }
}
