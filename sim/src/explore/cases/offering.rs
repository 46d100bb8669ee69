//! Cases in which receivers offer memory, and senders split messages.

use superpipe_core::Protocol;

use super::case::{Case, ClosePolicy, Exposing, Offering, ReceiveMethod, SendMethod};
use super::{Transfer, at_once, inline, message};

/// End 0 exposes what it sends.
const SENDS: Exposing = Exposing {
    exposes_max: [1, 0],
    withdraws_max: [0; 2],
    jobs_max: 2,
    failures_max: [0; 2],
    repeats: false,
};

/// End 1 offers a buffer that is mapped from the beginning, up to twice.
const TWICE: Offering =
    Offering { exposes_max: [0, 1], withdraws_max: [0; 2], offers_max: [0, 2], offset: 0, is_prepared: true };

/// It may withdraw the buffer, and expose another.
const AGAIN: Offering = Offering { exposes_max: [0, 2], withdraws_max: [0, 1], ..TWICE };

/// Nothing is mapped in the beginning.
const LATER: Offering = Offering { is_prepared: false, ..TWICE };

/// Offers are those of calls that receive into the buffer.
const CALLS: Offering = Offering { offers_max: [0; 2], ..TWICE };

fn offering(name: &'static str, offering: Offering, transfers: &[Transfer]) -> Case {
    let case = super::case(name, transfers);
    Case { direct: true, exposing: Some(SENDS), offering: Some(offering), ..case }.unsplit()
}

impl Case {
    fn exposing(self, exposing: Exposing) -> Self {
        Self { exposing: Some(exposing), ..self }
    }

    /// Receives into the buffer.
    fn trusting(self) -> Self {
        self.taking(ReceiveMethod::Trusted(100))
    }
}

pub(super) fn cases() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    // Of 250 bytes the head is 64, and the tail is in two slices.
    let long = message(250).exposed();
    let blocks = message(100).by(Protocol::RegisterCached);
    let both = Exposing { exposes_max: [1; 2], ..SENDS };
    // After the first call half of the tail is written.
    let parts = Transfer { send_method: SendMethod::ExposedInParts, ..long };
    let either = parts.cancelled().rejected();
    vec![
        offering("direct, offering: 1 message", TWICE, &[long]),
        offering("direct, offering: 2 messages", TWICE, &[long; 2]),
        offering("direct, offering: into the buffer", CALLS, &[long; 2]).trusting(),
        offering("direct, offering: 2 in parts, ring of 3", CALLS, &[parts; 2]).trusting().ring(3),
        offering("direct, offering: not used", TWICE, &[inline(), blocks, message(100).exposed()]),
        offering("direct, offering: lines in between", CALLS, &[long, at_once(0), long]).trusting(),
        offering("direct, offering: message does not fit", Offering { offset: 8, ..TWICE }, &[long; 2]),
        offering("direct, offering: behind an offset", Offering { offset: 6, ..TWICE }, &[long])
            .taking(ReceiveMethod::InPlace(60)),
        offering("direct, offering: try_recv", TWICE, &[long]).taking(ReceiveMethod::Whole),
        offering("direct, offering: withdrawn, and another", AGAIN, &[long; 2]).at_once(),
        offering(
            "direct, offering: withdrawn, source too",
            Offering { withdraws_max: [0, 1], ..CALLS },
            &[parts; 2],
        )
        .exposing(Exposing { withdraws_max: [1, 0], ..SENDS })
        .trusting()
        .settling(),
        offering("direct, offering: mapped late", LATER, &[long]).settling(),
        offering("direct, offering: jobs fail", Offering { offers_max: [0, 1], ..LATER }, &[long])
            .exposing(Exposing { failures_max: [1; 2], ..SENDS })
            .settling(),
        offering("direct, offering: reported twice", Offering { offers_max: [0, 1], ..AGAIN }, &[long])
            .exposing(Exposing { repeats: true, ..SENDS })
            .settling(),
        offering("direct, offering: cancel", TWICE, &[parts.cancelled(), inline()]),
        offering("direct, offering: reject", CALLS, &[parts.rejected(), inline()]).trusting(),
        offering("direct, offering: cancel or reject", CALLS, &[either, long]).trusting().at_once(),
        offering(
            "direct, offering: both ways",
            Offering { exposes_max: [1; 2], offers_max: [1; 2], ..TWICE },
            &[parts],
        )
        .exposing(both)
        .back(&[parts])
        .at_once(),
        offering("direct, offering: close under way", TWICE, &[parts]).closing([sent, done]),
        offering("direct, offering: sender aborts", CALLS, &[parts]).trusting().closing([abort, done]),
        offering("direct, offering: receiver aborts", CALLS, &[parts]).trusting().closing([done, abort]),
        offering("direct, offering, checked: 2 messages", CALLS, &[long; 2]).trusting().checked(),
    ]
}
