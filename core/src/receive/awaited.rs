//! Whether this end has waited for messages, as the fast path finds them, or they for this end. Decides about hints to the fabric, and nothing else.

use super::Receiver;
use crate::fabric::Fabric;

/// Waits of this end for messages, as bits of one byte: each message changes them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Awaited(u8);

/// A poll has found nothing since the last message.
const NEXT: u8 = 1;
/// A poll had found nothing before the last message.
const LAST: u8 = 2;
/// A poll had found nothing before some message since [`Receiver::take_answered`].
const ANSWERED: u8 = 4;

impl Awaited {
    /// Notes a poll that has found nothing.
    #[inline]
    pub(super) const fn polled_in_vain(&mut self) {
        self.0 |= NEXT;
    }

    /// Notes a message.
    #[inline]
    pub(super) const fn arrived(&mut self) {
        // Without a branch, which the predictor would miss: NEXT is 1.
        let was_awaited = self.0 & NEXT;
        self.0 = (self.0 & ANSWERED) | (was_awaited * (LAST | ANSWERED));
    }

    /// Returns true if this end has waited for the last message.
    #[inline]
    pub(super) const fn waited_for_last(self) -> bool {
        self.0 & LAST != 0
    }
}

impl<F: Fabric> Receiver<F> {
    /// Returns true if a message for which this end had waited has come since the last call: an answer, probably, to what was sent before.
    #[inline]
    pub(crate) const fn take_answered(&mut self) -> bool {
        let has_answered = self.awaited.0 & ANSWERED != 0;
        self.awaited.0 &= !ANSWERED;
        has_answered
    }
}
