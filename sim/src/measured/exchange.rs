//! An all-to-all of some hosts in steps, as MPI libraries have it for long messages: in step d host h sends a buffer to host h + d, and receives one from host h - d, and then begins the
//! next step. A host has one CPU, which serves all of its connections, and one NIC.

use superpipe_testkit::PairFabric;

use super::connection::{Connection, Message, Terms};
use super::ping_pong::{POLL_NS, POLLS_MAX};
use crate::faults::Faults;
use crate::nic::{Profile, World};

/// An all-to-all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) profile: Profile,
    pub(crate) terms: Terms,
    pub(crate) hosts: usize,
}

/// Two hosts, and what is on its way between them, from each.
struct Pair {
    hosts: [usize; 2],
    connection: Connection,
    messages: [Option<Message>; 2],
}

struct Hosts {
    world: Box<World>,
    pairs: Vec<Pair>,
}

impl Exchange {
    /// Returns the nanoseconds of each of `count` rounds, from the first call until the last host has all of its buffers.
    ///
    /// # Errors
    /// A message that does not come, or comes changed.
    pub(crate) fn play(&self, count: u64) -> Result<Vec<u64>, String> {
        let mut world = Box::new(World::new(self.hosts, self.profile, Faults::default(), 1));
        let mut pairs = Vec::new();
        for one in 0..self.hosts {
            for other in one + 1..self.hosts {
                let hosts = [one, other];
                let connection = Connection::new(&mut world, hosts, self.terms)?;
                pairs.push(Pair { hosts, connection, messages: [None, None] });
            }
        }
        let mut hosts = Hosts { world, pairs };
        (0..count).map(|round| hosts.round(round, self.hosts)).collect()
    }
}

impl Pair {
    /// Gives a host, which is in this step, its turn. Returns true if it did anything.
    fn turn(&mut self, host: usize, in_step: impl Fn([usize; 2]) -> bool) -> Result<bool, String> {
        let Some(side) = self.hosts.iter().position(|one| *one == host) else { return Ok(false) };
        let mut has_moved = self.connection.progress(side);
        let hosts = self.hosts;
        let wanted = |message: &&mut Message| in_step(message.way(hosts));
        for message in self.messages.iter_mut().flatten().filter(wanted) {
            has_moved |= self.connection.step(side, message)?;
        }
        Ok(has_moved)
    }

    /// Returns true if a host has done its part in a step.
    fn is_done(&self, host: usize, in_step: impl Fn([usize; 2]) -> bool) -> bool {
        let Some(side) = self.hosts.iter().position(|one| *one == host) else { return true };
        let wanted = |message: &&Message| in_step(message.way(self.hosts));
        self.messages.iter().flatten().filter(wanted).all(|message| message.is_done_at(side))
    }

    fn is_over(&self) -> bool {
        self.messages.iter().flatten().all(Message::is_over) && self.connection.fabric.is_quiescent()
    }

    /// Returns the time at which the last of its messages was received.
    fn end(&mut self) -> Result<u64, String> {
        let mut last_ns = 0;
        for message in self.messages.iter_mut().filter_map(Option::take) {
            self.connection.end(&message)?;
            last_ns = last_ns.max(message.received_ns.ok_or("no time")?);
        }
        Ok(last_ns)
    }
}

impl Hosts {
    fn round(&mut self, round: u64, hosts: usize) -> Result<u64, String> {
        self.for_each_pair(|pair| {
            for (sender, message) in pair.messages.iter_mut().enumerate() {
                *message = Some(pair.connection.begin(sender, 2 * round + sender as u64)?);
            }
            Ok(true)
        })?;
        let begin_ns = self.world.time_ns();
        (0..hosts).for_each(|host| self.world.wait(host, begin_ns - self.world.clock_ns(host)));
        // Of each host's last turn.
        let mut moved = vec![true; hosts];
        let mut steps = vec![1; hosts];
        let mut idle = 0;
        loop {
            let host = (0..hosts).min_by_key(|host| self.world.clock_ns(*host)).unwrap_or(0);
            while self.world.run_events(self.world.clock_ns(host)).is_some() {}
            let step = steps[host];
            let in_step = |[from, to]: [usize; 2]| (to + hosts - from) % hosts == step;
            let mut has_moved = false;
            self.for_each_pair(|pair| {
                has_moved |= pair.turn(host, in_step)?;
                Ok(true)
            })?;
            if step < hosts && self.pairs.iter().all(|pair| pair.is_done(host, in_step)) {
                (steps[host], has_moved) = (step + 1, true);
            }
            idle = if has_moved { 0 } else { idle + 1 };
            if idle > POLLS_MAX {
                return Err(format!("round {round} stands still"));
            }
            moved[host] = has_moved;
            if !has_moved {
                if self.for_each_pair(|pair| Ok(pair.is_over()))? {
                    break;
                }
                self.skip(host, &moved);
            }
        }
        let mut last_ns = begin_ns;
        self.for_each_pair(|pair| {
            last_ns = last_ns.max(pair.end()?);
            Ok(true)
        })?;
        Ok(last_ns - begin_ns)
    }

    /// Lends each pair the world in turn, as long as they return true. Returns true if all do.
    fn for_each_pair(
        &mut self,
        mut then: impl FnMut(&mut Pair) -> Result<bool, String>,
    ) -> Result<bool, String> {
        for pair in &mut self.pairs {
            pair.connection.swap_world(&mut self.world);
            let done = then(pair);
            pair.connection.swap_world(&mut self.world);
            if !done? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets a host wait until something can have changed: an event, the end of a job, or a step of a host that was not idle in its last turn.
    fn skip(&self, host: usize, moved: &[bool]) {
        let now_ns = self.world.clock_ns(host);
        let jobs = self.pairs.iter().filter_map(|pair| pair.connection.fabric.next_job_ns());
        let others = (0..moved.len()).filter(|other| *other != host && moved[*other]);
        let others = others.map(|other| self.world.clock_ns(other));
        let next_ns = jobs.chain(others).chain(self.world.next_event_ns()).min().unwrap_or(now_ns);
        self.world.wait(host, next_ns.max(now_ns + POLL_NS) - now_ns);
    }
}

#[cfg(test)]
mod tests {
    use superpipe_core::plan::{Machine, Pages};
    use superpipe_core::{Config, Protocol};

    use super::super::connection::Buffers;
    use super::super::experiment::Experiment;
    use super::super::machine::simulated;
    use super::*;

    fn times(hosts: usize, buffers: Buffers, protocol: Protocol) -> Vec<u64> {
        let bytes = 256 << 10;
        let machine = &Machine::GRAPHENE;
        let terms = Experiment::on(machine, protocol, buffers, bytes, Config::default()).terms().unwrap();
        Exchange { profile: simulated(machine, bytes, Pages::RESIDENT), terms, hosts }.play(2).unwrap()
    }

    #[test]
    fn a_wire_carries_a_buffer_for_each_other_host() {
        // 131 µs of wire for each buffer.
        let [two, four] = [2, 4].map(|hosts| times(hosts, Buffers::Registered, Protocol::RegisterCached)[0]);
        assert!((131_000..160_000).contains(&two), "{two}");
        assert!((3 * 131_000..3 * 160_000).contains(&four), "{four}");
    }

    #[test]
    fn only_the_first_round_misses_the_cache() {
        let cached = times(3, Buffers::Cached, Protocol::RegisterCached);
        let lent = times(3, Buffers::Lent, Protocol::RegisterCached);
        assert_eq!(cached[0], lent[0]);
        assert!(cached[1] + 60_000 < lent[1], "{cached:?} {lent:?}");
    }
}
