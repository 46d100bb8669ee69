//! Growth of both landing buffers: jobs, control messages, and the moves of both halves. wire.md 2.5, 5.4, 5.5.

use super::Endpoint;
use super::job_times::direction_of;
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::memory::{Growth, Purpose, Retired};
use crate::nanos::Nanos;
use crate::wire::control::Control;
use crate::wire::grant::{GrowReason, PeerAccess};
use crate::wire::header::Length;

impl<F: Fabric> Endpoint<F> {
    /// Takes finished jobs, begins those that are due, moves the sending half at a chunk boundary, and sends the control messages that
    /// are due. Returns the count of work done.
    pub(super) fn drive_growth(&mut self, fabric: &mut F) -> usize {
        self.note_move();
        let mut work = self.take_finished(fabric);
        let Some(growth) = &mut self.growth else { return work };
        let Growth { requester, provider, jobs } = growth;
        // An end that closes, or whose peer does, releases everything soon.
        if self.closed.is_some() || self.receiver.is_closing() {
            return work;
        }
        let layout = self.receiver.layout();
        if let Some(next) = provider.begin_jobs(fabric, &mut self.link, jobs, layout) {
            self.receiver.expect(next);
        }
        work += usize::from(requester.begin_jobs(fabric, &mut self.link, jobs));
        if requester.has_move()
            && self.sender.is_at_boundary()
            && let Some(landing) = requester.take_move(self.sender.last())
        {
            self.sender.enter(landing, &self.config);
            self.counters.moves += 1;
            work += 1;
        }
        let has_left_behind = self.sender.has_left_behind();
        self.wants_ack |= requester.has_left() && !has_left_behind;
        let due = requester.due(has_left_behind);
        work += self.send_growth(fabric, due);
        if self.has_jobs() {
            self.look_at_jobs(fabric);
        }
        work
    }

    /// Takes finished jobs: those of growth, of registered memory, and of memory that is exposed and mapped. Returns their number.
    pub(super) fn take_finished(&mut self, fabric: &mut F) -> usize {
        let mut count = 0;
        while let Some((ticket, result)) = fabric.finished(&mut self.link) {
            count += 1;
            let (view, has_failed) = (self.view(fabric), result.is_err());
            if !F::DIRECT {
                if let Some((over, direction)) = self.zero_copy.handle_finished(ticket, result) {
                    let ((job, time), look) = (over, view.look(over.0, direction));
                    let ns = self.count_job(fabric, ticket.index, (job, time), look, has_failed);
                    self.counters.registration_ns += ns;
                    self.counters.registrations_failed += u64::from(has_failed && !job.takes_back());
                }
            } else if self.exposing.agrees_to(PeerAccess::Read) {
                let over = self.exposing.handle_finished(ticket, result, self.receiver.sources_mut());
                if let Some((job, time)) = over {
                    let look = view.look(job, direction_of(job));
                    self.count_job(fabric, ticket.index, (job, time), look, has_failed);
                }
            }
            let Some(Growth { requester, provider, jobs }) = &mut self.growth else { continue };
            let Some((purpose, time)) = jobs.finish(ticket) else { continue };
            match purpose {
                Purpose::Landing => {
                    if let Some(next) = provider.handle_provisioned(result) {
                        self.receiver.expect(next);
                    }
                }
                Purpose::Image => requester.handle_image(result),
                Purpose::LandingRelease => provider.handle_released(),
                Purpose::ImageRelease => requester.handle_released(),
                Purpose::UnusedImageRelease => requester.handle_unused_released(),
            }
            let job = purpose.kind();
            self.count_job(fabric, ticket.index, (job, time), view.look(job, direction_of(job)), has_failed);
        }
        count
    }

    /// Sends the control messages of both halves that are due.
    fn send_growth(&mut self, fabric: &mut F, due: Option<Control>) -> usize {
        let mut sent = 0;
        if let Some(control) = due
            && self.post_control(fabric, control)
        {
            if let Some(growth) = &mut self.growth {
                growth.requester.note_sent(&control);
            }
            self.counters.growths_asked += u64::from(matches!(control, Control::Grow { .. }));
            self.counters.growths_refused += u64::from(matches!(control, Control::Retired { last: 0, .. }));
            sent += 1;
        }
        if let Some(control) = self.growth.as_ref().and_then(|growth| growth.provider.due())
            && self.post_control(fabric, control)
        {
            if let Some(growth) = &mut self.growth {
                growth.provider.note_sent();
            }
            sent += 1;
        }
        self.counters.growth_controls += sent as u64;
        if sent > 0 {
            fabric.ring_doorbell(&mut self.link);
        }
        sent
    }

    /// Handles a control message about growth.
    pub(super) fn handle_growth(&mut self, control: Control) -> Result<(), ProtocolError> {
        self.note_move();
        self.counters.growth_controls += 1;
        self.counters.growths_refused += u64::from(matches!(control, Control::GrowRefused { .. }));
        let ((newest, idle_at), moved_at) = (self.newest_released(), self.receiver.moved_at());
        let Some(Growth { requester, provider, .. }) = &mut self.growth else {
            return Err(ProtocolError::GrowthNotAgreed);
        };
        // Nothing is released either: the application may still read in place what it was shown.
        if self.closed.is_some() || self.receiver.is_closing() {
            return Ok(());
        }
        match control {
            Control::Grow { request, bytes, .. } => provider.handle_grow(request, bytes),
            Control::Grown { request, grant } => requester.handle_grown(request, grant),
            Control::GrowRefused { request, .. } => requester.handle_refused(request),
            Control::Shrink { epoch, base } => requester.handle_shrink(epoch, base),
            Control::Retired { epoch, last } => {
                match provider.handle_retired(epoch, last, moved_at, newest, idle_at)? {
                    Retired::Seen => {}
                    Retired::Moved => {
                        self.receiver.enter();
                        self.receiver.take_moved();
                        self.receiver.fit_cadence();
                    }
                    Retired::Unused => self.receiver.expect_none(),
                }
                Ok(())
            }
            Control::Cts { .. }
            | Control::Reject { .. }
            | Control::Close { .. }
            | Control::Expose { .. }
            | Control::Mapped { .. }
            | Control::Withdrawn { .. }
            | Control::Offer { .. } => Ok(()),
        }
    }

    /// Notes that the receiving half has found a chunk in the granted epoch.
    fn note_move(&mut self) {
        if self.receiver.take_moved()
            && let Some(growth) = &mut self.growth
        {
            growth.provider.handle_move();
            self.receiver.fit_cadence();
            planted!(LoanLeftBehind => self.loans.forget_oldest());
        }
    }

    /// Notes that the completion of RETIRED was polled.
    pub(super) const fn handle_retired_written(&mut self) {
        if let Some(growth) = &mut self.growth {
            growth.requester.handle_retired_written();
        }
    }

    /// Asks for a larger landing buffer if a transfer of this length does not fit the current one.
    pub(super) fn want_growth_for(&mut self, length: Length) {
        let layout = self.sender.layout();
        let fits = match length {
            Length::Exact(bytes) => bytes <= u64::from(layout.capacity(layout.block_count)),
            Length::Stream => true,
        };
        if !fits {
            self.want_growth(GrowReason::Message);
        }
    }

    /// Asks for a larger landing buffer for the open transfer.
    #[cold]
    pub(super) fn want_growth(&mut self, reason: GrowReason) {
        let layout = self.sender.layout();
        if let Some(growth) = &mut self.growth
            && let Some(wish) = self.sender.wish(layout)
        {
            growth.requester.want(reason, layout, wish);
        }
    }

    /// Notes that the caller is about to rest. Returns true if it is to try once more, since a transfer is held back for which no larger landing
    /// buffer was asked for.
    pub(crate) fn hurry_growth(&mut self) -> bool {
        self.growth.as_mut().is_some_and(|growth| growth.requester.hurry())
    }

    /// Notes the time, at a tick: a transfer that has waited for blocks for a while asks for a larger landing buffer at its next try.
    pub(crate) fn note_growth_time(&mut self, now: Nanos) {
        if let Some(growth) = &mut self.growth {
            growth.requester.note_time(now);
        }
    }

    /// Asks the peer to leave the landing buffer that was grown, so that its memory can be released. The peer may go on sending meanwhile.
    /// Returns false if there is none.
    pub fn shrink(&mut self) -> bool {
        self.growth.as_mut().is_some_and(|growth| growth.provider.shrink())
    }

    /// [`shrink`](Self::shrink), because the memory is needed elsewhere.
    pub(crate) fn reclaim(&mut self) {
        if let Some(growth) = &mut self.growth {
            growth.provider.reclaim();
        }
    }

    /// Returns true while an image is made, or kept, for a GROW that is not answered.
    pub(crate) fn has_image_beside(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.requester.has_image_beside())
    }

    /// Gives up that image, because the memory is needed elsewhere.
    pub(crate) fn give_up_image_beside(&mut self) {
        if let Some(growth) = &mut self.growth {
            growth.requester.give_up_image_beside();
        }
    }

    /// Returns the count of blocks that this end has consumed.
    pub(crate) const fn blocks_consumed(&self) -> u64 {
        self.receiver.consumed()
    }

    /// Returns true if this end has a landing buffer that was grown.
    #[must_use]
    pub fn has_grown(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| growth.provider.has_grown())
    }

    /// Returns true while the fabric does a job for this end.
    pub(crate) fn has_jobs(&self) -> bool {
        self.growth.as_ref().is_some_and(|growth| !growth.jobs.is_empty())
            || self.zero_copy.awaits_job()
            || self.exposing.awaits_job()
    }

    /// Returns true if no growth is under way: neither jobs nor control messages are awaited.
    #[must_use]
    pub fn is_growth_steady(&self) -> bool {
        self.growth.as_ref().is_none_or(Growth::is_steady)
    }
}
