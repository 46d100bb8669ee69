//! Cases in which landing buffers grow and shrink.

use superpipe_core::{GrowthDelay, Origin, Protocol};

use super::case::{Case, ClosePolicy, Growing, ReceiveMethod, SendMethod};
use super::{Transfer, case, inline, message, stream};

/// One size above the base: four blocks.
const ONE: Growing = Growing {
    largest: (4, 128),
    slab_bytes: 512,
    delay: GrowthDelay::NONE,
    first: None,
    jobs_max: 2,
    failures_max: [0; 2],
    shrinks_max: [0; 2],
    repeats: false,
};

/// Two sizes above the base: four blocks, and four of twice the bytes.
const TWO: Growing = Growing { largest: (4, 256), ..ONE };

/// Both ends begin in a landing buffer of three blocks, which is not the base.
const OWN: Growing = Growing { first: Some(3), ..ONE };

impl Case {
    fn growing(self, growing: Growing) -> Self {
        Self { growing: Some(growing), ..self }
    }
}

impl Growing {
    /// Lets the receiver of a case in which end 0 sends wish to shrink.
    const fn shrinking(self, times: u32) -> Self {
        Self { shrinks_max: [0, times], ..self }
    }

    const fn failing(self, failures_max: [u32; 2]) -> Self {
        Self { failures_max, ..self }
    }

    /// Ends ask only after so many rings, unless a message is that long, or the second try in turn finds no block.
    const fn after(self, rings: u32) -> Self {
        Self { delay: GrowthDelay { rings, tries: 2 }, ..self }
    }

    const fn one_job(self) -> Self {
        Self { jobs_max: 1, ..self }
    }

    const fn repeating(self) -> Self {
        Self { repeats: true, ..self }
    }
}

fn direct(name: &'static str, transfers: &[Transfer]) -> Case {
    Case { direct: true, ..case(name, transfers) }.unsplit()
}

fn posted(name: &'static str, transfers: &[Transfer]) -> Case {
    case(name, transfers).unsplit().prompt()
}

pub(super) fn cases() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    let (long, eager) = (message(256), message(185).by(Protocol::Eager));
    let either = message(256).cancelled().rejected();
    vec![
        direct("direct, growing: 4 chunks", &[long]).growing(ONE),
        direct("direct, growing: 4 chunks, lines apart", &[message(512)]).apart(1).growing(ONE),
        direct("direct, growing: after two rings", &[long, long]).growing(ONE.after(2)),
        direct("direct, growing: after a ring of a stream", &[stream(300)]).at_once().growing(ONE.after(1)),
        direct("direct, growing: twice", &[message(900)]).at_once().growing(TWO),
        direct("direct, growing: both rings full, inline", &[message(496), inline()]).at_once().growing(ONE),
        direct("direct, growing: from a first landing buffer", &[message(448)]).at_once().growing(OWN),
        direct("direct, shrinking: 3 inline", &[inline(); 3]).growing(OWN.shrinking(1)),
        Case {
            // A payload has the numbers 1 to 4 where the flags of another layout are.
            origin: Origin { sequence: u64::MAX - 2, ..Origin::default() },
            ..direct("direct, growing: a place again, of another layout", &[message(900)])
        }
        .settling()
        .growing(Growing { largest: (4, 192), slab_bytes: 768, ..OWN.shrinking(1) }),
        direct("direct, growing: shrinks twice", &[long, inline()]).at_once().growing(ONE.shrinking(2)),
        direct("direct, growing: GROW crosses SHRINK", &[message(448)]).at_once().growing(OWN.shrinking(1)),
        direct("direct, growing: jobs fail", &[message(320)]).at_once().growing(ONE.failing([1, 1])),
        direct("direct, growing: both ways, one job at a time", &[eager])
            .settling()
            .back(&[eager])
            .growing(ONE.one_job()),
        direct("direct, shrinking: both ways", &[inline()])
            .settling()
            .back(&[inline()])
            .growing(Growing { shrinks_max: [1; 2], ..OWN.one_job() }),
        direct("direct, growing: cancel or reject, 4 chunks", &[either, long]).at_once().growing(ONE),
        direct("direct, growing: stream in place", &[stream(256).send_method(SendMethod::Reserve(60))])
            .at_once()
            .taking(ReceiveMethod::InPlace(30))
            .growing(ONE),
        direct("direct, growing: reported twice", &[message(448)])
            .settling()
            .growing(OWN.shrinking(1).repeating()),
        direct("direct, growing: close under way", &[long]).closing([sent, done]).growing(ONE),
        direct("direct, growing: sender aborts", &[long]).closing([abort, done]).growing(ONE),
        direct("direct, growing: receiver aborts", &[long]).at_once().closing([done, abort]).growing(ONE),
        direct("direct, shrinking: both close under way", &[inline()])
            .back(&[inline()])
            .closing([sent; 2])
            .growing(OWN.shrinking(1)),
        posted("posted, growing: at once, 4 chunks", &[long]).at_once().growing(ONE),
        posted("posted, growing: 3 chunks", &[message(192)]).growing(ONE),
        Case { reads_late: true, ..posted("posted, growing: images read late, 3 chunks", &[message(192)]) }
            .growing(ONE),
        posted("posted, shrinking: 2 inline", &[inline(); 2]).growing(OWN.shrinking(1)),
        posted("posted, growing: GROW crosses SHRINK", &[message(320)]).at_once().growing(OWN.shrinking(1)),
        posted("posted, growing: jobs fail", &[message(192)]).at_once().growing(ONE.failing([1, 1])),
        posted("posted, growing: shrinks, and jobs fail", &[message(320)])
            .settling()
            .growing(ONE.shrinking(1).failing([1, 1])),
        posted("posted, growing: twice, and shrinks", &[message(700)]).settling().growing(TWO.shrinking(1)),
        posted("posted, growing: cancel", &[message(192).cancelled()]).at_once().growing(ONE),
        posted("posted, growing: there, shrinking: back", &[message(192)])
            .at_once()
            .back(&[inline()])
            .growing(Growing { shrinks_max: [1, 0], ..OWN.one_job() }),
        posted("posted, growing: sender aborts", &[message(192)])
            .at_once()
            .closing([abort, done])
            .growing(ONE),
        posted("posted, growing: close under way", &[message(192)])
            .at_once()
            .closing([sent, done])
            .growing(ONE),
        posted("posted, growing, checked: 3 chunks", &[message(192)]).checked().growing(ONE),
        posted("notified, growing: 3 chunks", &[message(192)]).at_once().notified().growing(ONE),
    ]
}
