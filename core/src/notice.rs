//! Notify mode: every write that is posted has a notification, which says what was written, and is counted against the
//! receives that the peer keeps posted. wire.md 3.4.
//!
//! ```text
//! bits 29, 28  1 chunk, 2 control message, 3 acknowledgement
//! bits 27 - 0  low bits of the sequence of the chunk or of the control message; of an acknowledgement, of the count of
//!              notifications that its writer has taken: the credits that it gives back
//! ```
//!
//! One credit is kept for acknowledgements that give back half of the peer's, and those go out as soon as there is so much to give
//! back. So neither end can be out of credits while the other owes it some, and acknowledgements of acknowledgements get
//! fewer and fewer.

use core::hash::{Hash, Hasher};

use crate::arrival::Arrival;
use crate::error::ProtocolError;
use crate::fabric::{Fabric, Notice, SqFull, WrId};
use crate::planted::{Bug, is_planted};

/// The fewest receives that notify mode can do with: half of them must be more than one.
pub const NOTICES_MIN: u16 = 4;

const NUMBER_BITS: u32 = 28;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What a notification is of, with the number that it carries the low bits of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Chunk(u64),
    Control(u64),
    Ack,
}

/// What a peer's notification said, with the low bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Chunk(Low),
    Control(Low),
    Ack(Low),
}

/// The low bits of a sequence or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Low(u32);

impl Low {
    const fn of(number: u64) -> Self {
        Self((number & NUMBER_MASK) as u32)
    }

    /// That it is the next sequence, and that so many are not too many.
    pub(crate) fn check(self, next: u64, ahead: u64, ahead_max: u64) -> Result<(), ProtocolError> {
        let wrong = self != Self::of(next) && !is_planted(Bug::NoticeOfAnother);
        if wrong || ahead > ahead_max { Err(ProtocolError::NoticeWrong) } else { Ok(()) }
    }
}

/// The posting of writes, and the credits for their notifications. In the other modes nothing is notified, and nothing
/// counted.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    arrival: Arrival,
    /// Receives that each end keeps posted; 0: nothing is notified.
    limit: u64,
    /// Notifications sent, and how many of them the peer says that it took.
    sent: u64,
    returned: u64,
    /// The peer's that were taken, and how many of them it was told of.
    taken: u64,
    told: u64,
}

impl Notices {
    pub(crate) const fn new(arrival: Arrival, receives: u16, first: u64) -> Self {
        let limit = if matches!(arrival, Arrival::Notify) { receives as u64 } else { 0 };
        Self { arrival, limit, sent: first, returned: first, taken: first, told: first }
    }

    /// How this end, as the peer, flags what it writes.
    #[inline]
    pub(crate) const fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Notifications that can come in one round.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Posts a write, with its notification if there has to be one; [`SqFull`] also where there is no credit for that.
    #[expect(clippy::too_many_arguments, reason = "those of Fabric::post_write, and what it is")]
    #[inline]
    pub(crate) fn post<F: Fabric>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        to: F::Remote,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
        subject: Subject,
    ) -> Result<(), SqFull> {
        if self.limit == 0 {
            return fabric.post_write(link, to, at, bytes, wr, None);
        }
        let under_way = self.sent.wrapping_sub(self.returned);
        let is_return = matches!(subject, Subject::Ack) && self.owes_half();
        let credits = self.limit - u64::from(!is_return);
        if under_way >= credits && !is_planted(Bug::NoticeNotAwaited) {
            return Err(SqFull);
        }
        let notice = match subject {
            Subject::Chunk(sequence) => 1 << NUMBER_BITS | Low::of(sequence).0,
            Subject::Control(sequence) => 2 << NUMBER_BITS | Low::of(sequence).0,
            Subject::Ack => 3 << NUMBER_BITS | Low::of(self.taken).0,
        };
        fabric.post_write(link, to, at, bytes, wr, Some(Notice(notice)))?;
        self.sent = self.sent.wrapping_add(1);
        if matches!(subject, Subject::Ack) {
            self.told = self.taken;
        }
        Ok(())
    }

    /// Whether half of the peer's credits are to be given back: it may be out of them soon.
    #[inline]
    pub(crate) const fn owes_half(&self) -> bool {
        self.limit > 0 && self.taken.wrapping_sub(self.told) >= self.limit / 2
    }

    /// One of the peer's notifications was taken: what it says.
    pub(crate) fn take(&mut self, Notice(notice): Notice) -> Result<Told, ProtocolError> {
        self.taken = self.taken.wrapping_add(1);
        let low = Low::of(u64::from(notice));
        match notice >> NUMBER_BITS {
            2 if is_planted(Bug::NoticeOfAnother) => Ok(Told::Chunk(low)),
            1 => Ok(Told::Chunk(low)),
            2 => Ok(Told::Control(low)),
            3 => Ok(Told::Ack(low)),
            _ => Err(ProtocolError::NoticeWrong),
        }
    }

    /// The peer has taken so many of ours. Whether they are more than before.
    pub(crate) fn handle_return(&mut self, low: Low) -> Result<bool, ProtocolError> {
        let more = u64::from(low.0).wrapping_sub(self.returned) & NUMBER_MASK;
        if more > self.sent.wrapping_sub(self.returned) {
            return Err(ProtocolError::NoticesBeyondSent);
        }
        let twice = u64::from(more > 0 && is_planted(Bug::NoticeCreditTwice));
        self.returned = self.returned.wrapping_add(more + twice);
        Ok(more > 0)
    }
}

/// Only differences matter: what is on its way says how much it adds to a count.
impl Hash for Notices {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { arrival, limit, sent, returned, taken, told } = self;
        (arrival, limit, sent.wrapping_sub(*returned), taken.wrapping_sub(*told)).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(first: u64) -> Notices {
        Notices::new(Arrival::Notify, 4, first)
    }

    #[test]
    fn what_was_never_sent_cannot_be_taken() {
        for first in [0, NUMBER_MASK - 1, u64::MAX - 1] {
            let mut notices = notices(first);
            assert_eq!(notices.handle_return(Low::of(first)), Ok(false));
            notices.sent = first.wrapping_add(3);
            assert_eq!(notices.handle_return(Low::of(first.wrapping_add(2))), Ok(true));
            assert_eq!(notices.returned, first.wrapping_add(2));
            let beyond = notices.handle_return(Low::of(first.wrapping_add(4)));
            assert_eq!(beyond, Err(ProtocolError::NoticesBeyondSent));
            let back = notices.handle_return(Low::of(first.wrapping_add(1)));
            assert_eq!(back, Err(ProtocolError::NoticesBeyondSent));
        }
    }

    #[test]
    fn a_number_is_the_next_one_and_not_too_far_ahead() {
        let wrong = Err(ProtocolError::NoticeWrong);
        assert_eq!(Low::of(7).check(7, 1, 1), Ok(()));
        assert_eq!(Low::of(1 << NUMBER_BITS | 7).check(7, 1, 1), Ok(()));
        assert_eq!(Low::of(8).check(7, 1, 1), wrong);
        assert_eq!(Low::of(7).check(7, 2, 1), wrong);
    }

    #[test]
    fn a_kind_that_is_none_is_wrong() {
        assert_eq!(notices(0).take(Notice(5)), Err(ProtocolError::NoticeWrong));
        assert_eq!(notices(0).take(Notice(1 << 30)), Err(ProtocolError::NoticeWrong));
        assert_eq!(notices(0).take(Notice(1 << 28 | 5)), Ok(Told::Chunk(Low(5))));
    }
}
