//! The sending half: it tracks the free blocks of the peer's landing buffer, cuts the open transfer into chunks, puts chunks into
//! blocks, and posts them. wire.md 4.
//!
//! ```text
//!             start             first chunk (RTS)          CTS, or none needed
//! NOTHING ----------> STARTED -----------------> AWAITING-CTS ------------------> UNDERWAY
//!    ^                   |                            |                             |   |
//!    | cancel: no CANCEL |                            | cancel, REJECT              |   | last chunk (FIN)
//!    +-------------------+                            +-----------> CANCELLING <----+   +---> NOTHING
//!    |                                                                  |
//!    +--------------------------- CANCEL is in the ring ----------------+
//! ```
//!
//! The states are those of [`Sending`]. A transfer is *open* from its start until its last chunk is built, or until it is cancelled.
//! A rejected transfer stays open until the next call for it, which reports the rejection.
//!
//! A block belongs to the peer until it is acknowledged, and to the device until its chunk's write is completed; after both it is
//! free. A chunk that leaves its transfer open also leaves one block free. CANCEL, which is a chunk of one block, uses that block, and
//! never waits for the receiver.

mod answers;
mod emit;
mod epoch;
mod fingerprint;
mod in_place;
mod laps;
mod notification_credits;
mod permit;
mod posting;
mod preparing;
mod remote;
mod reservation;
mod schedule;
mod single_chunk;
mod split;
mod timing;

pub use in_place::ReservedMessage;
pub(crate) use in_place::reservable_bytes;
pub(crate) use notification_credits::NotificationCredits;
pub(crate) use permit::{Above, Permit};
pub(crate) use remote::{REMOTE_ENDS_MAX, RemoteEnd, RemoteNext};
pub use reservation::Reservation;
pub use schedule::Schedule;
pub(crate) use schedule::{LastChunk, NextChunk};
pub(crate) use split::{SplitOut, SplitRest, head_of};

use crate::config::{Config, FirstChunk, Origin};
use crate::copying::KernelSet;
use crate::error::{Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::protocol::Protocol;
use crate::slices::Gather;
use crate::state::Sending;
use crate::wire::arrival::Arrival;
use crate::wire::header::Length;
use crate::wire::layout::{Landing, Layout};
use crate::wire::sequence::before;
use heapless::Deque;
use in_place::InPlace;
use laps::Laps;
use remote::{RemoteEnds, RemoteOut};
use timing::Kernels;

/// Most chunks whose writes are not completed, with posted writes. Each takes a block of the ring at least, so a ring of up to 64 blocks
/// (the default has 32) never reaches it. In a larger ring a sender of small chunks waits for a completion there. Each costs 16 bytes
/// in every endpoint.
const IN_FLIGHT_MAX: usize = 64;

/// Identifies a transfer that was started at this end, until it ends. A stale id is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferId {
    number: u64,
    generation: u32,
}

impl TransferId {
    /// Returns the number of the transfer, which both ends use.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns what tells it from all other transfers of this end.
    pub(crate) const fn key(self) -> (u64, u32) {
        (self.number, self.generation)
    }
}

/// Source of a chunk's payload.
pub(crate) enum Payload<'a, 'b> {
    Gathered(&'a mut Gather<'b>),
    InPlace,
    /// It was copied before. True if it begins at the left of the first block.
    Prepared(bool),
}

/// A transfer that was started and has not ended.
#[derive(Clone, Debug, Hash)]
struct Open {
    id: TransferId,
    tag: u64,
    length: Length,
    sent: u64,
    schedule: Schedule,
    protocol: Protocol,
    first_chunk: FirstChunk,
    copies_whole_chunks: bool,
    /// The first chunk, which is the RTS, was built.
    rts_sent: bool,
    want_cts: bool,
    cts_received: bool,
    rejected: Option<Reason>,
    /// The payload goes by remote writes.
    remote: Option<RemoteOut>,
    /// The RTS had REMOTE.
    was_remote: bool,
    /// The head is in memory that the receiver has mapped, and the tail goes into memory of the receiver.
    split: Option<SplitOut>,
    /// Bytes that were reserved, and may be committed.
    reserved: u32,
    /// Bytes of the next chunk, which were copied into its blocks while the CTS is awaited; and true if they begin at the left of the first one.
    prepared: u32,
    is_prepared_left: bool,
    permit: Permit,
    /// The application builds the whole message in its blocks.
    in_place: Option<InPlace>,
}

/// A chunk whose write is not completed.
#[derive(Clone, Copy, Debug, Hash)]
struct InFlight {
    sequence: u64,
    /// Blocks produced before it.
    from: u64,
}

/// A chunk that is complete in its image and not posted yet, because the send queue is full or no notification credit is left.
#[derive(Clone, Copy, Debug, Hash)]
struct Unposted {
    at: u32,
    bytes: u32,
    sequence: u64,
    /// It is the end of remote writes, and notified in every arrival mode.
    is_remote_end: bool,
}

/// A transfer that CANCEL has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cancelled {
    transfer: u64,
    reason: Reason,
    /// A transfer whose RTS had REMOTE.
    remote: Option<TransferId>,
}

#[derive(Clone)]
pub(crate) struct Sender<F: Fabric> {
    landing: Landing<F::Remote>,
    /// Arrival mode of the peer's reader.
    arrival: Arrival,
    pub(crate) credits: NotificationCredits,
    /// Sequence of the next chunk, and the block where it starts.
    sequence: u64,
    at: u32,
    /// Blocks sent and blocks acknowledged, counted over the connection.
    produced: u64,
    acked: u64,
    /// Blocks produced before the current landing buffer, and blocks from which on it is not free: those acknowledged, if they are in it.
    entered: u64,
    free_from: u64,
    laps: Laps,
    kernels: Kernels,
    in_flight: Deque<InFlight, IN_FLIGHT_MAX>,
    unposted: Option<Unposted>,
    /// The chunk behind that one: the last of two that were built in place.
    unposted_behind: Option<Unposted>,
    /// Ends of the last two chunks, for triple buffering.
    chunk_ends: [u64; 2],
    transfers: u64,
    /// Number before that of the connection's first transfer.
    before_first: u64,
    generation: u32,
    open: Option<Open>,
    /// A cancelled transfer whose CANCEL is not in the ring yet.
    cancelled: Option<Cancelled>,
    remote_ends: RemoteEnds,
}

impl<F: Fabric> Sender<F> {
    pub(crate) fn new(
        landing: Landing<F::Remote>,
        config: &Config,
        available: KernelSet,
        credits: NotificationCredits,
        origin: &Origin,
    ) -> Self {
        let Origin { sequence, blocks, transfers, .. } = *origin;
        let mut sender = Self {
            landing,
            arrival: config.arrival,
            kernels: Kernels::new::<F>(available, config, blocks),
            credits,
            sequence,
            at: 0,
            produced: blocks,
            acked: blocks,
            entered: blocks,
            free_from: blocks,
            laps: Laps::new(blocks, landing.layout.block_count),
            in_flight: Deque::new(),
            unposted: None,
            unposted_behind: None,
            chunk_ends: [blocks; 2],
            transfers,
            before_first: transfers,
            generation: 0,
            open: None,
            cancelled: None,
            remote_ends: RemoteEnds::new(),
        };
        sender.enter_laps(config);
        sender
    }

    pub(crate) const fn state(&self) -> Sending {
        match &self.open {
            _ if self.cancelled.is_some() => Sending::Cancelling,
            None => Sending::Nothing,
            Some(open) if !open.rts_sent => Sending::Started,
            Some(open) if open.want_cts && !open.cts_received => Sending::AwaitingCts,
            Some(_) => Sending::Underway,
        }
    }

    /// Returns the arrival mode of the peer's reader.
    #[inline]
    pub(crate) const fn arrival(&self) -> Arrival {
        self.arrival
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.landing.layout
    }

    /// Returns the sequence of the last chunk.
    pub(crate) const fn last(&self) -> u64 {
        before(self.sequence)
    }

    /// Returns the counts of blocks that were sent, and of those that the peer has acknowledged.
    pub(crate) const fn blocks(&self) -> [u64; 2] {
        [self.produced, self.acked]
    }

    /// Returns the count of blocks sent.
    pub(crate) const fn blocks_sent(&self) -> u64 {
        self.produced
    }

    /// Returns true if the peer has consumed everything, and the device owns nothing.
    pub(crate) fn is_delivered(&self) -> bool {
        self.produced == self.acked && self.is_quiescent() && self.cancelled.is_none() && self.prepared() == 0
    }

    /// Returns true if the device owns no memory of this end.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.in_flight.is_empty() && self.unposted.is_none()
    }

    /// Returns the number of blocks that belong neither to the peer nor to the device.
    #[inline]
    fn free(&self) -> u32 {
        let mut used = self.produced.wrapping_sub(self.free_from);
        planted!(AckNotAwaited => used = 0);
        if !F::DIRECT {
            if self.unposted.is_some() || self.in_flight.is_full() {
                return 0;
            }
            if let Some(oldest) = self.oldest_in_flight() {
                let here = self.produced.wrapping_sub(self.entered);
                used = used.max(self.produced.wrapping_sub(oldest.from).min(here));
            }
        }
        let mut room = self.laps.room();
        planted!(BlockTooMany => room += 1);
        room.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Returns the oldest chunk whose write is not completed.
    #[inline]
    fn oldest_in_flight(&self) -> Option<&InFlight> {
        planted!(CompletionNotAwaited => return None);
        self.in_flight.front()
    }

    /// Returns true if no block is free: acknowledgements or completions are awaited.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// Returns true if the longest message that can be sent at once has room.
    pub(crate) fn holds_longest(&self) -> bool {
        self.free() >= self.to_end().min(self.laps.blocks())
    }

    /// Returns the bytes that the next call may have at hand for blocks: what is left of the open message, or any number of a stream. For remote writes and split messages it is
    /// 1, since any room will do for what they put into the ring.
    pub(crate) fn left_for_blocks(&self) -> u64 {
        match &self.open {
            Some(open) if open.remote.is_some() || open.split.is_some() => 1,
            Some(Open { length: Length::Exact(length), sent, .. }) => length - sent,
            Some(_) | None => u64::MAX,
        }
    }

    /// Returns true if another transfer can begin.
    #[inline]
    pub(crate) const fn can_start(&self) -> bool {
        self.open.is_none() && self.cancelled.is_none()
    }

    /// Splits a message of `bytes` bytes that is sent at once into two chunks, one up to the end of the lap and one from block 0. With
    /// posted writes it must be one chunk, since a second might find the send queue full.
    pub(crate) fn split(&self, bytes: u32) -> Result<(u32, u32), RefusedSend> {
        let layout = self.landing.layout;
        let (free, to_end) = (self.free(), self.to_end());
        let first = bytes.min(layout.capacity(to_end));
        let rest = bytes - first;
        let second = if rest == 0 { 0 } else { layout.blocks_for(rest) };
        let blocks = layout.blocks_for(first) + second;
        if blocks > self.laps.blocks() || second > self.window() || !F::DIRECT && rest > 0 {
            Err(RefusedSend::TooLong)
        } else if blocks > free {
            Err(RefusedSend::NoCredit)
        } else {
            Ok((first, rest))
        }
    }

    /// Returns the number of the next transfer of which nothing was sent.
    #[inline]
    pub(crate) const fn next_transfer(&self) -> u64 {
        self.transfers.wrapping_add(1)
    }

    /// Returns what tells the open transfer from all others.
    pub(crate) fn open_key(&self) -> Option<(u64, u32)> {
        self.open.as_ref().map(|open| open.id.key())
    }

    /// Returns the number of the newest transfer of which something was sent.
    pub(crate) const fn newest_transfer(&self) -> u64 {
        self.transfers
    }

    /// Counts bytes of the open transfer that were written into the receiver's memory.
    pub(crate) const fn count_written(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.sent += bytes;
        }
    }

    /// Starts a transfer under the policy of `config`.
    pub(crate) fn start(
        &mut self,
        config: &Config,
        tag: u64,
        length: Length,
    ) -> Result<TransferId, RefusedSend> {
        if !self.can_start() {
            return Err(RefusedSend::Busy);
        }
        let id = TransferId { number: self.next_transfer(), generation: self.generation };
        self.generation = self.generation.wrapping_add(1);
        let short = matches!(length, Length::Exact(n) if n <= u64::from(config.c0_bytes));
        self.open = Some(Open {
            id,
            tag,
            length,
            sent: 0,
            schedule: Schedule::new(config, self.window_layout(), length),
            protocol: config.protocol,
            first_chunk: config.first_chunk,
            copies_whole_chunks: config.copies_whole_chunks(),
            rts_sent: false,
            want_cts: !short && config.asks_cts(),
            cts_received: false,
            rejected: None,
            remote: None,
            was_remote: false,
            split: None,
            reserved: 0,
            prepared: 0,
            is_prepared_left: false,
            permit: Permit::new(config.protocol),
            in_place: None,
        });
        Ok(id)
    }

    fn open(&mut self, id: TransferId) -> Result<&mut Open, RefusedSend> {
        match &mut self.open {
            Some(open) if open.id == id => Ok(open),
            _ => Err(RefusedSend::NotOpen),
        }
    }

    /// Returns true while a transfer is open.
    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns true if the open transfer was rejected.
    pub(crate) fn is_open_rejected(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.rejected.is_some())
    }

    pub(crate) fn is_rejected(&self, id: TransferId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id && open.rejected.is_some())
    }

    /// Checks that the transfer is open. A rejected one ends by this call.
    ///
    /// # Errors
    /// `NotOpen`, `Rejected`.
    pub(crate) fn check(&mut self, id: TransferId) -> Result<(), RefusedSend> {
        if let Some(reason) = self.open(id)?.rejected {
            self.open = None;
            return Err(RefusedSend::Rejected(reason));
        }
        Ok(())
    }

    /// Returns the bytes that were taken of the transfer, if it is open.
    pub(crate) fn taken(&self, id: TransferId) -> Option<u64> {
        self.open.as_ref().filter(|open| open.id == id).map(Open::taken)
    }

    /// Returns the bytes that a message has left; `None` for a stream.
    pub(crate) fn remaining(&mut self, id: TransferId) -> Result<Option<u64>, RefusedSend> {
        let open = self.open(id)?;
        Ok(match open.length {
            Length::Exact(length) => Some(length - open.taken()),
            Length::Stream => None,
        })
    }

    /// Cancels the open transfer. A CANCEL is due if any of it was sent.
    pub(crate) fn cancel(&mut self, id: TransferId, reason: Reason) -> Result<(), RefusedSend> {
        let open = self.open(id)?;
        if open.rts_sent && open.rejected.is_none() {
            let remote = open.was_remote.then_some(open.id);
            self.cancelled = Some(Cancelled { transfer: open.id.number, reason, remote });
        }
        self.open = None;
        Ok(())
    }

    /// Cancels the open transfer, if one is open.
    pub(crate) fn abandon(&mut self, reason: Reason) {
        if let Some(id) = self.open.as_ref().map(|open| open.id) {
            let ended = self.cancel(id, reason);
            debug_assert!(ended.is_ok(), "it is open");
        }
    }

    /// Drops the CANCEL that is due, since the peer need not receive it.
    pub(crate) const fn drop_cancelled(&mut self) {
        self.cancelled = None;
    }

    /// Stops sending, after a failure.
    pub(crate) fn stop(&mut self) {
        for unposted in [self.unposted_behind.take(), self.unposted.take()].into_iter().flatten() {
            // No completion comes for a chunk that was not posted, and none proves the remote writes before it.
            self.in_flight.pop_back();
            if unposted.is_remote_end {
                self.forget_remote_end();
            }
        }
        self.open = None;
        self.cancelled = None;
    }

    /// Returns true if a CANCEL is due that is not in the ring yet.
    pub(crate) const fn owes_cancel(&self) -> bool {
        self.cancelled.is_some()
    }
}
