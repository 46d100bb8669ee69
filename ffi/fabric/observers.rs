//! What a fabric lends to core on request: the recorder and the planner of its one connection.

use superpipe_core::Planning;
use superpipe_core::plan::{Planner, Profile, Terms};
#[cfg(feature = "recorder")]
use superpipe_core::recorder::Recorder;
use superpipe_core::{Endpoint, Fabric, Protocol};

/// Recorder and planner of a connection. Neither is there unless it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    #[cfg(feature = "recorder")]
    recorder: Option<Box<Recorder>>,
    planning: Option<Box<Planning>>,
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

    /// Begins to plan the messages of an endpoint, with a planner that has observed nothing and knows this profile. Whoever has asked for another protocol than these
    /// gets that.
    pub(crate) fn plan<F: Fabric>(&mut self, endpoint: &Endpoint<F>, profile: Profile) {
        let config = endpoint.config();
        let has_zero_copy = match config.protocol {
            Protocol::Superpipeline => false,
            Protocol::Register | Protocol::RegisterCached => true,
            Protocol::Eager | Protocol::Copy | Protocol::Pipeline | Protocol::Provision => return,
        };
        let terms = Terms {
            is_direct: F::DIRECT,
            landing_bytes: endpoint.peer_landing_bytes(),
            folds: config.folds,
            c0_bytes: config.c0_bytes,
            one_copy_bytes: config.one_copy_bytes,
            has_zero_copy,
            has_split: false,
        };
        self.planning = Some(Box::new(Planning::new(Planner::new(profile, terms))));
    }
}
