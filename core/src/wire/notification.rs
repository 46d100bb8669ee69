//! Notifications, which each posted write carries in notify mode. wire.md 3.4.
//!
//! ```text
//! bits 29, 28  1 chunk, 2 control message, 3 acknowledgement
//! bits 27 - 0  low bits of the sequence of the chunk or of the control message; of an acknowledgement, of the count of
//!              notifications that its writer has taken: the credits that it gives back
//! ```

use crate::error::ProtocolError;

/// Fewest receives for notify mode. Credits go back by halves, and one is reserved, so half of them must be more than one.
pub const NOTIFICATIONS_MIN: u16 = 4;

const NUMBER_BITS: u32 = 28;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Notification of a write: 30 bits (the fabric keeps the top two for itself).
///
/// A write with immediate data carries it in the immediate (InfiniBand, RoCE), a write without is followed by a SEND
/// (iWARP); either is consumed by a receive that was posted ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notification(pub u32);

/// Subject of a notification: the write that it belongs to, with the number of which it carries the low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Chunk(u64),
    Control(u64),
    Ack(u64),
}

/// Subject of a notification of the peer, with the low bits of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    Chunk(LowBits),
    Control(LowBits),
    Ack(LowBits),
}

impl Notification {
    pub(crate) const fn of(subject: Subject) -> Self {
        let (kind, number) = match subject {
            Subject::Chunk(sequence) => (1, sequence),
            Subject::Control(sequence) => (2, sequence),
            Subject::Ack(taken) => (3, taken),
        };
        Self(kind << NUMBER_BITS | LowBits::of(number).0)
    }

    /// Reads a notification of the peer.
    ///
    /// # Errors
    /// wire.md 3.4: an unknown kind.
    pub(crate) fn parse(self) -> Result<Notified, ProtocolError> {
        let low = LowBits::of(u64::from(self.0));
        planted!(NotificationOfAnother => if self.0 >> NUMBER_BITS == 2 { return Ok(Notified::Chunk(low)); });
        match self.0 >> NUMBER_BITS {
            1 => Ok(Notified::Chunk(low)),
            2 => Ok(Notified::Control(low)),
            3 => Ok(Notified::Ack(low)),
            _ => Err(ProtocolError::NotificationWrong),
        }
    }
}

/// The low bits of a sequence or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LowBits(u32);

impl LowBits {
    pub(crate) const fn of(number: u64) -> Self {
        Self((number & NUMBER_MASK) as u32)
    }

    /// Checks that it is of the sequence `next`, and that `ahead` outstanding ones are not more than `ahead_max`.
    pub(crate) fn check(self, next: u64, ahead: u64, ahead_max: u64) -> Result<(), ProtocolError> {
        if !self.is_of(next) || ahead > ahead_max { Err(ProtocolError::NotificationWrong) } else { Ok(()) }
    }

    fn is_of(self, number: u64) -> bool {
        planted!(NotificationOfAnother => return true);
        self == Self::of(number)
    }

    /// Returns by how much the number with these low bits is ahead of `known`.
    pub(crate) fn beyond(self, known: u64) -> u64 {
        u64::from(self.0).wrapping_sub(known) & NUMBER_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_next_one_and_not_too_far_ahead() {
        let wrong = Err(ProtocolError::NotificationWrong);
        assert_eq!(LowBits::of(7).check(7, 1, 1), Ok(()));
        assert_eq!(LowBits::of(1 << NUMBER_BITS | 7).check(7, 1, 1), Ok(()));
        assert_eq!(LowBits::of(8).check(7, 1, 1), wrong);
        assert_eq!(LowBits::of(7).check(7, 2, 1), wrong);
    }

    #[test]
    fn a_kind_that_is_none_is_wrong() {
        assert_eq!(Notification(5).parse(), Err(ProtocolError::NotificationWrong));
        assert_eq!(Notification(1 << 30).parse(), Err(ProtocolError::NotificationWrong));
        assert_eq!(Notification(1 << 28 | 5).parse(), Ok(Notified::Chunk(LowBits(5))));
    }
}
