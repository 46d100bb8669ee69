//! Copies into blocks that are timed, and the choices of their kernel and of the window. wire.md 4.11, 4.12.

use super::Sender;
use crate::config::Config;
use crate::copying::{
    CopyKernel, KernelChooser, KernelSet, LapNow, NS_MAX, Plan, SizeClass, TRIAL_EVERY, WindowChooser, Wish,
    cost_of,
};
use crate::fabric::{Fabric, times_copies};
use crate::nanos::Nanos;
use crate::recorder::ChosenKernel;
use crate::wire::header::Length;
use crate::wire::sequence::is_before;
use crate::wire::timing::Timing;
use heapless::Deque;

/// Timed chunks in a row that the peer has acknowledged without a time, after which this end's time alone counts: its application reads in place.
const UNANSWERED_MAX: u8 = 8;
/// Answers in a row, with no such chunk between them, after which the peer's times count again: at first, and at most. Each time that they do, it takes twice as
/// many, since each change forgets what was measured: an application may copy some of its messages, and read the others in place.
const ANSWERED: [u8; 2] = [8, 128];

/// Most timed chunks of which the peer may tell the time: enough for a lap of a trial of windows, in which eight groups are timed, or more
/// in laps of more than 512 blocks.
const PENDING_MAX: usize = 8;

/// The choices of a sending half.
#[derive(Clone, Debug)]
pub(super) struct Kernels {
    chooser: KernelChooser,
    windows: WindowChooser,
    /// Timed chunks whose time the peer has not told, oldest first. An acknowledgement has the newest time only, so chunks before the one that it names are
    /// dropped.
    pending: Deque<TimedCopy, PENDING_MAX>,
    unanswered: u8,
    /// This end's time alone counts. Answers in a row meanwhile, and how many it takes.
    counts_own: bool,
    answered: u8,
    answered_max: u8,
    timed: u64,
    /// [`Config::timed_bytes`]
    timed_bytes: u32,
}

/// A timed copy into a group.
#[derive(Clone, Copy, Debug)]
struct TimedCopy {
    sequence: u64,
    /// Count of its first block.
    block: u64,
    plan: Plan,
    lap: LapNow,
    bytes: u32,
    ns: u64,
    /// Time of its end.
    at: Nanos,
}

/// Choices that a measurement has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Class whose kernel has changed.
    kernel: Option<SizeClass>,
    window: bool,
}

impl Kernels {
    pub(super) fn new<F: Fabric>(available: KernelSet, config: &Config, blocks: u64) -> Self {
        let chooser = if times_copies::<F>() {
            KernelChooser::new(available, config.copy_in, (blocks, TRIAL_EVERY[0]), u64::MAX)
        } else {
            KernelChooser::PLAIN
        };
        Self::of(chooser, WindowChooser::new(config.window_bytes, blocks), config.timed_bytes)
    }

    /// Begins with these choices. Of messages of `timed_bytes` bytes and more copies are timed.
    const fn of(chooser: KernelChooser, windows: WindowChooser, timed_bytes: u32) -> Self {
        Self {
            chooser,
            windows,
            pending: Deque::new(),
            unanswered: 0,
            counts_own: false,
            answered: 0,
            answered_max: ANSWERED[0],
            timed: 0,
            timed_bytes,
        }
    }

    /// Returns the bytes of the window that were given.
    pub(super) fn pinned_window(&self) -> Option<u32> {
        self.windows.pinned()
    }

    /// Handles this end's time of a copy that has just ended. `blocks` blocks were sent before its chunk.
    #[cold]
    fn note_own(&mut self, copy: TimedCopy, blocks: u64) -> Changes {
        self.timed += 1;
        if self.pending.is_full() && self.pending.pop_front().is_some() {
            self.note_unanswered();
        }
        let kept = self.pending.push_back(copy);
        debug_assert!(kept.is_ok(), "the oldest one was dropped");
        if self.counts_own { self.note(copy, copy.ns, blocks) } else { Changes::default() }
    }

    /// Handles a timed copy of which the peer has told no time. After many of them this end's own times count alone.
    fn note_unanswered(&mut self) {
        self.answered = 0;
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered >= UNANSWERED_MAX && !self.counts_own {
            // From now on something else is measured.
            self.counts_own = true;
            self.forget();
        }
    }

    /// Handles what the peer says that it has timed, when `blocks` blocks were sent.
    fn note_peers(&mut self, timing: Timing, blocks: u64) -> Changes {
        let named = self.pending.iter().position(|copy| timing.of_chunk(copy.sequence).is_some());
        for _ in 0..named.unwrap_or(0) {
            self.pending.pop_front();
        }
        let copy = if named.is_some() { self.pending.pop_front() } else { None };
        let Some((copy, peer_ns)) = copy.and_then(|copy| Some((copy, timing.of_chunk(copy.sequence)?)))
        else {
            return Changes::default();
        };
        if peer_ns > NS_MAX {
            // It would keep a class open for ever.
            self.note_unanswered();
            return Changes::default();
        }
        self.unanswered = 0;
        if self.counts_own {
            self.answered += 1;
            if self.answered < self.answered_max {
                return Changes::default();
            }
            (self.counts_own, self.answered) = (false, 0);
            self.answered_max = self.answered_max.saturating_mul(2).min(ANSWERED[1]);
            self.forget();
        }
        self.note(copy, copy.ns.saturating_add(peer_ns), blocks)
    }

    /// Forgets all measurements, since the next ones measure something else.
    fn forget(&mut self) {
        self.chooser.open_all();
        self.windows.forget();
    }

    /// Handles the time of a copy into a group and, as far as known, out of it. Copies in a trial of windows say nothing about kernels.
    fn note(&mut self, copy: TimedCopy, ns: u64, blocks: u64) -> Changes {
        let Plan { class, first, .. } = copy.plan;
        let is_chosen = first == self.chooser.chosen(class);
        let mut changes = Changes::default();
        if self.windows.is_usual(copy.lap.blocks) && self.chooser.note(class, first, copy.bytes, ns) {
            changes.kernel = Some(class);
        }
        let counts = is_chosen && copy.lap.is_steady() && self.chooser.state(class).is_settled;
        if let Some(cost) = cost_of(copy.bytes, ns).filter(|_| counts)
            && self.windows.note(class, copy.lap.blocks, cost, (copy.at, blocks))
        {
            changes.window = true;
            self.rebase();
        }
        changes
    }

    /// Forgets what copies have taken, since another window is in force. What they take now says nothing about the cores, and copies in the window
    /// before prove nothing.
    fn rebase(&mut self) {
        self.chooser.rebase();
        self.pending.clear();
    }
}

impl<F: Fabric> Sender<F> {
    /// Returns how to copy a chunk of a message of this length into blocks, whose first group has `first_bytes` of it; `None`: plainly.
    #[inline]
    pub(super) fn plan_copy(&mut self, length: Length, first_bytes: u32) -> Option<Plan> {
        let timed_bytes = self.kernels.timed_bytes;
        if !times_copies::<F>() || matches!(length, Length::Exact(bytes) if bytes < u64::from(timed_bytes)) {
            return None;
        }
        let may_be_timed = first_bytes >= timed_bytes && !self.has_no_place();
        let (class, lap) = (SizeClass::of_length(length), self.lap_now());
        let Kernels { chooser, windows, .. } = &mut self.kernels;
        let wish = windows.plan(class, (self.produced, may_be_timed), lap, chooser.state(class));
        let plan = match wish {
            Wish::Any => chooser.plan(class, self.produced, may_be_timed),
            Wish::Time | Wish::Quiet => {
                let chosen = chooser.chosen(class);
                let is_timed = wish == Wish::Time;
                Plan { class, first: chosen, others: chosen, is_timed }
            }
        };
        self.fit_window();
        Some(plan)
    }

    /// Returns the kernel of a copy of this transfer that is not timed.
    pub(super) fn chosen_kernel(&self, length: Length) -> CopyKernel {
        let Kernels { chooser, timed_bytes, .. } = &self.kernels;
        let is_short = matches!(length, Length::Exact(bytes) if bytes < u64::from(*timed_bytes));
        if !times_copies::<F>() || is_short {
            return CopyKernel::Plain;
        }
        chooser.chosen(SizeClass::of_length(length))
    }

    /// Returns true if there is no room for another timed chunk: the peer may still tell the time of the oldest one, since it has not acknowledged its
    /// first block.
    #[inline]
    fn has_no_place(&self) -> bool {
        let pending = &self.kernels.pending;
        pending.is_full() && pending.front().is_some_and(|copy| !is_before(copy.block, self.acked))
    }

    /// Returns the kernel of the group that begins with block `j` of a chunk.
    #[inline]
    pub(super) const fn kernel_of(plan: Option<Plan>, j: u32) -> CopyKernel {
        match plan {
            _ if !times_copies::<F>() => CopyKernel::Plain,
            None => CopyKernel::Plain,
            Some(Plan { first, .. }) if j == 0 => first,
            Some(Plan { others, .. }) => others,
        }
    }

    /// Returns the time before a copy that is timed.
    #[inline]
    pub(super) fn begin_timing(fabric: &mut F, plan: Option<Plan>, j: u32) -> Option<(Plan, Nanos)> {
        match plan {
            Some(plan) if times_copies::<F>() && plan.is_timed && j == 0 => Some((plan, fabric.now())),
            _ => None,
        }
    }

    /// Ends the timing of a copy of `bytes` bytes into the first group of the chunk that is being built.
    #[inline]
    pub(super) fn end_timing(
        &mut self,
        fabric: &mut F,
        link: &F::Link,
        begun: Option<(Plan, Nanos)>,
        bytes: u32,
    ) {
        if times_copies::<F>()
            && let Some((plan, begin)) = begun
        {
            fabric.settle_stores(link);
            let at = fabric.now();
            let ns = at.0.saturating_sub(begin.0);
            let (sequence, block, lap) = (self.sequence, self.produced, self.lap_now());
            let copy = TimedCopy { sequence, block, plan, lap, bytes, ns, at };
            let changes = self.kernels.note_own(copy, block);
            self.apply(fabric, link, changes);
        }
    }

    /// Returns true if acknowledgements are to be read for the peer's timings, since chunks are timed densely.
    #[inline]
    pub(crate) fn reads_for_timings(&self) -> bool {
        times_copies::<F>() && self.kernels.windows.times_densely() && !self.kernels.pending.is_empty()
    }

    /// Handles word 6 of the peer's acknowledgements.
    #[inline]
    pub(crate) fn handle_timing(&mut self, fabric: &mut F, link: &F::Link, timing: Timing) {
        if times_copies::<F>() && !self.kernels.pending.is_empty() {
            let changes = self.kernels.note_peers(timing, self.produced);
            self.apply(fabric, link, changes);
        }
    }

    /// Begins the next laps as it was chosen, and records what has changed.
    fn apply(&mut self, fabric: &mut F, link: &F::Link, changes: Changes) {
        self.fit_window();
        if let Some(class) = changes.kernel {
            let (class_bytes, kernel) = (class.least_bytes(), self.kernels.chooser.chosen(class));
            record!(fabric, link, KernelChosen(ChosenKernel { is_out: false, class_bytes, kernel }));
        }
        if changes.window {
            let bytes = self.kernels.windows.blocks() * self.landing.layout.block_bytes;
            record!(fabric, link, WindowChosen { bytes });
        }
    }

    /// Ends a trial of a window that has lasted too long, before the next lap begins.
    #[inline]
    pub(super) fn begin_lap(&mut self) {
        if times_copies::<F>() {
            self.kernels.windows.begin_lap(self.produced);
            self.fit_window();
        }
    }

    /// Uses a window of this many bytes, or chooses again.
    pub(super) fn pin_window(&mut self, bytes: Option<u32>) {
        if times_copies::<F>() {
            if self.kernels.windows.pin(bytes) {
                self.kernels.rebase();
            }
        } else {
            self.kernels.windows.pin_untimed(bytes);
        }
    }

    /// Goes on with the choices in the current landing buffer, whose laps have `least_blocks` blocks at least.
    pub(super) fn enter_choices(&mut self, least_blocks: u32, config: &Config) {
        let layout = self.landing.layout;
        let kernels = &mut self.kernels;
        if times_copies::<F>() {
            kernels.chooser.set_group(layout.group_blocks());
            kernels.windows.enter(layout, least_blocks, config.least_window_bytes);
            kernels.rebase();
        } else {
            kernels.windows.enter_untimed(layout, least_blocks);
        }
    }

    /// Returns the blocks of the laps that begin from now on.
    pub(super) fn next_window_blocks(&self) -> u32 {
        let windows = &self.kernels.windows;
        if times_copies::<F>() { windows.blocks() } else { windows.pinned_blocks() }
    }

    /// Returns the blocks of the window that was chosen or given.
    pub(super) fn chosen_window_blocks(&self) -> u32 {
        let windows = &self.kernels.windows;
        if times_copies::<F>() { windows.chosen_blocks() } else { windows.pinned_blocks() }
    }

    /// Uses this kernel for copies into blocks, or chooses again.
    pub(crate) fn pin_kernel(&mut self, kernel: Option<CopyKernel>) {
        self.kernels.chooser.pin(kernel);
    }

    /// Returns the choice of the kernels of copies into blocks, and the number of copies that were timed.
    pub(crate) const fn kernels(&self) -> (&KernelChooser, u64) {
        (&self.kernels.chooser, self.kernels.timed)
    }

    /// Returns the choice of the window.
    pub(crate) const fn window_choice(&self) -> &WindowChooser {
        &self.kernels.windows
    }
}

#[cfg(test)]
mod tests;
