//! Control messages about transfers and the connection, apart from the data. wire.md 5.

use crate::error::{ProtocolError, Reason};
use crate::wire::grant::{DestinationClaim, Grant, GrowCause, GrowReason, MapCause, PeerAccess, RemoteClaim};
use crate::wire::layout::{FlagPlace, Layout};
use crate::wire::line::Line;

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Control {
    /// Receiver to sender: the transfer has a destination, go on; by remote writes if there is a claim (wire.md 5.1).
    Cts { transfer: u64, claim: Option<DestinationClaim> },
    /// Receiver to sender: the transfer is not wanted (wire.md 5.2).
    Reject { transfer: u64, reason: Reason },
    /// The connection ends after this chunk (wire.md 5.3).
    Close { last: u64, reason: Reason },
    /// Sender to owner: a larger landing buffer is wanted (wire.md 5.4).
    Grow { request: u32, bytes: u32, reason: GrowReason },
    /// Owner to sender: an epoch is granted (wire.md 5.4).
    Grown { request: u32, grant: Grant },
    /// Owner to sender: no larger landing buffer is granted (wire.md 5.4).
    GrowRefused { request: u32, bytes_max: u32, cause: GrowCause },
    /// Owner to sender: leave this epoch, for the base under its new number (wire.md 5.5).
    Shrink { epoch: u32, base: u32 },
    /// Sender to owner: nothing more is written to this epoch (wire.md 5.5).
    Retired { epoch: u32, last: u64 },
    /// Sender to receiver: map the memory that was handed over for this place (wire.md 5.6).
    Expose { place: u8, bytes: u32, access: PeerAccess },
    /// Receiver to sender: the memory at this place is mapped, or is not, with the cause (wire.md 5.6).
    Mapped { place: u8, cause: Option<MapCause> },
    /// Sender to receiver: no chunk after this one names the place (wire.md 5.6).
    Withdrawn { place: u8, last: u64 },
    /// Receiver to sender: write a part of this transfer into the memory at this place, from the offset on (wire.md 5.7).
    Offer { transfer: u64, place: u8, offset: u32 },
}

/// Kind of a control message, by the number in word 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Receiver to sender: go on.
    Cts = 1,
    /// Receiver to sender: the transfer is not wanted.
    Reject = 2,
    /// The connection ends.
    Close = 3,
    /// Sender to owner: a larger landing buffer is wanted.
    Grow = 4,
    /// Owner to sender: an epoch is granted.
    Grown = 5,
    /// Owner to sender: no larger landing buffer is granted.
    GrowRefused = 6,
    /// Owner to sender: leave this epoch.
    Shrink = 7,
    /// Sender to owner: nothing more is written to this epoch.
    Retired = 8,
    /// Sender to receiver: map memory.
    Expose = 9,
    /// Receiver to sender: memory is mapped, or refused.
    Mapped = 10,
    /// Sender to receiver: unmap memory.
    Withdrawn = 11,
    /// Receiver to sender: write a part of a transfer into memory.
    Offer = 12,
}

/// Most CTS and OFFERs together that may be unacknowledged: one more than those after which their consumer acknowledges, so that the next goes out while the
/// acknowledgement comes. There are no more unless transfers are cancelled early, since a transfer that waits for CTS ends after it came.
const CTS_MAX: u32 = 5;

/// Number of kinds.
const KINDS: usize = 12;

/// Number of groups of kinds. The messages of a group may be unacknowledged together up to a limit. CTS and OFFER are one group, and every other kind
/// is a group of its own.
pub(crate) const GROUPS: usize = KINDS - 1;

const _: () = {
    let mut sum = 0;
    let mut index = 0;
    while index < KINDS {
        if !matches!(Kind::ALL[index], Kind::Offer) {
            sum += Kind::ALL[index].outstanding_max();
        }
        index += 1;
    }
    assert!(sum <= crate::wire::layout::control_page::MAILBOX_SLOTS, "no line is overwritten unread");
};

impl Kind {
    const ALL: [Self; KINDS] = [
        Self::Cts,
        Self::Reject,
        Self::Close,
        Self::Grow,
        Self::Grown,
        Self::GrowRefused,
        Self::Shrink,
        Self::Retired,
        Self::Expose,
        Self::Mapped,
        Self::Withdrawn,
        Self::Offer,
    ];

    /// Returns the group of this kind.
    pub(crate) const fn group(self) -> usize {
        match self {
            Self::Offer => Self::Cts as usize - 1,
            other => other as usize - 1,
        }
    }

    /// Most messages of this kind's group that may be unacknowledged. A CTS answers each long transfer, and an OFFER precedes it; the others are
    /// rare. RETIRED may end an epoch while the one that gave another back is not acknowledged.
    pub(crate) const fn outstanding_max(self) -> u32 {
        match self {
            Self::Cts | Self::Offer => CTS_MAX,
            Self::Reject
            | Self::Close
            | Self::Grow
            | Self::Grown
            | Self::GrowRefused
            | Self::Shrink
            | Self::Expose
            | Self::Mapped
            | Self::Withdrawn => 1,
            Self::Retired => 2,
        }
    }
}

impl Control {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Cts { .. } => Kind::Cts,
            Self::Reject { .. } => Kind::Reject,
            Self::Close { .. } => Kind::Close,
            Self::Grow { .. } => Kind::Grow,
            Self::Grown { .. } => Kind::Grown,
            Self::GrowRefused { .. } => Kind::GrowRefused,
            Self::Shrink { .. } => Kind::Shrink,
            Self::Retired { .. } => Kind::Retired,
            Self::Expose { .. } => Kind::Expose,
            Self::Mapped { .. } => Kind::Mapped,
            Self::Withdrawn { .. } => Kind::Withdrawn,
            Self::Offer { .. } => Kind::Offer,
        }
    }

    /// A line without its flag: the kind, and the words that it uses (wire.md 5).
    pub(crate) const fn line(&self) -> Line {
        let words: [u64; 5] = match *self {
            Self::Cts { transfer, claim: None } => [transfer, 0, 0, 0, 0],
            Self::Cts { transfer, claim: Some(DestinationClaim { memory, bytes }) } => {
                [transfer, bytes, memory.key as u64, memory.address, 0]
            }
            Self::Reject { transfer, reason } => [transfer, 0, reason.0 as u64, 0, 0],
            Self::Close { last, reason } => [0, last, reason.0 as u64, 0, 0],
            Self::Grow { request, bytes, reason } => [request as u64, bytes as u64, reason.word(), 0, 0],
            Self::Grown { request, grant: Grant { epoch, layout, claim } } => {
                let flags = flags_bits(layout.flags);
                let blocks = layout.block_bytes as u64 | (layout.block_count as u64) << 32 | flags;
                let numbers = request as u64 | (epoch as u64) << 32;
                [numbers, blocks, claim.key as u64, claim.address, 0]
            }
            Self::GrowRefused { request, bytes_max, cause } => {
                [request as u64, bytes_max as u64, cause as u64, 0, 0]
            }
            Self::Shrink { epoch, base } => [epoch as u64, base as u64, 0, 0, 0],
            Self::Retired { epoch, last } => [epoch as u64, last, 0, 0, 0],
            Self::Expose { place, bytes, access } => [place as u64, bytes as u64, access as u64, 0, 0],
            Self::Mapped { place, cause: None } => [place as u64, 0, 0, 0, 0],
            Self::Mapped { place, cause: Some(cause) } => [place as u64, 0, cause as u64, 0, 0],
            Self::Withdrawn { place, last } => [place as u64, last, 0, 0, 0],
            Self::Offer { transfer, place, offset } => [transfer, place as u64, offset as u64, 0, 0],
        };
        let [one, two, three, four, five] = words;
        Line([self.kind() as u64, one, two, three, four, five, 0, 0])
    }

    /// Reads a line that was copied out of the control page.
    ///
    /// # Errors
    /// The rule of wire.md 5 that it breaks.
    pub(crate) fn parse(line: &Line) -> Result<Self, ProtocolError> {
        let [kind, one, two, three, four, _, _, _] = line.0;
        let reason = Reason(low(three));
        let control = match kind {
            1 => {
                let memory = RemoteClaim { address: four, key: low(three) };
                let claim = (two > 0).then_some(DestinationClaim { memory, bytes: two });
                Self::Cts { transfer: one, claim }
            }
            2 => Self::Reject { transfer: one, reason },
            3 => Self::Close { last: two, reason },
            4 => Self::Grow { request: low(one), bytes: low(two), reason: GrowReason::of_word(three) },
            5 => {
                let flags = flags_of_bits(two);
                let block_count = high(two & !flags_bits(flags));
                let layout = Layout { block_bytes: low(two), block_count, flags };
                let claim = RemoteClaim { address: four, key: low(three) };
                Self::Grown { request: low(one), grant: Grant { epoch: high(one), layout, claim } }
            }
            6 => Self::GrowRefused {
                request: low(one),
                bytes_max: low(two),
                cause: GrowCause::of_word(three).ok_or(ProtocolError::ReservedNotZero)?,
            },
            7 => Self::Shrink { epoch: low(one), base: low(two) },
            8 => Self::Retired { epoch: low(one), last: two },
            9 => Self::Expose { place: lowest(one), bytes: low(two), access: access_of_word(three)? },
            10 => Self::Mapped { place: lowest(one), cause: MapCause::of_word(three)? },
            11 => Self::Withdrawn { place: lowest(one), last: two },
            12 => Self::Offer { transfer: one, place: lowest(two), offset: low(three) },
            _ => return Err(ProtocolError::UnknownControl),
        };
        // Words that this kind does not use must be zero: the same message written again gives the same words.
        if control.line().0[..7] != line.0[..7] {
            return Err(ProtocolError::ReservedNotZero);
        }
        Ok(control)
    }
}

/// Reads word 3 of EXPOSE (wire.md 5.6).
const fn access_of_word(word: u64) -> Result<PeerAccess, ProtocolError> {
    match word {
        0 => Ok(PeerAccess::Read),
        1 => Ok(PeerAccess::Write),
        _ => Err(ProtocolError::ReservedNotZero),
    }
}

/// Bits of word 2 of GROWN, beside the number of blocks (wire.md 5.4): slot lines that lie apart, and above this position the power of 2 that a group
/// has blocks.
const APART: u64 = 1 << 63;
const GROUP_SHIFT: u32 = 56;

/// Returns these bits for a place of slot lines.
const fn flags_bits(flags: FlagPlace) -> u64 {
    match flags {
        FlagPlace::Inside => 0,
        FlagPlace::Apart { group_blocks } => APART | (group_blocks.trailing_zeros() as u64) << GROUP_SHIFT,
    }
}

/// Returns the place of slot lines that these bits name.
const fn flags_of_bits(word: u64) -> FlagPlace {
    if word & APART == 0 {
        return FlagPlace::Inside;
    }
    FlagPlace::Apart { group_blocks: 1 << (word >> GROUP_SHIFT & 7) }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half of a word")]
const fn low(word: u64) -> u32 {
    word as u32
}

const fn lowest(word: u64) -> u8 {
    word.to_le_bytes()[0]
}

const fn high(word: u64) -> u32 {
    low(word >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout =
        Layout { block_bytes: 1 << 20, block_count: 65_536, flags: FlagPlace::Apart { group_blocks: 16 } };
    const CLAIM: RemoteClaim = RemoteClaim { address: u64::MAX, key: u32::MAX };

    const ALL: [Control; 18] = [
        Control::Cts { transfer: 9, claim: None },
        Control::Cts { transfer: 9, claim: Some(DestinationClaim { memory: CLAIM, bytes: 1 }) },
        Control::Reject { transfer: 9, reason: Reason(7) },
        Control::Close { last: 8, reason: Reason(7) },
        Control::Grow { request: 1, bytes: u32::MAX, reason: GrowReason::Message },
        Control::Grow { request: u32::MAX, bytes: 1, reason: GrowReason::Element(u32::MAX) },
        Control::Grow { request: 2, bytes: 1, reason: GrowReason::HeldBack },
        Control::Grown { request: 3, grant: Grant { epoch: u32::MAX, layout: LAYOUT, claim: CLAIM } },
        Control::GrowRefused { request: 3, bytes_max: 1 << 20, cause: GrowCause::Machine },
        Control::GrowRefused { request: 3, bytes_max: 0, cause: GrowCause::LargeEnough },
        Control::Shrink { epoch: 4, base: 5 },
        Control::Retired { epoch: 4, last: u64::MAX },
        Control::Expose { place: 7, bytes: u32::MAX, access: PeerAccess::Read },
        Control::Expose { place: 0, bytes: 1, access: PeerAccess::Write },
        Control::Mapped { place: 7, cause: None },
        Control::Mapped { place: 0, cause: Some(MapCause::Wrong) },
        Control::Withdrawn { place: 7, last: u64::MAX },
        Control::Offer { transfer: u64::MAX, place: 7, offset: u32::MAX },
    ];

    /// wire.md 5.4
    #[test]
    fn a_grant_names_its_groups_by_a_power_of_two() {
        let word = |flags| {
            let layout = Layout { block_bytes: 4096, block_count: 16, flags };
            Control::Grown { request: 1, grant: Grant { epoch: 1, layout, claim: CLAIM } }.line().0[2]
        };
        assert_eq!(word(FlagPlace::Inside), 0x10_0000_1000);
        for (power, group_blocks) in [1, 2, 4, 8, 16].into_iter().enumerate() {
            let expected = 0x8000_0010_0000_1000 | (power as u64) << 56;
            assert_eq!(word(FlagPlace::Apart { group_blocks }), expected);
        }
    }

    #[test]
    fn every_control_message_survives_the_line() {
        for control in ALL {
            assert_eq!(Control::parse(&control.line()), Ok(control));
        }
    }

    #[test]
    fn unknown_kinds_and_reserved_words_are_refused() {
        for kind in [0, 13, u64::MAX] {
            let mut line = ALL[0].line();
            line.0[0] = kind;
            assert_eq!(Control::parse(&line), Err(ProtocolError::UnknownControl));
        }
        for control in ALL {
            let used = if matches!(control.kind(), Kind::Grown | Kind::Cts) { 5 } else { 4 };
            for word in used..7 {
                let mut line = control.line();
                line.0[word] = 1;
                assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
            }
            if control.kind() != Kind::Grow {
                let mut line = control.line();
                line.0[3] |= 1 << 32;
                assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
            }
        }
        // A CTS without bytes has no key and no address.
        for word in [3, 4] {
            let mut line = ALL[0].line();
            line.0[word] = 1;
            assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
        }
        let mut line = ALL[2].line();
        line.0[3] = 1 << 32;
        assert_eq!(Control::parse(&line), Err(ProtocolError::ReservedNotZero));
    }
}
