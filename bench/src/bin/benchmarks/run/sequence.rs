//! The order of visits: which contestant is visited next for which unit of cells, by the distance that the cores have now.
//!
//! ```text
//! round of a distance ──▶ unit ──▶ slice: one visit of every contestant, right after one another
//!                                    a visit counts if the distance before is that after; otherwise it is run again
//!                                    after a pause the slice begins anew
//! ```
//!
//! Each distance has rounds of its own, which go on where they were left when the cores come back to it. No clock and no
//! program: times and distances come in.

use superpipe_bench::probe::Distance;

/// Limit on the time between two visits of a slice, in nanoseconds: what is compared lies near in time.
const PAUSE_NS_MAX: u64 = 2_000_000_000;

/// One visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) distance: Distance,
    /// of this distance, from 0
    pub(crate) round: usize,
    /// of the round
    pub(crate) unit: usize,
    pub(crate) contestant: usize,
}

/// A visit that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit<T> {
    pub(crate) step: Step,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// the distance behind it
    pub(crate) after: Distance,
    pub(crate) taken: T,
}

/// A unit for which every contestant was visited at one distance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slice<T> {
    pub(crate) distance: Distance,
    pub(crate) round: usize,
    /// by contestant
    pub(crate) taken: Vec<T>,
    /// visits since the slice before that were run again
    pub(crate) again: u32,
    /// the round is complete
    pub(crate) is_last: bool,
}

/// The rounds of every distance.
pub(crate) struct Sequence<T> {
    contestants: usize,
    rounds_wanted: usize,
    rounds_max: usize,
    progress: [Progress<T>; Distance::ALL.len()],
}

/// The rounds of one distance.
struct Progress<T> {
    round: usize,
    unit: usize,
    /// of the slice that was begun, by contestant
    taken: Vec<Option<T>>,
    last_end_ns: u64,
    again: u32,
}

impl<T> Progress<T> {
    fn new(contestants: usize) -> Self {
        Self { round: 0, unit: 0, taken: none(contestants), last_end_ns: 0, again: 0 }
    }

    const fn has_begun(&self) -> bool {
        self.round > 0 || self.unit > 0
    }
}

fn none<T>(count: usize) -> Vec<Option<T>> {
    (0..count).map(|_| None).collect()
}

impl<T> Sequence<T> {
    /// Makes a sequence that ends when each distance with a slice has `rounds_wanted`, and gives none more than `rounds_max`.
    pub(crate) fn new(contestants: usize, rounds_wanted: usize, rounds_max: usize) -> Self {
        let progress = Distance::ALL.map(|_| Progress::new(contestants));
        Self { contestants, rounds_wanted, rounds_max, progress }
    }

    /// Returns the next visit at a distance, or none if it has all rounds. A round goes forwards or backwards, in turn, since the first one may
    /// find the machine in another state.
    pub(crate) fn next(&self, distance: Distance) -> Option<Step> {
        let Progress { round, unit, taken, .. } = &self.progress[distance as usize];
        let mut order = 0..self.contestants;
        let is_missing = |index: &usize| taken[*index].is_none();
        let contestant = if round % 2 == 0 { order.find(is_missing) } else { order.rev().find(is_missing) }?;
        (*round < self.rounds_max).then_some(Step { distance, round: *round, unit: *unit, contestant })
    }

    /// Takes a visit. Returns the slice that it completes. `unit_count` is that of the visit's round.
    pub(crate) fn record(&mut self, visit: Visit<T>, unit_count: usize) -> Option<Slice<T>> {
        let Visit { step, begin_ns, end_ns, after, taken } = visit;
        let progress = &mut self.progress[step.distance as usize];
        if after != step.distance {
            progress.again += 1;
            return None;
        }
        if begin_ns.saturating_sub(progress.last_end_ns) > PAUSE_NS_MAX {
            let begun = progress.taken.iter().flatten().count();
            progress.again += u32::try_from(begun).unwrap_or(u32::MAX);
            progress.taken = none(self.contestants);
        }
        progress.last_end_ns = end_ns;
        progress.taken[step.contestant] = Some(taken);
        if progress.taken.iter().any(Option::is_none) {
            return None;
        }
        let taken = progress.taken.iter_mut().filter_map(Option::take).collect();
        let again = core::mem::take(&mut progress.again);
        progress.unit += 1;
        let is_last = progress.unit == unit_count;
        if is_last {
            (progress.round, progress.unit) = (progress.round + 1, 0);
        }
        Some(Slice { distance: step.distance, round: step.round, taken, again, is_last })
    }

    /// Returns whether each distance of which there is a slice has the rounds that are wanted. False before the first slice.
    pub(crate) fn is_done(&self) -> bool {
        let mut begun = self.progress.iter().filter(|progress| progress.has_begun()).peekable();
        begun.peek().is_some() && begun.all(|progress| progress.round >= self.rounds_wanted)
    }

    /// Complete rounds of a distance.
    pub(crate) const fn rounds(&self, distance: Distance) -> usize {
        self.progress[distance as usize].round
    }
}

#[cfg(test)]
mod tests {
    use Distance::{Apart, Far, Near};

    use super::{Distance, PAUSE_NS_MAX, Sequence, Slice, Visit};

    const VISIT_NS: u64 = 1000;

    /// Visits of three contestants in rounds of two units, each of which takes its number.
    struct Play {
        sequence: Sequence<usize>,
        now_ns: u64,
        count: usize,
    }

    impl Play {
        fn new(rounds_wanted: usize, rounds_max: usize) -> Self {
            Self { sequence: Sequence::new(3, rounds_wanted, rounds_max), now_ns: 1, count: 0 }
        }

        /// Makes a visit that begins at a distance and ends at another.
        fn visit(&mut self, before: Distance, after: Distance) -> Option<Slice<usize>> {
            let step = self.sequence.next(before).unwrap();
            let begin_ns = self.now_ns;
            self.now_ns += VISIT_NS;
            self.count += 1;
            let visit = Visit { step, begin_ns, end_ns: self.now_ns, after, taken: self.count };
            self.sequence.record(visit, 2)
        }

        fn stay(&mut self, at: Distance, visits: usize) -> Vec<Slice<usize>> {
            (0..visits).filter_map(|_| self.visit(at, at)).collect()
        }
    }

    fn taken(slices: &[Slice<usize>]) -> Vec<Vec<usize>> {
        slices.iter().map(|slice| slice.taken.clone()).collect()
    }

    #[test]
    fn a_round_goes_through_its_units_and_turns_round() {
        let mut play = Play::new(2, 2);
        let slices = play.stay(Near, 12);
        assert_eq!(taken(&slices), [[1, 2, 3], [4, 5, 6], [9, 8, 7], [12, 11, 10]]);
        assert_eq!(slices.iter().map(|slice| slice.round).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(slices.iter().map(|slice| slice.is_last).collect::<Vec<_>>(), [false, true, false, true]);
        assert!(play.sequence.is_done() && play.sequence.next(Near).is_none());
    }

    #[test]
    fn a_visit_in_which_the_cores_move_is_run_again() {
        let mut play = Play::new(1, 1);
        assert_eq!(play.visit(Near, Near), None);
        assert_eq!([play.visit(Near, Far), play.visit(Near, Apart)], [None, None]);
        let slices = play.stay(Near, 2);
        assert_eq!((taken(&slices), slices[0].again), (vec![vec![1, 4, 5]], 2));
    }

    #[test]
    fn distances_are_never_mixed_and_go_on_where_they_were_left() {
        let mut play = Play::new(1, 1);
        let mut slices = play.stay(Near, 2);
        slices.extend(play.stay(Far, 4));
        slices.extend(play.stay(Near, 2));
        slices.extend(play.stay(Far, 2));
        slices.extend(play.stay(Near, 2));
        assert_eq!(taken(&slices), [[3, 4, 5], [1, 2, 7], [6, 9, 10], [8, 11, 12]]);
        let distances: Vec<Distance> = slices.iter().map(|slice| slice.distance).collect();
        assert_eq!(distances, [Far, Near, Far, Near]);
        assert_eq!(Distance::ALL.map(|distance| play.sequence.rounds(distance)), [1, 0, 1]);
    }

    #[test]
    fn after_a_pause_a_slice_begins_anew() {
        let mut play = Play::new(1, 1);
        play.stay(Near, 2);
        play.now_ns += PAUSE_NS_MAX;
        assert_eq!(taken(&play.stay(Near, 1)), [[1, 2, 3]]);
        play.stay(Near, 2);
        play.now_ns += PAUSE_NS_MAX + 1;
        let slices = play.stay(Near, 3);
        assert_eq!((taken(&slices), slices[0].again), (vec![vec![7, 8, 6]], 2));
    }

    #[test]
    fn the_end_waits_for_each_distance_that_has_a_slice() {
        let mut play = Play::new(1, 2);
        assert!(!play.sequence.is_done());
        play.stay(Far, 3);
        play.visit(Apart, Apart);
        play.stay(Near, 6);
        assert!(!play.sequence.is_done());
        // a third round is one too many
        play.stay(Near, 6);
        assert!(play.sequence.next(Near).is_none());
        play.stay(Far, 3);
        assert!(play.sequence.is_done());
    }
}
