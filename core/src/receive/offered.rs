//! Memory of this end that its peer may write a transfer into, and the messages that are split. wire.md 4.10, 5.7.
//!
//! ```text
//!        OFFER was sent        its transfer begins split             FIN was taken out, or CANCEL
//! NONE ------------> LIVES ------------------------------> WRITTEN -----------------------------> NONE
//!                      +----- begins in another way -------------------------------------------> NONE
//! ```

use super::exposed::{Named, NamedIn};
use super::{Head, Open, Receiver, Way};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::Exposed;
use crate::wire::header::Length;

/// Memory that was offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered<R> {
    pub(crate) exposed: Exposed,
    pub(crate) transfer: u64,
    pub(crate) memory: R,
    pub(crate) offset: u32,
    /// Bytes from the offset to the end.
    pub(crate) bytes: u32,
    /// The transfer is split.
    pub(crate) is_written: bool,
}

/// The first chunk of a split message, as its header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitChunk {
    pub(super) transfer: u64,
    pub(super) tag: u64,
    pub(super) bytes: u64,
    pub(super) head: u64,
    pub(super) source: [u64; 2],
}

impl<F: Fabric> Receiver<F> {
    /// Returns the number of the next transfer, if nothing of it has arrived, and no other is open.
    pub(crate) fn next_unseen(&self) -> Option<u64> {
        let is_idle = self.open.is_none() && matches!(self.head, Head::Nothing);
        is_idle.then(|| self.transfers.wrapping_add(1))
    }

    /// Notes an OFFER that was sent.
    pub(crate) const fn note_offered(&mut self, offered: Offered<F::Region>) {
        self.offered = Some(offered);
    }

    /// Returns the memory that the peer may write into: its offer lives, or its transfer is split and not taken out.
    pub(crate) fn offered(&self) -> Option<&Offered<F::Region>> {
        let next = self.transfers.wrapping_add(1);
        self.offered.as_ref().filter(|offered| offered.is_written || offered.transfer == next)
    }

    /// Checks the first chunk of a split message, and makes it the head.
    #[cold]
    pub(super) fn accept_split(&mut self, chunk: SplitChunk) -> Result<(), ProtocolError> {
        let SplitChunk { transfer, tag, bytes, head, source: [place, offset] } = chunk;
        self.check_next(transfer)?;
        let offered = self.offered.as_mut().filter(|offered| offered.transfer == transfer);
        let offered = offered.ok_or(ProtocolError::SplitWrong)?;
        if head == 0 || head >= bytes || bytes > u64::from(offered.bytes) {
            return Err(ProtocolError::SplitWrong);
        }
        let (place, at, _) = self.sources.check(self.sequence, place, offset, bytes)?;
        let named = u32::try_from(head).map_err(|_| ProtocolError::SplitWrong)?;
        offered.is_written = true;
        self.begin(tag, Length::Exact(bytes), head, false);
        if let Some(open) = &mut self.open {
            open.way = Way::Split;
        }
        self.head = Head::Exposed(Named { memory: NamedIn::Peer(place), at, bytes: named });
        Ok(())
    }

    /// Makes the tail of a split message the head: its last chunk is here, and `head` bytes of it came before.
    pub(super) fn accept_tail(&mut self, head: u64, length: u64) -> Result<(), ProtocolError> {
        let offered = self.offered.ok_or(ProtocolError::SplitWrong)?;
        let at = u64::from(offered.offset) + head;
        let (at, bytes) = (u32::try_from(at), u32::try_from(length - head));
        let (Ok(at), Ok(bytes)) = (at, bytes) else { return Err(ProtocolError::SplitWrong) };
        self.head = Head::Exposed(Named { memory: NamedIn::Offered(offered.exposed), at, bytes });
        Ok(())
    }

    /// Makes the tail the head although its chunk has not come: a planted bug.
    pub(super) fn take_tail_early(&mut self) {
        if let Some(Open { seen, length: Length::Exact(length), .. }) = self.open
            && self.accept_tail(seen, length).is_ok()
            && let Some(open) = &mut self.open
        {
            open.seen = length;
        }
    }

    /// Returns true if the transfer at the head is split, and its last chunk was not seen.
    pub(super) fn awaits_tail(&self) -> bool {
        self.open.is_some_and(|open| open.way == Way::Split && open.length != Length::Exact(open.seen))
    }

    /// Ends the offer with its transfer.
    pub(super) fn end_split(&mut self) {
        if self.offered.is_some_and(|offered| offered.is_written) {
            self.offered = None;
        }
    }
}
