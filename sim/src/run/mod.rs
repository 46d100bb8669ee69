//! A run: from the first registration until every end has released everything and nothing is on its way.

mod connection;
mod hosts;
mod liveness;
mod scripted;

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::collections::BTreeMap;
use std::panic::catch_unwind;

use crate::case::Case;
use crate::client::CallCoverage;
use crate::fabric::PartialBlocks;
use crate::faults::{FaultCoverage, GrowthCoverage};
use crate::nic::{Trace, TraceEvent, World};
use crate::panic_text::panic_text;
use crate::polled::{PollCoverage, PolledOutcome, run_polled};
use connection::Connection;
use hosts::Hosts;

/// Limit of virtual time: ten times that of the longest of 100,000 seeds.
const LIMIT_NS: u64 = 1_000_000_000_000;

/// Limit of turns, for runs that go on without progress of the virtual time.
const TURNS_MAX: u64 = 60_000_000;

/// Options of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Records a trace.
    pub traced: bool,
    /// Stops after this many turns.
    pub turns_max: Option<u64>,
}

/// Result of a successful run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Virtual time of the run.
    pub time_ns: u64,
    /// Turns of all ends.
    pub turns: u64,
    /// Transfers of scripts, clients and lenders.
    pub transfers: u64,
    /// Bytes that came by remote writes.
    pub remote_bytes: u64,
    /// Bytes that the sender wrote into memory that was offered.
    pub split_bytes: u64,
    /// Incomplete blocks that a CRC with fewer than 32 bits accepted.
    pub partial_blocks: PartialBlocks,
    /// Counts of faults by state.
    pub fault_coverage: FaultCoverage,
    /// Counts of faults by step of growth, and of the cases of growth.
    pub growth_coverage: GrowthCoverage,
    /// Counts of calls by state.
    pub call_coverage: CallCoverage,
    /// Counts of what happened to connections of a poller.
    pub poll_coverage: PollCoverage,
    /// Counts of how ends ended.
    pub endings: BTreeMap<String, u64>,
    /// Times that an end chose another kernel for its copies.
    pub copy_changes: u64,
    /// Times that an end chose another window.
    pub window_changes: u64,
    /// Payload bytes that all ends had received at the end of each millisecond of virtual time.
    pub received_bytes: Vec<u64>,
    /// Trace, if requested.
    pub trace: Trace,
}

/// Nanoseconds of virtual time from one look at the bytes that were received to the next.
pub(crate) const SLICE_NS: u64 = 1_000_000;

/// Failure that a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// Seed that repeats it.
    pub seed: u64,
    /// Description of the failure.
    pub description: String,
    /// Incomplete blocks that a CRC with fewer than 32 bits accepted.
    pub partial_blocks: PartialBlocks,
    /// Trace up to the failure, if requested.
    pub trace: Trace,
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.description.lines().next().unwrap_or_default();
        let short: String = first.chars().take(300).collect();
        write!(f, "superpipe-sim replay {}: {short}", self.seed)
    }
}

/// Runs a case.
///
/// # Errors
/// [`RunFailure`] if bytes differ, arrive twice, late or never; if an end uses memory that it does not own, or does not notice that its
/// peer is gone; if something is not released; or if the run never ends.
pub fn run(case: &Case, options: RunOptions) -> Result<Outcome, RunFailure> {
    if let Some(polled) = &case.polled {
        return of_polled(case.seed, run_polled(polled));
    }
    if case.direct { play::<true>(case, options) } else { play::<false>(case, options) }
}

fn of_polled(seed: u64, ended: Result<PolledOutcome, String>) -> Result<Outcome, RunFailure> {
    match ended {
        Ok(PolledOutcome { time_ns, turns, transfers, coverage }) => {
            Ok(Outcome { time_ns, turns, transfers, poll_coverage: coverage, ..Outcome::default() })
        }
        Err(description) => {
            let (partial_blocks, trace) = Default::default();
            Err(RunFailure { seed, description, partial_blocks, trace })
        }
    }
}

fn play<const DIRECT: bool>(case: &Case, options: RunOptions) -> Result<Outcome, RunFailure> {
    let mut world = Box::new(World::new(case.hosts, case.profile, case.faults, case.seed));
    if options.traced {
        world.trace = Some(Trace::default());
    }
    let (mut connections, mut received_bytes) = (Vec::new(), Vec::new());
    // After a panic only the trace and the counts are used.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for plan in &case.connections {
            match Connection::<DIRECT>::open(&mut world, case, plan, options.traced) {
                Ok(connection) => connections.push(connection),
                Err(error) => world.note_here(plan.hosts[0], TraceEvent::Refused(error)),
            }
        }
        drive(&mut world, &mut connections, case.hosts, (options.turns_max, &mut received_bytes))
    }));
    // After a panic in a turn, the world is where it was lent to.
    let taken = connections.iter_mut().find_map(Connection::take_lent_world);
    let mut world = taken.unwrap_or(world);
    let trace = world.trace.take().unwrap_or_default();
    let mut partial_blocks = PartialBlocks::default();
    connections.iter().for_each(|connection| partial_blocks += connection.partial_blocks());
    let description = match ended {
        Ok(Ok(turns)) => {
            let mut endings = BTreeMap::new();
            connections
                .iter()
                .flat_map(Connection::endings)
                .for_each(|text| *endings.entry(text).or_default() += 1);
            let unconnected = 2 * (case.connections.len() - connections.len()) as u64;
            if unconnected > 0 {
                endings.insert("did not connect".to_owned(), unconnected);
            }
            let scripted =
                case.connections.iter().filter(|plan| plan.programs.is_none() && plan.lenders.is_none());
            let scripted = scripted.map(|plan| plan.script.transfers.iter().flatten().count() as u64);
            let of_clients = connections.iter().map(Connection::transfers);
            let mut call_coverage = CallCoverage::default();
            connections
                .iter()
                .filter_map(Connection::call_coverage)
                .for_each(|theirs| call_coverage.add(theirs));
            return Ok(Outcome {
                time_ns: world.time_ns(),
                turns,
                remote_bytes: connections.iter().map(Connection::remote_bytes).sum(),
                split_bytes: connections.iter().map(Connection::split_bytes).sum(),
                transfers: scripted.sum::<u64>() + of_clients.sum::<u64>(),
                partial_blocks,
                fault_coverage: world.fault_coverage,
                growth_coverage: world.growth_coverage,
                call_coverage,
                poll_coverage: PollCoverage::default(),
                endings,
                copy_changes: connections.iter().map(Connection::copy_changes).sum(),
                window_changes: connections.iter().map(Connection::window_changes).sum(),
                received_bytes,
                trace,
            });
        }
        Ok(Err(description)) => description,
        Err(panic) => panic_text(&*panic),
    };
    Err(RunFailure { seed: case.seed, description, partial_blocks, trace })
}

/// Runs turns until all ends are gone, and returns their number.
fn drive<const DIRECT: bool>(
    world: &mut Box<World>,
    connections: &mut [Connection<DIRECT>],
    count: usize,
    (turns_max, received_bytes): (Option<u64>, &mut Vec<u64>),
) -> Result<u64, String> {
    let mut hosts = Hosts::new(world, connections.iter().map(|connection| connection.hosts), count);
    let ends_per_cpu = hosts.ends_per_cpu() as u64;
    let has_distances = world.profile.distances.is_some();
    connections.iter_mut().for_each(|connection| connection.share_cpu(ends_per_cpu, has_distances));
    let mut turns = 0;
    while let Some(turn) = hosts.next(world) {
        if turns_max == Some(turns) {
            return Ok(turns);
        }
        turns += 1;
        if turns > TURNS_MAX {
            return Err(format!("not over after {turns} turns: {}", connections[turn.connection].state()));
        }
        if turn.now_ns > LIMIT_NS {
            return Err(format!("not over after {LIMIT_NS} ns: {}", connections[turn.connection].state()));
        }
        while turn.now_ns >= (received_bytes.len() as u64 + 1) * SLICE_NS {
            received_bytes.push(connections.iter().map(Connection::received_bytes).sum());
        }
        let connection = &mut connections[turn.connection];
        let (worked, sleep_ns) = connection.turn(world, turn.side, turn.now_ns)?;
        hosts.done(world, turn, worked, sleep_ns);
        for side in (0..2).filter(|side| connection.is_gone(*side)) {
            hosts.remove(connection.hosts[side], turn.connection, side);
        }
    }
    while world.run_events(u64::MAX).is_some() {}
    if !world.is_quiescent() {
        return Err("every end is gone, but something is on its way".to_owned());
    }
    match (0..count).find(|host| world.registered(*host) > 0) {
        Some(host) => Err(format!("every end is gone, but host {host} has {} MRs", world.registered(host))),
        None => Ok(turns),
    }
}
