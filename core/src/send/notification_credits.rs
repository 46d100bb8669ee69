//! Credits of notify mode: each notification consumes one of the receives that the peer keeps posted. wire.md 3.4.
//!
//! The last credit is kept for an acknowledgement that gives back half of the peer's credits, and such an acknowledgement goes out
//! as soon as half is due. So no end runs out of credits while the other owes it some, and acknowledgements do not trigger
//! acknowledgements for ever.

use core::hash::{Hash, Hasher};

use crate::error::ProtocolError;
use crate::fabric::SqFull;
use crate::wire::arrival::Arrival;
use crate::wire::notification::{LowBits, Notification, Notified, Subject};

/// Credits of both ends. Outside notify mode the limit is 0, and nothing is counted.
#[derive(Clone, Debug)]
pub(crate) struct NotificationCredits {
    /// Receives that each end keeps posted; 0 outside notify mode.
    limit: u64,
    /// Notifications sent, and the number of them that the peer has taken and given back.
    sent: u64,
    returned: u64,
    /// Notifications of the peer that were taken, and the number of them given back.
    taken: u64,
    given_back: u64,
}

impl NotificationCredits {
    pub(crate) const fn new(arrival: Arrival, receives: u16, first: u64) -> Self {
        let limit = if matches!(arrival, Arrival::Notify) { receives as u64 } else { 0 };
        Self { limit, sent: first, returned: first, taken: first, given_back: first }
    }

    /// Returns the number of notifications that can come in one round.
    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the notification that a write of `subject` carries: none unless this is notify mode.
    ///
    /// # Errors
    /// [`SqFull`]: no credit is left.
    #[inline]
    pub(super) fn next(&self, subject: Subject) -> Result<Option<Notification>, SqFull> {
        match self.limit {
            0 => Ok(None),
            _ if self.has_credit(subject) => Ok(Some(Notification::of(subject))),
            _ => Err(SqFull),
        }
    }

    /// Returns true if a write of `subject` may be notified now. The last credit is kept for an acknowledgement that gives back
    /// half of the peer's.
    fn has_credit(&self, subject: Subject) -> bool {
        planted!(NotificationNotAwaited => return true);
        let under_way = self.sent.wrapping_sub(self.returned);
        let is_return = matches!(subject, Subject::Ack(_)) && self.owes_half();
        under_way < self.limit - u64::from(!is_return)
    }

    /// Counts a write of `subject` that was posted.
    #[inline]
    pub(super) const fn count_posted(&mut self, subject: Subject) {
        if self.limit > 0 {
            self.sent = self.sent.wrapping_add(1);
            if matches!(subject, Subject::Ack(_)) {
                self.given_back = self.taken;
            }
        }
    }

    /// Returns true if half of the peer's credits are due back. The peer may run out of them soon.
    #[inline]
    pub(crate) const fn owes_half(&self) -> bool {
        self.limit > 0 && self.taken.wrapping_sub(self.given_back) >= self.limit / 2
    }

    /// Counts a notification of the peer, and returns its subject.
    pub(crate) fn take(&mut self, notification: Notification) -> Result<Notified, ProtocolError> {
        self.taken = self.taken.wrapping_add(1);
        notification.parse()
    }

    /// Returns the number of the peer's notifications that were taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Handles credits that the peer gives back. Returns true if there are more than before.
    pub(crate) fn handle_return(&mut self, low: LowBits) -> Result<bool, ProtocolError> {
        let more = low.beyond(self.returned);
        if more > self.sent.wrapping_sub(self.returned) {
            return Err(ProtocolError::NotificationsBeyondSent);
        }
        self.returned = self.returned.wrapping_add(more);
        planted!(NotificationCreditTwice => self.returned = self.returned.wrapping_add(u64::from(more > 0)));
        Ok(more > 0)
    }
}

/// Hashes differences only, since a notification carries how much it adds to a count.
impl Hash for NotificationCredits {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { limit, sent, returned, taken, given_back } = self;
        (limit, sent.wrapping_sub(*returned), taken.wrapping_sub(*given_back)).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(first: u64) -> NotificationCredits {
        NotificationCredits::new(Arrival::Notify, 4, first)
    }

    #[test]
    fn what_was_never_sent_cannot_be_taken() {
        for first in [0, (1 << 28) - 2, u64::MAX - 1] {
            let mut credits = credits(first);
            assert_eq!(credits.handle_return(LowBits::of(first)), Ok(false));
            credits.sent = first.wrapping_add(3);
            assert_eq!(credits.handle_return(LowBits::of(first.wrapping_add(2))), Ok(true));
            assert_eq!(credits.returned, first.wrapping_add(2));
            let beyond = credits.handle_return(LowBits::of(first.wrapping_add(4)));
            assert_eq!(beyond, Err(ProtocolError::NotificationsBeyondSent));
            let back = credits.handle_return(LowBits::of(first.wrapping_add(1)));
            assert_eq!(back, Err(ProtocolError::NotificationsBeyondSent));
        }
    }
}
