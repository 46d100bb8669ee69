//! Choice of the arrival mode of a connection over RDMA, with its reason. Order that a device does not promise is used only if both
//! users assert it. wire.md 10.2.

use super::tuning::{BLOCK_BYTES, Defaults, Disagreement, Proposal};
use crate::{Arrival, FlagPlace};

/// C0: the bytes that can be copied during a round trip of tens of microseconds.
const C0_BYTES: u32 = 64 << 10;

/// Capabilities of one end, and its proposed mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalCaps {
    /// The bytes of a write that arrives here become visible in order.
    pub keeps_order: bool,
    /// The CPU checks faster than it copies.
    pub has_fast_crc: bool,
    /// Mode that its user proposes.
    pub proposed: Option<Arrival>,
}

/// Reason for an arrival mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ArrivalReason {
    /// Both devices promise order inside a write.
    Ordered = 1,
    /// A user asked for it.
    Requested = 2,
    /// A device promises no order, but both users assert it.
    Asserted = 3,
    /// A device promises no order, and both CPUs check faster than they copy.
    FastCrc = 4,
    /// A device promises no order.
    Unordered = 5,
}

impl ArrivalReason {
    const ALL: [Self; 5] = [Self::Ordered, Self::Requested, Self::Asserted, Self::FastCrc, Self::Unordered];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == number)
    }

    /// Returns the reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ordered => "both devices promise order inside a write",
            Self::Requested => "asked for",
            Self::Asserted => "asked for at both ends, though a device promises no order inside a write",
            Self::FastCrc => {
                "a device promises no order inside a write, and both CPUs check faster than they copy"
            }
            Self::Unordered => "a device promises no order inside a write",
        }
    }
}

/// Negotiates the mode. A peer can only make it stricter: plain flags need the promise of both devices, or the assertion of both users.
///
/// # Errors
/// The ends propose different modes, or one that the other does not support.
pub(super) fn negotiate(
    ours: ArrivalCaps,
    theirs: ArrivalCaps,
) -> Result<(Arrival, ArrivalReason), Disagreement> {
    let proposed = match (ours.proposed, theirs.proposed) {
        (Some(ours), Some(theirs)) if ours != theirs => {
            let (ours, theirs) = (Proposal::Arrival(ours), Proposal::Arrival(theirs));
            return Err(Disagreement::Proposals { name: "arrival", listening: ours, connecting: theirs });
        }
        (ours, theirs) => ours.or(theirs),
    };
    let is_ordered = ours.keeps_order && theirs.keeps_order;
    match proposed {
        Some(Arrival::Flag) if is_ordered => Ok((Arrival::Flag, ArrivalReason::Requested)),
        Some(Arrival::Flag) => {
            let may = |end: ArrivalCaps| end.keeps_order || end.proposed == Some(Arrival::Flag);
            if may(ours) && may(theirs) {
                return Ok((Arrival::Flag, ArrivalReason::Asserted));
            }
            Err(Disagreement::FlagAtOneEnd)
        }
        Some(mode) => Ok((mode, ArrivalReason::Requested)),
        None if is_ordered => Ok((Arrival::Flag, ArrivalReason::Ordered)),
        None if ours.has_fast_crc && theirs.has_fast_crc => {
            Ok((Arrival::CheckedFlag, ArrivalReason::FastCrc))
        }
        None => Ok((UNORDERED, ArrivalReason::Unordered)),
    }
}

/// Mode for devices that promise no order.
const UNORDERED: Arrival = Arrival::Notify;

/// Returns the defaults of posted writes. `mode` is the result of [`negotiate`], which is the same at both ends.
pub(super) const fn defaults(mode: Arrival) -> Defaults {
    Defaults {
        flags: FlagPlace::Inside,
        block_bytes: BLOCK_BYTES,
        c0_bytes: C0_BYTES,
        arrival: mode,
        ordered: matches!(mode, Arrival::Flag),
        has_receives: true,
    }
}

/// Checks that the mode that the peer chose respects this end's proposal.
///
/// # Errors
/// The ends propose different modes, or the mode is laxer than what this end would have chosen.
pub(super) fn check(ours: ArrivalCaps, theirs: ArrivalCaps, said: Arrival) -> Result<(), Disagreement> {
    match negotiate(ours, theirs) {
        // The peer may choose a stricter mode than this end would.
        Ok((mode, _)) if mode == said || ours.proposed.is_none() && said != Arrival::Flag => Ok(()),
        Ok((mode, _)) => Err(Disagreement::Mode { said, due: mode }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    const NOTHING: ArrivalCaps = ArrivalCaps { keeps_order: false, has_fast_crc: false, proposed: None };
    const ORDERED: ArrivalCaps = ArrivalCaps { keeps_order: true, ..NOTHING };

    fn proposed(mode: Arrival, of: ArrivalCaps) -> ArrivalCaps {
        ArrivalCaps { proposed: Some(mode), ..of }
    }

    #[test]
    fn flags_need_both_devices() {
        assert_eq!(negotiate(ORDERED, ORDERED), Ok((Arrival::Flag, ArrivalReason::Ordered)));
        assert_eq!(negotiate(ORDERED, NOTHING), Ok((UNORDERED, ArrivalReason::Unordered)));
        let fast = ArrivalCaps { has_fast_crc: true, ..NOTHING };
        assert_eq!(negotiate(fast, fast), Ok((Arrival::CheckedFlag, ArrivalReason::FastCrc)));
        assert_eq!(negotiate(fast, NOTHING), Ok((UNORDERED, ArrivalReason::Unordered)));
    }

    #[test]
    fn unpromised_order_needs_both_users() {
        let flag = |of| proposed(Arrival::Flag, of);
        assert_eq!(negotiate(flag(NOTHING), flag(NOTHING)), Ok((Arrival::Flag, ArrivalReason::Asserted)));
        assert_eq!(negotiate(flag(NOTHING), ORDERED), Ok((Arrival::Flag, ArrivalReason::Asserted)));
        for (ours, theirs) in [(flag(ORDERED), NOTHING), (NOTHING, flag(NOTHING))] {
            let text = negotiate(ours, theirs).unwrap_err().to_string();
            assert!(text.contains("set flag at both ends"), "{text}");
        }
    }

    #[test]
    fn a_peer_makes_it_stricter_and_never_laxer() {
        let checked = proposed(Arrival::CheckedFlag, ORDERED);
        assert_eq!(negotiate(checked, ORDERED), Ok((Arrival::CheckedFlag, ArrivalReason::Requested)));
        assert!(negotiate(checked, proposed(Arrival::Flag, ORDERED)).is_err());
        assert_eq!(check(ORDERED, ORDERED, Arrival::CheckedFlag), Ok(()));
        assert!(check(NOTHING, ORDERED, Arrival::Flag).is_err());
        assert!(check(proposed(Arrival::Flag, ORDERED), ORDERED, Arrival::CheckedFlag).is_err());
    }

    #[test]
    fn reasons_survive_the_packet() {
        for why in ArrivalReason::ALL {
            assert_eq!(ArrivalReason::from_number(why as u8), Some(why));
        }
        assert_eq!((ArrivalReason::from_number(0), ArrivalReason::from_number(6)), (None, None));
    }
}
