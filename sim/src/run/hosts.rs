//! Whose turn it is.
//!
//! A host has one CPU, which polls the ends on it in rounds, and pauses after each, after many without work for longer, or until
//! anything comes. The CPU whose clock is behind acts next, after everything that is
//! due by then. What it does sees the world as it was when it began; what it causes comes later, by events. So the order
//! of all things depends on nothing but the seed.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::nic::World;

/// Each time that a CPU has made so many rounds without work, it pauses twice as long as before.
const IDLE_ROUNDS: usize = 32;

/// At most a million pauses at once, and never longer than its ends may sleep.
const PAUSES_MAX_LOG2: usize = 20;

/// An end's turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    host: usize,
    pub(super) connection: usize,
    pub(super) side: usize,
    pub(super) now_ns: u64,
}

struct Cpu {
    /// By connection and side.
    ends: Vec<(usize, usize)>,
    next: usize,
    idle_turns: usize,
    /// Time for which all ends of this round may sleep together.
    nap_ns: u64,
    /// Time when it is free.
    free_ns: u64,
}

/// The CPUs, and when each of them is free.
pub(super) struct Hosts {
    cpus: Vec<Cpu>,
    free: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Hosts {
    /// With the ends of these connections, each between two hosts.
    pub(super) fn new(world: &World, connections: impl Iterator<Item = [usize; 2]>, count: usize) -> Self {
        let idle = |free_ns| Cpu { ends: Vec::new(), next: 0, idle_turns: 0, nap_ns: u64::MAX, free_ns };
        let mut cpus: Vec<_> = (0..count).map(|host| idle(world.clock_ns(host))).collect();
        for (connection, hosts) in connections.enumerate() {
            for (side, host) in hosts.into_iter().enumerate() {
                cpus[host].ends.push((connection, side));
            }
        }
        let busy = (0..count).filter(|host| !cpus[*host].ends.is_empty());
        let free = busy.map(|host| Reverse((cpus[host].free_ns, host))).collect();
        Self { cpus, free }
    }

    /// The end that acts next, unless all are gone.
    pub(super) fn next(&mut self, world: &mut World) -> Option<Turn> {
        loop {
            let Reverse((now_ns, host)) = self.free.pop()?;
            // It was woken before.
            if self.cpus[host].free_ns != now_ns {
                continue;
            }
            if let Some(woken) = world.settle(now_ns) {
                self.free_again(world, woken);
                self.free.push(Reverse((now_ns, host)));
                continue;
            }
            let cpu = &mut self.cpus[host];
            if !cpu.ends.is_empty() {
                world.awake(host);
                cpu.next = (cpu.next + 1) % cpu.ends.len();
                let (connection, side) = cpu.ends[cpu.next];
                return Some(Turn { host, connection, side, now_ns });
            }
        }
    }

    /// The turn is over; whether anything was done in it, and how long the end may sleep.
    pub(super) fn done(&mut self, world: &World, turn: Turn, worked: bool, nap_ns: u64) {
        let Turn { host, .. } = turn;
        let cpu = &mut self.cpus[host];
        cpu.idle_turns = if worked { 0 } else { cpu.idle_turns + 1 };
        cpu.nap_ns = cpu.nap_ns.min(nap_ns);
        if cpu.next == 0 {
            let rounds = cpu.idle_turns / cpu.ends.len().max(1);
            let pauses = 1u64 << (rounds / IDLE_ROUNDS).min(PAUSES_MAX_LOG2);
            let pause_ns = world.profile.pause_ns;
            world.spend(host, pause_ns);
            world.sleep(host, (pauses * pause_ns).min(cpu.nap_ns).saturating_sub(pause_ns));
            cpu.nap_ns = u64::MAX;
        }
        self.free_again(world, host);
    }

    fn free_again(&mut self, world: &World, host: usize) {
        let free_ns = world.clock_ns(host);
        self.cpus[host].free_ns = free_ns;
        self.free.push(Reverse((free_ns, host)));
    }

    /// The most ends that share a CPU.
    pub(super) fn crowd(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.ends.len()).max().unwrap_or(0)
    }

    /// This end is gone from this host.
    pub(super) fn remove(&mut self, host: usize, connection: usize, side: usize) {
        self.cpus[host].ends.retain(|end| *end != (connection, side));
    }
}
