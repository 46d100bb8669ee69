//! Messages by remote writes: what their sender may do, and the notification of their last chunk. wire.md 4.8.
//!
//! In flag and checked-flag mode only that chunk, or a CANCEL in its place, is notified. It stays at the head until its notification was
//! taken, which proves the remote writes.

use super::{Head, Open, Receiver};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::send::REMOTE_ENDS_MAX;
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::notification::LowBits;

/// Way of a transfer's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// In blocks.
    Blocks,
    /// The sender can write it remotely, once it has a claim.
    Asked,
    /// The sender has a claim, and may write.
    Granted,
    /// The sender has a claim, and sends it in blocks, which wait until the claim has ended.
    Withheld,
    /// The sender could write it remotely, and sends it in blocks.
    Declined,
    /// The head is in memory of the sender, and the tail in memory that was offered to it.
    Split,
}

/// Notifications of last chunks, in flag and checked-flag mode.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct EndNotifications {
    /// Those that were taken, and whose chunks were not.
    taken: [Option<LowBits>; REMOTE_ENDS_MAX],
    /// The head waits for the next.
    is_awaited: bool,
    /// Bytes of the message that came by remote writes and whose end is at the head.
    bytes: u64,
}

impl EndNotifications {
    pub(super) const fn new() -> Self {
        Self { taken: [None; REMOTE_ENDS_MAX], is_awaited: false, bytes: 0 }
    }
}

impl<F: Fabric> Receiver<F> {
    /// Returns true if the head waits for its notification, which only the end of remote writes does.
    #[inline]
    pub(crate) const fn awaits_end(&self) -> bool {
        !F::DIRECT && self.ends.is_awaited
    }

    /// Handles the notification of a chunk, in flag or checked-flag mode.
    pub(crate) fn handle_end_notification(&mut self, low: LowBits) -> Result<(), ProtocolError> {
        let free = self.ends.taken.iter_mut().find(|place| place.is_none());
        *free.ok_or(ProtocolError::NotificationWrong)? = Some(low);
        Ok(())
    }

    /// Returns true unless the head waits for its notification. Takes that if it has come.
    pub(super) fn has_head(&mut self) -> Result<bool, ProtocolError> {
        if !self.awaits_end() {
            return Ok(true);
        }
        let Some(low) = self.ends.taken[0] else { return Ok(false) };
        if low != LowBits::of(self.sequence) {
            return Err(ProtocolError::NotificationWrong);
        }
        self.ends.taken.rotate_left(1);
        if let Some(last) = self.ends.taken.last_mut() {
            *last = None;
        }
        self.ends.is_awaited = false;
        Ok(true)
    }

    /// Makes the head wait for its notification, if it is the end of a transfer whose RTS had REMOTE.
    pub(super) fn await_end(&mut self, arrival: Arrival) {
        let is_end = match self.head {
            Head::Cancel(_) => self.open.is_some_and(|open| !matches!(open.way, Way::Blocks | Way::Split)),
            Head::Chunk(_) => self.ends.bytes > 0,
            Head::Nothing | Head::Inline { .. } | Head::Exposed(_) => false,
        };
        self.ends.is_awaited = !F::DIRECT && is_end && arrival != Arrival::Notify;
        planted!(RemoteEndNotAwaited => self.ends.is_awaited = false);
    }

    /// Notes the last chunk of a message by remote writes, which has all of the message's bytes.
    pub(super) fn note_remote_bytes(&mut self, bytes: u64) {
        self.ends.bytes = bytes;
    }

    /// Takes the bytes of a message by remote writes whose last chunk was taken out.
    pub(crate) fn take_remote_bytes(&mut self) -> usize {
        usize::try_from(core::mem::take(&mut self.ends.bytes)).unwrap_or(usize::MAX)
    }

    /// Returns true if the blocks at the head are for memory that the sender may still write.
    pub(crate) fn withholds_blocks(&self) -> bool {
        !F::DIRECT && self.open.is_some_and(|open| open.way == Way::Withheld)
    }

    /// Notes that no memory is lent to the transfer at the head.
    pub(crate) fn note_claim_ended(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|open| open.way == Way::Withheld) {
            open.way = Way::Declined;
        }
    }

    /// Notes that the sender has a claim.
    pub(crate) fn grant(&mut self, transfer: u64) {
        if let Some(open) = self.open.as_mut().filter(|open| open.transfer == transfer) {
            open.way = Way::Granted;
        }
    }

    /// Returns true if nothing is delivered any more.
    pub(crate) const fn is_shut(&self) -> bool {
        self.shut
    }

    /// Forgets the head that waits.
    pub(super) const fn forget_end(&mut self) {
        self.ends.is_awaited = false;
        self.ends.bytes = 0;
    }
}

impl Open {
    /// Checks a later chunk of the transfer, and returns the bytes that have come with it.
    pub(super) fn see(&mut self, bytes: u32, remote: bool) -> Result<u64, ProtocolError> {
        match (remote, self.way, self.length) {
            (true, Way::Granted, Length::Exact(length)) if self.seen == 0 => return Ok(length),
            (true, Way::Split, Length::Exact(length)) => return Ok(length),
            (false, Way::Split, _) => return Err(ProtocolError::SplitWrong),
            (true, ..) => return Err(ProtocolError::RemoteEndUngranted),
            (false, Way::Asked, _) => self.way = Way::Declined,
            (false, Way::Granted, _) => self.way = Way::Withheld,
            (false, Way::Blocks | Way::Withheld | Way::Declined, _) => {}
        }
        self.seen.checked_add(u64::from(bytes)).ok_or(ProtocolError::LengthExceeded)
    }
}
