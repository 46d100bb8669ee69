//! Rows of applications: patterns as those of the NAS benchmarks. Denis, section 5. Of the times there, IS 3.05 s with the superpipeline, 3.32 s with the cache of registrations
//! of the same library, 3.01 s with MVAPICH2 and 2.92 s with Open MPI, only the first two can come out of core: the other two are other libraries, which the text has ahead by
//! latency.

use superpipe_core::plan::{Machine, Pages};
use superpipe_core::{Config, Protocol};

use super::super::row::{Bound, Row, Source};
use super::{K, M, on_graphene, register_ns, superpipeline};
use crate::measured::connection::Buffers;
use crate::measured::exchange::Exchange;
use crate::measured::experiment::Experiment;
use crate::measured::machine::simulated;

/// Hosts of an all-to-all. The text has 8 ranks.
const HOSTS: usize = 4;

/// Returns the nanoseconds of the last of some rounds of an all-to-all on `graphene`.
pub(in crate::paper) fn all_to_all_ns(
    protocol: Protocol,
    buffers: Buffers,
    bytes: u64,
    count: u64,
) -> Result<f64, String> {
    let terms = on_graphene(protocol, buffers, bytes).terms()?;
    let profile = simulated(&Machine::GRAPHENE, bytes, Pages::RESIDENT);
    let times = Exchange { profile, terms, hosts: HOSTS }.play(count)?;
    times.last().map(|ns| *ns as f64).ok_or_else(|| "no round".to_owned())
}

/// As NAS IS: buffers that are never used again. Deregistration is off the path. The share of its time in which an application must communicate so that this
/// makes it 1.09 times as fast.
pub(super) fn never_reused() -> Result<Row, String> {
    let times = register_ns(8 * M)? / superpipeline(8 * M).ns()?;
    let share = 100.0 * (1.0 - 1.0 / 1.09) / (1.0 - 1.0 / times);
    let what = ("register over superpipeline, 8 MiB, buffers never used again", "IS as a whole: 1.09x");
    let ratio = Row::new(what, Source::Run, "x", &[(times, Bound::AtLeast(1.09))]);
    let share = Row::new(("", ""), Source::Run, " % of its time", &[(share, Bound::AtMost(100.0))]);
    Ok(Row {
        got: format!("{}; IS gains 1.09x if it communicates for {}", ratio.got, share.got),
        is_met: ratio.is_met && share.is_met,
        ..ratio
    })
}

/// An all-to-all whose buffers are never used again, so that a cache of registrations always misses (below 5 % hits in IS).
pub(super) fn all_to_all() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [256 * K, M, 8 * M] {
        let registered = all_to_all_ns(Protocol::RegisterCached, Buffers::Lent, bytes, 1)?;
        let copied = all_to_all_ns(Protocol::Superpipeline, Buffers::Unnamed, bytes, 1)?;
        values.push((registered / copied, Bound::AtLeast(1.0)));
    }
    let what = (
        "all-to-all of 4 hosts, never used again: a cache of registrations over superpipeline, 256 KiB, 1 MiB, 8 MiB each",
        "IS as a whole: 3.32 s; 3.05 s (MVAPICH2 3.01 s, Open MPI 2.92 s)",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// The same buffers again (99 % hits in CG and SP).
pub(super) fn all_to_all_reused() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [256 * K, M, 8 * M] {
        let registered = all_to_all_ns(Protocol::RegisterCached, Buffers::Cached, bytes, 2)?;
        let copied = all_to_all_ns(Protocol::Superpipeline, Buffers::Unnamed, bytes, 2)?;
        values.push((registered / copied, Bound::AtMost(1.05)));
    }
    let what = ("the same, used again", "gains nothing");
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// As NAS LU, whose messages are mostly short. All are copied in one chunk, which goes at once.
pub(super) fn short_messages() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [K, 2 * K, 8 * K] {
        let ns = |protocol, buffers| {
            let experiment = on_graphene(protocol, buffers, bytes);
            let c0_bytes = Config::default().c0_bytes;
            Experiment { config: Config { c0_bytes, ..experiment.config }, ..experiment }.ns()
        };
        let copied = ns(Protocol::Superpipeline, Buffers::Unnamed)?;
        values.push((ns(Protocol::RegisterCached, Buffers::Lent)? / copied, Bound::About(1.0, 0.01)));
    }
    let what = (
        "short messages: a cache of registrations over superpipeline, 1, 2, 8 KiB",
        "LU: the same; no difference for small",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}
