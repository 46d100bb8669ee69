//! The choice of one end for one direction: a kernel for each class of messages.
//!
//! ```text
//!          every kernel was timed often enough
//!   OPEN ------------------------------------------------------------------> SETTLED
//!    ^     the chosen one takes another time than it took                         |
//!    |     one that was much worse is better                                      |
//!    +----------------------------------------------------------------------------+
//! ```
//!
//! While a class is open its kernels are timed in turn, every few blocks. Once it is settled, blocks are timed rarely, and most of those with the
//! kernel that was chosen: a change of its cost says that the cores moved. After a cost that noise does not explain, and while medians differ, the next ones
//! are timed soon. The others are tried from time to time, those that lose by much up to four times more rarely. A kernel that is better
//! replaces the chosen one only if it is better by a margin.
//!
//! A trial is a single block among others that the chosen kernel has copied. What a kernel takes where it has copied all of them may be more, since it
//! leaves the caches in another state. So one that was chosen has to prove itself: unless its copies are better than those of the kernel before, that
//! one comes back, and the other is not tried for a while.

use super::cost::{BETTER_Q4, MUCH_WORSE_Q4, cost_of, parts};
use super::kernel::{CopyKernel, KernelSet};
use super::samples::Samples;
use super::size_class::{SIZE_CLASSES, SizeClass};
use super::watch::Watch;

/// Groups from one that is timed to the next: while the class is open or its watch presses, and else once it is settled. Messages of the first class are
/// shorter than a group, so for them these are blocks; and they are timed more rarely once it is settled, since a measurement takes a
/// larger part of their time.
const GROUPS_BETWEEN: [u64; 2] = [8, 64];
const BLOCKS_BETWEEN_SHORT: [u64; 2] = [8, 256];

/// Timed copies by a kernel that has just been chosen, after which its cost must be less than that of the kernel before.
const PROOF: u8 = 8;

/// Timed copies for which a kernel that has not proved itself is not tried, the first time; twice as many each further time, up to 2^8 times as many.
const BAN: u32 = 64;

/// Of the timed blocks of a settled class one in this many tries another kernel: of copies into blocks, and out of them. The two have no common factor,
/// since a receiver that tries another kernel tells its peer nothing: trials of both ends must not fall together for ever.
pub(crate) const TRIAL_EVERY: [u32; 2] = [4, 5];

/// Trials in a row in which a kernel must be better by the margin, once the class is settled.
const WINS: u8 = 8;

/// Turns after which they are counted anew: more than those of the longest ban.
const TURNS_MAX: u32 = 1 << 30;

/// A kernel that is much worse is tried in one of 2^1, then 2^2 of its turns, and no more rarely.
const RARER_MAX: u8 = 2;

/// How a chunk is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    pub(crate) class: SizeClass,
    /// Kernel of the first group.
    pub(crate) first: CopyKernel,
    /// Kernel of the others: the one that is chosen.
    pub(crate) others: CopyKernel,
    /// The copy of the first group is timed.
    pub(crate) is_timed: bool,
}

/// The kernels of a class, as far as the choice of windows has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelState {
    /// Its copies are made in one way: the kernel was given, or is settled and has proved itself.
    pub(crate) is_settled: bool,
    /// They are timed, since there is a choice.
    pub(crate) is_timed: bool,
    /// Number that changes whenever the class is reopened, or its kernel is replaced.
    pub(crate) news: u32,
}

/// The choice of a kernel for each class of messages.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct KernelChooser {
    /// Nothing is tried: the kernel was given.
    is_pinned: bool,
    /// Blocks of a group, the unit of copies.
    group_blocks: u32,
    trial_every: u32,
    classes: [Class; SIZE_CLASSES],
    changes: u32,
}

/// The choice for one class.
#[derive(Clone, Copy, Debug, Hash)]
struct Class {
    /// Count of blocks from which on the next one of this class is timed.
    due: u64,
    /// Count of blocks at which the last one was timed.
    timed_at: u64,
    /// Kernels to choose among. Messages below 16 KiB have no streaming stores: in a trial these win, alone they lost 7 % (4 KiB, far cores).
    available: KernelSet,
    chosen: CopyKernel,
    is_settled: bool,
    /// Its messages are shorter than a group.
    is_short: bool,
    /// While it is open: the best kernel and the chosen one are timed again, since they differ by less than the margin.
    is_second_look: bool,
    samples: [Samples; CopyKernel::ALL.len()],
    /// Blocks timed since it was settled.
    turn: u32,
    /// Each kernel is tried once in 2^n of its turns.
    rarer: [u8; CopyKernel::ALL.len()],
    /// Trials in a row in which each kernel was better by the margin.
    wins: [u8; CopyKernel::ALL.len()],
    /// The cost of the chosen kernel.
    watch: Watch,
    /// Trials in which a kernel that was much worse was better.
    surprises: u8,
    /// What the chosen kernel has to prove.
    proof: Option<Proof>,
    /// Turn up to which a kernel is not tried, and how often it has failed to prove itself.
    banned_to: [u32; CopyKernel::ALL.len()],
    bans: [u8; CopyKernel::ALL.len()],
    /// See [`KernelState::news`].
    news: u32,
}

/// The kernel before the chosen one, its cost, and the timed copies that are left to prove that the new one is better.
#[derive(Clone, Copy, Debug, Hash)]
struct Proof {
    before: CopyKernel,
    cost: u32,
    left: u8,
}

impl KernelChooser {
    /// The choice where nothing is timed: every copy is plain.
    pub(crate) const PLAIN: Self = Self {
        is_pinned: true,
        group_blocks: 1,
        trial_every: 1,
        classes: [Class::open(CopyKernel::Plain, KernelSet::PLAIN, 0); SIZE_CLASSES],
        changes: 0,
    };

    /// Makes the choice of a direction in which `blocks` blocks were sent. Classes of messages of `streaming_bytes` and more begin with streaming
    /// stores, all others plainly; with a `pinned` kernel, all use that, if it is there.
    pub(crate) fn new(
        available: KernelSet,
        pinned: Option<CopyKernel>,
        (blocks, trial_every): (u64, u32),
        streaming_bytes: u64,
    ) -> Self {
        let pinned = pinned.filter(|kernel| available.has(*kernel));
        let mut classes = [Class::open(CopyKernel::Plain, available, blocks); SIZE_CLASSES];
        for ((at, least), class) in SizeClass::all().zip(&mut classes) {
            if at.index() == 0 {
                class.available = available.without(CopyKernel::Streaming);
                class.is_short = true;
            }
            let streams = least >= streaming_bytes && class.available.has(CopyKernel::Streaming);
            let first = if streams { CopyKernel::Streaming } else { CopyKernel::Plain };
            class.chosen = pinned.unwrap_or(first);
        }
        let is_pinned = pinned.is_some() || available == KernelSet::PLAIN;
        Self { is_pinned, group_blocks: 1, trial_every, classes, changes: 0 }
    }

    /// Sets the blocks of a group.
    pub(crate) const fn set_group(&mut self, group_blocks: u32) {
        self.group_blocks = group_blocks;
    }

    /// Uses this kernel from now on, if it is there; with `None` chooses again.
    #[cold]
    pub(crate) fn pin(&mut self, kernel: Option<CopyKernel>) {
        let [.., largest] = &self.classes;
        let available = largest.available;
        match kernel.filter(|kernel| available.has(*kernel)) {
            Some(kernel) => {
                self.is_pinned = true;
                for class in self.classes.iter_mut().filter(|class| class.chosen != kernel) {
                    class.chosen = kernel;
                    class.news = class.news.wrapping_add(1);
                }
            }
            // It is chosen already.
            None if !self.is_pinned => {}
            None => {
                self.is_pinned = available == KernelSet::PLAIN;
                self.open_all();
            }
        }
    }

    /// Returns how to copy a chunk of a message of this class, which begins after `blocks` blocks of its direction, and may be timed or not.
    #[inline]
    pub(crate) fn plan(&mut self, class: SizeClass, blocks: u64, may_be_timed: bool) -> Plan {
        let chosen = self.chosen(class);
        let Class { due, available, .. } = self.classes[class.index()];
        let is_due = blocks.wrapping_sub(due) < 1 << 63;
        let is_timed = may_be_timed && is_due && !self.is_pinned && available.is_choice();
        let first = if is_timed { self.next_to_time(class, blocks) } else { chosen };
        Plan { class, first, others: chosen, is_timed }
    }

    /// Returns the kernel that is chosen for a class.
    #[inline]
    pub(crate) const fn chosen(&self, class: SizeClass) -> CopyKernel {
        self.classes[class.index()].chosen
    }

    /// Returns the kernel of each class.
    pub(crate) fn all_chosen(&self) -> [CopyKernel; SIZE_CLASSES] {
        self.classes.each_ref().map(|class| class.chosen)
    }

    /// Returns how often another kernel was chosen.
    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the kernel that is timed next.
    #[cold]
    fn next_to_time(&mut self, class: SizeClass, blocks: u64) -> CopyKernel {
        let class = &mut self.classes[class.index()];
        class.timed_at = blocks;
        let kernel = class.next(self.trial_every);
        class.due = blocks.wrapping_add(class.blocks_between(self.group_blocks));
        kernel
    }

    /// Returns the kernel that the next timed copy of a class that is timed by its peer's wish uses.
    #[cold]
    pub(crate) fn next_of(&mut self, class: SizeClass) -> CopyKernel {
        if self.is_pinned { self.chosen(class) } else { self.classes[class.index()].next(self.trial_every) }
    }

    /// Handles a measurement: copying `bytes` bytes with this kernel took `ns` nanoseconds. An absurd one is ignored. Returns true if another kernel is
    /// chosen.
    #[cold]
    pub(crate) fn note(&mut self, class: SizeClass, kernel: CopyKernel, bytes: u32, ns: u64) -> bool {
        let Some(cost) = cost_of(bytes, ns).filter(|_| !self.is_pinned) else { return false };
        let has_changed = self.classes[class.index()].note(kernel, cost, self.group_blocks);
        self.changes = self.changes.wrapping_add(u32::from(has_changed));
        has_changed
    }

    /// Returns what the choice of windows has to know of the kernels of a class.
    #[inline]
    pub(crate) const fn state(&self, class: SizeClass) -> KernelState {
        let class = &self.classes[class.index()];
        let is_timed = !self.is_pinned && class.available.is_choice();
        let is_settled = !is_timed || class.is_settled && class.proof.is_none();
        KernelState { is_settled, is_timed, news: class.news }
    }

    /// Forgets what copies have taken, since they are made in another window from now on. The choice stays; a kernel that has not proved itself
    /// is compared anew.
    #[cold]
    pub(crate) fn rebase(&mut self) {
        if self.is_pinned {
            return;
        }
        for class in &mut self.classes {
            class.watch.forget();
            if class.proof.is_some() {
                // It has proved nothing yet.
                class.reopen();
                continue;
            }
            class.samples = [Samples::NONE; CopyKernel::ALL.len()];
            class.wins = [0; CopyKernel::ALL.len()];
            (class.surprises, class.is_second_look) = (0, false);
        }
    }

    /// Forgets all measurements, since the next ones measure something else.
    #[cold]
    pub(crate) fn open_all(&mut self) {
        if self.is_pinned {
            return;
        }
        for class in &mut self.classes {
            class.watch.forget();
            class.reopen();
        }
    }
}

impl Class {
    const fn open(chosen: CopyKernel, available: KernelSet, due: u64) -> Self {
        Self {
            due,
            timed_at: due,
            available,
            chosen,
            is_settled: false,
            is_short: false,
            is_second_look: false,
            samples: [Samples::NONE; CopyKernel::ALL.len()],
            turn: 0,
            rarer: [0; CopyKernel::ALL.len()],
            wins: [0; CopyKernel::ALL.len()],
            watch: Watch::NEW,
            surprises: 0,
            proof: None,
            banned_to: [0; CopyKernel::ALL.len()],
            bans: [0; CopyKernel::ALL.len()],
            news: 0,
        }
    }

    fn reopen(&mut self) {
        // A kernel that was given may be one that this class does not choose.
        let chosen = if self.available.has(self.chosen) { self.chosen } else { CopyKernel::Plain };
        let (timed_at, news, is_short) = (self.timed_at, self.news.wrapping_add(1), self.is_short);
        self.watch.open();
        let open = Self::open(chosen, self.available, self.due);
        *self = Self { timed_at, watch: self.watch, news, is_short, ..open };
    }

    /// Returns the number of blocks from one that is timed to the next.
    fn blocks_between(&self, group_blocks: u32) -> u64 {
        planted!(NeverTriesAgain => if self.is_settled { return u64::MAX >> 2; });
        let settled = usize::from(self.is_settled && !self.watch.is_pressing());
        if !self.is_short {
            GROUPS_BETWEEN[settled] * u64::from(group_blocks)
        } else {
            BLOCKS_BETWEEN_SHORT[settled]
        }
    }

    fn next(&mut self, trial_every: u32) -> CopyKernel {
        if !self.is_settled {
            let fewest = self.available.iter().min_by_key(|kernel| self.samples[*kernel as usize].count());
            return fewest.unwrap_or(self.chosen);
        }
        // It is no turn, so that no trial is dropped.
        if self.watch.spend_doubt() && self.proof.is_none() {
            return self.chosen;
        }
        self.turn += 1;
        if self.turn == TURNS_MAX {
            self.turn = 0;
            self.banned_to = self.banned_to.map(|turn| turn.saturating_sub(TURNS_MAX));
        }
        if self.proof.is_some() {
            return self.chosen;
        }
        let trial = self.turn / trial_every;
        let others = || self.available.iter().filter(|kernel| *kernel != self.chosen);
        let count = u32::try_from(others().count()).unwrap_or(0);
        if !self.turn.is_multiple_of(trial_every) || count == 0 {
            return self.chosen;
        }
        let other = others().nth((trial % count) as usize).unwrap_or(self.chosen);
        let is_its_turn = (trial / count).is_multiple_of(1 << self.rarer[other as usize])
            && self.turn >= self.banned_to[other as usize];
        if is_its_turn { other } else { self.chosen }
    }

    /// Returns true if another kernel is chosen.
    fn note(&mut self, kernel: CopyKernel, cost: u32, group_blocks: u32) -> bool {
        self.samples[kernel as usize].add(cost);
        if !self.is_settled {
            return self.available.iter().all(|kernel| self.cost(kernel).is_some()) && self.settle();
        }
        if kernel == self.chosen {
            let has_changed = self.note_chosen(cost);
            // The next ones are timed soon after a cost that noise does not explain, while medians differ, and in an open class.
            self.due = self.timed_at.wrapping_add(self.blocks_between(group_blocks));
            return has_changed;
        }
        let reference = self.watch.reference();
        if self.proof.is_some() || reference == 0 {
            return false;
        }
        let was_much_worse = self.rarer[kernel as usize] > 0;
        if was_much_worse && parts(cost, reference) < BETTER_Q4 {
            // The chosen kernel may take as long after the move as before. Copies of a few buffers that are in a cache are as fast, so one does not suffice
            // for ever.
            self.surprises += 1;
            if self.surprises >= self.watch.patience() {
                self.reopen();
                return false;
            }
        }
        let rarer = &mut self.rarer[kernel as usize];
        let is_much_worse = parts(cost, reference) > MUCH_WORSE_Q4;
        *rarer = if is_much_worse { (*rarer + 1).min(RARER_MAX) } else { 0 };
        let is_better = self.is_better(kernel);
        let wins = &mut self.wins[kernel as usize];
        *wins = if is_better { *wins + 1 } else { 0 };
        let mut has_won = *wins >= WINS;
        planted!(ChoiceFlaps => has_won = is_better);
        if has_won {
            self.take(kernel);
        }
        has_won
    }

    /// Handles a cost of the chosen kernel of a settled class. Returns true if another one is chosen.
    fn note_chosen(&mut self, cost: u32) -> bool {
        self.watch.note(cost);
        planted!(OutlierTrusted => if parts(cost, self.watch.reference()) > MUCH_WORSE_Q4 {
            self.reopen();
            return false;
        });
        if let Some(proof) = self.proof {
            return self.look_for_proof(proof);
        }
        if self.cost(self.chosen).is_some_and(|median| self.watch.has_moved(median)) {
            self.reopen();
        }
        false
    }

    /// Returns the median of a kernel's costs.
    fn cost(&self, kernel: CopyKernel) -> Option<u32> {
        self.samples[kernel as usize].median()
    }

    /// Ends the trials of an open class. Returns true if another kernel is chosen.
    fn settle(&mut self) -> bool {
        let best = self.available.iter().min_by_key(|kernel| self.cost(*kernel)).unwrap_or(self.chosen);
        let has_changed = self.is_better(best);
        if best != self.chosen && !has_changed && !self.is_second_look {
            // It is better, and not by the margin, which may be noise: both are timed again.
            self.is_second_look = true;
            for kernel in [best, self.chosen] {
                self.samples[kernel as usize] = Samples::NONE;
            }
            return false;
        }
        self.is_settled = true;
        self.watch.settle(self.cost(self.chosen).unwrap_or(0), has_changed);
        if has_changed {
            self.take(best);
        }
        has_changed
    }

    /// Returns true if a kernel is better than the chosen one by the margin.
    fn is_better(&self, kernel: CopyKernel) -> bool {
        let mut margin = BETTER_Q4;
        planted!(ChoiceFlaps => margin = 16);
        match (self.cost(kernel), self.cost(self.chosen)) {
            (Some(cost), Some(now)) => parts(cost, now) < margin,
            _ => false,
        }
    }

    /// Chooses another kernel, which has to prove itself.
    fn take(&mut self, kernel: CopyKernel) {
        self.proof = self.cost(self.chosen).map(|cost| Proof { before: self.chosen, cost, left: PROOF });
        self.chosen = kernel;
        self.news = self.news.wrapping_add(1);
        self.watch.restart(self.cost(kernel).unwrap_or(0));
        self.samples[kernel as usize] = Samples::NONE;
        self.wins = [0; CopyKernel::ALL.len()];
    }

    /// Returns true if the chosen kernel has not proved itself, and the one before comes back.
    fn look_for_proof(&mut self, proof: Proof) -> bool {
        let left = proof.left - 1;
        self.proof = (left > 0).then_some(Proof { left, ..proof });
        let Some(cost) = self.cost(self.chosen).filter(|_| left == 0) else { return false };
        if cost < proof.cost {
            self.watch.prove(cost);
            return false;
        }
        let failed = self.chosen as usize;
        self.banned_to[failed] = self.turn.saturating_add(BAN << self.bans[failed]);
        self.bans[failed] = (self.bans[failed] + 1).min(8);
        self.chosen = proof.before;
        self.news = self.news.wrapping_add(1);
        self.watch.fail(proof.cost);
        true
    }
}

#[cfg(test)]
mod tests;
