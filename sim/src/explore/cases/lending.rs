//! Cases in which ends lend memory, so that messages are written remotely.

use superpipe_core::Protocol;

use super::case::{Case, ClosePolicy, Lending};
use super::{Transfer, case, inline, message};

/// Each message lends memory, which is registered for it.
const EACH: Lending = Lending {
    is_kept: [false; 2],
    write_bytes: 0,
    jobs_max: 2,
    failures_max: [0; 2],
    give_ups_max: [0; 2],
    deaths: [false; 2],
    repeats: false,
    flush_fails: false,
};

/// Memory that is registered, and stays so.
const KEPT: Lending = Lending { is_kept: [true; 2], ..EACH };

impl Lending {
    const fn failing(self, failures_max: [u32; 2]) -> Self {
        Self { failures_max, ..self }
    }

    /// Lets the receiver of a case in which end 0 sends give up a receive.
    const fn giving_up(self) -> Self {
        Self { give_ups_max: [0, 1], ..self }
    }

    /// Makes flushed work requests complete with an error.
    const fn flushing(self) -> Self {
        Self { flush_fails: true, ..self }
    }

    const fn dying(self, deaths: [bool; 2]) -> Self {
        Self { deaths, ..self }
    }
}

fn lending(name: &'static str, lending: Lending, transfers: &[Transfer]) -> Case {
    Case { lending: Some(lending), ..case(name, transfers) }.unsplit().prompt()
}

pub(super) fn cases() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    let long = message(96).by(Protocol::Register);
    let kept = message(96).by(Protocol::RegisterCached);
    let [sender, receiver] = [[true, false], [false, true]];
    let late = |case: Case| Case { late_max: 1, ..case };
    let free = |case: Case| Case { split: true, ..late(case) };
    vec![
        free(lending("posted, lending: 1 message", EACH, &[long])),
        lending("posted, lending: 2 messages", EACH, &[long; 2]),
        lending("posted, lending: 2 messages, kept", KEPT, &[kept; 2]),
        free(lending("posted, lending: 2 writes", Lending { write_bytes: 64, ..EACH }, &[long])),
        lending("posted, lending: 2 writes, queue of 2", Lending { write_bytes: 64, ..EACH }, &[long])
            .queue(2),
        lending("posted, lending: inline, 1 message, inline", EACH, &[inline(), long, inline()]),
        lending("posted, lending: source refused", EACH.failing([1, 0]), &[long; 2]),
        lending("posted, lending: destination refused", EACH.failing([0, 1]), &[long; 2]),
        lending("posted, lending: both refused", EACH.failing([1; 2]), &[long; 2]),
        lending("posted, lending: reported twice", Lending { repeats: true, ..EACH }, &[long; 2]),
        lending("posted, lending: both ways", EACH, &[long]).back(&[long]).at_once(),
        lending("posted, lending: both ways, one job at a time", Lending { jobs_max: 1, ..EACH }, &[long])
            .back(&[long])
            .at_once(),
        lending("posted, lending: both ways, in flight", Lending { jobs_max: 1, ..EACH }, &[long])
            .back(&[long]),
        free(lending("posted, lending: cancel", EACH, &[long.cancelled()])),
        lending("posted, lending: cancel, 1 message", EACH, &[long.cancelled(), long]),
        lending("posted, lending: cancel, kept", KEPT, &[kept.cancelled(), kept]),
        lending(
            "posted, lending: cancel between 2 writes",
            Lending { write_bytes: 64, ..EACH },
            &[long.cancelled()],
        ),
        lending("posted, lending: cancel, refused", EACH.failing([1; 2]), &[long.cancelled()]),
        lending("posted, lending: reject", EACH, &[long.rejected()]),
        lending("posted, lending: reject or cancel", EACH, &[long.rejected().cancelled()]),
        late(lending("posted, lending: receive given up", EACH.giving_up(), &[long])),
        lending("posted, lending: receive given up, flushes fail", EACH.giving_up().flushing(), &[long]),
        lending("posted, lending: receive given up, kept", KEPT.giving_up(), &[kept]),
        lending("posted, lending: receive given up, cancel", EACH.giving_up(), &[long.cancelled()]),
        lending("posted, lending: receive given up, refused", EACH.giving_up().failing([0, 1]), &[long]),
        lending("posted, lending: close under way", EACH, &[long]).closing([sent, done]),
        lending("posted, lending: both close under way", EACH, &[long])
            .back(&[long])
            .closing([sent; 2])
            .at_once(),
        lending("posted, lending: sender aborts", EACH, &[long]).closing([abort, done]),
        lending("posted, lending: receiver aborts", EACH, &[long]).closing([done, abort]),
        lending("posted, lending: receiver aborts and gives up", EACH.giving_up(), &[long])
            .closing([done, abort]),
        lending("posted, lending: receiver aborts and gives up, kept", KEPT.giving_up(), &[kept])
            .closing([done, abort]),
        free(lending("posted, lending: sender dies", EACH.dying(sender), &[long])),
        free(lending("posted, lending: receiver dies", EACH.dying(receiver), &[long])),
        lending("posted, lending: either dies, 2 messages", EACH.dying([true; 2]), &[long; 2]),
        lending("posted, lending: receiver dies, flushes fail", EACH.dying(receiver).flushing(), &[long]),
        lending("posted, lending: receiver dies, kept", KEPT.dying(receiver), &[kept]),
        lending("posted, lending: receiver dies, cancel", EACH.dying(receiver), &[long.cancelled()]),
        free(lending("posted, lending, checked: cancel", EACH, &[long.cancelled()])).checked(),
        lending("notified, lending: 1 message", EACH, &[long]).notified(),
        lending("notified, lending: cancel", EACH, &[long.cancelled()]).notified(),
        lending("notified, lending: receive given up", EACH.giving_up(), &[long]).notified().at_once(),
        lending("notified, lending: receiver dies", EACH.dying(receiver), &[long]).notified(),
    ]
}
