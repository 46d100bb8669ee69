//! Cases in which the first chunk of a message is copied during the rendezvous.

use superpipe_core::FirstChunk;

use super::case::{Case, ClosePolicy};
use super::{Transfer, case, inline, message, stream};

fn preparing(name: &'static str, transfers: &[Transfer]) -> Case {
    Case { first_chunk: FirstChunk::DuringRendezvous, ..case(name, transfers) }.ring(4).unsplit()
}

fn direct(name: &'static str, transfers: &[Transfer]) -> Case {
    Case { direct: true, ..preparing(name, transfers) }
}

pub(super) fn cases() -> Vec<Case> {
    let done = [ClosePolicy::WhenDone; 2];
    let pushed = stream(40);
    vec![
        preparing("posted, preparing: 1 message", &[message(96)]),
        preparing("posted, preparing: stream, line", &[pushed, inline()]),
        preparing("posted, preparing: reject", &[message(96).rejected(), inline()]).prompt(),
        preparing("posted, preparing: cancel", &[message(96).cancelled(), inline()]).prompt(),
        preparing("posted, preparing: close", &[message(96)]).prompt().closing(done),
        direct("direct, preparing: 1 message", &[message(96)]),
        direct("direct, preparing: stream, line", &[pushed, inline()]),
        direct("direct, preparing: cancel, reject", &[message(96).cancelled().rejected(), inline()]),
    ]
}
