//! Rows of first messages: Figure 7 of Denis.

use superpipe_core::plan::Machine;
use superpipe_core::{Config, Protocol};

use super::super::row::{Bound, Row, Source};
use super::{K, M, superpipeline};
use crate::measured::connection::Buffers;
use crate::measured::experiment::Experiment;

/// Threshold of the rendezvous in Figure 7 (Denis, section 5). Shorter messages are copied.
const RENDEZVOUS_BYTES: u32 = 32 << 10;

/// Twenty messages through a landing buffer of 512 KiB, so that the later ones begin at any block of it.
pub(super) fn superpipeline_at_once() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [64 * K, 256 * K, M, 8 * M] {
        let experiment = superpipeline(bytes);
        let config = Config { folds: 3, ..experiment.config };
        let folded = Experiment { config, landing_bytes: Some(512 * K), ..experiment };
        let times = folded.times(20)?;
        let [first, best] = [times[0], times.into_iter().fold(f64::INFINITY, f64::min)];
        values.push((100.0 * best / first, Bound::AtLeast(98.0)));
    }
    let what = (
        "superpipeline, first message of 20 against the best: 64 KiB, 256 KiB, 1 MiB, 8 MiB, resident",
        "the best already at the first send",
    );
    Ok(Row::new(what, Source::Run, " %", &values))
}

/// Returns the nanoseconds of the first of 100 round trips, and of the best one.
fn hundred(protocol: Protocol, buffers: Buffers, bytes: u64) -> Result<[f64; 2], String> {
    let on = Experiment::on(&Machine::GRAPHENE, protocol, buffers, bytes, Config::default());
    let config = Config { c0_bytes: RENDEZVOUS_BYTES, ..on.config };
    let experiment = Experiment { config, ..on };
    let trips: Vec<f64> = experiment.times(200)?.chunks(2).map(|trip| trip.iter().sum()).collect();
    let best = trips.iter().copied().fold(f64::INFINITY, f64::min);
    Ok([trips[0], best])
}

/// The cache of registrations against the superpipeline: in the first round trip it registers, in the best one it has. That of Mad-MPI; Open MPI and MVAPICH2, of which Figure
/// 7 says the same, are not simulated. From the text: 100 round trips, and the rendezvous from 32 KB.
pub(super) fn round_trips() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [64 * K, 256 * K, M] {
        let cached = hundred(Protocol::RegisterCached, Buffers::Cached, bytes)?;
        let superpipeline = hundred(Protocol::Superpipeline, Buffers::Unnamed, bytes)?;
        values.push((superpipeline[0] / cached[0], Bound::AtMost(0.98)));
        values.push((superpipeline[1] / cached[1], Bound::Between(0.9, 1.05)));
    }
    let what = (
        "100 round trips, superpipeline over a cache of registrations, time: first, best of 64 KiB; of 256 KiB; of 1 MiB",
        "first: low performance of the cache; best: roughly the same",
    );
    Ok(Row::new(what, Source::Run, "x", &values))
}

/// Below the threshold both are one protocol.
pub(super) fn round_trips_of_short_messages() -> Result<Row, String> {
    let mut values = Vec::new();
    for bytes in [4 * K, 31 * K] {
        let cached = hundred(Protocol::RegisterCached, Buffers::Cached, bytes)?;
        let superpipeline = hundred(Protocol::Superpipeline, Buffers::Unnamed, bytes)?;
        values.extend([0, 1].map(|trip| (superpipeline[trip] / cached[trip], Bound::About(1.0, 0.01))));
    }
    let what = ("the same below the rendezvous of 32 KB: 4 KiB; 31 KiB", "plain copy");
    Ok(Row::new(what, Source::Run, "x", &values))
}
