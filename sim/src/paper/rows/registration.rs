//! Rows of registration: what it costs messages, and what a cache of registrations saves.

use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, Pages, Start};

use super::super::row::{Bound, Row, Source};
use super::{K, M, below, of_wire, register_cached_ns, register_ns};

pub(super) fn registration_64k() -> Result<Row, String> {
    let lost = below(register_ns(64 * K)?, register_cached_ns(64 * K)?);
    let what = ("register below register-cached with hits, 64 KiB, graphene", "as much as 60 %");
    Ok(Row::new(what, Source::Run, " %", &[(lost, Bound::About(65.0, 5.0))]))
}

pub(super) fn registration_large() -> Result<Row, String> {
    let share = of_wire(64 * M, register_ns(64 * M)?);
    let what = ("register, 64 MiB, graphene, of B_net", "91 %");
    Ok(Row::new(what, Source::FittedRun, " %", &[(share, Bound::About(91.0, 1.0))]))
}

pub(super) fn first_register_cached() -> Result<Row, String> {
    let mut values = Vec::new();
    for (bytes, percent) in [(64 * K, 32.0), (256 * K, 62.0), (M, 81.0), (8 * M, 90.0)] {
        let share = 100.0 * register_cached_ns(bytes)? / register_ns(bytes)?;
        values.push((share, Bound::About(percent, 5.0)));
    }
    let what = (
        "register-cached, a miss (which is register) against a hit, the same sizes",
        "first send: low performance because of registration",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

/// What is expected is from this model: Denis gives no numbers.
pub(super) fn pipelined_registration() -> Result<Row, String> {
    let profile = Machine::GRAPHENE.profile;
    let mut values = Vec::new();
    for (bytes, registered, copied) in [(256 * K, 38.0, 3.0), (M, 13.0, 1.0), (8 * M, 2.0, 0.2)] {
        let raw = profile.register_cached_ns(bytes, Pages::RESIDENT, Start::Raw, 1.0);
        let ns = profile.pipelined_registration_ns(bytes, Pages::RESIDENT, Start::Raw);
        values.push((below(ns, raw), Bound::About(registered, 2.0)));
        let ns = ChunkedCopy::superpipeline(bytes, Chunks::HARDWIRED, Start::Raw).ns(&profile);
        values.push((below(ns, raw), Bound::About(copied, 0.5)));
    }
    let what = (
        "pipelined registration, and then superpipeline, below a raw write: 256 KiB, 1 MiB, 8 MiB",
        "pipelining copies is better",
    );
    Ok(Row::new(what, Source::Model, " %", &values))
}
