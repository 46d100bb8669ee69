//! Messages out of memory that the peer maps: one copy, which the receiver makes. wire.md 4.9, 5.6.

use super::Endpoint;
use crate::error::{ProtocolError, RefusedSend};
use crate::exposing::ExposedState;
use crate::fabric::Fabric;
use crate::job::{Buffer, Exposed};
use crate::plan::{Memory, Way};
use crate::send::TransferId;
use crate::wire::control::Control;
use crate::wire::grant::PeerAccess;

/// A message that is sent out of memory that the peer has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExposedSend {
    /// The peer copies all of it, and it was sent.
    Whole,
    /// The peer copies its first `head` bytes. This end writes the others, by [`Endpoint::push_at`].
    Split { id: TransferId, head: usize },
}

impl<F: Fabric> Endpoint<F> {
    /// Begins to expose memory of the application, so that the peer maps it and copies messages straight out of it. Nothing waits for that:
    /// until the peer has mapped it, messages go through the ring. The bytes of a message must stay as they are from the call that sends it
    /// until the memory [is not shared](Self::is_shared) any more.
    ///
    /// Returns `None` if [`EXPOSED_MAX`](crate::EXPOSED_MAX) places are taken, if the connection does not use the protocol register-cached or auto
    /// on a fabric with direct store, or if it has ended or ends.
    pub fn expose(&mut self, fabric: &mut F, buffer: Buffer) -> Option<Exposed> {
        self.expose_for(fabric, buffer, PeerAccess::Read)
    }

    /// Begins to expose memory of the application that the peer may write, so that it can be [offered](Self::offer) to transfers which this end
    /// receives. Messages out of it go through the ring. The peer can write into it as long as it likes: only a peer that is trusted keeps to
    /// what it was offered.
    ///
    /// Returns `None` as [`expose`](Self::expose) does, and by the protocol auto. Places of both kinds of memory are the same eight.
    pub fn expose_writable(&mut self, fabric: &mut F, buffer: Buffer) -> Option<Exposed> {
        self.expose_for(fabric, buffer, PeerAccess::Write)
    }

    fn expose_for(&mut self, fabric: &mut F, buffer: Buffer, access: PeerAccess) -> Option<Exposed> {
        if !F::DIRECT || !self.exposing.agrees_to(access) || self.has_stopped_exposing() {
            return None;
        }
        let exposed = self.exposing.exposer.expose(buffer, access)?;
        self.drive_exposing(fabric);
        Some(exposed)
    }

    /// Returns the state of memory that was exposed.
    #[must_use]
    pub fn exposed_state(&self, exposed: Exposed) -> ExposedState {
        if self.closed.is_some() { ExposedState::Gone } else { self.exposing.exposer.state(exposed) }
    }

    /// Returns true while the peer may read the memory: messages out of it were sent, and are not known to be taken. It is also true of
    /// memory that was withdrawn meanwhile. After the end of the connection a message that was sent before may still be taken, so it stays
    /// true unless the acknowledgement comes.
    ///
    /// It does not read the peer's acknowledgements: [`poll_acknowledgements`](Self::poll_acknowledgements) does.
    #[must_use]
    pub fn is_shared(&self, exposed: Exposed) -> bool {
        let [_, acked] = self.sender.blocks();
        self.exposing.exposer.is_shared(exposed, acked)
    }

    /// Withdraws memory: no later message names it, and the peer unmaps it once it has taken those that do. The place can be used again
    /// after that. Memory that the peer may write is withdrawn once it [is not offered](Self::is_offered). A stale handle has no effect.
    pub fn withdraw_exposed(&mut self, fabric: &mut F, exposed: Exposed) {
        if self.exposing.exposer.withdraw(exposed) {
            self.drive_exposing(fabric);
        }
    }

    /// Returns true if no memory is being exposed, mapped, withdrawn or unmapped: neither jobs nor control messages nor acknowledgements of
    /// them are awaited.
    #[must_use]
    pub fn is_exposing_steady(&self) -> bool {
        !self.exposing.is_active && !self.exposing.exposer.awaits_answer()
    }

    /// Sends a message out of memory that the peer has mapped, or begins to send it split. Returns `None` if it has to go through the ring: by
    /// its length, by the protocol, or because the memory is not mapped.
    ///
    /// # Errors
    /// `NoCredit`, `Busy`, `Closed`.
    pub(crate) fn send_exposed(
        &mut self,
        fabric: &mut F,
        tag: u64,
        bytes: u64,
        exposed: Exposed,
        offset: u32,
    ) -> Result<Option<ExposedSend>, RefusedSend> {
        let may_name = F::DIRECT
            && self.config.protocol.uses_registered()
            && bytes >= u64::from(self.config.one_copy_bytes)
            && self.exposing.exposer.may_name(exposed, offset, bytes);
        if !may_name {
            return Ok(None);
        }
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        if !self.sender.can_start() {
            return Err(RefusedSend::Busy);
        }
        if let Some(split) = self.send_split(fabric, (tag, bytes), exposed, offset) {
            self.forget_plan(fabric);
            return split.map(Some);
        }
        // What is mapped goes no other way: the plan predicts.
        let plan = self.plan(fabric, bytes, Memory::Kept);
        if plan.is_some_and(|plan| plan.way != Way::OneCopy) {
            self.forget_plan(fabric);
        }
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        if self.sender.is_full() && !self.refill(fabric) {
            self.counters.credit_waits += 1;
            self.wants_ack = true;
            record!(fabric, &self.link, NoCredit { sequence: self.sender.last() });
            return Err(RefusedSend::NoCredit);
        }
        let id = self.sender.emit_exposed(fabric, &mut self.link, tag, bytes, (exposed.place, offset));
        self.note_planned(fabric, id, bytes);
        let [produced, _] = self.sender.blocks();
        self.exposing.exposer.note_named(exposed, self.sender.last(), produced);
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += bytes;
        self.counters.exposed_bytes_sent += bytes;
        fabric.ring_doorbell(&mut self.link);
        Ok(Some(ExposedSend::Whole))
    }

    /// Takes finished jobs, begins those that are due, and sends the control messages that are due. Returns the count of work done.
    pub(super) fn drive_exposing(&mut self, fabric: &mut F) -> usize {
        let mut work = self.take_finished(fabric);
        // All memory goes with the connection.
        if self.has_stopped_exposing() {
            self.exposing.is_active = self.exposing.awaits_job();
            return work;
        }
        let [_, blocks] = self.sender.blocks();
        let [_, controls] = self.outbox.sequences();
        self.exposing.exposer.free_acked(controls, blocks);
        self.exposing.mapper.collect(self.receiver.last(), self.receiver.sources_mut());
        work += self.exposing.begin_jobs(fabric, &mut self.link);
        work += self.send_exposing(fabric);
        self.exposing.judge_activity(self.receiver.sources());
        self.wants_ack |= self.exposing.exposer.awaits_ack();
        work
    }

    /// Sends the control messages that are due. Returns their number.
    fn send_exposing(&mut self, fabric: &mut F) -> usize {
        let mut sent = 0;
        if let Some(answer) = self.exposing.mapper.due()
            && self.post_control(fabric, answer)
        {
            self.exposing.mapper.note_sent();
            sent += 1;
        }
        let written = self.receiver.offered().map(|offered| offered.exposed.place);
        if let Some(control) = self.exposing.exposer.due(written)
            && self.post_control(fabric, control)
        {
            let [newest, _] = self.outbox.sequences();
            self.exposing.exposer.note_sent(&control, newest);
            sent += 1;
        }
        if sent > 0 {
            fabric.ring_doorbell(&mut self.link);
        }
        sent
    }

    /// Handles a control message about memory that is exposed.
    pub(super) fn handle_exposing(&mut self, control: Control) -> Result<(), ProtocolError> {
        let access = match control {
            Control::Expose { access, .. } => access,
            Control::Offer { .. } => PeerAccess::Write,
            _ => PeerAccess::Read,
        };
        if !self.exposing.agrees_to(access) {
            return Err(ProtocolError::ExposeNotAgreed);
        }
        // Nothing is unmapped either: the application may still read in place what it was shown.
        if self.has_stopped_exposing() {
            return Ok(());
        }
        if let Control::Offer { transfer, place, offset } = control {
            return self.handle_offer(transfer, place, offset);
        }
        if let Control::Withdrawn { place, .. } = control
            && self.is_written(place)
        {
            return Err(ProtocolError::WithdrawnOffered);
        }
        let (newest, read) = (self.receiver.last(), self.receiver.named_place());
        self.exposing.handle_control(control, newest, read, self.receiver.sources_mut())
    }

    /// Returns true once either end has closed, or the connection has failed: then memory is neither exposed nor mapped nor unmapped.
    pub(super) const fn has_stopped_exposing(&self) -> bool {
        self.closed.is_some() || self.receiver.is_closing()
    }
}
