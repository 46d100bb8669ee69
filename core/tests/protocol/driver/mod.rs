//! A connection as its user sees it, without I/O, clock or waiting: one driver against a peer that is this test and writes its
//! lines by hand, and two against each other; on both fabrics.

use superpipe_core::driver::{
    Drive, Received, RecvFailed, RecvOperation, SendFailed, SendOperation, WaitStrategy,
};
use superpipe_core::{Arrival, Config, Driver, Endpoint, FlagPlace, Layout, Line, Nanos, Origin, Reason};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Memory, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
const C0_BYTES: u32 = 600;
/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;
/// The time at which a driver begins, and the silence that it bears.
const BEGIN: Nanos = Nanos(5_000_000_000);
const IDLE_NS: u64 = 2_000_000_000;
/// More rounds than anything here takes.
const ROUNDS: usize = 400;

/// The same table on both fabrics.
macro_rules! tables {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<superpipe_testkit::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<superpipe_testkit::Posted>(); })* }
    };
}

mod closing;
mod delaying;
mod descriptor_wait;
mod ending;
mod giving_back;
mod keepalives;
mod model;
mod owning;
mod quiet;
mod receiving;
mod releasing;
mod sending;
mod streaming;
mod trying;
mod vast;
mod waiting;
mod warming;

const fn config(arrival: Arrival) -> Config {
    Config {
        protocol: superpipe_core::Protocol::Superpipeline,
        arrival,
        c0_bytes: C0_BYTES,
        one_copy_bytes: C0_BYTES + 1,
        growth_q8: 384,
        first_chunk: superpipe_core::FirstChunk::WithRts,
        sub_blocks: true,
        chunk_bytes: 0,
        gap_bytes: 2048,
        folds: 1,
        triple_buffer: false,
        streaming_bytes: 32 << 20,
        timed_bytes: 4096,
        copy_in: None,
        copy_out: None,
        window_bytes: None,
        least_window_bytes: 128 << 10,
        order_asserted: false,
        small_buffer_bytes: 1024,
        threshold_bytes: 904,
    }
}

fn driver<F: TestFabric>(fabric: &F, side: usize, arrival: Arrival) -> Driver<F> {
    numbered(fabric, side, arrival, 1 + side as u64)
}

fn numbered<F: TestFabric>(fabric: &F, side: usize, arrival: Arrival, id: u64) -> Driver<F> {
    let endpoint =
        Endpoint::new(fabric, fabric.attachment(side), config(arrival), Origin::default()).unwrap();
    Driver::new(endpoint, id, WaitStrategy::Sleep, IDLE_NS, BEGIN)
}

/// The time so many nanoseconds after the beginning.
const fn after(ns: u64) -> Nanos {
    Nanos(BEGIN.0 + ns)
}

/// A driver against a peer that writes its lines by hand.
struct One<F: TestFabric> {
    fabric: F,
    driver: Driver<F>,
    controls_fed: u32,
}

impl<F: TestFabric> One<F> {
    fn new() -> Self {
        Self::with(Arrival::Flag)
    }

    fn with(arrival: Arrival) -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let driver = driver(&fabric, 0, arrival);
        Self { fabric, driver, controls_fed: 0 }
    }

    /// Lets everything under way arrive.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.driver.progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    /// The peer writes the slot line of a block.
    fn slot(&mut self, block: u32, line: Line) {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
    }

    /// The peer writes the next control line; nothing looks at it yet.
    fn control(&mut self, line: Line) {
        self.fabric.forge(Memory::control_page(0), wire::mailbox(self.controls_fed), &line);
        self.controls_fed += 1;
    }

    /// The peer acknowledges so many blocks and controls, and shows life.
    fn ack(&mut self, blocks: u64, controls: u64, life: u64) {
        let line = wire::ack(blocks, controls, life);
        self.fabric.forge(Memory::control_page(0), superpipe_core::control_page::ACK, &line);
    }

    /// Returns the control message in the peer's mailbox.
    fn said(&mut self, slot: u32) -> Line {
        self.settle();
        self.fabric.memories().line(Memory::control_page(1), wire::mailbox(slot))
    }

    /// Returns the line in the peer's landing buffer.
    fn sent(&mut self, block: u32) -> Line {
        self.settle();
        self.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block))
    }

    /// Returns the newest acknowledgement of the peer.
    fn acked(&mut self) -> Line {
        self.settle();
        self.fabric.memories().line(Memory::control_page(1), superpipe_core::control_page::ACK)
    }

    /// Drives a message that is received, into one slice.
    fn receive(&mut self, receive: &mut RecvOperation, to: &mut [u8]) -> Drive<Result<Received, RecvFailed>> {
        self.driver.drive_recv(&mut self.fabric, receive, &mut [to])
    }
}

/// Two drivers of one connection.
struct Two<F: TestFabric> {
    fabric: F,
    ends: [Driver<F>; 2],
}

impl<F: TestFabric> Two<F> {
    fn new() -> Self {
        Self::with(Arrival::Flag)
    }

    fn with(arrival: Arrival) -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 7));
        let ends = [0, 1].map(|side| driver(&fabric, side, arrival));
        Self { fabric, ends }
    }

    /// All that was written arrives; both ends do what needs no asking.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
            }
            self.fabric.step();
        }
    }

    /// Sends at once.
    fn send(&mut self, side: usize, tag: u64, bytes: &[u8]) {
        self.ends[side].try_send(&mut self.fabric, tag, &[bytes]).unwrap();
        self.settle();
    }

    fn drive_send(
        &mut self,
        side: usize,
        send: &mut SendOperation,
        slices: &[&[u8]],
    ) -> Drive<Result<(), SendFailed>> {
        self.ends[side].drive_send(&mut self.fabric, send, slices)
    }

    fn drive_recv(
        &mut self,
        side: usize,
        receive: &mut RecvOperation,
        slices: &mut [&mut [u8]],
    ) -> Drive<Result<Received, RecvFailed>> {
        self.ends[side].drive_recv(&mut self.fabric, receive, slices)
    }

    /// Drives one end's message and the other end's receive of it to their ends.
    fn carry(
        &mut self,
        from: usize,
        (send, message): (&mut SendOperation, &[&[u8]]),
        (receive, place): (&mut RecvOperation, &mut [&mut [u8]]),
    ) -> (Result<(), SendFailed>, Result<Received, RecvFailed>) {
        let (mut sent, mut received) = (None, None);
        for _ in 0..20_000 {
            if sent.is_none()
                && let Drive::Done(result) = self.drive_send(from, send, message)
            {
                sent = Some(result);
            }
            if received.is_none()
                && let Drive::Done(result) = self.drive_recv(1 - from, receive, place)
            {
                received = Some(result);
            }
            if let (Some(sent), Some(received)) = (sent, received) {
                return (sent, received);
            }
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
            }
            self.fabric.step();
        }
        panic!("stuck: {sent:?} {received:?}");
    }
}

/// A message as one chunk that carries all of it.
const fn message(bytes: u64, transfer: u64, flag: u64) -> Line {
    wire::chunk(kind::RTS | kind::FIN, 7, bytes, bytes, transfer, flag)
}

/// A first chunk of a stream.
const fn stream(bytes: u64, transfer: u64, flag: u64) -> Line {
    wire::chunk(kind::RTS | kind::STREAM, 7, 0, bytes, transfer, flag)
}

/// Bytes that differ from their neighbours.
#[expect(clippy::cast_possible_truncation, reason = "cut on purpose")]
fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8 | 1).collect()
}

const fn taken(tag: u64, bytes: usize) -> Received {
    Received { tag, bytes }
}

const GIVEN_UP: Reason = Reason::GIVEN_UP;
