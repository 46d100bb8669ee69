//! Messages by remote writes: the chunks with REMOTE, and the notification of the last one. wire.md 4.8.
//!
//! Between the first chunk and the last one nothing of the message is in blocks. The last chunk, and a CANCEL in its place, are notified in
//! every arrival mode, since the notification proves the remote writes that were posted before.

use super::{InFlight, NextChunk, Open, Payload, Sender, TransferId};
use crate::config::Config;
use crate::error::ProtocolError;
use crate::fabric::{Fabric, SqFull, WrId};
use crate::wire::arrival::Arrival;
use crate::wire::grant::DestinationClaim;
use crate::wire::header::Length;
use crate::wire::line::LINE_BYTES;
use crate::wire::notification::{Notification, Subject};
use crate::wire::sequence::is_before;

/// Most notified chunks that the peer has not acknowledged, in flag and checked-flag mode: each takes a receive that the peer has posted.
/// Two, so that a message need not wait for the acknowledgement of the one before.
pub(crate) const REMOTE_ENDS_MAX: usize = 2;

/// A message whose payload does not travel in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RemoteOut {
    /// No CTS has come.
    Asked,
    /// The CTS had no claim: the payload is to come in blocks.
    Refused,
    /// The CTS had a claim.
    Granted(DestinationClaim),
}

/// The step after which a message by remote writes can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteNext {
    /// It goes in blocks.
    InBlocks,
    /// The first chunk is due.
    Rts,
    /// The CTS is awaited.
    Cts,
    /// Writes to this claim from this offset on, or the last chunk if there is none left.
    Write { claim: DestinationClaim, at: u64, left: u64 },
}

/// What became of the last chunk of a message by remote writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteEnd {
    /// A CANCEL is due.
    Due,
    /// Its write is not completed.
    InFlight,
    /// Its write is completed, and so are the writes before.
    Written,
    /// There is none.
    Never,
}

/// Last chunks of messages by remote writes.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct RemoteEnds {
    /// Blocks produced up to and including each notified chunk, unless the peer is known to have consumed them.
    unacked: [Option<u64>; REMOTE_ENDS_MAX],
    /// Message and sequence of the newest.
    last: Option<(TransferId, u64)>,
}

impl RemoteEnds {
    pub(super) const fn new() -> Self {
        Self { unacked: [None; REMOTE_ENDS_MAX], last: None }
    }
}

impl<F: Fabric> Sender<F> {
    /// Makes the open message one by remote writes. Nothing of it was sent.
    pub(crate) fn ask_remote(&mut self) {
        if let Some(open) = &mut self.open {
            open.remote = Some(RemoteOut::Asked);
        }
    }

    /// Returns true while this message is open, and goes by remote writes.
    pub(crate) fn is_remote(&self, id: TransferId) -> bool {
        self.open
            .as_ref()
            .is_some_and(|open| open.id == id && open.remote.is_some() && open.rejected.is_none())
    }

    /// Returns what the open message waits for.
    pub(crate) fn next_remote(&self, id: TransferId) -> RemoteNext {
        let Some(open) = self.open.as_ref().filter(|open| open.id == id) else { return RemoteNext::InBlocks };
        let Length::Exact(length) = open.length else { return RemoteNext::InBlocks };
        match open.remote {
            None | Some(RemoteOut::Refused) => RemoteNext::InBlocks,
            Some(RemoteOut::Asked) if !open.rts_sent => RemoteNext::Rts,
            Some(RemoteOut::Asked) => RemoteNext::Cts,
            Some(RemoteOut::Granted(claim)) => {
                RemoteNext::Write { claim, at: open.sent, left: length - open.sent }
            }
        }
    }

    /// Sends the rest of the message in blocks.
    pub(crate) const fn decline_remote(&mut self) {
        if let Some(open) = &mut self.open {
            open.remote = None;
        }
    }

    /// Returns true if the first or last chunk of a message by remote writes may be sent now.
    pub(crate) fn may_emit_remote(&mut self, config: &Config, is_last: bool) -> bool {
        if !is_last && !self.may_notify_end() {
            return false;
        }
        self.limit_to_free_blocks(config, 0, is_last) == NextChunk::Bytes(0)
    }

    /// Sends the first or last chunk of a message by remote writes. [`may_emit_remote`](Self::may_emit_remote) has allowed it.
    pub(crate) fn emit_remote(&mut self, fabric: &mut F, link: &mut F::Link) {
        self.emit(fabric, link, Payload::InPlace, 0, false);
    }

    /// Returns true if the peer has a receive for the end of another message.
    fn may_notify_end(&mut self) -> bool {
        let acked = self.acked;
        let unacked = &mut self.remote_ends.unacked;
        for end in unacked.iter_mut() {
            end.take_if(|end| !is_before(acked, *end));
        }
        self.arrival == Arrival::Notify || unacked.contains(&None)
    }

    /// Notes that the last chunk of a message, which was just produced, is notified.
    pub(super) fn note_remote_end(&mut self, id: TransferId, sequence: u64) {
        let produced = self.produced;
        self.remote_ends.last = Some((id, sequence));
        if self.arrival != Arrival::Notify
            && let Some(free) = self.remote_ends.unacked.iter_mut().find(|end| end.is_none())
        {
            *free = Some(produced);
        }
    }

    /// Forgets the last chunk that was produced, since it is never posted.
    pub(super) const fn forget_remote_end(&mut self) {
        self.remote_ends.last = None;
    }

    /// Returns what became of the last chunk of this message, which is not open any more.
    pub(crate) fn remote_end(&self, id: TransferId) -> RemoteEnd {
        match self.remote_ends.last {
            _ if self.cancelled.is_some_and(|it| it.remote == Some(id)) => RemoteEnd::Due,
            Some((last, sequence)) if last == id => {
                let is_in_flight = self.in_flight.iter().any(|chunk| chunk.sequence == sequence);
                if is_in_flight { RemoteEnd::InFlight } else { RemoteEnd::Written }
            }
            _ => RemoteEnd::Never,
        }
    }

    /// Returns the notification of a chunk that is notified in every arrival mode.
    pub(super) fn end_notification(
        &self,
        sequence: u64,
        notification: Option<Notification>,
    ) -> Option<Notification> {
        planted!(RemoteEndNotNotified => return notification);
        notification.or(Some(Notification::of(Subject::Chunk(sequence))))
    }

    /// Posts the CANCEL of a message by remote writes, which is at `at` of the image.
    ///
    /// # Errors
    /// [`SqFull`]: the send queue is full, or no credit is left.
    pub(super) fn post_remote_cancel(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        at: u32,
    ) -> Result<(), SqFull> {
        let (sequence, from, subject) = (self.sequence, self.produced, Subject::Chunk(self.sequence));
        let notification = self.end_notification(sequence, self.credits.next(subject)?);
        fabric.post_write(link, self.landing.memory, at, LINE_BYTES, Some(WrId(sequence)), notification)?;
        self.credits.count_posted(subject);
        let kept = self.in_flight.push_back(InFlight { sequence, from });
        debug_assert!(kept.is_ok(), "free() is 0 while it is full");
        Ok(())
    }
}

impl Open {
    /// Handles the claim of a CTS.
    pub(super) fn handle_claim(&mut self, claim: Option<DestinationClaim>) -> Result<(), ProtocolError> {
        match (claim, &mut self.remote) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(ProtocolError::ClaimUnwanted),
            (None, Some(remote)) => {
                *remote = RemoteOut::Refused;
                Ok(())
            }
            (Some(claim), Some(_))
                if self.length != Length::Exact(claim.bytes) || !claim.is_for(claim.bytes) =>
            {
                Err(ProtocolError::ClaimInvalid)
            }
            (Some(claim), Some(remote)) => {
                *remote = RemoteOut::Granted(claim);
                Ok(())
            }
        }
    }
}
