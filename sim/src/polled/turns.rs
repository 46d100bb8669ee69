//! Turns of a poller and of its clients, in order of time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::net::Net;

/// Next step of an actor after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Its next turn is at this time.
    At(u64),
    /// Its next turn is at this time, or when its set reports something.
    Sleep(u64),
    /// None.
    Over,
}

/// Time of each actor's next turn.
pub(super) struct Turns {
    next: Vec<Next>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Turns {
    /// Makes the turns of actors that begin at these times.
    pub(super) fn new(begin_ns: impl Iterator<Item = u64>) -> Self {
        let mut turns = Self { next: Vec::new(), heap: BinaryHeap::new() };
        for (actor, at_ns) in begin_ns.enumerate() {
            turns.next.push(Next::Over);
            turns.set(actor, Next::At(at_ns));
        }
        turns
    }

    /// Returns the next turn, by actor and time.
    pub(super) fn pop(&mut self) -> Option<(usize, u64)> {
        loop {
            let Reverse((at_ns, actor)) = self.heap.pop()?;
            if matches!(self.next[actor], Next::At(next_ns) | Next::Sleep(next_ns) if next_ns == at_ns) {
                return Some((actor, at_ns));
            }
        }
    }

    /// Sets what an actor does next.
    fn set(&mut self, actor: usize, next: Next) {
        self.next[actor] = next;
        if let Next::At(at_ns) | Next::Sleep(at_ns) = next {
            self.heap.push(Reverse((at_ns, actor)));
        }
    }

    /// Brings the network to the time of a turn.
    pub(super) fn begin(net: &mut Net, (actor, at_ns): (usize, u64)) {
        while net.world.run_events(at_ns).is_some() {}
        let clock_ns = net.world.clock_ns(actor);
        net.world.wait(actor, at_ns.saturating_sub(clock_ns));
    }

    /// Sets what an actor does after its turn, and ends the sleeps of those whose sets report something that the turn did.
    pub(super) fn end(&mut self, net: &mut Net, (actor, at_ns): (usize, u64), next: Next) {
        self.set(
            actor,
            match next {
                Next::Sleep(until_ns) => Next::Sleep(until_ns.min(net.next_report_ns(actor).max(at_ns))),
                next => next,
            },
        );
        for (set, at_ns) in core::mem::take(&mut net.poked) {
            self.poke(set, at_ns);
        }
    }

    /// Ends the sleep of an actor whose set has something to report from a time on. Some actors have no turns.
    fn poke(&mut self, actor: usize, at_ns: u64) {
        if matches!(self.next.get(actor), Some(Next::Sleep(next_ns)) if at_ns < *next_ns) {
            self.set(actor, Next::Sleep(at_ns));
        }
    }
}
