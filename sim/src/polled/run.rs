//! A run with a poller: turns of the poller and of its clients in order of virtual time.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use super::case::{Leaving, PolledCase};
use super::client::Client;
use super::coverage::{PollCase, PollCoverage};
use super::net::{CLIENT, Net, SERVER};
use super::server::Server;
use super::turns::{Next, Turns};
use crate::panic_text::panic_text;

/// Limits of virtual time, and of turns.
const LIMIT_NS: u64 = 1_000_000_000_000;
const TURNS_MAX: u64 = 3_000_000;

/// Result of a successful run.
pub(crate) struct PolledOutcome {
    /// Virtual time of the run.
    pub(crate) time_ns: u64,
    /// Turns of the poller and of its clients.
    pub(crate) turns: u64,
    /// Messages that were taken.
    pub(crate) transfers: u64,
    pub(crate) coverage: PollCoverage,
}

/// Runs a case.
///
/// # Errors
/// The violation that a checker found.
pub(crate) fn run_polled(case: &PolledCase) -> Result<PolledOutcome, String> {
    catch_unwind(AssertUnwindSafe(|| play(case))).unwrap_or_else(|panic| Err(panic_text(&*panic)))
}

fn play(case: &PolledCase) -> Result<PolledOutcome, String> {
    let count = case.clients.len();
    let mut net = Net::new(count, case.seed, case.faults);
    for client in 0..count {
        net.connect(client, case.idle_timeout_ns);
    }
    let mut server = Server::new(case);
    let mut clients: Vec<_> =
        case.clients.iter().enumerate().map(|(pair, plan)| Client::new(pair, *plan)).collect();
    let mut turns = Turns::new((0..=count).map(|host| net.world.clock_ns(host)));
    let mut number = 0;
    while let Some(turn) = turns.pop() {
        let (actor, at_ns) = turn;
        number += 1;
        if number > TURNS_MAX || at_ns > LIMIT_NS {
            return Err(format!("not over after {number} turns and {at_ns} ns: {:?}", server.places));
        }
        Turns::begin(&mut net, turn);
        let next = match actor.checked_sub(1) {
            None => server.turn(&mut net),
            Some(pair) => {
                let next = clients[pair].turn(&mut net);
                if next == Next::Over && case.clients[pair].leaving == Leaving::IsKilled {
                    server.count(&mut net, PollCase::PeerKilled, pair);
                }
                next
            }
        };
        turns.end(&mut net, turn, next);
    }
    let is_left = |pair: &usize| [SERVER, CLIENT].into_iter().any(|side| !net.is_gone((*pair, side)));
    if let Some(pair) = (0..count).find(is_left) {
        return Err(format!("connection {pair} was not served to its end"));
    }
    while net.world.run_events(u64::MAX).is_some() {}
    match (0..=count).find(|host| net.world.registered(*host) > 0) {
        Some(host) => Err(format!("every end is gone, but host {host} has memory")),
        None => Ok(PolledOutcome {
            time_ns: net.world.time_ns(),
            turns: number,
            transfers: net.pairs.iter().flat_map(|pair| &pair.flows).map(super::seen::Flow::taken).sum(),
            coverage: net.coverage,
        }),
    }
}
