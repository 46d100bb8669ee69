//! Steps of landing buffers that grow, and what must hold of their memory.

use superpipe_core::{GrowthTerms, Landing, Layout};
use superpipe_testkit::Memory;

use super::State;
use super::flow::Flow;
use crate::explore::cases::Case;
use crate::explore::fabric::StepFabric;
use crate::explore::step::Step;

/// Attempts that an end lets pass before it asks again, as the first of `PATIENCE` in core.
const ATTEMPTS: u32 = 64;

/// Returns the terms of growth of an end.
pub(super) fn terms<const DIRECT: bool>(case: &Case, side: usize) -> Option<GrowthTerms<StepFabric<DIRECT>>> {
    let growing = case.growing?;
    let base = |owner| Landing { memory: Memory::landing(owner), layout: case.layout() };
    let (block_count, block_bytes) = growing.largest;
    Some(GrowthTerms {
        base: base(side),
        peer_base: base(1 - side),
        largest: Layout { block_bytes, block_count, ..case.layout() },
        slab_bytes: growing.slab_bytes,
        delay: growing.delay,
        first_is_own: growing.first.is_some(),
    })
}

impl<const DIRECT: bool> State<DIRECT> {
    /// Adds the steps of growth to try.
    pub(super) fn growing_steps(&self, side: usize, steps: &mut Vec<Step>) {
        for job in 0..self.fabric.jobs(side) {
            steps.push(Step::FinishJob { side, job });
            if self.fabric.can_fail(side, job) {
                steps.push(Step::FailJob { side, job });
            }
        }
        if self.fabric.can_repeat(side) {
            steps.push(Step::RepeatJob(side));
        }
        if self.shrinks_left[side] > 0 && self.ends[side].0.endpoint().closed().is_none() {
            steps.push(Step::Shrink(side));
        }
    }

    /// Repeats a sending step that found no room, once a job has failed: an end that was refused asks again after 64 such attempts, which
    /// as steps of their own would be 64 times as many states.
    pub(super) fn send_on(&mut self, side: usize) -> bool {
        let progress = |flow: &Flow| {
            let bytes: usize = flow.sent.iter().map(|sent| sent.bytes).sum();
            (flow.next, flow.open.is_some(), bytes)
        };
        let mut left = if self.case.growing.is_some() && self.fabric.has_failed() { ATTEMPTS } else { 0 };
        let before = progress(&self.flows[side]);
        while left > 0 && progress(&self.flows[side]) == before && !self.flows[side].is_sent() {
            left -= 1;
            self.send(side);
        }
        true
    }

    /// Lets an end wish to shrink. Returns false if it has not grown.
    pub(super) fn shrink(&mut self, side: usize) -> bool {
        self.shrinks_left[side] -= 1;
        self.ends[side].change().0.endpoint_mut().shrink()
    }

    /// Lets an end take the end of a job.
    pub(super) fn take_job(&mut self, side: usize) -> bool {
        self.ends[side].change().0.progress(&mut self.fabric);
        assert!(!self.fabric.has_report(side), "the end of a job is not taken");
        self.take_events(side)
    }

    /// Checks that memory is provisioned for the current epochs only, where no growth is under way.
    pub(super) fn check_grown(&self) {
        let ends = self.ends.each_ref().map(|end| end.0.endpoint());
        let is_open = ends.iter().all(|end| end.closed().is_none() && !end.peer_closes());
        let is_steady = ends.iter().all(|end| end.is_growth_steady()) && self.fabric.is_quiescent();
        if self.case.growing.is_some() && is_open && is_steady {
            for (owner, end) in ends.into_iter().enumerate() {
                let count = usize::from(end.has_grown());
                let (provisioned, counters) = (self.fabric.grown(owner), end.counters());
                assert_eq!(provisioned, [count; 2], "landing buffers of end {owner}, and their images");
                assert_eq!(
                    counters.landing_bytes,
                    [self.fabric.grown_bytes(owner), 0, 0],
                    "bytes of landing buffers that end {owner} counts"
                );
                let made = counters.growths + u64::from(self.case.has_own_first());
                assert_eq!(made, counters.releases + count as u64, "landing buffers that end {owner} counts");
            }
        }
    }
}
