//! Time of a job, and the part of it that was visible. docs/architecture/memory.md, "The time of jobs".
//!
//! A nanosecond of a job is **visible** if it lies in one of two parts of the job's time:
//!
//! - from the last movement in the job's direction to the end of the job, while something waits for it: a stall that ended before the
//!   job did was no wait for the job;
//! - while this end's own thread made steps of jobs, since it moves nothing then.
//!
//! All other time of the job is **hidden**. Movement is seen in counts that core keeps anyway. The clock is read at the begin and the end of a
//! job, and in the first round of progress in which nothing has moved: never in a round in which something has.

use core::hash::{Hash, Hasher};

use crate::fabric::Fabric;
use crate::job::{Busy, Job, Ticket};
use crate::nanos::Nanos;

/// Direction that a job belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Sent,
    Received,
}

/// What waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Nothing.
    No,
    /// A transfer, or an operation.
    Yes,
    /// Something did when the job began, as far as this end can know, and nothing has moved since.
    UntilMoved,
}

/// What an end knows about a job at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Count of what has moved in the job's direction.
    pub(crate) moved: u64,
    pub(crate) awaited: Awaited,
    /// Time that this end's thread has spent on steps of jobs.
    pub(crate) steps_ns: u64,
}

/// Time of a job under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobTime {
    begun: Nanos,
    /// Count of what had moved at the begin. `None` before the first look.
    first: Option<u64>,
    /// Counts at the last movement.
    moved: u64,
    steps_ns: u64,
    /// Time since which something waits and nothing has moved.
    still_since: Option<Nanos>,
    /// Visible time before that.
    visible_ns: u64,
}

/// Time of a job that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) begun: Nanos,
    pub(crate) ns: u64,
    /// Nanoseconds among them that were visible.
    pub(crate) visible_ns: u64,
}

/// Begins a job, and records that. Returns its time.
pub(crate) fn begin<F: Fabric>(
    fabric: &mut F,
    link: &mut F::Link,
    ticket: Ticket,
    job: Job<F::Region, F::Remote>,
) -> Result<JobTime, Busy> {
    let (kind, bytes) = (job.kind(), job.bytes());
    fabric.begin(link, ticket, job)?;
    let time = JobTime::new(fabric.now());
    record!(fabric, link, JobBegin { number: ticket.index, job: kind, bytes });
    Ok(time)
}

impl JobTime {
    /// Makes the time of a job that begins now.
    pub(crate) const fn new(begun: Nanos) -> Self {
        Self { begun, first: None, moved: 0, steps_ns: 0, still_since: None, visible_ns: 0 }
    }

    /// Takes a look, which calls `now` only if nothing has moved since the look before, and did then.
    pub(crate) fn look(&mut self, look: Look, now: impl FnOnce() -> Nanos) {
        let is_first = self.first.is_none();
        if is_first {
            (self.first, self.moved, self.steps_ns) = (Some(look.moved), look.moved, look.steps_ns);
        }
        if !self.is_still(look) {
            self.note_steps(look);
            self.still_since = None;
        } else if self.still_since.is_none() {
            self.note_steps(look);
            self.still_since = Some(if is_first { self.begun } else { now() });
        }
    }

    /// Ends the job, with a last look.
    pub(crate) fn end(mut self, look: Look, now: Nanos) -> Spent {
        match self.still_since {
            Some(since) if self.is_still(look) => self.visible_ns += now.0.saturating_sub(since.0),
            _ if self.first.is_some() => self.note_steps(look),
            _ => {}
        }
        let ns = now.0.saturating_sub(self.begun.0);
        Spent { begun: self.begun, ns, visible_ns: self.visible_ns.min(ns) }
    }

    /// Returns true if something waits, and nothing has moved since the last movement that was seen.
    fn is_still(&self, look: Look) -> bool {
        let is_awaited = match look.awaited {
            Awaited::No => false,
            Awaited::Yes => true,
            Awaited::UntilMoved => self.first == Some(look.moved),
        };
        is_awaited && look.moved == self.moved
    }

    fn note_steps(&mut self, look: Look) {
        self.visible_ns += look.steps_ns.wrapping_sub(self.steps_ns);
        (self.moved, self.steps_ns) = (look.moved, look.steps_ns);
    }
}

/// Nothing that an end does depends on the time of its jobs.
impl Hash for JobTime {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(moved: u64, awaited: Awaited, steps_ns: u64) -> Look {
        Look { moved, awaited, steps_ns }
    }

    /// Plays looks, each at a time, on a job from 1000 on. The last one ends it. Returns its visible time, and how often the clock was read.
    fn play(looks: &[(u64, Look)]) -> (u64, u32) {
        let (mut time, mut reads) = (JobTime::new(Nanos(1000)), 0);
        let ((end, last), others) = looks.split_last().unwrap();
        for (now, look) in others {
            time.look(*look, || {
                reads += 1;
                Nanos(*now)
            });
        }
        let spent = time.end(*last, Nanos(*end));
        assert_eq!((spent.begun, spent.ns), (Nanos(1000), end - 1000));
        (spent.visible_ns, reads)
    }

    #[test]
    fn a_job_in_which_nothing_moves_is_visible() {
        let still = at(7, Awaited::Yes, 0);
        assert_eq!(play(&[(1010, still), (1500, still), (2000, still), (3000, still)]), (2000, 0));
    }

    #[test]
    fn a_job_that_nothing_waits_for_is_hidden() {
        let idle = at(7, Awaited::No, 0);
        assert_eq!(play(&[(1010, idle), (1500, idle), (3000, idle)]), (0, 0));
    }

    #[test]
    fn a_stall_counts_only_if_it_lasts_until_the_end() {
        let moved = |count| at(count, Awaited::Yes, 0);
        let looks = [(1010, moved(7)), (1500, moved(7)), (1600, moved(8)), (1900, moved(9))];
        assert_eq!(
            play(&[&looks[..], &[(3000, moved(10))]].concat()),
            (0, 0),
            "something moves in each round"
        );
        assert_eq!(
            play(&[&looks[..], &[(2100, moved(9)), (2500, moved(9)), (3000, moved(9))]].concat()),
            (900, 1)
        );
        assert_eq!(
            play(&[&looks[..], &[(2100, moved(9)), (2500, moved(9)), (3000, moved(10))]].concat()),
            (0, 1)
        );
    }

    #[test]
    fn a_wait_that_begins_late_counts_from_there() {
        let looks =
            [(1010, at(7, Awaited::No, 0)), (1800, at(7, Awaited::Yes, 0)), (2000, at(7, Awaited::Yes, 0))];
        assert_eq!(play(&looks), (200, 1));
    }

    #[test]
    fn own_steps_are_visible_and_count_once() {
        let step = |moved, steps_ns| at(moved, Awaited::Yes, steps_ns);
        let moving =
            [(1010, step(7, 500)), (1400, step(8, 600)), (1900, step(9, 750)), (2000, step(10, 800))];
        assert_eq!(play(&moving), (300, 0), "all steps since the first look");
        let still = [(1010, step(7, 500)), (1400, step(7, 800)), (2000, step(7, 1400))];
        assert_eq!(play(&still), (1000, 0), "steps in a stall are a part of it");
        let both = [(1010, step(7, 500)), (1400, step(8, 600)), (1500, step(8, 650)), (2000, step(8, 1100))];
        assert_eq!(play(&both), (150 + 500, 1));
    }

    #[test]
    fn a_job_is_awaited_until_something_moves() {
        let look = |moved| at(moved, Awaited::UntilMoved, 0);
        assert_eq!(play(&[(1010, look(7)), (2000, look(7))]), (1000, 0));
        assert_eq!(play(&[(1010, look(7)), (1500, look(8)), (1600, look(8)), (2000, look(8))]), (0, 0));
    }
}
