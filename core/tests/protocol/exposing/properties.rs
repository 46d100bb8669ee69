//! Both ends expose, send, offer, withdraw and write again what is neither shared nor offered any more, in any order, with jobs that fail, and counts
//! near their wraps.

use proptest::prelude::*;
use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, SendOperation};
use superpipe_core::{Arrival, Buffer, End, Exposed, ExposedState, Origin, Protocol, Readable, SendMemory};
use superpipe_testkit::PairFabric;

use super::{Two, payload};

const BYTES: usize = 4000;

/// Act of one end.
#[derive(Clone, Copy, Debug)]
enum Act {
    Expose,
    Withdraw(usize),
    /// Exposes memory that the peer may write.
    ExposeWritable,
    WithdrawWritable(usize),
    /// Offers a memory to the next message of the peer.
    Offer(usize, u32),
    /// Writes into a memory that is not shared.
    Write(usize),
    /// Sends a message out of a memory.
    Send {
        memory: usize,
        offset: usize,
        bytes: usize,
    },
    Cancel,
    Receive,
    Read(u32),
    Reject,
    Progress(usize),
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let memory = 0..10usize;
    let act = prop_oneof![
        2 => Just(Act::Expose),
        1 => memory.clone().prop_map(Act::Withdraw),
        1 => Just(Act::ExposeWritable),
        1 => (0..3usize).prop_map(Act::WithdrawWritable),
        4 => (0..3usize, 0..900u32).prop_map(|(memory, offset)| Act::Offer(memory, offset)),
        1 => Just(Act::Cancel),
        2 => memory.clone().prop_map(Act::Write),
        5 => (memory, 0..BYTES, 1..BYTES).prop_map(|(memory, offset, bytes)| {
            Act::Send { memory, offset, bytes: bytes.min(BYTES - offset) }
        }),
        4 => Just(Act::Receive),
        2 => (1..=3000u32).prop_map(Act::Read),
        1 => Just(Act::Reject),
        5 => (1..=12usize).prop_map(Act::Progress),
    ];
    (0..2usize, act)
}

#[derive(Clone, Copy)]
struct Memory {
    exposed: Exposed,
    buffer: Buffer,
}

/// One direction: what its sender has exposed, what is under way, and what must come.
#[derive(Default)]
struct Way {
    memories: Vec<Memory>,
    /// Memories of the receiver that the sender may write.
    rooms: Vec<Memory>,
    out: Option<(SendOperation, Vec<u8>)>,
    /// Messages that must come, in order.
    due: std::collections::VecDeque<Vec<u8>>,
    writes: usize,
    /// Bytes of the message at the head that were read in place.
    read: Vec<u8>,
    into: Option<(RecvOperation, Vec<u8>)>,
}

impl Way {
    fn drive(&mut self, t: &mut Two, side: usize) {
        if let Some((op, message)) = &mut self.out
            && let Drive::Done(result) = t.ends[side].drive_send(&mut t.fabric, op, &[message])
        {
            assert!(result.is_ok() || matches!(result, Err(superpipe_core::driver::SendFailed::Rejected(_))));
            self.out = None;
        }
    }

    /// Cancels a message of which a part was sent.
    fn cancel(&mut self, t: &mut Two, side: usize) {
        if let Some((op, _)) = self.out.as_mut().filter(|(op, _)| op.has_begun() && op.sent() > 0) {
            t.ends[side].cancel_send(&mut t.fabric, op, superpipe_core::Reason(9));
            self.out = None;
        }
    }

    fn receive(&mut self, t: &mut Two, side: usize) {
        if !self.read.is_empty() {
            return;
        }
        let (mut op, mut place) = self.into.take().unwrap_or_else(|| (RecvOperation::new(), vec![0; BYTES]));
        match t.ends[side].drive_recv(&mut t.fabric, &mut op, &mut [&mut place]) {
            Drive::Done(Err(RecvFailed::Cancelled(_))) => {
                _ = self.due.pop_front().expect("a message that was sent")
            }
            Drive::Done(result) => {
                let Received { bytes, .. } = result.unwrap();
                let due = self.due.pop_front().expect("a message that was sent");
                assert!(place[..bytes] == due, "other bytes");
            }
            Drive::Moved | Drive::Idle => self.into = Some((op, place)),
        }
    }

    /// Reads the message at the head in place.
    fn read(&mut self, t: &mut Two, side: usize, max_bytes: u32) {
        if self.into.as_ref().is_some_and(|(op, _)| op.has_begun()) {
            return;
        }
        let (end, fabric) = t.end(side);
        if self.read.is_empty() && end.incoming(fabric).is_none() {
            return;
        }
        match end.readable(fabric, max_bytes) {
            Readable::Nothing => {}
            Readable::Ended(End::Cancelled(_)) => {
                self.due.pop_front().expect("a message that was sent");
                self.read.clear();
            }
            Readable::Ended(_) => self.ended(),
            Readable::Run(run) => {
                for (at, bytes) in run.spans() {
                    self.read.extend_from_slice(fabric.visible(run.memory, at, bytes));
                }
                if end.consume(fabric, run.bytes) != End::No {
                    self.ended();
                }
            }
        }
    }

    fn ended(&mut self) {
        let due = self.due.pop_front().expect("a message that was sent");
        assert!(self.read == due, "other bytes in place");
        self.read.clear();
    }
}

fn play(seed: u64, arrival: Arrival, fail_one_in: usize, origin: Origin, acts: &[(usize, Act)]) -> [u64; 2] {
    let mut t = Two::with(arrival, [Protocol::RegisterCached; 2], seed, origin);
    t.fabric.fail_exposing(fail_one_in);
    let mut ways: [Way; 2] = Default::default();
    for (side, act) in acts {
        let side = *side;
        match *act {
            Act::Expose => {
                let number = ways[side].memories.len();
                let (exposed, buffer) = t.expose(side, payload(BYTES, number));
                ways[side].memories.extend(exposed.map(|exposed| Memory { exposed, buffer }));
            }
            Act::Withdraw(index) => {
                if let Some(memory) = ways[side].memories.get(index) {
                    t.withdraw(side, memory.exposed);
                    assert_eq!(t.state(side, memory.exposed), ExposedState::Gone);
                }
            }
            Act::ExposeWritable => {
                let (exposed, buffer) = t.expose_writable(side, vec![0xaa; BYTES]);
                let rooms = &mut ways[1 - side].rooms;
                if rooms.len() < 3 {
                    rooms.extend(exposed.map(|exposed| Memory { exposed, buffer }));
                } else if let Some(exposed) = exposed {
                    t.withdraw(side, exposed);
                }
            }
            Act::WithdrawWritable(index) => {
                let rooms = &mut ways[1 - side].rooms;
                if index < rooms.len() {
                    t.withdraw(side, rooms.swap_remove(index).exposed);
                }
            }
            Act::Offer(index, offset) => {
                if let Some(room) = ways[1 - side].rooms.get(index).copied() {
                    t.offer(side, (room.exposed, room.buffer), offset);
                }
            }
            Act::Cancel => ways[side].cancel(&mut t, side),
            Act::Write(index) => {
                let Some(memory) = ways[side].memories.get(index).copied() else { continue };
                // Messages under way through the ring are out of slices of their own.
                if !t.is_shared(side, memory.exposed) && ways[side].out.is_none() {
                    ways[side].writes += 1;
                    let bytes = payload(BYTES, 100 + ways[side].writes);
                    t.fabric.exposed().write(memory.buffer, 0, &bytes);
                }
            }
            Act::Send { memory, offset, bytes } => {
                let Some(memory) = ways[side].memories.get(memory).copied() else { continue };
                if ways[side].out.is_some() {
                    continue;
                }
                let message = t.fabric.exposed().bytes(memory.buffer)[offset..][..bytes].to_vec();
                let named = SendMemory::Exposed(memory.exposed, u32::try_from(offset).unwrap());
                ways[side].due.push_back(message.clone());
                ways[side].out = Some((SendOperation::new(1, bytes).with_memory(named), message));
                ways[side].drive(&mut t, side);
            }
            Act::Receive => ways[1 - side].receive(&mut t, side),
            Act::Read(max_bytes) => ways[1 - side].read(&mut t, side, max_bytes),
            Act::Reject => {
                let way = &mut ways[1 - side];
                if way.into.is_none() && t.ends[side].reject(&mut t.fabric, superpipe_core::Reason(5)) {
                    way.due.pop_front();
                    way.read.clear();
                }
            }
            Act::Progress(rounds) => {
                for _ in 0..rounds {
                    t.ends[side].progress(&mut t.fabric);
                    ways[side].drive(&mut t, side);
                }
            }
        }
        t.take_back();
    }
    for _ in 0..3000 {
        for side in 0..2 {
            ways[side].drive(&mut t, side);
            ways[1 - side].read(&mut t, side, if ways[1 - side].read.is_empty() { 0 } else { 100_000 });
            ways[1 - side].receive(&mut t, side);
            t.ends[side].progress(&mut t.fabric);
            t.take_back();
        }
        if ways.iter().all(|way| way.out.is_none() && way.due.is_empty()) {
            break;
        }
    }
    t.settle();
    for (side, way) in ways.iter().enumerate() {
        assert!(way.out.is_none() && way.due.is_empty(), "stuck: {} {:?}", way.due.len(), t.ends);
        assert_eq!(t.closed(side), None);
        for memory in &way.memories {
            assert!(!t.is_shared(side, memory.exposed));
            t.withdraw(side, memory.exposed);
        }
    }
    for side in 0..2 {
        // An offer ends with the next message.
        assert!(t.ends[1 - side].try_send(&mut t.fabric, 1, &[b"line"]).is_ok());
        assert!(t.receive(side, 9).is_some_and(|(_, bytes)| bytes == b"line"));
        for room in &ways[1 - side].rooms {
            assert!(!t.is_offered(side, room.exposed));
            t.withdraw(side, room.exposed);
        }
    }
    t.settle();
    t.settle();
    assert_eq!([0, 1].map(|side| t.fabric.exposed().mapped(side)), [0; 2]);
    assert!(t.fabric.is_quiescent());
    t.ends.iter().fold([0; 2], |[exposed, split], end| {
        let counters = end.counters();
        [exposed + counters.exposed_bytes_received, split + counters.split_bytes_received]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_message_has_the_bytes_of_its_memory(
        seed: u64,
        is_checked: bool,
        fail_one_in in prop_oneof![2 => Just(0usize), 1 => 1..=4usize],
        near in prop::option::of(0..=6u64),
        acts in prop::collection::vec(act(), 0..=160),
    ) {
        let arrival = if is_checked { Arrival::CheckedFlag } else { Arrival::Flag };
        let origin = near.map_or_else(Origin::default, |near| {
            let before = u64::MAX - near;
            Origin { sequence: before, blocks: before, controls: before, transfers: before, ..Origin::default() }
        });
        play(seed, arrival, fail_one_in, origin, &acts);
    }
}

/// The acts above make messages go out of memory that is mapped, or they would prove nothing.
#[test]
fn the_harness_maps_memory() {
    let acts = [
        (0, Act::Expose),
        (0, Act::Progress(99)),
        (1, Act::Progress(99)),
        (0, Act::Progress(99)),
        (0, Act::Send { memory: 0, offset: 9, bytes: 2000 }),
        (1, Act::Receive),
    ];
    assert_eq!(play(1, Arrival::Flag, 0, Origin::default(), &acts), [2000, 0]);
    let split = [
        (1, Act::ExposeWritable),
        (1, Act::Progress(99)),
        (0, Act::Progress(99)),
        (1, Act::Progress(99)),
        (1, Act::Offer(0, 9)),
    ];
    let (expose, send) = acts.split_at(4);
    let acts = [expose, &split, send].concat();
    assert_eq!(play(1, Arrival::Flag, 0, Origin::default(), &acts), [960, 1040]);
}
