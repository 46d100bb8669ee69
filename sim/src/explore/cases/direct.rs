//! Cases with direct store.

use super::Transfer;
use super::case::{Case, ClosePolicy, ReceiveMethod, SendMethod};
use super::{at_once, inline, message, stream};

fn direct(name: &'static str, transfers: &[Transfer]) -> Case {
    Case { direct: true, ..super::case(name, transfers) }
}

/// Messages in the two lines of a slot.
fn two_lines(name: &'static str) -> Case {
    let messages = [at_once(104), at_once(41), at_once(90)];
    Case { c0_bytes: 150, ..direct(name, &messages) }.apart(1)
}

pub(super) fn cases() -> Vec<Case> {
    let long = message(192);
    let either = message(128).cancelled().rejected();
    vec![
        direct("direct: 3 inline", &[inline(); 3]),
        direct("direct: 4 chunks", &[message(256)]),
        direct("direct: 4 chunks, lines apart", &[message(512)]).apart(1),
        direct("direct: 4 chunks of 1 and 2 blocks, lines apart", &[message(896)]).apart(1).ring(4),
        // Chunks of 1, 4 and 3 blocks: groups of 2 blocks and of 1.
        direct("direct: 3 chunks, groups of 2", &[message(1024)]).apart(2).ring(8),
        direct("direct: in place, groups of 2", &[message(700).send_method(SendMethod::Reserve(512))])
            .apart(2)
            .ring(8)
            .taking(ReceiveMethod::InPlace(200)),
        direct("direct: reject, cancel, groups of 2", &[message(512).rejected(), message(400).cancelled()])
            .apart(2)
            .ring(8)
            .unsplit(),
        direct("direct, checked: 3 chunks, groups of 2", &[message(700)]).apart(2).ring(8).checked(),
        Case {
            c0_bytes: 512,
            ..direct(
                "direct: at once, groups of 2, windows of 5 and 6, try_recv",
                &[at_once(41), at_once(512), at_once(300)],
            )
        }
        .apart(2)
        .ring(8)
        .windows(&[5, 6])
        .taking(ReceiveMethod::Whole)
        .unsplit(),
        Case {
            c0_bytes: 150,
            ..direct(
                "direct: 3 at once of 1 to 2 blocks, try_recv",
                &[at_once(41), at_once(150), at_once(150)],
            )
        }
        .ring(4)
        .taking(ReceiveMethod::Whole),
        two_lines("direct: 3 in two lines, lines apart"),
        two_lines("direct: 3 in two lines, lines apart, try_recv").taking(ReceiveMethod::Whole),
        two_lines("direct: 3 in two lines, lines apart, in place").taking(ReceiveMethod::InPlace(30)),
        direct("direct: stream, inline", &[stream(128), inline()]),
        direct("direct: 6 inline, windows of 2 to 4", &[inline(); 6]).ring(4).windows(&[2, 3, 4]).unsplit(),
        direct("direct: 3 chunks and inline, windows of 2 and 4", &[message(320), inline(), inline()])
            .ring(4)
            .windows(&[2, 4])
            .unsplit(),
        direct("direct: cancel, reject, inline, windows of 2 and 3", &[either, either, inline()])
            .ring(3)
            .windows(&[2, 3])
            .unsplit(),
        Case {
            c0_bytes: 150,
            ..direct(
                "direct: 3 at once of 1 to 2 blocks, windows of 3 and 4, try_recv",
                &[at_once(41), at_once(150), at_once(150)],
            )
        }
        .ring(4)
        .windows(&[3, 4])
        .taking(ReceiveMethod::Whole)
        .unsplit(),
        direct("direct: in place, 3 chunks", &[message(180).send_method(SendMethod::Reserve(60))])
            .taking(ReceiveMethod::InPlace(30)),
        direct(
            "direct: cancel, cancel, inline",
            &[message(128).cancelled(), message(128).cancelled(), inline()],
        ),
        direct("direct: cancel, cancel, cancel", &[message(65).cancelled(); 3]),
        direct("direct: reject inline, inline", &[inline().rejected(), inline()]),
        direct("direct: reject, reject, inline", &[long.rejected(), long.rejected(), inline()]).unsplit(),
        Case {
            c0_bytes: 150,
            ..direct("direct: 3 at once of 2 blocks, refused or not, try_recv", &[at_once(150).rejected(); 3])
        }
        .ring(4)
        .taking(ReceiveMethod::Whole)
        .unsplit(),
        direct("direct: inline in place", &[inline().rejected(), at_once(0), at_once(40)])
            .taking(ReceiveMethod::InPlace(30)),
        direct("direct: cancel, cancel, ring of 3", &[message(192).cancelled(); 2]).ring(3).unsplit(),
        direct("direct: reject or cancel, the same", &[either; 2]).unsplit(),
        direct("direct: 3 inline both ways", &[inline(); 3]).back(&[inline(); 3]).unsplit(),
        direct("direct: 3 chunks both ways", &[long]).back(&[long]).unsplit(),
        direct("direct: cancel both ways", &[message(128).cancelled()])
            .back(&[message(128).cancelled()])
            .unsplit(),
        direct("direct: 3 chunks there, inline back, both close under way", &[long])
            .back(&[inline()])
            .closing([ClosePolicy::WhenSent; 2]),
        direct("direct: 3 chunks both ways, both abort", &[long])
            .back(&[long])
            .closing([ClosePolicy::Abort; 2])
            .unsplit(),
        direct("direct, checked: 3 chunks, cancel, inline", &[long, long.cancelled(), inline()]).checked(),
    ]
}
