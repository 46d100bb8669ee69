//! A run: from the first registration until every end has let go of all it had and nothing is on its way.

mod connection;
mod hosts;
mod patience;
mod scripted;

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::collections::BTreeMap;
use std::panic::catch_unwind;

use crate::calls::Calls;
use crate::case::Case;
use crate::nic::World;
use crate::nic::{Trace, What};
use crate::tally::Tally;
use crate::torn::Torn;
use connection::Connection;
use hosts::Hosts;

/// Virtual time after which a run that is not over never will be: ten times what the longest of 100,000 seeds took.
const LIMIT_NS: u64 = 1_000_000_000_000;

/// Turns after which a run that is not over never will be.
const TURNS_MAX: u64 = 60_000_000;

/// How a run is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Keep what happens.
    pub traced: bool,
    /// Stop after so many turns.
    pub turns_max: Option<u64>,
}

/// How a run ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Virtual time that it took.
    pub time_ns: u64,
    /// Turns that all ends had.
    pub turns: u64,
    /// Transfers that were to be made.
    pub transfers: u64,
    /// Where a CRC has less than 32 bits: what it let pass.
    pub torn: Torn,
    /// Which fault struck in which state.
    pub tally: Tally,
    /// Which call was made in which state.
    pub calls: Calls,
    /// How ends ended, and how many did so.
    pub endings: BTreeMap<String, u64>,
    /// What happened, if that was asked for.
    pub trace: Trace,
}

/// A checker found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that finds it again.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// Where a CRC has less than 32 bits: what it let pass.
    pub torn: Torn,
    /// What happened up to there, if that was asked for.
    pub trace: Trace,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.what.lines().next().unwrap_or_default();
        let short: String = first.chars().take(300).collect();
        write!(f, "superpipe-sim replay {}: {short}", self.seed)
    }
}

/// Runs a case.
///
/// # Errors
/// [`Failure`]: bytes differ, come twice, late or never, memory is used by who does not own it, an end does not notice
/// that its peer is gone, something is kept, or it never ends.
pub fn run(case: &Case, look: Look) -> Result<Outcome, Failure> {
    if case.direct { play::<true>(case, look) } else { play::<false>(case, look) }
}

fn play<const DIRECT: bool>(case: &Case, look: Look) -> Result<Outcome, Failure> {
    let mut world = Box::new(World::new(case.hosts, case.profile, case.faults, case.seed));
    if look.traced {
        world.trace = Some(Trace::default());
    }
    let mut connections = Vec::new();
    // Nothing is used after a panic but the trace and what was counted.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for plan in &case.connections {
            match Connection::<DIRECT>::open(&mut world, case, plan, look.traced) {
                Ok(connection) => connections.push(connection),
                Err(error) => world.note_here(plan.hosts[0], What::Refused(error)),
            }
        }
        drive(&mut world, &mut connections, case.hosts, look.turns_max)
    }));
    // Where a turn ended in a panic, the world is where it was lent to.
    let taken = connections.iter_mut().find_map(Connection::world_lent);
    let mut world = taken.unwrap_or(world);
    let trace = world.trace.take().unwrap_or_default();
    let mut torn = Torn::default();
    connections.iter().for_each(|connection| torn += connection.torn());
    let what = match ended {
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
            let scripted = case.connections.iter().filter(|plan| plan.programs.is_none());
            let scripted = scripted.map(|plan| plan.script.transfers.iter().flatten().count() as u64);
            let talked = connections.iter().map(Connection::transfers);
            let mut calls = Calls::default();
            connections.iter().filter_map(Connection::calls).for_each(|theirs| calls.add(theirs));
            return Ok(Outcome {
                time_ns: world.time_ns(),
                turns,
                transfers: scripted.sum::<u64>() + talked.sum::<u64>(),
                torn,
                tally: world.tally,
                calls,
                endings,
                trace,
            });
        }
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            text.unwrap_or_else(|| "a panic without words".to_owned())
        }
    };
    Err(Failure { seed: case.seed, what, torn, trace })
}

/// Turn by turn until all ends are gone; how many turns that took.
fn drive<const DIRECT: bool>(
    world: &mut Box<World>,
    connections: &mut [Connection<DIRECT>],
    count: usize,
    turns_max: Option<u64>,
) -> Result<u64, String> {
    let mut hosts = Hosts::new(world, connections.iter().map(|connection| connection.hosts), count);
    let crowd = hosts.crowd() as u64;
    connections.iter_mut().for_each(|connection| connection.be_patient(crowd));
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
        let connection = &mut connections[turn.connection];
        let (worked, nap_ns) = connection.turn(world, turn.side, turn.now_ns)?;
        hosts.done(world, turn, worked, nap_ns);
        for side in (0..2).filter(|side| connection.is_gone(*side)) {
            hosts.remove(connection.hosts[side], turn.connection, side);
        }
    }
    while world.settle(u64::MAX).is_some() {}
    if !world.is_quiescent() {
        return Err("every end is gone, and something is still on its way".to_owned());
    }
    match (0..count).find(|host| world.registered(*host) > 0) {
        Some(host) => Err(format!("every end is gone, and host {host} has {} MRs", world.registered(host))),
        None => Ok(turns),
    }
}
