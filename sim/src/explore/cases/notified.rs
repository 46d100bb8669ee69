//! Cases with notifications, without order inside a write. Each end keeps four receives posted, which is the least.

use superpipe_core::Protocol;

use super::case::{Case, ClosePolicy, ReceiveMethod, SendMethod};
use super::posted::WRAP;
use super::{at_once, case, inline, message, stream};

pub(super) fn cases() -> Vec<Case> {
    let [done, sent, abort] = [ClosePolicy::WhenDone, ClosePolicy::WhenSent, ClosePolicy::Abort];
    let long = message(128);
    vec![
        case("notified: 2 inline", &[inline(), at_once(40)]).notified(),
        case("notified: 4 inline", &[inline(); 4]).notified().unsplit().queue(2),
        case("notified: 3 chunks", &[message(192)]).notified(),
        case("notified: 4 chunks", &[message(256)]).notified().unsplit().queue(2),
        case("notified: 2 chunks of 1 and 2 blocks, ring of 4", &[message(248)])
            .notified()
            .unsplit()
            .prompt()
            .ring(4),
        case("notified: copy, 2 chunks", &[message(128).by(Protocol::Copy)]).notified(),
        case("notified: stream in place, 2 chunks", &[stream(120).send_method(SendMethod::Reserve(60))])
            .notified()
            .unsplit()
            .taking(ReceiveMethod::InPlace(30)),
        case("notified: cancel, inline", &[long.cancelled(), inline()]).notified().unsplit(),
        case("notified: reject, inline", &[long.rejected(), inline()]).notified().unsplit(),
        case("notified: 2 inline both ways", &[inline(); 2]).back(&[inline(); 2]).notified().unsplit(),
        case("notified: 2 chunks there, inline back", &[long]).back(&[inline()]).notified().unsplit(),
        case("notified: 2 chunks both ways", &[long]).back(&[long]).notified().unsplit().prompt(),
        Case { origin: WRAP, ..case("notified: counts wrap, 3 chunks, inline", &[message(192), inline()]) }
            .notified()
            .unsplit(),
        case("notified: 2 chunks, close", &[long]).closing([done; 2]).notified(),
        case("notified: 2 chunks, close under way", &[long]).closing([sent, done]).notified().unsplit(),
        case("notified: 2 chunks, sender aborts", &[long]).closing([abort, done]).notified().unsplit(),
    ]
}
