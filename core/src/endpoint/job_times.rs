//! What an end knows about its jobs under way: what moves beside them, and what waits for them.

use super::{Counters, Endpoint};
use crate::fabric::Fabric;
use crate::job::JobKind;
use crate::job_time::{Awaited, Direction, JobTime, Look};
use crate::send::RemoteNext;

/// State of an end at a moment. Arrays have the direction in which it sends first.
#[derive(Clone, Copy)]
pub(super) struct View {
    moved: [u64; 2],
    is_open: [bool; 2],
    /// The next image, or the next landing buffer, can be provisioned only after a release.
    awaits_release: [bool; 2],
    /// The peer has answered with a claim, so that only the source is awaited.
    has_claim: bool,
    steps_ns: u64,
}

impl View {
    /// Takes the look at a job of this kind.
    pub(super) fn look(&self, job: JobKind, direction: Direction) -> Look {
        let [sent, received] = self.moved;
        let moved = if direction == Direction::Sent { sent } else { received };
        let is_awaited = match job {
            JobKind::ProvisionImage => self.is_open[0],
            // The peer has asked for it because of a transfer, of which nothing may have come yet.
            JobKind::ProvisionLanding if !self.is_open[1] => {
                return Look { moved, awaited: Awaited::UntilMoved, steps_ns: self.steps_ns };
            }
            JobKind::ProvisionLanding => true,
            JobKind::ReleaseImage => self.awaits_release[0],
            JobKind::ReleaseLanding => self.awaits_release[1],
            JobKind::RegisterSource => self.has_claim,
            // The CTS waits for it.
            JobKind::RegisterDestination => true,
            // The operation is over only after it.
            JobKind::Deregister | JobKind::EndLink => true,
            // Messages go through the ring meanwhile.
            JobKind::Expose | JobKind::Map | JobKind::Unmap => false,
        };
        let awaited = if is_awaited { Awaited::Yes } else { Awaited::No };
        Look { moved, awaited, steps_ns: self.steps_ns }
    }
}

/// Returns the direction of a job of growth.
pub(super) const fn direction_of(job: JobKind) -> Direction {
    match job {
        JobKind::ProvisionLanding
        | JobKind::ReleaseLanding
        | JobKind::RegisterDestination
        | JobKind::Map
        | JobKind::Unmap => Direction::Received,
        JobKind::ProvisionImage
        | JobKind::ReleaseImage
        | JobKind::RegisterSource
        | JobKind::Deregister
        | JobKind::Expose
        | JobKind::EndLink => Direction::Sent,
    }
}

impl<F: Fabric> Endpoint<F> {
    /// Returns the state of this end that says what its jobs are awaited for.
    pub(super) fn view(&self, fabric: &F) -> View {
        let growth = self.growth.as_ref();
        let source = self.zero_copy.source.filter(|_| !F::DIRECT);
        let has_claim = source
            .is_some_and(|source| matches!(self.sender.next_remote(source.id), RemoteNext::Write { .. }));
        let Counters { remote_bytes_sent, bytes_received, .. } = self.counters;
        // A chunk that is copied while its CTS is awaited counts then, and when it is sent.
        let built =
            self.sender.blocks_sent().wrapping_mul(2).wrapping_add(u64::from(self.sender.prepared() > 0));
        View {
            // A block that is taken out in parts counts with each.
            moved: [
                built.wrapping_add(remote_bytes_sent),
                self.receiver.consumed().wrapping_add(bytes_received),
            ],
            is_open: [!self.sender.can_start(), self.receiver.open().is_some()],
            awaits_release: [
                growth.is_some_and(|growth| growth.requester.awaits_release()),
                growth.is_some_and(|growth| growth.provider.is_asked()),
            ],
            has_claim,
            steps_ns: fabric.job_steps_ns(&self.link),
        }
    }

    /// Looks at the jobs under way. Reads the clock only for a job beside which nothing has moved since the round before.
    #[cold]
    pub(super) fn look_at_jobs(&mut self, fabric: &mut F) {
        let view = self.view(fabric);
        let jobs = self.growth.iter_mut().flat_map(|growth| growth.jobs.times());
        for (purpose, time) in jobs {
            let job = purpose.kind();
            time.look(view.look(job, direction_of(job)), || fabric.now());
        }
        if F::DIRECT {
            for (job, time) in self.exposing.times().into_iter().flatten() {
                time.look(view.look(job, direction_of(job)), || fabric.now());
            }
            return;
        }
        let [source, destination] = self.zero_copy.times();
        for (lent, direction) in [(source, Direction::Sent), (destination, Direction::Received)] {
            if let Some((job, time)) = lent {
                time.look(view.look(job, direction), || fabric.now());
            }
        }
    }

    /// Counts the time of a job that is over, and records it. Returns its nanoseconds.
    pub(super) fn count_job(
        &mut self,
        fabric: &mut F,
        number: u8,
        (job, time): (JobKind, JobTime),
        look: Look,
        has_failed: bool,
    ) -> u64 {
        let spent = time.end(look, fabric.now());
        self.counters.jobs += 1;
        self.counters.jobs_failed += u64::from(has_failed);
        self.counters.jobs_ns += spent.ns;
        self.counters.jobs_visible_ns += spent.visible_ns;
        let visible_ns = spent.visible_ns;
        record!(fabric, &self.link, since Some(spent.begun), JobEnd { number, job, has_failed, visible_ns });
        spent.ns
    }
}
