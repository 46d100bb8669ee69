//! The choice of the window: how much of the peer's landing buffer a direction cycles through. wire.md 4.11.
//!
//! ```text
//!          the cost of a copy, or its kernel, has changed            one candidate after the other
//!   REST -----------------------------------------------> OPENING ---------------------------------> REST
//!    |                                                    (without a pause)                           ^
//!    +-- a second has passed, or up to 16 since trials were lost --> SERIES of one candidate ---------+
//! ```
//!
//! Candidates are the whole ring, a quarter of it, a sixteenth and so on. A *trial* compares two of them: copies are timed in the chosen window, then
//! the other one is in force for a lap, and the copies of the next laps are timed. A *series* is trials of one candidate, and ends when it
//! has won or lost often enough. A candidate that won is chosen, and has to prove itself.
//!
//! The window is one for all classes of messages. The class that moves most blocks decides, and no other is timed for it.
//!
//! Costs are nanoseconds for 64 KiB, times nanoseconds, sizes blocks where nothing else is said.

mod timing;

use super::cost::{BETTER_Q4, parts};
use super::decider::{Decider, Takeover};
use super::samples::Samples;
use super::series::{Outcome, Series};
use super::size_class::SizeClass;
use super::watch::Watch;
use super::windows::{CANDIDATES_MAX, Windows};
use super::wish::WindowReason;
use crate::nanos::Nanos;
use crate::wire::layout::Layout;

/// Shortest and longest time from the end of a series to the next one: the time doubles with each series that has changed nothing.
const INTERVAL_NS: [u64; 2] = [1_000_000_000, 16_000_000_000];

/// Laps, of the larger window, after which a trial that lacks timings is lost: chunks may be long, and only their first blocks are timed. A receiver
/// that sees other laps for twice as long takes them for usual (`LapsSeen`).
const LAPS_MAX: u32 = 8;

/// Timed copies in a window that was just chosen, after which their cost must be less than in the one before.
const PROOF: u8 = 8;

/// A candidate that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    candidate: usize,
    /// Cost in the chosen window.
    base: u32,
    /// Time of its begin, and the count of blocks from which on it is lost.
    begun: Nanos,
    until: u64,
    samples: Samples,
}

/// The window before the chosen one, its cost, and the timed copies that are left to prove that the new one is better.
#[derive(Clone, Copy, Debug)]
struct Proof {
    before: usize,
    /// The one before was chosen, too.
    was_chosen: bool,
    cost: u32,
    left: u8,
}

/// The choice of the window of one direction.
#[derive(Clone, Debug)]
pub(crate) struct WindowChooser {
    windows: Windows,
    is_pinned: bool,
    /// Bytes that were given, or that were chosen last: the window of the next landing buffer.
    wanted_bytes: u32,
    has_chosen: bool,
    changes: u32,
    chosen: usize,
    /// Costs in the chosen window, since the last trial.
    base: Samples,
    trial: Option<Trial>,
    series: Option<Series>,
    proof: Option<Proof>,
    /// Candidates that are left to be tried without a pause between them, a bit for each.
    to_try: u8,
    /// Candidate that was tried last; how many series each is left out of, and how often it failed to prove itself.
    last_tried: usize,
    left_out: [u8; CANDIDATES_MAX],
    failed: [u8; CANDIDATES_MAX],
    /// End of the last series, and the time to the next one.
    last: Option<Nanos>,
    interval_ns: u64,
    /// The cost in the chosen window.
    watch: Watch,
    /// [`KernelState::news`] of the class that decides, as far as known.
    kernel_news: Option<u32>,
    /// Its kernels are timed by themselves, and tell when the cores have moved.
    kernels_tell: bool,
    decider: Decider,
    /// Count of blocks from which on the next chunk is timed.
    due: u64,
    /// Chunks are timed densely: for a trial or the cost before it, for a proof, or since the watch presses.
    times_densely: bool,
    /// A chunk was planned in this lap.
    has_planned: bool,
}

impl WindowChooser {
    /// Makes the choice of a direction in which `blocks` blocks were sent; with `pinned` bytes there is none.
    pub(crate) const fn new(pinned: Option<u32>, blocks: u64) -> Self {
        let (is_pinned, wanted_bytes) = match pinned {
            Some(bytes) => (true, bytes),
            None => (false, Windows::START_BYTES),
        };
        Self {
            windows: Windows::NONE,
            is_pinned,
            wanted_bytes,
            has_chosen: false,
            changes: 0,
            chosen: 0,
            base: Samples::NONE,
            trial: None,
            series: None,
            proof: None,
            to_try: 0,
            last_tried: 0,
            left_out: [0; CANDIDATES_MAX],
            failed: [0; CANDIDATES_MAX],
            last: None,
            interval_ns: INTERVAL_NS[0],
            watch: Watch::NEW,
            kernel_news: None,
            kernels_tell: false,
            decider: Decider::new(blocks),
            due: blocks,
            times_densely: false,
            has_planned: false,
        }
    }

    /// Chooses in another landing buffer, whose laps have `least_blocks` blocks at least. Windows of fewer than `least_bytes` bytes are not chosen.
    pub(crate) fn enter(&mut self, layout: Layout, least_blocks: u32, least_bytes: u32) {
        self.windows = Windows::of_ring(layout, least_blocks, least_bytes);
        self.chosen = self.windows.nearest(self.wanted_bytes);
        self.forget();
        self.forget_failures();
        self.open();
    }

    /// Uses a window of this many bytes from now on; with `None` chooses again. Returns false if that was so before.
    pub(crate) fn pin(&mut self, bytes: Option<u32>) -> bool {
        if self.pinned() == bytes {
            return false;
        }
        (self.is_pinned, self.times_densely) = (bytes.is_some(), false);
        self.has_chosen = false;
        self.wanted_bytes = bytes.unwrap_or(Windows::START_BYTES);
        self.chosen = self.windows.nearest(self.wanted_bytes);
        self.forget();
        self.forget_failures();
        self.open();
        true
    }

    /// Uses a window of this many bytes, where nothing is timed; the start with `None`.
    pub(crate) fn pin_untimed(&mut self, bytes: Option<u32>) {
        (self.is_pinned, self.wanted_bytes) = (bytes.is_some(), bytes.unwrap_or(Windows::START_BYTES));
    }

    /// Goes on in another landing buffer with the window that was given, where nothing is timed.
    pub(crate) fn enter_untimed(&mut self, layout: Layout, least_blocks: u32) {
        self.windows = Windows::whole(layout, least_blocks);
    }

    /// Returns the blocks of `wanted_bytes` in this ring: of a window that was given, and where nothing is timed.
    pub(crate) fn pinned_blocks(&self) -> u32 {
        self.windows.clamped(self.wanted_bytes)
    }

    /// Returns the blocks of the laps that begin from now on.
    pub(crate) fn blocks(&self) -> u32 {
        if self.is_pinned {
            return self.pinned_blocks();
        }
        self.windows.blocks(self.trial.map_or(self.chosen, |trial| trial.candidate))
    }

    /// Returns the blocks of the window that was chosen or given, also while another one is tried.
    pub(crate) fn chosen_blocks(&self) -> u32 {
        if self.is_pinned { self.blocks() } else { self.windows.blocks(self.chosen) }
    }

    /// Returns the bytes that were given.
    pub(crate) fn pinned(&self) -> Option<u32> {
        self.is_pinned.then_some(self.wanted_bytes)
    }

    /// Returns how often another window was chosen. Trials do not count.
    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the reason for the window.
    pub(crate) const fn reason(&self) -> WindowReason {
        match (self.is_pinned, self.has_chosen && self.windows.count() > 1) {
            (true, _) if self.wanted_bytes == u32::MAX => WindowReason::Start,
            (true, _) => WindowReason::Pinned,
            (false, true) => WindowReason::Chosen,
            (false, false) => WindowReason::Start,
        }
    }

    /// Returns true if copies in laps of this length say what kernels take: no trial was under way.
    pub(crate) fn is_usual(&self, lap_blocks: u32) -> bool {
        !self.may_choose() || lap_blocks == self.windows.blocks(self.chosen)
    }

    /// Returns true if chunks are timed densely: for a trial or the cost before it, for a proof, or since the watch presses.
    #[inline]
    pub(crate) const fn times_densely(&self) -> bool {
        self.times_densely
    }

    /// Returns true if there is a choice.
    #[inline]
    const fn may_choose(&self) -> bool {
        !self.is_pinned && self.windows.count() > 1
    }

    /// Handles the cost of a copy of a message of this class with its chosen kernel, which was made in a lap of `lap_blocks` blocks that was steady; `blocks`
    /// blocks were sent since. Returns true if another window is chosen.
    #[cold]
    pub(crate) fn note(
        &mut self,
        class: SizeClass,
        lap_blocks: u32,
        cost: u32,
        (now, blocks): (Nanos, u64),
    ) -> bool {
        if !self.may_choose() || !self.decider.is(class) {
            return false;
        }
        if let Some(trial) = &mut self.trial {
            if lap_blocks != self.windows.blocks(trial.candidate) {
                return false;
            }
            trial.samples.add(cost);
            let (cost, base) = (trial.samples.median(), trial.base);
            let Some(cost) = cost else { return false };
            let mut margin = BETTER_Q4;
            planted!(WindowFlaps => margin = 16);
            let outcome = if parts(cost, base) < margin { Outcome::Won } else { Outcome::Lost };
            return self.end_trial(outcome, Some(now));
        }
        if lap_blocks != self.windows.blocks(self.chosen) {
            return false;
        }
        self.base.add(cost);
        self.watch.note(cost);
        if let Some(proof) = self.proof {
            return self.look_for_proof(proof);
        }
        let Some(cost) = self.base.median() else { return false };
        let is_at_rest = self.series.is_none() && self.to_try == 0;
        if is_at_rest && !self.kernels_tell && self.watch.has_moved(cost) {
            self.forget_failures();
            self.watch.open();
            self.open();
        }
        self.begin_trial(cost, now, blocks);
        false
    }

    /// Handles the news of the kernels of the class that decides, which are settled: if they have changed, so may have the best window.
    fn note_kernels(&mut self, news: u32) {
        if self.kernel_news.replace(news).is_some_and(|known| known != news) {
            self.forget_failures();
            self.forget();
            self.open();
        }
    }

    /// Forgets what was measured, and ends a trial without a result.
    #[cold]
    pub(crate) const fn forget(&mut self) {
        if let Some(series) = &self.series {
            self.to_try |= bit(series.candidate);
        }
        self.base = Samples::NONE;
        (self.trial, self.series, self.proof) = (None, None, None);
        self.times_densely = false;
        self.watch.forget();
    }

    /// Forgets which candidates did not prove themselves.
    const fn forget_failures(&mut self) {
        (self.left_out, self.failed) = ([0; CANDIDATES_MAX], [0; CANDIDATES_MAX]);
    }

    /// Tries all others without a pause between them, since what copies take has changed.
    fn open(&mut self) {
        planted!(WindowNeverTriesAgain => if self.last.is_some() { return; });
        let others = (0..self.windows.count()).filter(|&other| other != self.chosen);
        self.to_try = others.fold(0, |bits, other| bits | bit(other));
        self.interval_ns = INTERVAL_NS[0];
    }

    /// Counts blocks for their class. The class that has moved most decides.
    fn weigh(&mut self, class: SizeClass, blocks: u64) {
        if let Some(takeover) = self.decider.weigh(class, blocks, self.windows.is_filled_by(class)) {
            self.kernel_news = None;
            self.forget();
            self.to_try = 0;
            // A program that changes between classes opens once for each, and waits for the next series from then on.
            if takeover == Takeover::First {
                // Of the noise of this class nothing is known.
                self.watch = Watch::NEW;
                self.forget_failures();
                self.open();
            }
        }
    }

    /// Begins a trial if one is due. Copies in the chosen window cost `base`.
    fn begin_trial(&mut self, base: u32, now: Nanos, blocks: u64) {
        if self.series.is_none() && !self.begin_series(now) {
            return;
        }
        let Some(series) = &mut self.series else { return };
        series.note_base(base);
        let candidate = series.candidate;
        let longest = self.windows.blocks(self.chosen).max(self.windows.blocks(candidate));
        let until = blocks.wrapping_add(u64::from(longest * LAPS_MAX));
        self.trial = Some(Trial { candidate, base, begun: now, until, samples: Samples::NONE });
    }

    /// Begins the next series. Returns false if none is due, or the candidate whose turn it is is left out.
    fn begin_series(&mut self, now: Nanos) -> bool {
        let is_opening = self.to_try > 0;
        if !is_opening && !self.is_time(now) {
            return false;
        }
        let count = self.windows.count();
        let Some(class) = self.decider.class() else { return false };
        let mut others = (1..=count).map(|step| (self.last_tried + step) % count);
        let next = others.find(|&other| {
            let is_its_turn = !is_opening || self.to_try & bit(other) > 0;
            is_its_turn && other != self.chosen && self.windows.may_try(other, class)
        });
        let Some(candidate) = next else {
            self.to_try = 0;
            return false;
        };
        self.last_tried = candidate;
        self.to_try &= !bit(candidate);
        let left_out = &mut self.left_out[candidate];
        if *left_out > 0 {
            *left_out -= 1;
            self.end_series(Some(now));
            return false;
        }
        self.series = Some(Series::new(candidate, is_opening));
        true
    }

    /// Returns true if the time for another series has come. A clock that was set back begins the time anew.
    fn is_time(&mut self, now: Nanos) -> bool {
        planted!(WindowNeverTriesAgain => if self.last.is_some() { return false; });
        planted!(WindowFlaps => return true);
        match self.last {
            None => true,
            Some(last) if now.0 < last.0 => {
                self.last = Some(now);
                false
            }
            Some(last) => now.0 - last.0 >= self.interval_ns,
        }
    }

    /// Ends a trial. Returns true if another window is chosen.
    fn end_trial(&mut self, outcome: Outcome, now: Option<Nanos>) -> bool {
        let (trial, series) = (self.trial.take(), self.series.as_mut());
        self.base = Samples::NONE;
        let (Some(trial), Some(series)) = (trial, series) else { return false };
        // Where nobody tells of its copies, the pause counts from its begin.
        let now = now.or(Some(trial.begun));
        series.note(outcome);
        let (mut has_won, cost) = (series.has_won(), series.base());
        planted!(WindowFlaps => has_won = outcome == Outcome::Won);
        if !has_won {
            if series.has_lost() {
                self.end_series(now);
                self.settle(cost);
            }
            return false;
        }
        self.end_series(now);
        self.interval_ns = INTERVAL_NS[0];
        self.watch.replace();
        self.proof = Some(Proof { before: self.chosen, was_chosen: self.has_chosen, cost, left: PROOF });
        planted!(WindowFlaps => self.proof = None);
        self.take(trial.candidate);
        true
    }

    fn end_series(&mut self, now: Option<Nanos>) {
        self.series = None;
        self.last = now.or(self.last);
        self.interval_ns = (self.interval_ns * 2).min(INTERVAL_NS[1]);
    }

    /// Ends an opening once no candidate is left, with the cost in the chosen window; 0 if it is not known.
    fn settle(&mut self, cost: u32) {
        if self.to_try == 0 && self.watch.reference() == 0 && cost > 0 {
            self.watch.settle(cost, false);
        }
    }

    fn take(&mut self, candidate: usize) {
        self.to_try &= !(bit(candidate) | bit(self.chosen));
        self.chosen = candidate;
        self.wanted_bytes = self.windows.bytes(candidate);
        self.has_chosen = true;
        self.changes = self.changes.wrapping_add(1);
        self.watch.forget();
        self.base = Samples::NONE;
    }

    /// Returns true if the chosen window has not proved itself, and the one before comes back.
    fn look_for_proof(&mut self, proof: Proof) -> bool {
        let left = proof.left - 1;
        self.proof = (left > 0).then_some(Proof { left, ..proof });
        let Some(cost) = self.base.median().filter(|_| left == 0) else { return false };
        if cost < proof.cost {
            self.watch.prove(cost);
            return false;
        }
        let failed = self.chosen;
        self.left_out[failed] = 1 << self.failed[failed];
        self.failed[failed] = (self.failed[failed] + 1).min(7);
        self.take(proof.before);
        self.has_chosen = proof.was_chosen;
        self.watch.fail(proof.cost);
        true
    }
}

/// Returns the bit of a candidate.
const fn bit(candidate: usize) -> u8 {
    1 << candidate
}

#[cfg(test)]
mod tests;
