//! Messages there and back between two ends in virtual time, as a benchmark measures them. Both ends poll, each on a CPU of its own.

use superpipe_core::recorder::Record;
use superpipe_testkit::PairFabric;

use super::connection::{Buffers, Connection, Terms};
use crate::faults::Faults;
use crate::nic::{Profile, Work, World};

/// Nanoseconds from one poll that has found nothing to the next.
pub(crate) const POLL_NS: u64 = 10;

/// Polls in a row that find nothing, after which nothing will come.
pub(crate) const POLLS_MAX: u32 = 1_000_000;

/// A benchmark of messages of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingPong {
    pub(crate) profile: Profile,
    pub(crate) terms: Terms,
}

/// Messages of one length and memory, of a connection on which these change.
pub(crate) struct PlayedPhase {
    /// Nanoseconds of each message.
    pub(crate) times: Vec<u64>,
    /// What the ends have recorded of them.
    pub(crate) records: Vec<Record>,
}

impl PingPong {
    /// Returns the nanoseconds of each of `count` messages, the first from end 0 and the others in turn: from the sender's call until the receiver has all of
    /// it. Memory that is registered for a message is deregistered before the next one, outside of these times.
    ///
    /// # Errors
    /// A message that does not come, or comes changed.
    pub(crate) fn play(&self, count: u64) -> Result<Vec<u64>, String> {
        let mut ends = self.connect()?;
        (0..count).map(|number| ends.message(number)).collect()
    }

    /// Returns the nanoseconds of each of `count` messages from the sender's call until both ends are done: the receiver has all of it, and the sender its memory.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(crate) fn done(&self, count: u64) -> Result<Vec<u64>, String> {
        let mut ends = self.connect()?;
        (0..count).map(|number| ends.play(number).map(|[received, sent]| received.max(sent))).collect()
    }

    /// Sends `count` messages of each phase over one connection, and returns their nanoseconds as [`done`](Self::done) does, and for each phase what the ends
    /// have recorded of it.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(crate) fn phases(&self, phases: &[(usize, Buffers)], count: u64) -> Result<Vec<PlayedPhase>, String> {
        let mut ends = self.connect()?;
        let mut number = 0;
        let mut played = Vec::new();
        for (bytes, buffers) in phases {
            ends.0.change(*bytes, *buffers);
            let mut times = Vec::new();
            for _ in 0..count {
                times.push(ends.play(number).map(|[received, sent]| received.max(sent))?);
                number += 1;
            }
            played.push(PlayedPhase { times, records: ends.0.take_records() });
        }
        Ok(played)
    }

    /// Returns the nanoseconds of one message, and the number of chunks in which it is sent.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(crate) fn ns_and_chunks(&self) -> Result<[u64; 2], String> {
        let mut ends = self.connect()?;
        Ok([ends.message(0)?, ends.0.chunks_sent(0)])
    }

    /// Returns the nanoseconds in which both ends register what a connection needs, and those of a first message.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(crate) fn first(&self) -> Result<[u64; 2], String> {
        let mut ends = self.connect()?;
        let connected_ns = ends.synchronize();
        Ok([connected_ns, ends.message(0)?])
    }

    /// Returns the CPU time of both ends for one message: of copies, of jobs and of all else.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(crate) fn worked_ns(&self) -> Result<[u64; 3], String> {
        let mut ends = self.connect()?;
        let worked = |ends: &Ends| {
            let of_both = |kind| (0..2).map(|host| ends.world().worked_ns(host, kind)).sum::<u64>();
            [Work::Copy, Work::Job, Work::Other].map(of_both)
        };
        let before = worked(&ends);
        ends.message(0)?;
        let after = worked(&ends);
        Ok([0, 1, 2].map(|kind| after[kind] - before[kind]))
    }

    fn connect(&self) -> Result<Ends, String> {
        let mut world = Box::new(World::new(2, self.profile, Faults::default(), 1));
        let mut connection = Connection::new(&mut world, [0, 1], self.terms)?;
        connection.swap_world(&mut world);
        Ok(Ends(connection))
    }
}

/// A connection that has the world for itself.
struct Ends(Connection);

impl Ends {
    fn message(&mut self, number: u64) -> Result<u64, String> {
        self.play(number).map(|[received_ns, _]| received_ns)
    }

    /// Returns the nanoseconds until the receiver has a message, and until the sender is done.
    fn play(&mut self, number: u64) -> Result<[u64; 2], String> {
        let mut message = self.0.begin(usize::from(number % 2 == 1), number)?;
        let begin_ns = self.synchronize();
        // Of each end's last turn.
        let mut moved = [true; 2];
        let mut idle = 0;
        while !(message.is_over() && self.0.fabric.is_quiescent()) {
            let side = self.next_side();
            let has_progressed = self.0.progress(side);
            let has_moved = self.0.step(side, &mut message)? || has_progressed;
            idle = if has_moved { 0 } else { idle + 1 };
            if idle > POLLS_MAX {
                return Err(format!("message {number} stands still"));
            }
            moved[side] = has_moved;
            if !has_moved {
                self.skip(side, moved[1 - side]);
            }
        }
        self.0.end(&message)?;
        let (Some(received_ns), Some(sent_ns)) = (message.received_ns, message.sent_ns) else {
            return Err("no time".to_owned());
        };
        Ok([received_ns - begin_ns, sent_ns - begin_ns])
    }

    const fn world(&self) -> &World {
        &self.0.fabric.world
    }

    /// Sets both clocks to the later one, and returns it.
    fn synchronize(&self) -> u64 {
        let world = self.world();
        let now_ns = world.clock_ns(0).max(world.clock_ns(1));
        (0..2).for_each(|side| world.wait(side, now_ns - world.clock_ns(side)));
        now_ns
    }

    /// Returns the end whose clock is behind, after all events that are due.
    fn next_side(&mut self) -> usize {
        let world = &mut self.0.fabric.world;
        let side = usize::from(world.clock_ns(1) < world.clock_ns(0));
        while world.run_events(world.clock_ns(side)).is_some() {}
        side
    }

    /// Lets an end wait until something can have changed: an event, the end of a job, or a step of the other end, unless that was idle in its last turn, too.
    fn skip(&mut self, side: usize, has_other_moved: bool) {
        let world = self.world();
        let (now_ns, other_ns) = (world.clock_ns(side), world.clock_ns(1 - side));
        let next = [world.next_event_ns(), self.0.fabric.next_job_ns()].into_iter().flatten().min();
        let limit_ns = if has_other_moved { other_ns } else { u64::MAX };
        let next_ns = next.unwrap_or(now_ns).min(limit_ns).max(now_ns + POLL_NS);
        world.wait(side, next_ns - now_ns);
    }
}

#[cfg(test)]
mod tests {
    use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, Pages, Start};
    use superpipe_core::{Config, FlagPlace, Layout, Protocol};

    use super::super::connection::Buffers;
    use super::super::machine::simulated;
    use super::*;

    /// Returns the time of the first message.
    fn first_ns(bytes: usize, protocol: Protocol, buffers: Buffers) -> f64 {
        let profile = simulated(&Machine::GRAPHENE, bytes as u64, Pages::RESIDENT);
        let blocks = u32::try_from(bytes / 4000 + 4).unwrap_or(u32::MAX);
        let layout = Layout { block_bytes: 4096, block_count: blocks, flags: FlagPlace::Inside };
        let config = Config { protocol, folds: 1, ..Config::default() };
        let ping_pong = PingPong { profile, terms: Terms { config, layout, buffers, bytes, planner: None } };
        let times = ping_pong.play(1).unwrap_or_else(|error| panic!("{error}"));
        times[0] as f64
    }

    /// The core in the simulator agrees with the model where its assumptions hold.
    #[test]
    fn runs_agree_with_the_model_within_5_percent() {
        let model = Machine::GRAPHENE.profile;
        for bytes in [64 << 10, 1 << 20, 8 << 20] {
            let length = bytes as u64;
            for (protocol, buffers, expected) in [
                (
                    Protocol::RegisterCached,
                    Buffers::Registered,
                    model.register_cached_ns(length, Pages::RESIDENT, Start::Rendezvous, 1.0),
                ),
                (Protocol::Copy, Buffers::Unnamed, model.naive_copy_ns(length, Start::Rendezvous)),
                (
                    Protocol::Superpipeline,
                    Buffers::Unnamed,
                    ChunkedCopy::superpipeline(length, Chunks::HARDWIRED, Start::Optimistic).ns(&model),
                ),
            ] {
                // The model's rendezvous is two latencies: posts and gaps of its two messages are left out.
                let is_begun_at_once = protocol == Protocol::Superpipeline;
                let posts_ns = if is_begun_at_once { 0.0 } else { 2.0 * (model.gap_ns + model.overhead_ns) };
                let (took, expected) = (first_ns(bytes, protocol, buffers), expected + posts_ns);
                let off = took / expected - 1.0;
                assert!(off.abs() < 0.05, "{protocol}, {bytes}: {took} ns, {expected} by the model");
            }
        }
    }
}
