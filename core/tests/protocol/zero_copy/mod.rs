//! Messages by remote writes, out of lent memory into lent memory, on the fabric of posted writes. wire.md 4.8.
//!
//! The fabric panics where memory is deregistered while the device may use it, and where it is given back while it is registered.

use superpipe_core::driver::{
    Drive, Next, Received, RecvFailed, RecvOperation, Rest, SendFailed, SendOperation, WaitStrategy,
};
use superpipe_core::{
    Arrival, Buffer, Closed, Config, Driver, Endpoint, FlagPlace, Layout, Nanos, Origin, Protocol,
    RecvMemory, SendMemory,
};
use superpipe_testkit::{PairFabric, Posted, Setup, TestFabric};

mod endings;
mod faults;
mod hostile;
mod odd_orders;
mod properties;

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const C0_BYTES: u32 = 600;
/// More rounds than anything here takes.
const ROUNDS: usize = 20_000;
const ARRIVALS: [Arrival; 3] = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];

/// Parameters of a connection.
#[derive(Clone, Copy, Debug)]
struct Terms {
    arrival: Arrival,
    protocol: Protocol,
    /// Bytes of the largest remote write; 0: the default.
    chunk_bytes: u32,
    send_queue: usize,
    /// One registration in so many fails.
    fail_one_in: usize,
    seed: u64,
    origin: Origin,
}

impl Terms {
    fn new(arrival: Arrival, seed: u64) -> Self {
        let (protocol, origin) = (Protocol::Register, Origin::default());
        Self { arrival, protocol, chunk_bytes: 0, send_queue: 4, fail_one_in: 0, seed, origin }
    }
}

/// A message that one end sends out of lent memory.
struct Outgoing {
    op: SendOperation,
    payload: Vec<u8>,
    buffer: Buffer,
    result: Option<Result<(), SendFailed>>,
}

/// A message that one end receives into lent memory.
struct Incoming {
    op: RecvOperation,
    /// Memory as the application sees it where the message comes in blocks.
    place: Vec<u8>,
    buffer: Buffer,
    result: Option<Result<Received, RecvFailed>>,
    remote_bytes: u64,
}

/// Two drivers of one connection.
struct Two {
    fabric: Posted,
    ends: [Driver<Posted>; 2],
    rounds: usize,
}

impl Two {
    fn new(terms: &Terms) -> Self {
        let ordered = terms.arrival == Arrival::Flag;
        let setup = Setup {
            send_queue: terms.send_queue,
            order_inside_write: ordered,
            ..Setup::new(LAYOUT, terms.seed)
        };
        let mut fabric = Posted::new(&setup);
        fabric.fail_registrations(terms.fail_one_in);
        fabric.start(terms.origin.blocks);
        let ends = [0, 1].map(|side| {
            let config = Config {
                protocol: terms.protocol,
                arrival: terms.arrival,
                c0_bytes: C0_BYTES,
                chunk_bytes: terms.chunk_bytes,
                folds: 1,
                ..Config::default()
            };
            let endpoint = Endpoint::new(&fabric, fabric.attachment(side), config, terms.origin).unwrap();
            Driver::new(endpoint, 1 + side as u64, WaitStrategy::Yield, 2_000_000_000, Nanos(0))
        });
        Self { fabric, ends, rounds: 0 }
    }

    fn outgoing(&mut self, side: usize, tag: u64, payload: &[u8]) -> Outgoing {
        let buffer = self.fabric.lend(side, payload.to_vec());
        let op = SendOperation::new(tag, payload.len()).with_memory(SendMemory::Lent(buffer));
        Outgoing { op, payload: payload.to_vec(), buffer, result: None }
    }

    fn incoming(&mut self, side: usize, room: usize) -> Incoming {
        let buffer = self.fabric.lend(side, vec![0xa5; room]);
        let op = RecvOperation::new().with_memory(RecvMemory::Lent(buffer));
        let remote_bytes = self.ends[side].counters().remote_bytes_received;
        Incoming { op, place: vec![0xa5; room], buffer, result: None, remote_bytes }
    }

    /// Drives a message once. Returns true once it has ended.
    fn send(&mut self, side: usize, it: &mut Outgoing) -> bool {
        if it.result.is_none()
            && let Drive::Done(result) =
                self.ends[side].drive_send(&mut self.fabric, &mut it.op, &[&it.payload])
        {
            assert!(self.ends[side].is_send_released(&it.op), "done, and its memory is in use");
            it.result = Some(result);
        }
        it.result.is_some()
    }

    fn receive(&mut self, side: usize, it: &mut Incoming) -> bool {
        if it.result.is_none()
            && let Drive::Done(result) =
                self.ends[side].drive_recv(&mut self.fabric, &mut it.op, &mut [&mut it.place])
        {
            assert!(self.ends[side].is_recv_released(&it.op), "done, and its memory is in use");
            it.result = Some(result);
        }
        it.result.is_some()
    }

    /// Makes a round of both ends and of the fabric.
    fn round(&mut self) {
        self.rounds += 1;
        // Repairs an acknowledgement that was overtaken.
        if self.rounds.is_multiple_of(200) {
            self.keep_alive();
        }
        self.turn();
    }

    fn turn(&mut self) {
        for end in &mut self.ends {
            end.progress(&mut self.fabric);
        }
        self.fabric.step();
    }

    fn keep_alive(&mut self) {
        for end in &mut self.ends {
            end.endpoint_mut().send_keepalive(&mut self.fabric);
        }
    }

    fn settle(&mut self) {
        self.keep_alive();
        for _ in 0..600 {
            self.turn();
        }
    }

    /// Takes the memory of a message back. It must not change any more.
    fn sent(&mut self, it: Outgoing) -> Option<Result<(), SendFailed>> {
        let memory = self.fabric.take_back(it.buffer);
        assert_eq!(memory, it.payload, "the source has changed");
        it.result
    }

    /// Takes the memory of a message back, and returns its bytes as the application sees them.
    fn received(
        &mut self,
        side: usize,
        it: Incoming,
    ) -> (Option<Result<Received, RecvFailed>>, Vec<u8>, bool) {
        let memory = self.fabric.take_back(it.buffer);
        let is_remote = self.ends[side].counters().remote_bytes_received > it.remote_bytes;
        let place = if is_remote { memory } else { it.place };
        let bytes = it.result.and_then(Result::ok).map_or(0, |received| received.bytes);
        (it.result, place[..bytes].to_vec(), is_remote)
    }

    /// Carries a message from one end to the other. Returns true if it went by remote writes.
    fn carry(&mut self, from: usize, tag: u64, payload: &[u8]) -> bool {
        let mut outgoing = self.outgoing(from, tag, payload);
        let mut incoming = self.incoming(1 - from, payload.len() + 9);
        for _ in 0..ROUNDS {
            let ended = [self.send(from, &mut outgoing), self.receive(1 - from, &mut incoming)];
            if ended == [true; 2] {
                break;
            }
            self.round();
        }
        let results = (outgoing.result, incoming.result);
        assert!(
            results.0.is_some() && results.1.is_some(),
            "stuck: {results:?} {:?} {:?}",
            self.ends,
            self.ends.each_ref().map(Driver::counters)
        );
        assert_eq!(self.sent(outgoing), Some(Ok(())));
        let (result, bytes, is_remote) = self.received(1 - from, incoming);
        assert_eq!(result, Some(Ok(Received { tag, bytes: payload.len() })));
        assert!(bytes == payload, "other bytes");
        is_remote
    }

    fn closed(&self, side: usize) -> Option<Closed> {
        self.ends[side].endpoint().closed()
    }
}

/// Bytes that differ from their neighbours, and from message to message.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251 + number * 13) as u8 | 1).collect()
}

#[test]
fn a_long_message_goes_by_remote_writes() {
    for arrival in ARRIVALS {
        for seed in 0..60 {
            let chunk_bytes = if seed % 2 == 0 { 0 } else { 700 };
            let mut t = Two::new(&Terms { chunk_bytes, ..Terms::new(arrival, seed) });
            for (number, bytes) in [601, 5000, 40, 2000, 600, 10_000].into_iter().enumerate() {
                let is_remote = t.carry(number % 2, number as u64, &payload(bytes, number));
                assert_eq!(is_remote, bytes > 600, "{arrival:?} {seed}: {bytes} bytes");
            }
            let counters = [0, 1].map(|side| t.ends[side].counters());
            assert_eq!([0, 1].map(|side| counters[side].remote_bytes_sent), [601, 17_000]);
            assert_eq!([0, 1].map(|side| counters[side].remote_bytes_received), [17_000, 601]);
            t.settle();
            assert!(t.fabric.is_quiescent() && t.ends.iter().all(|end| end.endpoint().is_quiescent()));
            assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
        }
    }
}

#[test]
fn both_directions_go_at_once() {
    for arrival in ARRIVALS {
        for seed in 0..60 {
            let mut t = Two::new(&Terms { send_queue: 2, chunk_bytes: 500, ..Terms::new(arrival, seed) });
            let payloads = [payload(3000, 1), payload(4000, 2)];
            let mut out = [0, 1].map(|side| t.outgoing(side, 7, &payloads[side]));
            let mut place = [0, 1].map(|side| t.incoming(side, 4000));
            for _ in 0..ROUNDS {
                let mut over = true;
                for side in 0..2 {
                    over &= t.send(side, &mut out[side]);
                    over &= t.receive(side, &mut place[side]);
                }
                if over {
                    break;
                }
                t.round();
            }
            for (side, (out, place)) in out.into_iter().zip(place).enumerate() {
                assert_eq!(t.sent(out), Some(Ok(())), "{arrival:?} {seed}");
                let (result, bytes, is_remote) = t.received(side, place);
                assert_eq!(result.map(|it| it.map(|it| it.bytes)), Some(Ok(payloads[1 - side].len())));
                assert!(is_remote && bytes == payloads[1 - side], "{arrival:?} {seed}");
            }
        }
    }
}

#[test]
fn memory_that_is_registered_already_needs_no_job() {
    for arrival in ARRIVALS {
        let terms = Terms { protocol: Protocol::RegisterCached, fail_one_in: 1, ..Terms::new(arrival, 3) };
        let mut t = Two::new(&terms);
        let message = payload(3000, 1);
        let (from, to) = (t.fabric.lend(0, message.clone()), t.fabric.lend(1, vec![0; 3000]));
        let (source, _) = t.fabric.register(0, from, false);
        let (destination, claim) = t.fabric.register(1, to, true);
        for _ in 0..3 {
            let mut out = t.outgoing(0, 7, &message);
            out.op = SendOperation::new(7, 3000).with_memory(SendMemory::Registered(source));
            let mut place = t.incoming(1, 3000);
            place.op = RecvOperation::new().with_memory(RecvMemory::Registered(claim));
            for _ in 0..ROUNDS {
                if t.send(0, &mut out) & t.receive(1, &mut place) {
                    break;
                }
                t.round();
            }
            assert_eq!(out.result, Some(Ok(())));
            assert_eq!(place.result, Some(Ok(Received { tag: 7, bytes: 3000 })));
            assert!(t.fabric.lent(to) == message, "{arrival:?}");
        }
        assert_eq!(t.ends[1].counters().remote_bytes_received, 9000);
        for end in &t.ends {
            let counters = end.counters();
            let found = (counters.registrations_hit, counters.registrations_missed, counters.jobs);
            assert_eq!(found, (3, 0, 0), "{arrival:?}");
        }
        t.settle();
        t.fabric.deregister(source);
        t.fabric.deregister(destination);
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
    }
}

#[test]
fn no_end_sleeps_while_its_memory_is_registered() {
    for arrival in ARRIVALS {
        let mut t = Two::new(&Terms::new(arrival, 4));
        let mut out = t.outgoing(0, 7, &payload(3000, 1));
        let mut place = t.incoming(1, 3000);
        t.fabric.hold_jobs(true);
        for _ in 0..200 {
            let _ = t.send(0, &mut out) | t.receive(1, &mut place);
            t.round();
        }
        let sleeps = |t: &mut Two| {
            [0, 1].map(|side| {
                t.ends[side].set_wait(WaitStrategy::Sleep);
                let mut wait = t.ends[side].begin_wait();
                let Two { fabric, ends, .. } = &mut *t;
                (0..500).any(|_| ends[side].round(fabric, &mut wait, false) == Next::Rest(Rest::Sleep))
            })
        };
        // Nobody wakes it when the job ends.
        assert_eq!(sleeps(&mut t), [false; 2], "{arrival:?}");
        t.fabric.hold_jobs(false);
        for _ in 0..ROUNDS {
            if t.send(0, &mut out) & t.receive(1, &mut place) {
                break;
            }
            t.round();
        }
        assert_eq!(out.result, Some(Ok(())));
        t.settle();
        assert_eq!(sleeps(&mut t), [true; 2], "{arrival:?}");
    }
}

#[test]
fn without_memory_at_both_ends_a_message_goes_in_blocks() {
    for arrival in ARRIVALS {
        for (lends, protocols) in [
            ([true, false], [Protocol::Register; 2]),
            ([false, true], [Protocol::Register; 2]),
            ([true, true], [Protocol::Superpipeline, Protocol::Register]),
        ] {
            let mut t = Two::new(&Terms::new(arrival, 5));
            for (side, protocol) in protocols.into_iter().enumerate() {
                t.ends[side].set_protocol(protocol);
            }
            let message = payload(5000, 1);
            let mut out = t.outgoing(0, 7, &message);
            let mut place = t.incoming(1, 5000);
            if !lends[0] {
                out.op = SendOperation::new(7, 5000);
            }
            if !lends[1] {
                place.op = RecvOperation::new();
            }
            for _ in 0..ROUNDS {
                if t.send(0, &mut out) & t.receive(1, &mut place) {
                    break;
                }
                t.round();
            }
            assert_eq!(t.sent(out), Some(Ok(())));
            let (result, bytes, is_remote) = t.received(1, place);
            assert_eq!(result, Some(Ok(Received { tag: 7, bytes: 5000 })));
            assert!(bytes == message && !is_remote, "{arrival:?} {lends:?}");
            assert_eq!(t.ends[0].counters().remote_bytes_sent, 0);
            t.settle();
            assert!(t.fabric.is_quiescent());
        }
    }
}
