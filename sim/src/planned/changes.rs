//! A workload that changes under a connection whose messages are planned: other memory, other sizes, and back. The trace of the connection says how each
//! message went and what it took.

use superpipe_core::plan::{Pages, Planner, Way};
use superpipe_core::recorder::{Record, Step};
use superpipe_core::{Config, Protocol};

use super::{
    Agreement, Buffers, C0_BYTES, CONVERGED, Cell, KNOWN, LAYOUT, MEASURED, PingPong, median, terms, unknown,
};
use crate::measured::connection::Terms;
use crate::measured::machine::simulated;
use crate::measured::workers;

/// Bytes and memory of the messages of a phase.
type Phase = (usize, Buffers);

/// Workloads that change, and come back to where they began.
const WORKLOADS: [[Phase; 3]; 3] = [
    [(1 << 20, Buffers::Registered), (1 << 20, Buffers::Lent), (1 << 20, Buffers::Registered)],
    [(128 << 10, Buffers::Slices), (4 << 20, Buffers::Slices), (128 << 10, Buffers::Slices)],
    [(256 << 10, Buffers::Lent), (4 << 20, Buffers::Registered), (256 << 10, Buffers::Lent)],
];

/// Result of a phase.
#[derive(Clone, Debug)]
pub struct ChangedPhase {
    /// Number of the machine.
    pub seed: u64,
    /// Number of the workload, and of the phase.
    pub place: [usize; 2],
    /// Bytes of a message.
    pub bytes: usize,
    /// How its memory is named.
    pub memory: &'static str,
    /// Median nanoseconds by the best protocol.
    pub best_ns: u64,
    /// The same of the planned messages after those in which a choice must converge.
    pub planned_ns: u64,
    /// The way of the last of them, by the trace.
    pub way: Way,
    /// Median of prediction over time of these messages, by the trace.
    pub predicted: f64,
}

impl ChangedPhase {
    /// Returns by how many percent planned messages take longer than by the best protocol.
    #[must_use]
    pub fn loss_percent(&self) -> f64 {
        100.0 * (self.planned_ns as f64 / self.best_ns as f64 - 1.0)
    }
}

/// Plays all workloads on this many machines.
///
/// # Errors
/// A message that does not come, or comes changed, or a phase of which the trace has too few messages.
pub fn check_changes(machines: u64) -> Result<Vec<ChangedPhase>, String> {
    let mut cases = Vec::new();
    for number in (0..WORKLOADS.len()).rev() {
        cases.extend((0..machines).map(|seed| (seed, number)));
    }
    let played = workers::map(&cases, |(seed, number)| play(*seed, *number))?;
    Ok(played.into_iter().flatten().collect())
}

fn play(seed: u64, number: usize) -> Result<Vec<ChangedPhase>, String> {
    let phases = WORKLOADS[number];
    let bytes_max = phases.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let profile = simulated(&unknown(seed), bytes_max as u64, Pages::RESIDENT);
    let config = Config { protocol: Protocol::RegisterCached, c0_bytes: C0_BYTES, ..Config::default() };
    let planner = Some(Planner::new(KNOWN.profile, terms(true)));
    let (bytes, buffers) = phases[0];
    let ping_pong = PingPong { profile, terms: Terms { config, layout: LAYOUT, buffers, bytes, planner } };
    let played = ping_pong.phases(&phases, 2 * (CONVERGED + MEASURED) as u64)?;
    let mut results = Vec::new();
    for (index, ((bytes, buffers), mut phase)) in phases.into_iter().zip(played).enumerate() {
        let cell = Cell { seed, bytes, buffers, agreement: Agreement::AllWays };
        let planned_ns = median(phase.times.split_off(2 * CONVERGED));
        let (way, predicted) = of_trace(&phase.records, bytes as u64)
            .ok_or("the trace has too few planned messages of a phase")?;
        let best_ns = cell.best(profile)?.1;
        let memory = cell.memory();
        results.push(ChangedPhase {
            seed,
            place: [number, index],
            bytes,
            memory,
            best_ns,
            planned_ns,
            way,
            predicted,
        });
    }
    Ok(results)
}

/// Returns the way of the last message, and the median of prediction over time of the last ones. `None` if there are fewer than are measured.
fn of_trace(records: &[Record], bytes: u64) -> Option<(Way, f64)> {
    let planned = records.iter().filter_map(|record| match record.step {
        Step::Planned { bytes: of, way, predicted_ns, .. } if of == bytes => {
            Some((way, predicted_ns as f64 / (record.end.0 - record.begin.0).max(1) as f64))
        }
        _ => None,
    });
    let planned: Vec<_> = planned.collect();
    let (way, _) = *planned.last().filter(|_| planned.len() >= MEASURED)?;
    let mut ratios: Vec<f64> = planned.iter().rev().take(MEASURED).map(|(_, ratio)| *ratio).collect();
    ratios.sort_by(f64::total_cmp);
    Some((way, ratios[ratios.len() / 2]))
}
