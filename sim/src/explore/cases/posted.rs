//! Cases with posted writes.

use superpipe_core::{Origin, Protocol};

use super::case::{Case, ClosePolicy, ReceiveMethod, SendMethod};
use super::{at_once, case, inline, message, stream};

/// Counters just before their wraps.
pub(super) const WRAP: Origin = Origin {
    sequence: u64::MAX - 1,
    blocks: u64::MAX - 1,
    controls: u64::MAX,
    transfers: u64::MAX,
    keepalives: 0,
    notifications: u64::MAX - 1,
};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = sizes();
    cases.extend(calls());
    cases.extend(given_up());
    cases.extend(both_ways());
    cases.extend(closes());
    cases
}

fn sizes() -> Vec<Case> {
    vec![
        case("posted: 2 inline", &[inline(), at_once(40)]),
        case("posted: 1 chunk", &[message(64)]),
        case("posted: 2 chunks", &[message(128)]),
        case("posted: 3 chunks", &[message(192)]),
        case("posted: 4 chunks", &[message(256)]),
        case("posted: 4 chunks, queue of 2", &[message(256)]).queue(2),
        case("posted: 3 chunks of 1 and 2 blocks, ring of 4", &[message(372)]).ring(4),
        case("posted: 3 chunks, inline", &[message(192), inline()]),
        case("posted: inline, 2 chunks", &[inline(), message(128)]),
        case("posted: 2 chunks, 2 chunks", &[message(128), message(128)]),
        case("posted, checked: 2 inline", &[inline(), at_once(40)]).checked(),
        case("posted, checked: 3 chunks", &[message(192)]).checked(),
        case("posted, checked: 2 chunks of 1 and 2 blocks, ring of 4", &[message(248)]).checked().ring(4),
    ]
}

fn calls() -> Vec<Case> {
    vec![
        case("posted: eager, 3 chunks", &[message(192).by(Protocol::Eager)]),
        case("posted: copy, 2 chunks", &[message(128).by(Protocol::Copy)]),
        case("posted: copy, 2 chunks of 2 blocks, ring of 4", &[message(300).by(Protocol::Copy)]).ring(4),
        case("posted: pipeline, 2 chunks", &[message(128).by(Protocol::Pipeline)]),
        case("posted: stream, 2 chunks", &[stream(128)]),
        case("posted: in place, 3 chunks", &[message(180).send_method(SendMethod::Reserve(60))])
            .taking(ReceiveMethod::InPlace(30)),
        case("posted: 2 chunks, pushed and pulled", &[message(128).send_method(SendMethod::Push(128))])
            .taking(ReceiveMethod::Pull(1024)),
        case("posted: 2 chunks into 2 slices", &[message(128)]).taking(ReceiveMethod::Drive(70)),
        case("posted: 2 chunks in small pulls", &[message(128)]).taking(ReceiveMethod::Pull(40)),
        case("posted: try_recv, inline, 1 chunk", &[inline(), message(64)]).taking(ReceiveMethod::Whole),
        Case {
            reads_late: true,
            ..case("posted: images read late, 2 chunks, inline", &[message(128), inline()])
        },
        Case { checks_time: true, ..case("posted: time checked at any step, 2 chunks", &[message(128)]) },
        case("posted: acknowledgements overtaken, 4 inline", &[inline(); 4]).queue(2).overtaken().unsplit(),
        case("posted: acknowledgements overtaken, 3 chunks", &[message(192)]).queue(2).overtaken().unsplit(),
    ]
}

fn given_up() -> Vec<Case> {
    let long = message(192);
    let either = message(128).cancelled().rejected();
    vec![
        case("posted: cancel", &[long.cancelled()]),
        case("posted: cancel, inline", &[long.cancelled(), inline()]),
        case("posted: cancel, 2 chunks", &[long.cancelled(), message(128)]).unsplit(),
        case("posted: cancel, cancel", &[message(128).cancelled(); 2]).unsplit(),
        case("posted: cancel, cancel, inline", &[message(65).cancelled(), message(65).cancelled(), inline()])
            .unsplit(),
        case("posted: cancel, cancel, cancel", &[message(65).cancelled(); 3]).unsplit().prompt(),
        case("posted: cancel a stream, inline", &[stream(128).cancelled(), inline()]),
        case("posted: reject inline, inline", &[inline().rejected(), inline()]),
        case("posted: reject", &[long.rejected()]).unsplit(),
        case("posted: reject, inline", &[long.rejected(), inline()]).unsplit(),
        case("posted: reject, reject", &[message(128).rejected(); 2]).unsplit().prompt(),
        case("posted: reject or cancel, inline", &[either, inline()]).unsplit(),
        Case { origin: WRAP, ..case("posted: counts wrap, cancel, inline", &[long.cancelled(), inline()]) },
        case("posted, checked: cancel, inline", &[message(128).cancelled(), inline()]).checked(),
        case("posted, checked: reject, inline", &[message(128).rejected(), inline()]).checked().unsplit(),
    ]
}

fn both_ways() -> Vec<Case> {
    vec![
        case("posted: inline both ways", &[inline()]).back(&[at_once(40)]),
        case("posted: 2 inline both ways", &[inline(); 2]).back(&[inline(); 2]).unsplit(),
        case("posted: 2 chunks there, inline back", &[message(128)]).back(&[inline()]).unsplit(),
        case("posted: 2 chunks both ways", &[message(128)]).back(&[message(128)]).unsplit(),
    ]
}

fn closes() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    vec![
        case("posted: inline, close", &[inline()]).closing([done; 2]),
        case("posted: 2 chunks, close", &[message(128)]).closing([done; 2]),
        case("posted: cancel, close", &[message(128).cancelled()]).closing([sent, done]).unsplit(),
        case("posted: 3 chunks, close under way", &[message(192)]).closing([sent, done]),
        case("posted: inline, close under way, 2 chunks back", &[inline()])
            .back(&[message(128)])
            .closing([sent, done])
            .unsplit(),
        case("posted: inline both ways, both close under way", &[inline()])
            .back(&[inline()])
            .closing([sent; 2])
            .unsplit(),
        case("posted: 2 chunks, sender aborts", &[message(128)]).closing([abort, done]),
        case("posted: 2 chunks, receiver aborts", &[message(128)]).closing([done, abort]),
    ]
}
