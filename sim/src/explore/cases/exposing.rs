//! Cases in which ends expose memory that their peers map.

use superpipe_core::Protocol;

use super::case::{Case, ClosePolicy, Exposing, ReceiveMethod, SendMethod};
use super::{Transfer, inline, message};

/// End 0 may expose a buffer once.
const ONCE: Exposing = Exposing {
    exposes_max: [1, 0],
    withdraws_max: [0; 2],
    jobs_max: 2,
    failures_max: [0; 2],
    repeats: false,
};

/// End 0 may withdraw it, and expose another.
const AGAIN: Exposing = Exposing { exposes_max: [2, 0], withdraws_max: [1, 0], ..ONCE };

impl Transfer {
    /// Sends it out of memory that is exposed, if there is any.
    pub(super) const fn exposed(self) -> Self {
        Self { send_method: SendMethod::Exposed, protocol: Protocol::RegisterCached, ..self }
    }
}

fn exposing(name: &'static str, exposing: Exposing, transfers: &[Transfer]) -> Case {
    Case { direct: true, exposing: Some(exposing), ..super::case(name, transfers) }.unsplit()
}

pub(super) fn cases() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    let long = message(100).exposed();
    let either = long.cancelled().rejected();
    vec![
        exposing("direct, exposing: 2 messages", ONCE, &[long; 2]),
        exposing("direct, exposing: lines in between", ONCE, &[long, inline(), long]).settling(),
        exposing("direct, exposing: withdrawn, and another", AGAIN, &[long; 2]).settling(),
        exposing("direct, exposing: withdrawn under way", AGAIN, &[long; 3]).settling(),
        exposing("direct, exposing: withdrawn, ring of 3", AGAIN, &[long; 3]).settling().ring(3),
        exposing("direct, exposing: jobs fail", Exposing { failures_max: [1; 2], ..AGAIN }, &[long; 2])
            .settling(),
        exposing("direct, exposing: reported twice", Exposing { repeats: true, ..AGAIN }, &[long; 2])
            .settling(),
        exposing("direct, exposing: in place", AGAIN, &[long; 2])
            .settling()
            .taking(ReceiveMethod::InPlace(60)),
        exposing("direct, exposing: try_recv", AGAIN, &[long; 2]).settling().taking(ReceiveMethod::Whole),
        exposing("direct, exposing: cancel or reject", ONCE, &[either, long]).settling(),
        exposing("direct, exposing: inline back", ONCE, &[long]).settling().back(&[inline()]),
        exposing("direct, exposing: close under way", AGAIN, &[long]).settling().closing([sent, done]),
        exposing("direct, exposing: sender aborts", AGAIN, &[long]).at_once().closing([abort, done]),
        exposing("direct, exposing: receiver aborts", AGAIN, &[long]).at_once().closing([done, abort]),
        exposing("direct, exposing, checked: 2 messages", AGAIN, &[long; 2]).settling().checked(),
    ]
}
