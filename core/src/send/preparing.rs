//! First chunk of a message that is copied into its blocks while RTS and CTS are under way, and sent after the CTS. Denis, section 4; wire.md 4.5.
//!
//! ```text
//! sender    RTS | copy C0 into blocks |     | chunk 0 is posted | copy C1 ...
//! wire          RTS ------------------> CTS
//! ```
//!
//! A chunk that is *prepared* is in its blocks, without header and flags, and its bytes count as taken from the application. It is sent by the
//! next call for its transfer, or by the next round of progress, once the CTS is here.

use super::{NextChunk, Open, Payload, Sender};
use crate::config::{Config, FirstChunk};
use crate::fabric::Fabric;
use crate::recording;
use crate::slices::Gather;
use crate::wire::header::Length;

impl<F: Fabric> Sender<F> {
    /// Returns how many bytes may be prepared now, of `wanted` that the caller has: at most C0, so that a message has bytes left for later
    /// chunks. `None` unless the transfer awaits its CTS, and if a chunk is prepared already, or blocks are missing.
    pub(crate) fn may_prepare(&self, config: &Config, wanted: u64) -> Option<u32> {
        let open = self.open.as_ref().filter(|open| open.may_prepare())?;
        let c0 = u64::from(open.schedule.next_bytes().min(config.c0_bytes));
        let bytes = u32::try_from(wanted.min(c0)).ok().filter(|bytes| *bytes > 0)?;
        match self.limit_to_free_blocks(config, bytes, false) {
            NextChunk::Bytes(bytes) if bytes > 0 => Some(bytes),
            NextChunk::Bytes(_) | NextChunk::NoCredit | NextChunk::NoCts => None,
        }
    }

    /// Copies `bytes` bytes into the blocks of the next chunk, which [`may_prepare`](Self::may_prepare) has allowed.
    #[cold]
    #[inline(never)]
    pub(crate) fn prepare(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        gather: &mut Gather<'_>,
        bytes: u32,
    ) {
        let Some(length) = self.open.as_ref().map(|open| open.length) else { return };
        let begin = recording::begin(fabric, link);
        let layout = self.landing.layout;
        let (first, kernel) = (self.at, self.chosen_kernel(length));
        let (blocks, is_left) = (layout.blocks_for(bytes), !layout.can_right_align(bytes));
        for j in layout.groups(0, blocks) {
            let piece = layout.piece(first, blocks, bytes, is_left, j);
            self.copy_piece(fabric, link, gather, piece, kernel, None);
        }
        let (sequence, block) = (self.sequence, self.produced);
        record!(fabric, link, since begin, CopyIn { sequence, block, bytes });
        self.set_prepared(bytes, is_left);
    }

    /// Makes the first `bytes` bytes of the last reservation a prepared chunk, if the CTS is awaited. Otherwise they are to be sent at once.
    pub(crate) fn prepare_reserved(&mut self, fabric: &mut F, link: &F::Link, bytes: u32) -> bool {
        let is_awaited = self.open.as_ref().is_some_and(Open::may_prepare);
        if is_awaited {
            self.record_filled(fabric, link, &Payload::InPlace, bytes);
            self.set_prepared(bytes, true);
        }
        is_awaited
    }

    fn set_prepared(&mut self, bytes: u32, is_left: bool) {
        if let Some(open) = &mut self.open {
            (open.prepared, open.is_prepared_left) = (bytes, is_left);
            open.reserved = 0;
        }
    }

    /// Returns the bytes that are prepared, of a transfer that was not rejected.
    pub(crate) const fn prepared(&self) -> u32 {
        match &self.open {
            Some(open) if open.rejected.is_none() => open.prepared,
            Some(_) | None => 0,
        }
    }

    /// Returns true if a chunk is prepared whose CTS is here.
    pub(crate) const fn may_send_prepared(&self) -> bool {
        match &self.open {
            Some(open) => open.cts_received && self.prepared() > 0,
            None => false,
        }
    }

    /// Sends the prepared chunk, which [`may_send_prepared`](Self::may_send_prepared) has allowed.
    pub(crate) fn send_prepared(&mut self, fabric: &mut F, link: &mut F::Link) {
        let (bytes, is_left) =
            (self.prepared(), self.open.as_ref().is_some_and(|open| open.is_prepared_left));
        self.emit(fabric, link, Payload::Prepared(is_left), bytes, false);
    }
}

impl Open {
    /// Returns the bytes that were taken from the application: sent, or prepared.
    pub(super) fn taken(&self) -> u64 {
        planted!(PreparedNotCounted => return self.sent);
        self.sent + u64::from(self.prepared)
    }

    /// Returns true while the first chunk can be prepared: the RTS is sent, the CTS awaited, and its payload comes in blocks.
    fn may_prepare(&self) -> bool {
        self.first_chunk == FirstChunk::DuringRendezvous
            && self.protocol.starts_with_c0()
            && self.rts_sent
            && self.want_cts
            && !self.cts_received
            && self.rejected.is_none()
            && self.prepared == 0
            && self.remote.is_none()
            && !matches!(self.length, Length::Exact(length) if length == self.sent)
    }
}
