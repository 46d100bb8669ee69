//! Messages by remote writes, out of registered memory into registered memory. wire.md 4.8.
//!
//! The sender's memory is registered while RTS and CTS are under way, the receiver's before its CTS. Either end may refuse: then the message
//! goes in blocks. Memory is deregistered once no write of it can be under way. If this end cannot know that, it ends the link first.

use super::{Counters, Endpoint};
use crate::error::{Closed, ProtocolError, Reason, RefusedSend};
use crate::fabric::Fabric;
use crate::job::{RecvMemory, SendMemory};
use crate::plan::Memory;
use crate::protocol::Protocol;
use crate::receive::{Open, Way};
use crate::send::{REMOTE_ENDS_MAX, RemoteEnd, RemoteNext, TransferId};
use crate::wire::arrival::Arrival;
use crate::wire::grant::DestinationClaim;
use crate::wire::header::Length;
use crate::wire::notification::Notified;
use crate::zero_copy::{Destination, Lease, Source};

/// Bytes of a remote write, unless the configuration limits chunks: acknowledgements and control messages wait behind one or a few writes
/// of 1 MiB, which are 84 µs each at 100 Gb/s, and the gap between them is less than 1 % of that.
const REMOTE_WRITE_BYTES: u32 = 1 << 20;

/// Most bytes of a remote write, whatever the configuration: a fabric makes several work requests of one where its device's messages are shorter.
pub const REMOTE_WRITE_BYTES_MAX: u32 = 16 << 20;

/// Most remote writes that one call posts, which bounds its time.
const WRITES_PER_CALL: usize = 16;

/// Result of a step of a message by remote writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// It has to go in blocks.
    InBlocks,
    /// It waits.
    Idle,
    /// It moved by this number of bytes.
    Moved(usize),
    /// It moved by this number of bytes, which were its last.
    Sent(usize),
}

impl<F: Fabric> Endpoint<F> {
    /// Starts a message out of plain slices, or one that may go by remote writes out of this memory. It goes in blocks if the policy, its length or the
    /// fabric demands it. Returns the transfer, and true if this end now holds the memory.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_from(
        &mut self,
        fabric: &mut F,
        tag: u64,
        bytes: u64,
        memory: Option<SendMemory>,
    ) -> Result<(TransferId, bool), RefusedSend> {
        let is_long = bytes > u64::from(self.config.c0_bytes);
        let can_remote =
            !F::DIRECT && self.zero_copy.is_possible && self.config.protocol.is_zero_copy() && is_long;
        let (memory, kind) = match memory {
            Some(memory @ SendMemory::Lent(_)) if can_remote && self.config.protocol != Protocol::Auto => {
                (Some(memory), Memory::Fresh)
            }
            Some(memory @ SendMemory::Keepable { is_again, .. }) if can_remote => {
                (Some(memory), if is_again { Memory::KeepableAgain } else { Memory::Keepable })
            }
            Some(memory @ SendMemory::Registered(_)) if can_remote => (Some(memory), Memory::Kept),
            Some(_) | None => (None, Memory::Unnamed),
        };
        let Some(memory) = memory else {
            if !self.may_send() || !self.sender.can_start() || !is_long {
                return self.start(tag, Length::Exact(bytes)).map(|id| (id, false));
            }
            let plan = self.plan(fabric, bytes, kind);
            if !self.may_send() {
                return Err(RefusedSend::Closed);
            }
            let config = self.message_config(plan, kind);
            let id = self.start_by(&config, tag, Length::Exact(bytes))?;
            if plan.is_some() {
                self.note_planned(fabric, id, bytes);
            } else {
                self.forget_plan(fabric);
            }
            return Ok((id, false));
        };
        // The memory of the message before is deregistered first.
        if self.may_send() && self.zero_copy.source.is_some() {
            return Err(RefusedSend::Busy);
        }
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        if !self.sender.can_start() {
            return Err(RefusedSend::Busy);
        }
        let plan = self.plan(fabric, bytes, kind);
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        let config = self.message_config(plan, kind);
        if !config.protocol.is_zero_copy() {
            let id = self.start_by(&config, tag, Length::Exact(bytes))?;
            self.note_planned(fabric, id, bytes);
            return Ok((id, false));
        }
        let id = self.sender.start(&config, tag, Length::Exact(bytes))?;
        self.note_planned(fabric, id, bytes);
        self.sender.ask_remote();
        self.note_registration(matches!(memory, SendMemory::Registered(_)));
        self.zero_copy.source = Some(Source { id, lease: Lease::of_source(memory, bytes), is_used: false });
        Ok((id, true))
    }

    /// Counts a message whose memory was registered before, or has to be.
    const fn note_registration(&mut self, is_hit: bool) {
        let Counters { registrations_hit, registrations_missed, .. } = &mut self.counters;
        *(if is_hit { registrations_hit } else { registrations_missed }) += 1;
    }

    /// Takes the next step of a message that was started by [`start_from`](Self::start_from).
    ///
    /// # Errors
    /// `Rejected`, `NotOpen`, `Closed`.
    pub(crate) fn push_remote(&mut self, fabric: &mut F, id: TransferId) -> Result<Remote, RefusedSend> {
        if F::DIRECT {
            return Ok(Remote::InBlocks);
        }
        self.check(id)?;
        if self.sender.next_remote(id) == RemoteNext::Cts && self.poll_mailbox(fabric) > 0 {
            self.check(id)?;
        }
        match self.sender.next_remote(id) {
            RemoteNext::InBlocks => {
                self.go_in_blocks(fabric, id);
                Ok(Remote::InBlocks)
            }
            RemoteNext::Rts if self.emit_remote(fabric, false) => {
                self.drive_zero_copy(fabric);
                Ok(Remote::Moved(0))
            }
            RemoteNext::Rts => Ok(Remote::Idle),
            RemoteNext::Cts => {
                self.counters.cts_waits += 1;
                record!(fabric, &self.link, NoCts { sequence: self.sender.last() });
                Ok(Remote::Idle)
            }
            RemoteNext::Write { claim, at, left } => Ok(self.write_remote(fabric, id, claim, at, left)),
        }
    }

    /// Posts the next writes to the claim, and the last chunk behind them.
    fn write_remote(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        claim: DestinationClaim,
        mut at: u64,
        mut left: u64,
    ) -> Remote {
        let Some(source) = self.zero_copy.source.as_mut().filter(|source| source.id == id) else {
            // The memory could not be registered.
            self.go_in_blocks(fabric, id);
            return Remote::InBlocks;
        };
        let Some((from, _)) = source.lease.ready() else { return Remote::Idle };
        let most = match self.config.chunk_bytes {
            0 => REMOTE_WRITE_BYTES,
            chunk_bytes => chunk_bytes.min(REMOTE_WRITE_BYTES_MAX),
        };
        let mut written = 0;
        for _ in 0..WRITES_PER_CALL {
            let bytes = u32::try_from(left).unwrap_or(u32::MAX).min(most);
            if bytes == 0 {
                break;
            }
            if fabric.post_remote_write(&mut self.link, from, claim, at, bytes).is_err() {
                self.counters.sq_full += 1;
                break;
            }
            source.is_used = true;
            self.counters.remote_writes += 1;
            (at, left) = (at + u64::from(bytes), left - u64::from(bytes));
            written += u64::from(bytes);
        }
        self.sender.count_written(written);
        self.counters.bytes_sent += written;
        self.counters.remote_bytes_sent += written;
        let has_ended = left == 0 && self.emit_remote(fabric, true);
        fabric.ring_doorbell(&mut self.link);
        let bytes = usize::try_from(written).unwrap_or(usize::MAX);
        match written {
            _ if has_ended => Remote::Sent(bytes),
            0 => Remote::Idle,
            _ => Remote::Moved(bytes),
        }
    }

    /// Sends the first or the last chunk of a message by remote writes, if there is room for it.
    fn emit_remote(&mut self, fabric: &mut F, is_last: bool) -> bool {
        let mut has_room = self.sender.may_emit_remote(&self.config, is_last);
        if !has_room && self.refill(fabric) {
            has_room = self.sender.may_emit_remote(&self.config, is_last);
        }
        if !has_room {
            self.counters.credit_waits += 1;
            self.wants_ack = true;
            record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
            return false;
        }
        self.sender.emit_remote(fabric, &mut self.link);
        self.counters.chunks_sent += 1;
        self.note_planned_end(fabric);
        fabric.ring_doorbell(&mut self.link);
        true
    }

    /// Sends the rest of the open message in blocks. Its memory is not written from.
    fn go_in_blocks(&mut self, fabric: &mut F, id: TransferId) {
        self.sender.decline_remote();
        self.note_declined(fabric, id);
        if let Some(source) = self.zero_copy.source.as_mut().filter(|source| source.id == id) {
            source.lease.end(source.is_used);
        }
    }

    /// Returns true if this end holds the memory of this message, which must stay valid.
    pub(crate) fn holds_source(&self, id: TransferId) -> bool {
        self.zero_copy.source.is_some_and(|source| source.id == id)
    }

    /// Returns true while memory of a message that is over is still used, or being deregistered. It takes as long as the device and the
    /// jobs do, and in notify mode until the peer has returned a credit for the last chunk. If the peer is gone, it takes as long as the jobs.
    pub(crate) fn is_releasing(&self) -> bool {
        let is_open = |destination: &Destination| {
            !destination.lease.is_over()
                && self.receiver.open().is_some_and(|open| open.transfer == destination.transfer)
        };
        !F::DIRECT
            && (self.zero_copy.source.is_some_and(|source| !self.sender.is_remote(source.id))
                || self.zero_copy.destination.is_some_and(|destination| !is_open(&destination)))
    }

    /// Returns true if this end holds memory for this incoming message, which must stay valid.
    pub(crate) fn holds_destination(&self, transfer: u64) -> bool {
        self.zero_copy.destination.is_some_and(|destination| destination.transfer == transfer)
    }

    /// Lends memory to the message at the head, if its sender can write remotely. Returns `None` if it has to wait until the memory of a
    /// message before is deregistered, and otherwise true if this end now holds the memory.
    pub(crate) fn lend(&mut self, fabric: &mut F, transfer: u64, memory: RecvMemory) -> Option<bool> {
        if F::DIRECT || !self.zero_copy.is_possible {
            return Some(false);
        }
        let open = self.receiver.open().filter(|open| open.transfer == transfer && !open.discarding);
        let Some(open) = open.filter(|open| open.way == Way::Asked && open.want_cts) else {
            return Some(false);
        };
        let Length::Exact(bytes) = open.length else { return Some(false) };
        if self.receiver.is_closing() || self.closed.is_some() {
            return Some(false);
        }
        if self.zero_copy.destination.is_some() {
            self.drive_zero_copy(fabric);
            return None;
        }
        self.note_registration(matches!(memory, RecvMemory::Registered(_)));
        let lease = Lease::of_destination(memory, bytes);
        self.zero_copy.destination = Some(Destination { transfer, bytes, lease, is_granted: false });
        self.drive_zero_copy(fabric);
        Some(true)
    }

    /// Takes the memory back that was lent to the message at the head. If the peer may write to it, the connection ends.
    pub(crate) fn withdraw(&mut self, fabric: &mut F, transfer: u64) {
        let Some(destination) = self.zero_copy.destination.filter(|it| it.transfer == transfer) else {
            return;
        };
        let mut may_write = self.may_peer_write(&destination);
        planted!(GrantForgotten => may_write &= !self.receiver.is_shut());
        if may_write {
            self.close(fabric, Reason::GIVEN_UP);
            self.receiver.shut();
        } else {
            self.end_destination(false);
        }
        self.drive_zero_copy(fabric);
    }

    /// Returns true if the CTS of this message waits until its memory is registered.
    pub(super) fn holds_cts(&self, transfer: u64) -> bool {
        self.zero_copy.destination.is_some_and(|it| it.transfer == transfer && !it.lease.is_over())
    }

    /// Drops the CTS with a claim that is due.
    fn take_claim_back(&mut self, transfer: u64) {
        let is_of = |cts: &mut (u64, Option<DestinationClaim>)| cts.0 == transfer && cts.1.is_some();
        if self.pending_cts.take_if(is_of).is_some()
            && let Some(open) = self.receiver.open_mut().filter(|open| open.transfer == transfer)
        {
            open.want_cts = true;
        }
    }

    /// Returns the claim of a CTS that is due, unless the message comes in blocks meanwhile.
    pub(super) fn claim_of(
        &self,
        transfer: u64,
        claim: Option<DestinationClaim>,
    ) -> Option<DestinationClaim> {
        let is_asked = |open: &Open| open.transfer == transfer && open.way == Way::Asked && !open.discarding;
        claim.filter(|_| self.receiver.open().is_some_and(is_asked))
    }

    /// Notes that a CTS with a claim was sent.
    pub(super) fn note_granted(&mut self, transfer: u64) {
        self.receiver.grant(transfer);
        if let Some(destination) = &mut self.zero_copy.destination {
            destination.is_granted = true;
        }
    }

    /// Takes finished jobs, decides what ends, begins jobs that are due, and grants memory that is ready. Returns the count of work done.
    pub(super) fn drive_zero_copy(&mut self, fabric: &mut F) -> usize {
        let mut work = self.take_finished(fabric);
        if self.receiver.awaits_end() {
            work += self.take_end_notifications(fabric);
        }
        self.judge_source();
        self.judge_destination();
        work += self.zero_copy.begin_jobs(fabric, &mut self.link);
        self.zero_copy.forget_gone();
        if self.zero_copy.destination.is_none() {
            self.receiver.note_claim_ended();
        }
        self.grant(fabric);
        if self.zero_copy.awaits_job() {
            self.look_at_jobs(fabric);
        }
        work
    }

    /// Notes that the peer's end does not exist any more.
    pub(crate) const fn note_peer_gone(&mut self) {
        self.zero_copy.is_peer_gone = true;
    }

    /// Ends the use of the source once its message is over.
    fn judge_source(&mut self) {
        let Some(source) = &mut self.zero_copy.source else { return };
        let may_go_on = matches!(self.closed, None | Some(Closed::Here(_)));
        if source.lease.is_over() || may_go_on && self.sender.is_remote(source.id) {
            return;
        }
        // For a peer that is gone a device may repeat a write without end, and the last chunk wait for a credit that never comes.
        let has_failed = matches!(self.closed, Some(Closed::Failed(_))) || self.zero_copy.is_peer_gone;
        // Without a write of it the device never reads it, and the last chunk matters to the peer only.
        let is_awaited = source.is_used && !has_failed;
        match self.sender.remote_end(source.id) {
            RemoteEnd::Written => source.lease.end(false),
            RemoteEnd::Due | RemoteEnd::InFlight if is_awaited => {}
            RemoteEnd::Due | RemoteEnd::InFlight | RemoteEnd::Never => source.lease.end(source.is_used),
        }
    }

    /// Returns true if the peer may write to the memory still. A message that is not open has ended, and its end proves the writes, except where the connection
    /// was closed or has failed before it.
    fn may_peer_write(&self, destination: &Destination) -> bool {
        let open = self.receiver.open().filter(|open| open.transfer == destination.transfer);
        destination.is_granted && open.map_or(self.receiver.is_shut(), |open| open.way == Way::Granted)
    }

    /// Ends the use of the destination once its message is over, or comes in blocks.
    fn judge_destination(&mut self) {
        let Some(destination) = self.zero_copy.destination.filter(|it| !it.lease.is_over()) else { return };
        let goes_on = self.receiver.open().is_some_and(|open| {
            open.transfer == destination.transfer
                && !matches!(open.way, Way::Withheld | Way::Declined)
                && !open.discarding
        });
        if !goes_on {
            self.end_destination(self.may_peer_write(&destination));
        }
    }

    /// Ends the use of the destination, and drops its CTS if that is due.
    fn end_destination(&mut self, under_way: bool) {
        if let Some(destination) = &mut self.zero_copy.destination {
            destination.lease.end(under_way);
            let transfer = destination.transfer;
            self.take_claim_back(transfer);
        }
    }

    /// Makes the CTS due that has waited for the memory of the message at the head. If the memory could not be registered, the next call
    /// that receives answers without a claim.
    fn grant(&mut self, fabric: &mut F) {
        let Some(open) = self.receiver.open_mut() else { return };
        if open.way != Way::Asked || !open.want_cts || open.discarding || self.pending_cts.is_some() {
            return;
        }
        if let Some(Destination { transfer, bytes, lease, .. }) = self.zero_copy.destination
            && transfer == open.transfer
            && let Some((_, memory)) = lease.ready()
        {
            open.want_cts = false;
            self.pending_cts = Some((transfer, Some(DestinationClaim { memory, bytes })));
            self.flush_controls(fabric);
        }
    }

    /// Takes the notifications of the ends of remote writes, in flag and checked-flag mode. Returns their number.
    pub(super) fn take_end_notifications(&mut self, fabric: &mut F) -> usize {
        if self.config.arrival == Arrival::Notify {
            return 0;
        }
        let mut count = 0;
        while count < REMOTE_ENDS_MAX
            && let Some(notification) = fabric.poll_notification(&mut self.link)
        {
            count += 1;
            self.activity = self.activity.wrapping_add(1);
            let handled = notification.parse().and_then(|notified| match notified {
                Notified::Chunk(low) => self.receiver.handle_end_notification(low),
                Notified::Control(_) | Notified::Ack(_) => Err(ProtocolError::NotificationWrong),
            });
            self.judged(fabric, handled);
        }
        count
    }
}
