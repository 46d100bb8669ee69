//! Scheduling of the hosts' CPUs.
//!
//! A host has one CPU, which polls its ends in rounds. It pauses after each round, longer after many rounds without work, or until
//! something arrives. The CPU whose clock is furthest behind acts next, after all events that are due. It sees the world as it was when its
//! turn began, and its actions become events. So the seed alone decides the order of everything.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::nic::World;

/// Rounds without work after which a CPU doubles its pause. Short waits are exact to one pause, and long ones take few turns.
const IDLE_ROUNDS: usize = 32;

/// Limit of the doubling: 42 ms, near the longest sleep of a driver. A pause is never longer than the ends may sleep.
const PAUSES_MAX_LOG2: usize = 20;

/// A turn of an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    host: usize,
    pub(super) connection: usize,
    pub(super) side: usize,
    pub(super) now_ns: u64,
}

struct Cpu {
    /// Ends by connection and side.
    ends: Vec<(usize, usize)>,
    next: usize,
    idle_turns: usize,
    /// Time that all ends of this round may sleep.
    sleep_ns: u64,
    /// Time at which it is free.
    free_ns: u64,
}

/// CPUs, and when each of them is free.
pub(super) struct Hosts {
    cpus: Vec<Cpu>,
    free: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Hosts {
    /// Makes the CPUs of these connections, each between two hosts.
    pub(super) fn new(world: &World, connections: impl Iterator<Item = [usize; 2]>, count: usize) -> Self {
        let idle = |free_ns| Cpu { ends: Vec::new(), next: 0, idle_turns: 0, sleep_ns: u64::MAX, free_ns };
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

    /// Returns the next turn, or `None` if all ends are gone.
    pub(super) fn next(&mut self, world: &mut World) -> Option<Turn> {
        loop {
            let Reverse((now_ns, host)) = self.free.pop()?;
            // An arrival woke this CPU earlier.
            if self.cpus[host].free_ns != now_ns {
                continue;
            }
            if let Some(woken) = world.run_events(now_ns) {
                self.free_again(world, woken);
                self.free.push(Reverse((now_ns, host)));
                continue;
            }
            let cpu = &mut self.cpus[host];
            if !cpu.ends.is_empty() {
                world.end_sleep(host);
                cpu.next = (cpu.next + 1) % cpu.ends.len();
                let (connection, side) = cpu.ends[cpu.next];
                return Some(Turn { host, connection, side, now_ns });
            }
        }
    }

    /// Ends a turn, and sets the pause.
    pub(super) fn done(&mut self, world: &World, turn: Turn, worked: bool, sleep_ns: u64) {
        let Turn { host, .. } = turn;
        let cpu = &mut self.cpus[host];
        cpu.idle_turns = if worked { 0 } else { cpu.idle_turns + 1 };
        cpu.sleep_ns = cpu.sleep_ns.min(sleep_ns);
        if cpu.next == 0 {
            let rounds = cpu.idle_turns / cpu.ends.len().max(1);
            let pauses = 1u64 << (rounds / IDLE_ROUNDS).min(PAUSES_MAX_LOG2);
            let pause_ns = world.profile.pause_ns;
            world.spend(host, pause_ns);
            world.sleep(host, (pauses * pause_ns).min(cpu.sleep_ns).saturating_sub(pause_ns));
            cpu.sleep_ns = u64::MAX;
        }
        self.free_again(world, host);
    }

    fn free_again(&mut self, world: &World, host: usize) {
        let free_ns = world.clock_ns(host);
        self.cpus[host].free_ns = free_ns;
        self.free.push(Reverse((free_ns, host)));
    }

    /// Returns the most ends that share a CPU.
    pub(super) fn ends_per_cpu(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.ends.len()).max().unwrap_or(0)
    }

    /// Removes an end from its host.
    pub(super) fn remove(&mut self, host: usize, connection: usize, side: usize) {
        self.cpus[host].ends.retain(|end| *end != (connection, side));
    }
}
