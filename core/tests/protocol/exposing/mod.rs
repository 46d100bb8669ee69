//! Messages out of memory that the peer maps, and into memory that it writes, over direct store. wire.md 4.9, 4.10, 5.6, 5.7.
//!
//! The fabric panics where memory is read that is not mapped, and where a job is begun that cannot be.

use superpipe_core::driver::{Drive, Received, RecvOperation, SendFailed, SendOperation, WaitStrategy};
use superpipe_core::{
    Arrival, Buffer, Closed, Config, Driver, Endpoint, Event, Exposed, ExposedState, FlagPlace, Layout,
    Nanos, Origin, Protocol, Readable, Reason, SendMemory,
};
use superpipe_testkit::{Direct, PairFabric, Setup, TestFabric};

mod endings;
mod hostile;
mod hostile_splitting;
mod places;
mod properties;
mod random_peer;
mod split_limits;
mod splitting;
mod stages;

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const C0_BYTES: u32 = 600;
/// Bytes of the shortest message that goes by one copy: some that go at once do.
const ONE_COPY_BYTES: u32 = 300;
const ARRIVALS: [Arrival; 2] = [Arrival::Flag, Arrival::CheckedFlag];
/// More rounds than anything here takes.
const ROUNDS: usize = 4000;

/// Two drivers of one connection.
struct Two {
    fabric: Direct,
    ends: [Driver<Direct>; 2],
    /// Memory of each end that it has offered.
    offered: [Option<(Exposed, Buffer)>; 2],
}

impl Two {
    fn new(arrival: Arrival) -> Self {
        Self::with(arrival, [Protocol::RegisterCached; 2], 1, Origin::default())
    }

    fn with(arrival: Arrival, protocols: [Protocol; 2], seed: u64, origin: Origin) -> Self {
        let mut fabric = Direct::new(&Setup::new(LAYOUT, seed));
        fabric.start(origin.blocks);
        let ends = [0, 1].map(|side| {
            let protocol = protocols[side];
            let config = Config {
                protocol,
                arrival,
                c0_bytes: C0_BYTES,
                one_copy_bytes: ONE_COPY_BYTES,
                folds: 1,
                ..Config::default()
            };
            let endpoint = Endpoint::new(&fabric, fabric.attachment(side), config, origin).unwrap();
            Driver::new(endpoint, 1 + side as u64, WaitStrategy::Yield, 2_000_000_000, Nanos(0))
        });
        Self { fabric, ends, offered: [None; 2] }
    }

    fn end(&mut self, side: usize) -> (&mut Endpoint<Direct>, &mut Direct) {
        (self.ends[side].endpoint_mut(), &mut self.fabric)
    }

    /// Exposes memory, and makes no round.
    fn expose(&mut self, side: usize, bytes: Vec<u8>) -> (Option<Exposed>, Buffer) {
        let buffer = self.fabric.exposed().add(side, bytes);
        let (end, fabric) = self.end(side);
        (end.expose(fabric, buffer), buffer)
    }

    /// Exposes memory, and lets both ends come to rest.
    fn exposed(&mut self, side: usize, bytes: Vec<u8>) -> (Exposed, Buffer) {
        let (exposed, buffer) = self.expose(side, bytes);
        self.settle();
        (exposed.unwrap(), buffer)
    }

    /// Exposes memory that the peer may write, and makes no round.
    fn expose_writable(&mut self, side: usize, bytes: Vec<u8>) -> (Option<Exposed>, Buffer) {
        let buffer = self.fabric.exposed().add(side, bytes);
        let (end, fabric) = self.end(side);
        (end.expose_writable(fabric, buffer), buffer)
    }

    /// Exposes memory that the peer may write, and lets both ends come to rest.
    fn writable(&mut self, side: usize, bytes: Vec<u8>) -> (Exposed, Buffer) {
        let (exposed, buffer) = self.expose_writable(side, bytes);
        self.settle();
        (exposed.unwrap(), buffer)
    }

    /// Offers memory to the next message of the peer. From then on the peer may write it.
    fn offer(&mut self, side: usize, (exposed, buffer): (Exposed, Buffer), offset: u32) -> bool {
        let (end, fabric) = self.end(side);
        let is_offered = end.offer(fabric, exposed, offset);
        if is_offered {
            self.fabric.exposed().offer(buffer, offset as usize);
            self.offered[side] = Some((exposed, buffer));
        }
        is_offered
    }

    fn is_offered(&self, side: usize, exposed: Exposed) -> bool {
        self.ends[side].endpoint().is_offered(exposed)
    }

    /// Takes memory back that is not offered any more: the application writes all of it, and the peer must not.
    fn take_back(&mut self) {
        for side in 0..2 {
            let Some((exposed, buffer)) = self.offered[side] else { continue };
            if !self.is_offered(side, exposed) {
                self.fabric.exposed().end_offer(side);
                let bytes = self.fabric.exposed().bytes(buffer).len();
                self.fabric.exposed().write(buffer, 0, &vec![0xee; bytes]);
                self.offered[side] = None;
            }
        }
    }

    fn state(&self, side: usize, exposed: Exposed) -> ExposedState {
        self.ends[side].endpoint().exposed_state(exposed)
    }

    /// Reads the acknowledgements, and asks.
    fn is_shared(&mut self, side: usize, exposed: Exposed) -> bool {
        let (end, fabric) = self.end(side);
        end.poll_acknowledgements(fabric);
        end.is_shared(exposed)
    }

    fn withdraw(&mut self, side: usize, exposed: Exposed) {
        let (end, fabric) = self.end(side);
        end.withdraw_exposed(fabric, exposed);
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
            }
        }
    }

    /// Begins and drives a message out of memory, once.
    fn try_send(&mut self, side: usize, tag: u64, memory: (Exposed, u32), message: &[u8]) -> Sent {
        let memory = SendMemory::Exposed(memory.0, memory.1);
        let mut op = SendOperation::new(tag, message.len()).with_memory(memory);
        let driven = self.ends[side].drive_send(&mut self.fabric, &mut op, &[message]);
        (op, driven)
    }

    /// Sends a message out of memory that is mapped, which takes one call.
    #[track_caller]
    fn send(&mut self, side: usize, tag: u64, memory: (Exposed, u32), message: &[u8]) {
        let (op, driven) = self.try_send(side, tag, memory, message);
        assert_eq!(driven, Drive::Done(Ok(())));
        assert_eq!(op.sent(), message.len());
        assert!(self.ends[side].is_send_released(&op));
    }

    /// Receives a message.
    fn receive(&mut self, side: usize, room: usize) -> Option<(Received, Vec<u8>)> {
        let (mut op, mut place) = (RecvOperation::new(), vec![0; room]);
        for _ in 0..ROUNDS {
            match self.ends[side].drive_recv(&mut self.fabric, &mut op, &mut [&mut place]) {
                Drive::Done(result) => {
                    let received = result.ok()?;
                    place.truncate(received.bytes);
                    return Some((received, place));
                }
                Drive::Moved => {}
                Drive::Idle => {
                    for end in &mut self.ends {
                        end.progress(&mut self.fabric);
                    }
                }
            }
        }
        None
    }

    /// Sends a message, and receives it. Returns the bytes that were copied out of the sender's memory.
    #[track_caller]
    fn carry(&mut self, from: usize, tag: u64, memory: (Exposed, u32), message: &[u8]) -> u64 {
        let before = self.ends[1 - from].counters().exposed_bytes_received;
        let sent = self.try_send(from, tag, memory, message);
        self.finish(from, tag, sent, message);
        self.ends[1 - from].counters().exposed_bytes_received - before
    }

    /// Sends a message that was begun to its end, and receives it.
    #[track_caller]
    fn finish(&mut self, from: usize, tag: u64, (mut op, mut driven): Sent, message: &[u8]) {
        let (mut into, mut place, mut received) = (RecvOperation::new(), vec![0; message.len() + 9], None);
        for _ in 0..ROUNDS {
            if driven != Drive::Done(Ok(())) {
                driven = self.ends[from].drive_send(&mut self.fabric, &mut op, &[message]);
            }
            let slices: &mut [&mut [u8]] = &mut [&mut place];
            if received.is_none()
                && let Drive::Done(result) =
                    self.ends[1 - from].drive_recv(&mut self.fabric, &mut into, slices)
            {
                received = Some(result);
            }
            if driven == Drive::Done(Ok(())) && received.is_some() {
                break;
            }
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
            }
        }
        assert_eq!(driven, Drive::Done(Ok(())));
        assert_eq!(received, Some(Ok(Received { tag, bytes: message.len() })), "{:?}", self.ends);
        assert!(place[..message.len()] == *message, "other bytes");
    }

    fn closed(&self, side: usize) -> Option<Closed> {
        self.ends[side].endpoint().closed()
    }
}

type Sent = (SendOperation, Drive<Result<(), SendFailed>>);

/// Bytes that differ from their neighbours, and from message to message.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251 + number * 13) as u8 | 1).collect()
}

#[test]
fn a_long_message_is_copied_out_of_the_senders_memory() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memories = [payload(5000, 1), payload(3_000_000, 2)];
        let exposed = [0, 1].map(|side| t.exposed(side, memories[side].clone()).0);
        for (side, exposed) in exposed.into_iter().enumerate() {
            assert_eq!(t.state(side, exposed), ExposedState::Ready);
            let all = &memories[side];
            for (offset, bytes) in [
                (0, all.len()),
                (1, 601),
                (all.len() - 700, 700),
                (7, 600),
                (8, 300),
                (9, 299),
                (3, 0),
                (9, 40),
            ] {
                let message = &all[offset..][..bytes];
                let copied = t.carry(side, 7, (exposed, u32::try_from(offset).unwrap()), message);
                let is_long = bytes >= ONE_COPY_BYTES as usize;
                assert_eq!(copied, if is_long { bytes as u64 } else { 0 }, "{arrival:?}: {bytes} bytes");
            }
            assert!(!t.is_shared(side, exposed));
        }
        let counters = [0, 1].map(|side| t.ends[side].counters());
        assert_eq!(counters.map(|it| it.exposed_bytes_sent), [7201, 3_002_201]);
        assert_eq!(counters.map(|it| it.exposed_bytes_received), [3_002_201, 7201]);
        assert_eq!(counters.map(|it| it.mapped_bytes), [3_000_000, 5000]);
        assert_eq!([t.closed(0), t.closed(1)], [None; 2]);
    }
}

#[test]
fn messages_out_of_memory_pipeline_and_wait_for_blocks_only() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(9000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    // The ring has 8 blocks, and no message waits for CTS.
    for number in 0..8u8 {
        t.send(0, u64::from(number), (exposed, 0), &memory[..1000 + usize::from(number)]);
    }
    let (mut op, driven) = t.try_send(0, 8, (exposed, 8), &memory[8..]);
    assert_eq!(driven, Drive::Idle, "no block is free");
    for number in 0..8u8 {
        let (received, bytes) = t.receive(1, 9000).unwrap();
        assert_eq!(received.tag, u64::from(number));
        assert!(bytes == memory[..1000 + usize::from(number)]);
    }
    t.settle();
    let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[&memory[8..]]);
    assert_eq!(driven, Drive::Done(Ok(())));
    assert!(t.receive(1, 9000).is_some_and(|(received, bytes)| received.tag == 8 && bytes == memory[8..]));
}

#[test]
fn memory_is_shared_until_its_last_message_is_acknowledged() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(2_500_000, 1);
        let (exposed, buffer) = t.exposed(0, memory.clone());
        let (other, _) = t.exposed(0, memory.clone());
        assert!(!t.is_shared(0, exposed));
        t.send(0, 1, (exposed, 0), &memory[..1000]);
        t.send(0, 2, (exposed, 0), &memory);
        t.send(0, 3, (other, 0), &memory[..2000]);
        assert!(t.is_shared(0, exposed) && t.is_shared(0, other));
        t.receive(1, 1000).unwrap();
        t.settle();
        assert!(t.is_shared(0, exposed), "the second is on the way");
        // Each call copies a bounded part.
        let (mut op, mut place) = (RecvOperation::new(), vec![0; memory.len()]);
        for parts in 1..=3 {
            let driven = t.ends[1].drive_recv(&mut t.fabric, &mut op, &mut [&mut place]);
            assert_eq!(op.taken(), memory.len().min(parts << 20));
            t.settle();
            assert_eq!(t.is_shared(0, exposed), parts < 3, "{parts}: {driven:?}");
        }
        assert!(place == memory);
        assert!(t.is_shared(0, other), "of the third, none is copied");
        // What was acknowledged may be written.
        t.fabric.exposed().write(buffer, 0, &[9; 1000]);
        t.receive(1, 3000).unwrap();
        assert!(!t.is_shared(0, other));
        t.send(0, 4, (exposed, 0), &[9; 1000]);
        assert!(t.receive(1, 1000).is_some_and(|(_, bytes)| bytes == [9; 1000]));
    }
}

#[test]
fn a_message_is_tried_peeked_and_pulled_into_several_slices() {
    for arrival in ARRIVALS {
        let mut t = Two::new(arrival);
        let memory = payload(2_000_000, 1);
        let (exposed, _) = t.exposed(0, memory.clone());
        t.send(0, 7, (exposed, 0), &memory);
        t.send(0, 8, (exposed, 5), &memory[5..]);
        let incoming = t.ends[1].try_peek(&mut t.fabric).unwrap();
        assert_eq!((incoming.tag, incoming.transfer), (7, 1));
        let mut short = vec![0; 1000];
        assert!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut short]).is_err(), "it does not fit");
        let (mut first, mut second) = (vec![0; 700_001], vec![0; 1_400_000]);
        let slices: &mut [&mut [u8]] = &mut [&mut first, &mut [], &mut second];
        let received = t.ends[1].try_recv(&mut t.fabric, slices).unwrap();
        assert_eq!(received, Some(Received { tag: 7, bytes: memory.len() }));
        first.extend_from_slice(&second);
        assert!(first[..memory.len()] == memory);
        // One that is begun is not tried.
        let (end, fabric) = t.end(1);
        let pulled = end.pull(fabric, &mut [&mut short]);
        assert_eq!(pulled.bytes, 1000);
        assert!(short == memory[5..1005]);
        let mut rest = vec![0; memory.len()];
        assert!(t.ends[1].try_recv(&mut t.fabric, &mut [&mut rest]).is_err());
        let (end, fabric) = t.end(1);
        let mut bytes = 0;
        while bytes < memory.len() - 1005 {
            bytes += end.pull(fabric, &mut [&mut rest[bytes..]]).bytes;
        }
        assert!(rest[..bytes] == memory[1005..]);
        assert!(!t.is_shared(0, exposed));
    }
}

#[test]
fn a_message_is_read_in_place() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    t.send(0, 7, (exposed, 500), &memory[500..]);
    let mut got = Vec::new();
    for max_bytes in [100, 1, 100_000] {
        let (end, fabric) = t.end(1);
        let Readable::Run(run) = end.readable(fabric, max_bytes) else { panic!("it is here") };
        let spans: Vec<_> = run.spans().collect();
        assert_eq!(spans.len(), 1);
        let (at, bytes) = spans[0];
        assert_eq!(bytes, run.bytes);
        got.extend_from_slice(fabric.visible(run.memory, at, bytes));
        t.settle();
        assert!(t.is_shared(0, exposed), "it is being read");
        let (end, fabric) = t.end(1);
        assert_eq!(end.consume(fabric, bytes + 1), superpipe_core::End::No, "more than was shown");
        let end = end.consume(fabric, bytes);
        assert_eq!(end == superpipe_core::End::Fin, got.len() == 2500);
    }
    assert!(got == memory[500..]);
    assert!(!t.is_shared(0, exposed));
}

#[test]
fn a_rejected_message_is_not_copied() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    t.send(0, 7, (exposed, 0), &memory);
    t.send(0, 8, (exposed, 0), &memory[..2000]);
    assert!(t.ends[1].reject(&mut t.fabric, Reason(5)));
    t.settle();
    assert_eq!(t.ends[0].poll_event(), Some(Event::Rejected { transfer: 1, reason: Reason(5) }));
    assert_eq!(t.ends[1].counters().exposed_bytes_received, 0);
    assert!(t.is_shared(0, exposed), "the second is on the way");
    assert!(t.receive(1, 3000).is_some_and(|(received, bytes)| received.tag == 8 && bytes == memory[..2000]));
    assert!(!t.is_shared(0, exposed));
    // In the middle.
    t.send(0, 9, (exposed, 0), &memory);
    let (end, fabric) = t.end(1);
    assert_eq!(end.pull(fabric, &mut [&mut [0; 100]]).bytes, 100);
    assert!(t.ends[1].reject(&mut t.fabric, Reason(6)));
    t.settle();
    assert!(!t.is_shared(0, exposed));
    assert_eq!(t.ends[0].poll_event(), Some(Event::Rejected { transfer: 3, reason: Reason(6) }));
    t.send(0, 10, (exposed, 0), &memory);
    assert!(t.receive(1, 3000).is_some_and(|(received, bytes)| received.tag == 10 && bytes == memory));
}

#[test]
fn other_slices_than_the_message_are_refused() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    let mut op = SendOperation::new(7, 3000).with_memory(SendMemory::Exposed(exposed, 0));
    let driven = t.ends[0].drive_send(&mut t.fabric, &mut op, &[&memory[1..]]);
    assert_eq!(driven, Drive::Done(Err(SendFailed::WrongLength)));
    assert!(!t.is_shared(0, exposed));
}

#[test]
fn what_is_not_in_the_memory_goes_through_the_ring() {
    let mut t = Two::new(Arrival::Flag);
    let memory = payload(3000, 1);
    let (exposed, _) = t.exposed(0, memory.clone());
    for offset in [1, 3001, u32::MAX] {
        assert_eq!(t.carry(0, 7, (exposed, offset), &memory), 0);
    }
    t.ends[0].set_protocol(Protocol::Superpipeline);
    assert_eq!(t.carry(0, 7, (exposed, 0), &memory), 0, "another protocol");
}
