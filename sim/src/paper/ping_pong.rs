//! Messages there and back between two ends in virtual time, as a benchmark measures them. Both ends poll, each on a CPU of its own.

use superpipe_core::driver::{Drive, Driver, RecvOperation, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Buffer, Config, Endpoint, JobOutcome, Layout, Length, Nanos, Origin, RecvMemory, RefusedSend,
    Registration, RemoteClaim, SendMemory, TransferId,
};
use superpipe_testkit::pair::IDLE_TIMEOUT_NS;
use superpipe_testkit::{PairFabric, Setup};

use crate::fabric::{ArrivalFlags, SimFabric};
use crate::faults::Faults;
use crate::nic::{Profile, World};

/// Nanoseconds from one poll that has found nothing to the next.
const POLL_NS: u64 = 10;

/// Polls in a row that find nothing, after which nothing will come.
const POLLS_MAX: u32 = 1_000_000;

/// Memory of the messages, as the ends name it to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffers {
    /// It is not named. Messages are pushed, so that their chunks may be as long as they are; an operation moves 1 MiB at a time.
    Unnamed,
    /// It is lent for each message, to be registered for it. All of the message must come by remote writes.
    Lent,
    /// It was registered before. The same.
    Registered,
}

/// A benchmark of messages of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct PingPong {
    pub(super) profile: Profile,
    pub(super) config: Config,
    pub(super) layout: Layout,
    pub(super) buffers: Buffers,
    pub(super) bytes: usize,
}

struct End {
    driver: Driver<SimFabric<false>>,
    payload: Vec<u8>,
    received: Vec<u8>,
    /// Memory of its messages, and of those that it receives.
    source: Option<Buffer>,
    destination: Option<Buffer>,
    /// Their registrations, if these were made before.
    registered: Option<(Registration, RemoteClaim)>,
}

/// A message that is sent.
enum Sending {
    /// By an operation, which names memory. It moves 1 MiB in each call at most.
    Operation(SendOperation),
    /// By a transfer that is pushed, whose chunks may be as long as the message.
    Pushed { id: Option<TransferId>, tag: u64, sent: usize },
}

impl Sending {
    fn drive(
        &mut self,
        driver: &mut Driver<SimFabric<false>>,
        fabric: &mut SimFabric<false>,
        payload: &[u8],
    ) -> Drive<Result<(), String>> {
        let (id, tag, sent) = match self {
            Self::Operation(operation) => {
                let driven = driver.drive_send(fabric, operation, &[payload]);
                return driven.map(|result| result.map_err(|error| format!("{error:?}")));
            }
            Self::Pushed { id, tag, sent } => (id, *tag, sent),
        };
        let endpoint = driver.endpoint_mut();
        let started = id.map_or_else(|| endpoint.start(tag, Length::Exact(payload.len() as u64)), Ok);
        let pushed = started.and_then(|started| {
            *id = Some(started);
            endpoint.push_from(fabric, started, &[payload], *sent)
        });
        match pushed {
            Ok(0) | Err(RefusedSend::Busy | RefusedSend::NoCredit) => Drive::Idle,
            Ok(bytes) => {
                *sent += bytes;
                if *sent == payload.len() { Drive::Done(Ok(())) } else { Drive::Moved }
            }
            Err(refused) => Drive::Done(Err(format!("{refused:?}"))),
        }
    }
}

struct Ends {
    fabric: SimFabric<false>,
    ends: [End; 2],
}

impl PingPong {
    /// Returns the nanoseconds of each of `count` messages, the first from end 0 and the others in turn: from the sender's call until the receiver has all of
    /// it. Memory that is registered for a message is deregistered before the next one, outside of these times.
    ///
    /// # Errors
    /// A message that does not come, or comes changed.
    pub(super) fn play(&self, count: u64) -> Result<Vec<u64>, String> {
        let mut ends = self.connect()?;
        (0..count).map(|number| self.message(&mut ends, number)).collect()
    }

    /// Returns the number of chunks in which one message is sent.
    ///
    /// # Errors
    /// Those of [`play`](Self::play).
    pub(super) fn chunks(&self) -> Result<u64, String> {
        let mut ends = self.connect()?;
        self.message(&mut ends, 0)?;
        Ok(ends.ends[0].driver.counters().chunks_sent)
    }

    fn connect(&self) -> Result<Ends, String> {
        let mut world = Box::new(World::new(2, self.profile, Faults::default(), 1));
        let setup = Setup { send_queue: self.profile.send_queue, ..Setup::new(self.layout, 1) };
        let flags = ArrivalFlags {
            checked: false,
            notify: self.config.arrival == Arrival::Notify,
            lends: self.buffers != Buffers::Unnamed,
            refuses_one_in: 0,
            crc_bits: 32,
        };
        let mut fabric =
            SimFabric::connect(&mut world, [0, 1], &setup, flags).map_err(|error| error.to_string())?;
        fabric.world = world;
        fabric.start(0);
        let end = |side: usize| {
            let attachment = fabric.attachment(side);
            let end = Endpoint::new(&fabric, attachment, self.config, Origin::default());
            Ok::<_, String>(End {
                driver: Driver::new(
                    end.map_err(|error| error.to_string())?,
                    1 + side as u64,
                    WaitStrategy::Spin,
                    IDLE_TIMEOUT_NS,
                    Nanos(0),
                ),
                payload: payload(self.bytes, side),
                received: vec![0; self.bytes],
                source: None,
                destination: None,
                registered: None,
            })
        };
        let ends = [end(0)?, end(1)?];
        let mut both = Ends { fabric, ends };
        if self.buffers == Buffers::Registered {
            both.register()?;
        }
        Ok(both)
    }

    fn message(&self, both: &mut Ends, number: u64) -> Result<u64, String> {
        let sender = usize::from(number % 2 == 1);
        let receiver = 1 - sender;
        let (mut send, mut receive) = self.operations(both, sender, number)?;
        let remote_before = both.remote_bytes(receiver);
        let begin_ns = both.synchronize();
        let (mut received_ns, mut is_sent, mut is_received) = (None, false, false);
        // Of each end's last turn.
        let mut moved = [true; 2];
        let mut idle = 0;
        while !(is_sent && is_received && both.fabric.is_quiescent()) {
            let side = both.next_side();
            let Ends { fabric, ends } = both;
            fabric.acting = side;
            let End { driver, payload, received, .. } = &mut ends[side];
            let mut has_moved = driver.progress(fabric);
            if side == sender && !is_sent {
                match send.drive(driver, fabric, payload) {
                    Drive::Done(Ok(())) => (is_sent, has_moved) = (true, true),
                    Drive::Done(Err(error)) => {
                        return Err(format!("message {number} is not sent: {error}"));
                    }
                    Drive::Moved => has_moved = true,
                    Drive::Idle => {}
                }
            } else if side == receiver && !is_received {
                match driver.drive_recv(fabric, &mut receive, &mut [received]) {
                    Drive::Done(Ok(_)) => (is_received, has_moved) = (true, true),
                    Drive::Done(Err(error)) => {
                        return Err(format!("message {number} does not come: {error:?}"));
                    }
                    Drive::Moved => has_moved = true,
                    Drive::Idle => {}
                }
                if received_ns.is_none() && (is_received || receive.awaits_release()) {
                    received_ns = Some(both.fabric.world.clock_ns(receiver));
                }
            }
            idle = if has_moved { 0 } else { idle + 1 };
            if idle > POLLS_MAX {
                return Err(format!("message {number} of {} bytes stands still", self.bytes));
            }
            moved[side] = has_moved;
            if !has_moved {
                both.skip(side, moved[1 - side]);
            }
        }
        let remote_bytes = both.remote_bytes(receiver) - remote_before;
        let expected_bytes = if self.buffers == Buffers::Unnamed { 0 } else { self.bytes as u64 };
        if remote_bytes != expected_bytes {
            return Err(format!("{remote_bytes} of {} bytes came by remote writes", self.bytes));
        }
        self.check(both, sender)?;
        received_ns.map(|ns| ns - begin_ns).ok_or_else(|| "no time".to_owned())
    }

    /// Makes the operations of a message, with the memory that they name.
    fn operations(
        &self,
        both: &mut Ends,
        sender: usize,
        number: u64,
    ) -> Result<(Sending, RecvOperation), String> {
        let receiver = 1 - sender;
        let (send, receive) = (SendOperation::new(number, self.bytes), RecvOperation::new());
        let Ends { fabric, ends } = both;
        ends[receiver].received.fill(0);
        let send_from = |memory| Sending::Operation(send.with_memory(memory));
        match self.buffers {
            Buffers::Unnamed => Ok((Sending::Pushed { id: None, tag: number, sent: 0 }, receive)),
            Buffers::Lent => {
                let source = fabric.lend(sender, ends[sender].payload.clone());
                let destination = fabric.lend(receiver, vec![0; self.bytes]);
                (ends[sender].source, ends[receiver].destination) = (Some(source), Some(destination));
                Ok((send_from(SendMemory::Lent(source)), receive.with_memory(RecvMemory::Lent(destination))))
            }
            Buffers::Registered => match (ends[sender].registered, ends[receiver].registered) {
                (Some((source, _)), Some((_, claim))) => {
                    fabric.clear_registered(receiver, claim);
                    Ok((
                        send_from(SendMemory::Registered(source)),
                        receive.with_memory(RecvMemory::Registered(claim)),
                    ))
                }
                _ => Err("the memory is not registered".to_owned()),
            },
        }
    }

    /// Compares what has come, and takes memory back that was lent for it.
    fn check(&self, both: &mut Ends, sender: usize) -> Result<(), String> {
        let receiver = 1 - sender;
        let Ends { fabric, ends } = both;
        let lent = match self.buffers {
            Buffers::Unnamed | Buffers::Registered => None,
            Buffers::Lent => {
                if let Some(buffer) = ends[sender].source.take() {
                    fabric.take_back(sender, buffer);
                }
                ends[receiver].destination.take().map(|buffer| fabric.take_back(receiver, buffer))
            }
        };
        let got = match (&lent, ends[receiver].registered) {
            (Some(memory), _) => memory.as_slice(),
            (None, Some((_, claim))) => fabric.registered_bytes(receiver, claim),
            (None, None) => ends[receiver].received.as_slice(),
        };
        if got == ends[sender].payload { Ok(()) } else { Err(format!("{} bytes came changed", self.bytes)) }
    }
}

impl Ends {
    /// Registers the memory of both ends, which takes no time.
    fn register(&mut self) -> Result<(), String> {
        let Self { fabric, ends } = self;
        for (side, end) in ends.iter_mut().enumerate() {
            let bytes = end.payload.len() as u64;
            let mut register = |memory: Vec<u8>, may_write| {
                let buffer = fabric.lend(side, memory);
                match fabric.register_lent(side, buffer, bytes, may_write) {
                    Ok(JobOutcome::Registered(registration, claim)) => Ok((registration, claim)),
                    other => Err(format!("not registered: {other:?}")),
                }
            };
            let (source, _) = register(end.payload.clone(), false)?;
            let (_, claim) = register(vec![0; end.payload.len()], true)?;
            end.registered = Some((source, claim));
        }
        Ok(())
    }

    /// Returns the bytes that have come to an end by remote writes.
    fn remote_bytes(&self, side: usize) -> u64 {
        self.ends[side].driver.counters().remote_bytes_received
    }

    /// Sets both clocks to the later one, and returns it.
    fn synchronize(&self) -> u64 {
        let world = &self.fabric.world;
        let now_ns = world.clock_ns(0).max(world.clock_ns(1));
        (0..2).for_each(|side| world.spend(side, now_ns - world.clock_ns(side)));
        now_ns
    }

    /// Returns the end whose clock is behind, after all events that are due.
    fn next_side(&mut self) -> usize {
        let world = &mut self.fabric.world;
        let side = usize::from(world.clock_ns(1) < world.clock_ns(0));
        while world.run_events(world.clock_ns(side)).is_some() {}
        side
    }

    /// Lets an end poll until something can have changed: an event, the end of a job, or a step of the other end, unless that was idle in its last turn, too.
    fn skip(&mut self, side: usize, has_other_moved: bool) {
        let (now_ns, other_ns) = (self.fabric.world.clock_ns(side), self.fabric.world.clock_ns(1 - side));
        let next = [self.fabric.world.next_event_ns(), self.fabric.next_job_ns()].into_iter().flatten().min();
        let limit_ns = if has_other_moved { other_ns } else { u64::MAX };
        let next_ns = next.unwrap_or(now_ns).min(limit_ns).max(now_ns + POLL_NS);
        self.fabric.world.spend(side, next_ns - now_ns);
    }
}

/// Returns the bytes of the messages of an end.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize, side: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251 + side * 13) as u8 | 1).collect()
}

#[cfg(test)]
mod tests {
    use superpipe_core::plan::{ChunkedCopy, Chunks, Machine, Pages, Start};
    use superpipe_core::{FlagPlace, Protocol};

    use super::super::machine::simulated;
    use super::*;

    /// Returns the time of the first message.
    fn first_ns(bytes: usize, protocol: Protocol, buffers: Buffers) -> f64 {
        let profile = simulated(&Machine::GRAPHENE, bytes as u64);
        let blocks = u32::try_from(bytes / 4000 + 4).unwrap_or(u32::MAX);
        let layout = Layout { block_bytes: 4096, block_count: blocks, flags: FlagPlace::Inside };
        let config = Config { protocol, folds: 1, ..Config::default() };
        let ping_pong = PingPong { profile, config, layout, buffers, bytes };
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
