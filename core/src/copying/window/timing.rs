//! Choice of the chunks that are timed for the window, and of those that must not be, since a trial is under way.

use super::WindowChooser;
use crate::copying::chooser::KernelState;
use crate::copying::series::Outcome;
use crate::copying::size_class::SizeClass;
use crate::copying::wish::{LapNow, Wish};

/// Timed groups in a lap of a trial. The receiver acknowledges eight times per lap (`ACKS_PER_LAP`), and each acknowledgement has the newest
/// timing only.
const TIMED_PER_LAP: u32 = 8;
/// Most blocks between two chunks that are timed for the window: 16 groups of the default layout, while a settled class of kernels times one in 64 groups.
const BLOCKS_BETWEEN_MAX: u32 = 64;

impl WindowChooser {
    /// Returns how to copy a chunk of a message of this class, which begins after `blocks` blocks of its direction, and may be timed or not.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        class: SizeClass,
        (blocks, may_be_timed): (u64, bool),
        lap: LapNow,
        kernels: KernelState,
    ) -> Wish {
        if self.may_choose() {
            self.plan_chunk(class, (blocks, may_be_timed), lap, kernels)
        } else {
            Wish::Any
        }
    }

    fn plan_chunk(
        &mut self,
        class: SizeClass,
        (blocks, may_be_timed): (u64, bool),
        lap: LapNow,
        kernels: KernelState,
    ) -> Wish {
        self.weigh(class, blocks);
        (self.times_densely, self.has_planned) = (false, true);
        let decides = self.decider.is(class);
        if decides {
            self.kernels_tell = kernels.is_timed;
            if kernels.is_settled {
                self.note_kernels(kernels.news);
            } else if self.trial.is_some() {
                self.forget();
            }
        }
        self.end_overdue(blocks);
        if !lap.is_first && lap.blocks != lap.before || lap.blocks != self.blocks() {
            return Wish::Quiet;
        }
        let is_trial = self.trial.is_some();
        if !decides || !kernels.is_settled {
            return if is_trial { Wish::Quiet } else { Wish::Any };
        }
        let is_dense = is_trial || self.wants_base();
        self.times_densely = is_dense;
        if !is_dense && kernels.is_timed {
            return Wish::Any;
        }
        if lap.is_first || !may_be_timed || !is_reached(blocks, self.due) {
            return Wish::Quiet;
        }
        let dense = (lap.blocks / TIMED_PER_LAP).clamp(2, BLOCKS_BETWEEN_MAX);
        self.due = blocks.wrapping_add(u64::from(if is_dense { dense } else { BLOCKS_BETWEEN_MAX }));
        Wish::Time
    }

    /// Handles the begin of a lap after `blocks` blocks. After a lap of messages that are not planned nothing is timed, and a trial may have lasted too long.
    #[cold]
    pub(crate) fn begin_lap(&mut self, blocks: u64) {
        self.times_densely &= core::mem::take(&mut self.has_planned);
        self.end_overdue(blocks);
    }

    fn end_overdue(&mut self, blocks: u64) {
        if self.trial.is_some_and(|trial| is_reached(blocks, trial.until)) {
            self.end_trial(Outcome::Lost, None);
        }
    }

    /// Returns true if copies in the chosen window are to be timed densely: for a trial or a proof, or since the watch presses.
    const fn wants_base(&self) -> bool {
        // Where kernels tell of a move, the watch here is not asked, and its reference does not follow.
        let is_pressing = !self.kernels_tell && self.watch.is_pressing();
        is_pressing || self.proof.is_some() || self.series.is_some() || self.to_try > 0
    }
}

/// Returns true if the count of blocks has reached this one.
const fn is_reached(blocks: u64, count: u64) -> bool {
    blocks.wrapping_sub(count) < 1 << 63
}
