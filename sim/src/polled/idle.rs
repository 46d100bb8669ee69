//! One active connection beside many that are idle, at one poller: looks that a message costs, and looks that the idle ones cost.

use superpipe_core::driver::WaitStrategy;

use super::case::{ClientPlan, ClientWait, Leaving, PolledCase, SleepFaults};
use super::client::Client;
use super::net::{CLIENT, Net};
use super::server::Server;
use super::turns::{Next, Turns};

/// Costs of idle connections for a poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleCosts {
    /// Looks at connections for the messages of the active one, while others are armed and not due.
    pub looks: u64,
    /// Messages of the active one.
    pub messages: u64,
    /// Looks at the idle ones in the idle time that follows, and its length in nanoseconds.
    pub idle_looks: u64,
    /// See [`idle_looks`](Self::idle_looks).
    pub idle_ns: u64,
}

/// Time after which all idle connections are armed, and are looked at with their keepalives only.
const SETTLED_NS: u64 = 9_000_000_000;
/// Time of the idle looks: eight keepalives.
const IDLE_NS: u64 = 60_000_000_000;

/// Serves `messages` messages of one connection beside `idle` others, and then nothing for a minute.
///
/// # Panics
/// A message is late, or lost.
#[must_use]
pub fn idle_costs(idle: usize, messages: u32) -> IdleCosts {
    let plan = ClientPlan {
        wait: ClientWait::Polls,
        leaving: Leaving::Closes,
        bursts: messages,
        burst: 1,
        pause_ns: 0,
        keeps_alive: true,
        left_calls: 0,
    };
    let count = idle + 1;
    let case = PolledCase {
        seed: 1,
        #[expect(clippy::cast_possible_truncation, reason = "a poller has 2^16 places at most")]
        places: count as u32,
        clients: vec![plan; count],
        faults: SleepFaults { has_barrier: true, ..SleepFaults::default() },
        quiet_ns: 1_000_000,
        wait: WaitStrategy::Sleep,
        room: 64,
        idle_timeout_ns: 30_000_000_000,
        acts_one_in: 0,
    };
    let mut net = Net::new(count, case.seed, case.faults);
    for client in 0..count {
        net.connect(client, case.idle_timeout_ns);
    }
    let mut server = Server::new(&case);
    let mut client = Client::new(0, plan);
    let mut turns = Turns::new([0, SETTLED_NS].into_iter());
    let mut costs = IdleCosts { looks: 0, messages: 0, idle_looks: 0, idle_ns: IDLE_NS };
    let (mut looks_before, mut idle_from_ns) = (None, None);
    while let Some(turn) = turns.pop() {
        let (actor, at_ns) = turn;
        Turns::begin(&mut net, turn);
        if idle_from_ns.is_some_and(|from_ns| at_ns > from_ns + IDLE_NS) {
            break;
        }
        let next = if actor == 0 {
            server.turn(&mut net)
        } else {
            looks_before.get_or_insert(net.looks);
            client.turn(&mut net)
        };
        if actor == 1 && next == Next::Over {
            let before = looks_before.unwrap_or_default();
            costs.looks = net.looks - before;
            costs.messages = net.pairs[0].flows[CLIENT].taken();
            idle_from_ns = Some(at_ns);
            looks_before = Some(net.looks);
        }
        turns.end(&mut net, turn, next);
    }
    costs.idle_looks = net.looks - looks_before.unwrap_or_default();
    costs
}
