//! Planners of the ends of a case: of a third of the seeds, behind those in which planted bugs are looked for.

use superpipe_core::plan::{Machine, Planner, Terms};
use superpipe_core::{FirstChunk, Planning, Protocol};

use super::{Case, ConnectionPlan};

/// No seed below this plans, so that what a planner has learnt moves no planted bug from the seed that finds it.
const PLANNED_FROM: u64 = 40_000;
/// Messages are planned in one seed of so many, which has this rest.
const PLANNED_EVERY: u64 = 3;
const PLANNED_AT: u64 = 1;

impl Case {
    /// Returns the planner of what an end sends, if this case has one. Its machine is another one than that of the case: a planner must only make things slow.
    pub(crate) fn planning(&self, plan: &ConnectionPlan, side: usize) -> Option<Box<Planning>> {
        if self.seed < PLANNED_FROM || self.seed % PLANNED_EVERY != PLANNED_AT {
            return None;
        }
        let of = (self.seed / PLANNED_EVERY) as usize + side;
        let machine = Machine::ALL[of % Machine::ALL.len()];
        let (config, layout) = (plan.script.configs[side], plan.script.setup.layouts[1 - side]);
        let terms = Terms {
            is_direct: self.direct,
            landing_bytes: layout.bytes().into(),
            folds: config.folds,
            c0_bytes: config.c0_bytes,
            one_copy_bytes: config.one_copy_bytes,
            has_zero_copy: plan.lenders.is_some(),
            has_split: false,
            asks_cts: config.first_chunk != FirstChunk::WithoutCts,
            is_default: config.protocol == Protocol::Auto,
        };
        Some(Box::new(Planning::new(Planner::new(machine.profile, terms))))
    }
}
