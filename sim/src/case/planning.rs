//! Planners of the ends of a case: of a third of the seeds, behind those in which planted bugs are looked for.

use superpipe_core::plan::{Machine, Planner, Profile};
use superpipe_core::{Planning, Protocol};

use super::{Case, ConnectionPlan};
use crate::fabric::Planners;

/// No seed below this plans, so that what a planner has learnt moves no planted bug from the seed that finds it.
const PLANNED_FROM: u64 = 40_000;
/// Messages are planned in one seed of so many, which has this rest.
const PLANNED_EVERY: u64 = 3;
const PLANNED_AT: u64 = 1;

impl Case {
    /// Returns the planners of a connection, if this case has any. Their machines are others than that of the case: a planner must only make things slow. By auto an
    /// end plans from the first message on that can be planned, as a host whose connection is idle at first.
    pub(crate) fn planners(&self, plan: &ConnectionPlan) -> Planners {
        let mut planners = Planners::default();
        for side in 0..2 {
            let Some(profile) = self.planned_profile(side) else { break };
            let (config, layout) = (plan.script.configs[side], plan.script.setup.layouts[1 - side]);
            if config.protocol == Protocol::Auto {
                planners.later[side] = Some(profile);
            } else {
                let terms = config.planning_terms(self.direct, layout.bytes().into());
                planners.lent[side] =
                    terms.map(|terms| Box::new(Planning::new(Planner::new(profile, terms))));
            }
        }
        planners
    }

    /// Gives the ends of half of the cases that plan the protocol of ends that have agreed on none. Memory that the peer may write is not exposed by it.
    pub(super) fn by_default(mut self) -> Self {
        if self.planned_profile(0).is_some() && (self.seed / PLANNED_EVERY).is_multiple_of(2) {
            for plan in &mut self.connections {
                let offers = plan.lenders.as_ref().is_some_and(|plans| plans.iter().any(|plan| plan.offers));
                if !offers {
                    plan.script.configs.iter_mut().for_each(|config| config.protocol = Protocol::Auto);
                }
            }
        }
        self
    }

    fn planned_profile(&self, side: usize) -> Option<Profile> {
        let of = (self.seed / PLANNED_EVERY) as usize + side;
        (self.seed >= PLANNED_FROM && self.seed % PLANNED_EVERY == PLANNED_AT)
            .then(|| Machine::ALL[of % Machine::ALL.len()].profile)
    }
}
