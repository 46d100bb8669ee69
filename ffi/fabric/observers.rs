//! What a fabric lends to core on request: the recorder and the planner of its one connection.

use core::mem;

use superpipe_core::Planning;
use superpipe_core::plan::{Planner, Profile, Terms};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{Endpoint, Fabric};

/// Recorder and planner of a connection. Neither is there unless it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    #[cfg(feature = "recorder")]
    recorder: Option<Box<Recorder>>,
    planning: Option<Box<Planning>>,
    /// messages are planned from the first one on that can be
    plans_later: bool,
}

impl Observers {
    #[cfg(feature = "recorder")]
    #[inline]
    pub(crate) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    /// Begins to record, with an empty recorder, or ends it and forgets what was recorded.
    #[cfg(feature = "recorder")]
    pub(crate) fn record(&mut self, on: bool) {
        self.recorder = on.then(Box::default);
    }

    #[inline]
    pub(crate) fn planning(&mut self) -> Option<&mut Planning> {
        self.planning.as_deref_mut()
    }

    /// Begins to plan the messages of an endpoint, with a planner that has observed nothing and knows this profile: at once, or when the first message comes that can
    /// be planned. Whoever has asked for another protocol gets that.
    pub(crate) fn plan<F: Fabric>(&mut self, endpoint: &Endpoint<F>, profile: Profile, is_later: bool) {
        self.plans_later = is_later;
        let terms = endpoint.planning_terms().filter(|_| !is_later);
        self.planning = terms.map(|terms| planning(profile, terms));
    }

    /// Begins to plan messages if it was to begin later.
    pub(crate) fn begin_planning(&mut self, profile: Profile, terms: Terms) {
        if mem::take(&mut self.plans_later) {
            self.planning = Some(planning(profile, terms));
        }
    }
}

fn planning(profile: Profile, terms: Terms) -> Box<Planning> {
    Box::new(Planning::new(Planner::new(profile, terms)))
}
