//! The receiving half: it polls the next slot line, checks the header, and hands out payload block by block as it arrives.
//! Words that the peer writes are read once, then checked, then used. wire.md 4.
//!
//! ```text
//!          slot line with RTS, if the gate is open             last block of FIN, or CANCEL
//! NOTHING ---------------------------------------> UNDERWAY ------------------------------> NOTHING
//!                                                   | reject                                 ^
//!                                                   +--> DISCARDING ------- the same --------+
//! ```
//!
//! The states are those of [`Receiving`].
//!
//! **The gate** is closed while a REJECT is due. Then no transfer begins, since the application could not reject it: at most one
//! REJECT may be unacknowledged. [`Receiver::poll`], and [`Receiver::is_plain`] for the fast path, ask [`Receiver::may_begin`].

mod accepting;
mod ahead;
mod awaited;
mod checked;
mod copy_out;
mod epoch;
mod exposed;
mod fingerprint;
mod laps;
mod loaning;
mod loans;
mod notified;
mod offered;
mod outcome;
mod remote;
mod single_chunk;
mod timing;

pub(crate) use laps::Size;
pub(crate) use loaning::LoanAttempt;
pub(crate) use loans::Loans;
pub use loans::{LOANS_MAX, Loan};
pub(crate) use notified::notifies;
pub(crate) use offered::Offered;
pub use outcome::{End, Pulled, Readable, Run, TryRecv};
pub(crate) use remote::Way;
pub(crate) use timing::Destination;

use crate::config::{Config, Origin};
use crate::copying::KernelSet;
use crate::error::{ProtocolError, Reason};
use crate::exposing::Sources;
use crate::fabric::Fabric;
use crate::slices::{CALL_BLOCKS, CALL_BYTES};
use crate::state::Receiving;
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::layout::{Landing, Layout};
use crate::wire::line::Line;
use crate::wire::sequence::{before, is_before};
use awaited::Awaited;
use exposed::Named;
use laps::Cadence;
use outcome::Chunk;
use remote::EndNotifications;
use timing::Kernels;

/// Head of the ring: the chunk or line that is taken out next.
#[derive(Clone, Copy, Debug, Hash)]
enum Head {
    Nothing,
    Inline { payload: [u64; 5], bytes: u32, offset: u32 },
    Chunk(Chunk),
    Cancel(Reason),
    Exposed(Named),
}

/// The open transfer.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Open {
    pub(crate) transfer: u64,
    pub(crate) tag: u64,
    pub(crate) length: Length,
    /// Payload bytes of the chunks whose headers were read.
    seen: u64,
    pub(crate) want_cts: bool,
    pub(crate) way: Way,
    pub(crate) discarding: bool,
    /// The application has seen the transfer.
    pub(crate) shown: bool,
}

#[derive(Clone)]
pub(crate) struct Receiver<F: Fabric> {
    landing: Landing<F::Region>,
    /// Landing buffer that the peer may go on in, at its first block; and whether it has.
    next: Option<Landing<F::Region>>,
    has_moved: bool,
    /// Sequence of the first chunk after the last move.
    moved_at: u64,
    /// Sequence of the chunk that is awaited or at the head, and the block where it continues.
    sequence: u64,
    at: u32,
    /// The head is the last of its lap.
    ends_lap: bool,
    cadence: Cadence,
    kernels: Kernels,
    consumed: u64,
    awaited: Awaited,
    /// Sequence of the newest chunk that was notified.
    notified: u64,
    transfers: u64,
    open: Option<Open>,
    head: Head,
    /// Bytes of the head that were shown in place, and not taken out since.
    shown: u32,
    /// The REJECT that is due: transfer and reason. Until it is sent the gate is closed.
    reject: Option<(u64, Reason)>,
    close: Option<(u64, Reason)>,
    ends: EndNotifications,
    /// Nothing is delivered any more, after a failure or a close with a reason.
    shut: bool,
    pub(crate) check_misses: u64,
    pub(crate) chunks: u64,
    pub(crate) inlines: u64,
    /// Transfers that ended by a CANCEL.
    pub(crate) cancels: u64,
    /// Payload bytes that were taken out of memory of the peer.
    pub(crate) exposed_bytes: u64,
    /// Payload bytes that were taken out of memory that the peer has written.
    pub(crate) split_bytes: u64,
    sources: Sources<F::Region, F::Remote>,
    /// Memory that was offered to the peer.
    offered: Option<Offered<F::Region>>,
}

impl<F: Fabric> Receiver<F> {
    pub(crate) fn new(
        landing: Landing<F::Region>,
        config: &Config,
        available: KernelSet,
        origin: &Origin,
    ) -> Self {
        let Origin { sequence, blocks, transfers, .. } = *origin;
        Self {
            landing,
            next: None,
            has_moved: false,
            moved_at: sequence,
            sequence,
            at: 0,
            ends_lap: false,
            cadence: Cadence::of_lap(landing.layout.block_count, F::DIRECT),
            kernels: Kernels::new::<F>(available, config, blocks),
            consumed: blocks,
            awaited: Awaited::default(),
            notified: before(sequence),
            transfers,
            open: None,
            head: Head::Nothing,
            shown: 0,
            reject: None,
            close: None,
            ends: EndNotifications::new(),
            shut: false,
            check_misses: 0,
            chunks: 0,
            inlines: 0,
            cancels: 0,
            exposed_bytes: 0,
            split_bytes: 0,
            sources: Sources::new(),
            offered: None,
        }
    }

    pub(crate) fn state(&self) -> Receiving {
        match &self.open {
            None => Receiving::Nothing,
            Some(open) if open.discarding => Receiving::Discarding,
            Some(_) => Receiving::Underway,
        }
    }

    /// Returns the blocks consumed, counted over the connection.
    #[inline]
    pub(crate) const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Returns the most blocks that one call takes: at least one, at most the ring.
    #[inline]
    pub(crate) fn call_blocks(&self) -> u32 {
        let Layout { block_bytes, block_count, .. } = self.landing.layout;
        (CALL_BYTES / block_bytes).clamp(1, block_count).min(CALL_BLOCKS)
    }

    #[inline]
    pub(crate) const fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    pub(crate) const fn open_mut(&mut self) -> Option<&mut Open> {
        self.open.as_mut()
    }

    /// Returns true if [`drain`](Self::drain) is to discard the open transfer.
    pub(crate) fn is_discarding(&self) -> bool {
        self.open.is_some_and(|open| open.discarding)
    }

    /// Returns true if the gate is open: no REJECT is due, and this end still delivers.
    #[inline]
    pub(super) const fn may_begin(&self) -> bool {
        self.reject.is_none() && !self.shut
    }

    /// Rejects the open transfer. Returns false if there is none, or it is rejected already.
    pub(crate) fn reject(&mut self, reason: Reason) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| !open.discarding) else { return false };
        debug_assert!(self.reject.is_none(), "it began while the gate was open");
        open.discarding = true;
        self.shown = 0;
        self.reject = Some((open.transfer, reason));
        true
    }

    /// Returns transfer and reason of the REJECT that is due.
    pub(crate) const fn reject_due(&self) -> Option<(u64, Reason)> {
        self.reject
    }

    pub(crate) const fn owes_reject(&self) -> bool {
        self.reject.is_some()
    }

    /// Notes that REJECT was sent, or need not be. Returns true if it was due.
    pub(crate) const fn take_reject(&mut self) -> bool {
        self.reject.take().is_some()
    }

    /// Stops delivering: the connection has failed, or was closed with a reason (wire.md 5.3).
    pub(crate) const fn shut(&mut self) {
        self.shut = true;
        self.open = None;
        self.forget_end();
        self.head = Head::Nothing;
        self.shown = 0;
        self.reject = None;
    }

    /// Stops delivering, as [`shut`](Self::shut), after a failure or a close of the peer with a reason.
    pub(crate) fn shut_after_failure(&mut self) {
        planted!(FailedDelivers => return);
        self.shut();
    }

    /// Returns the reason of the peer's CLOSE, once all that it sent before was taken out.
    pub(crate) fn closed(&self) -> Option<Reason> {
        let (last, reason) = self.close?;
        let done = is_before(last, self.sequence) && self.open.is_none();
        (done || reason != Reason::DONE).then_some(reason)
    }

    /// Returns true if the last chunk that the peer's CLOSE named has left a transfer open.
    pub(crate) fn is_left_open(&self) -> bool {
        let Some((last, _)) = self.close else { return false };
        self.open.is_some() && matches!(self.head, Head::Nothing) && is_before(last, self.sequence)
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.close.is_some()
    }

    pub(crate) fn handle_close(&mut self, last: u64, reason: Reason) -> Result<(), ProtocolError> {
        if self.close.is_some() {
            return Err(ProtocolError::CloseTwice);
        }
        if is_before(last, before(self.sequence)) {
            return Err(ProtocolError::ChunkAfterClose);
        }
        self.close = Some((last, reason));
        if reason != Reason::DONE {
            self.shut_after_failure();
        }
        Ok(())
    }

    /// Polls the next slot line, and checks it. Returns true if there is a head.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
    ) -> Result<bool, ProtocolError> {
        if !matches!(self.head, Head::Nothing) {
            return self.has_head();
        }
        if self.open.is_none() && !self.may_begin() {
            return Ok(false);
        }
        if self.awaits_notification(arrival) {
            return Ok(false);
        }
        let flag = self.next_flag(fabric, link);
        if !arrival.may_be(flag, self.sequence)
            && (self.next.is_none() || !self.enter_next(fabric, link, arrival))
        {
            return self.judge_missing(arrival);
        }
        let mut line = self.take_line(fabric, link);
        if arrival == Arrival::CheckedFlag && !self.is_line_intact(fabric, link, &line) {
            // Zeros may be the flag of a sequence that is a multiple of 2^32.
            if !self.enter_next(fabric, link, arrival) {
                self.check_misses += 1;
                return Ok(false);
            }
            line = self.take_line(fabric, link);
        }
        self.accept(&line)?;
        self.await_end(arrival);
        self.has_head()
    }

    /// Returns the flag of the next slot line.
    #[inline]
    fn next_flag(&self, fabric: &F, link: &F::Link) -> u64 {
        let Landing { memory, layout } = self.landing;
        fabric.flag(link, memory, layout.flag_at(self.at))
    }

    /// Takes the next slot line out.
    #[inline]
    fn take_line(&self, fabric: &F, link: &F::Link) -> Line {
        let Landing { memory, layout } = self.landing;
        fabric.take_line(link, memory, layout.line_at(self.at))
    }

    /// Returns the next complete block that has arrived: the sequence of its chunk, and the number of blocks before it.
    pub(crate) fn next_arrival(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> Option<(u64, u32)> {
        self.arrival_here(fabric, link, arrival)
            .or_else(|| self.in_next()?.arrival_here(fabric, link, arrival))
    }

    /// Returns the same for the current landing buffer.
    fn arrival_here(&self, fabric: &F, link: &F::Link, arrival: Arrival) -> Option<(u64, u32)> {
        let Landing { memory, layout } = self.landing;
        let (index, blocks) = match self.head {
            Head::Nothing if self.open.is_none() && !self.may_begin() => return None,
            Head::Nothing => (self.at, 0),
            Head::Inline { .. } | Head::Cancel(_) | Head::Exposed(_) => return Some((self.sequence, 1)),
            Head::Chunk(chunk) if chunk.arrived < chunk.blocks => {
                (chunk.first + chunk.arrived, chunk.arrived)
            }
            // A try of a loan leaves the first of two chunks at the head.
            Head::Chunk(chunk) if !chunk.fin => {
                let behind = self.arrival_behind(fabric, link, arrival, chunk);
                return behind.or(Some((self.sequence, chunk.blocks)));
            }
            Head::Chunk(chunk) => return Some((self.sequence, chunk.blocks)),
        };
        if notifies::<F>(arrival) {
            return self.is_notified().then_some((self.sequence, blocks));
        }
        let flag = fabric.flag(link, memory, layout.flag_at(index));
        let came = arrival.may_be(flag, self.sequence)
            && (arrival != Arrival::CheckedFlag
                || match self.head {
                    Head::Chunk(chunk) => self.block_flag(fabric, link, &chunk) == flag,
                    _ => self.is_line_intact(fabric, link, &self.take_line(fabric, link)),
                });
        came.then_some((self.sequence, blocks))
    }

    /// Returns the number of the newest transfer that has begun.
    pub(crate) const fn transfers(&self) -> u64 {
        self.transfers
    }

    /// Returns the bytes of the message at the head, if it is in a line.
    pub(crate) const fn line_bytes(&self) -> Option<usize> {
        match self.head {
            Head::Inline { bytes, .. } => Some(bytes as usize),
            Head::Nothing | Head::Chunk(_) | Head::Cancel(_) | Head::Exposed(_) => None,
        }
    }

    /// Returns the sequence of the newest chunk that was taken out.
    pub(crate) const fn last(&self) -> u64 {
        before(self.sequence)
    }

    /// Returns true if the group that begins with block `j` of the chunk at the head has arrived; with [`Chunk::whole`], if all groups have.
    #[inline]
    fn has_arrived(
        &mut self,
        fabric: &F,
        link: &F::Link,
        arrival: Arrival,
        chunk: &mut Chunk,
        j: u32,
    ) -> Result<bool, ProtocolError> {
        let upto = if chunk.whole { chunk.blocks } else { j + 1 };
        planted!(EndBeforeFlag => if chunk.fin { chunk.arrived = chunk.blocks; });
        planted!(NextGroupTaken => if self.landing.layout.group_blocks() > 1 {
            chunk.arrived = chunk.group_end(self.landing.layout, chunk.arrived);
        });
        while chunk.arrived < upto {
            let Landing { memory, layout } = self.landing;
            let flag = fabric.flag(link, memory, layout.flag_at(chunk.first + chunk.arrived));
            if !arrival.may_be(flag, self.sequence) {
                return self.judge_missing(arrival);
            }
            if arrival == Arrival::CheckedFlag && !self.is_intact(fabric, link, chunk, flag) {
                self.check_misses += 1;
                return Ok(false);
            }
            chunk.arrived = chunk.group_end(layout, chunk.arrived);
        }
        Ok(true)
    }
}
