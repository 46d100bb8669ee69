//! Two drivers against a plain oracle: every call in random order, in states where it makes sense and where it does not. The
//! oracle is a list of the messages of which the receiver can know, and how far they were taken out.
//!
//! At the end everything is driven by waits, whose time is the oracle's: nothing is lost, and nothing waits for ever.

mod ending;
mod receiving;
mod sending;

use proptest::prelude::*;
use superpipe_core::driver::{RecvOperation, SendOperation, WaitFailed, WaitStrategy};
use superpipe_core::{
    Arrival, Closed, Config, Driver, Endpoint, Event, FlagPlace, Layout, NOTIFICATIONS_MIN, Nanos, Origin,
    Protocol, Reason,
};
use superpipe_testkit::{Direct, Posted, Rng, Setup, TestFabric};

/// Action of a user at one end.
#[derive(Clone, Copy, Debug)]
enum Do {
    TrySend { bytes: usize, pieces: usize },
    BeginSend { bytes: usize, pieces: usize },
    DriveSend,
    CancelSend,
    TryRecv { room: usize, pieces: usize },
    Peek,
    BeginReceive { room: usize, pieces: usize, looks: bool },
    DriveReceive,
    BeginCold { room: usize },
    DriveCold { part: usize },
    CancelReceive,
    Reject,
    Protocol(usize),
    Progress,
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    side: usize,
    does: Do,
    steps: usize,
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![0..9usize, 0..50usize, 0..400usize, 0..1500usize, Just(40), Just(41)]
}

fn op() -> impl Strategy<Value = Op> {
    let pieces = || 1..6usize;
    let does = prop_oneof![
        4 => (bytes(), pieces()).prop_map(|(bytes, pieces)| Do::TrySend { bytes, pieces }),
        3 => (bytes(), pieces()).prop_map(|(bytes, pieces)| Do::BeginSend { bytes, pieces }),
        8 => Just(Do::DriveSend),
        1 => Just(Do::CancelSend),
        4 => (bytes(), pieces()).prop_map(|(room, pieces)| Do::TryRecv { room, pieces }),
        2 => Just(Do::Peek),
        3 => (bytes(), pieces(), any::<bool>())
            .prop_map(|(room, pieces, looks)| Do::BeginReceive { room, pieces, looks }),
        8 => Just(Do::DriveReceive),
        1 => bytes().prop_map(|room| Do::BeginCold { room }),
        3 => (0..300usize).prop_map(|part| Do::DriveCold { part }),
        1 => Just(Do::CancelReceive),
        1 => Just(Do::Reject),
        1 => (0..4usize).prop_map(Do::Protocol),
        6 => Just(Do::Progress),
        1 => Just(Do::Look),
    ];
    (0..2usize, does, prop_oneof![Just(0usize), 0..4usize, 0..60usize]).prop_map(|(side, does, steps)| Op {
        side,
        does,
        steps,
    })
}

#[derive(Clone, Copy, Debug)]
struct World {
    seed: u64,
    layouts: [Layout; 2],
    arrival: usize,
    c0_bytes: u32,
    send_queue: usize,
    close: Option<(usize, bool)>,
}

fn world() -> impl Strategy<Value = World> {
    let layout = || {
        let groups = prop::option::of(prop::sample::select(vec![1, 2, 4, 16]));
        (prop::sample::select(vec![128, 192, 256, 512]), 2..12u32, groups).prop_map(
            |(block_bytes, block_count, group)| Layout {
                block_bytes,
                block_count,
                flags: group.map_or(FlagPlace::Inside, |group_blocks| FlagPlace::Apart { group_blocks }),
            },
        )
    };
    (
        any::<u64>(),
        [layout(), layout()],
        0..3usize,
        1..900u32,
        1..5usize,
        prop::option::of((0..2usize, any::<bool>())),
    )
        .prop_map(|(seed, layouts, arrival, c0_bytes, send_queue, close)| World {
            seed,
            layouts,
            arrival,
            c0_bytes,
            send_queue,
            close,
        })
}

/// A message of which the receiver can know.
#[derive(Debug)]
struct Sent {
    tag: u64,
    payload: Vec<u8>,
    cancelled: Option<Reason>,
    rejected: Option<Reason>,
    told: bool,
}

/// A message that an end sends as an operation.
#[derive(Debug)]
struct Sends {
    send: SendOperation,
    tag: u64,
    payload: Vec<u8>,
    pieces: usize,
    /// Index in the list, once the receiver can know of the message.
    index: Option<usize>,
}

/// A message that an end receives as an operation.
#[derive(Debug)]
struct Receives {
    receive: RecvOperation,
    place: Vec<u8>,
    pieces: usize,
    is_cold: bool,
}

#[derive(Debug, Default)]
struct Flow {
    sent: Vec<Sent>,
    sends: Option<Sends>,
    receives: Option<Receives>,
    /// Messages that the receiver has dealt with.
    head: usize,
    tags: u64,
}

struct Model<F: TestFabric> {
    fabric: F,
    ends: [Driver<F>; 2],
    /// By the end that sends.
    flows: [Flow; 2],
    rng: Rng,
    now: u64,
}

const UNTOUCHED: u8 = 0xa5;

/// Cuts a place into slices, the same each time; some are empty.
fn cut_mut(mut place: &mut [u8], pieces: usize) -> Vec<&mut [u8]> {
    let mut slices = vec![];
    for piece in 1..pieces {
        let at = if piece % 2 == 0 { 0 } else { place.len() / 3 };
        let (now, after) = place.split_at_mut(at);
        slices.push(now);
        place = after;
    }
    slices.push(place);
    slices
}

fn cut(mut message: &[u8], pieces: usize) -> Vec<&[u8]> {
    let mut slices = vec![];
    for piece in 1..pieces {
        let at = if piece % 2 == 0 { 0 } else { message.len() / 2 };
        let (now, after) = message.split_at(at);
        slices.push(now);
        message = after;
    }
    slices.push(message);
    slices
}

impl<F: TestFabric> Model<F> {
    fn new(world: World) -> Self {
        let arrivals = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];
        let arrival = arrivals[if F::DIRECT { world.arrival % 2 } else { world.arrival }];
        let layouts = world
            .layouts
            .map(|layout| if F::DIRECT { layout } else { Layout { flags: FlagPlace::Inside, ..layout } });
        let setup = Setup {
            layouts,
            order_inside_write: arrival == Arrival::Flag,
            send_queue: world.send_queue,
            notifications_max: NOTIFICATIONS_MIN + 2,
            seed: world.seed,
            growth: None,
        };
        let fabric = F::new(&setup);
        let ends = [0, 1].map(|side| {
            let config = Config { arrival, c0_bytes: world.c0_bytes, folds: 2, ..Config::default() };
            let endpoint =
                Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
            Driver::new(endpoint, 1 + side as u64, WaitStrategy::ALL[side], u64::MAX, Nanos(0))
        });
        Self { fabric, ends, flows: Default::default(), rng: Rng::new(world.seed), now: 0 }
    }

    fn payload(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.rng.next().to_le_bytes()[0]).collect()
    }

    fn tag(&mut self, side: usize) -> u64 {
        self.flows[side].tags += 1;
        self.flows[side].tags << 1 | side as u64
    }

    fn reason(&mut self) -> Reason {
        Reason(u32::try_from(1 + self.rng.below(1000)).unwrap())
    }

    fn play(&mut self, Op { side, does, steps }: Op) {
        match does {
            Do::TrySend { bytes, pieces } => self.try_send(side, bytes, pieces),
            Do::BeginSend { bytes, pieces } => self.begin_send(side, bytes, pieces),
            Do::DriveSend => self.drive_send(side),
            Do::CancelSend => {
                let reason = self.reason();
                self.cancel_send(side, reason);
            }
            // A message that an operation has begun belongs to it.
            Do::TryRecv { .. } if self.has_begun(side) => {}
            Do::TryRecv { room, pieces } => self.try_recv(side, room, pieces),
            Do::Peek => {
                if let Some(peeked) = self.ends[side].try_peek(&mut self.fabric) {
                    assert_eq!(Some(peeked), self.incoming(side));
                }
            }
            Do::BeginReceive { room, pieces, looks } => self.begin_recv(side, room, pieces, false, looks),
            Do::BeginCold { room } => self.begin_recv(side, room, 1, true, false),
            Do::DriveReceive => self.drive_recv(side, usize::MAX / 2),
            Do::DriveCold { part } => self.drive_recv(side, part),
            Do::CancelReceive => {
                let reason = self.reason();
                self.cancel_recv(side, reason);
            }
            Do::Reject => {
                let reason = self.reason();
                self.reject(side, reason);
            }
            Do::Protocol(which) => self.ends[side].set_protocol(Protocol::ALL[which]),
            Do::Progress => _ = self.ends[side].progress(&mut self.fabric),
            Do::Look => {
                self.now += 30_000_000;
                let mut wait = self.ends[side].begin_wait();
                let now = Nanos(self.now);
                let looked = self.ends[side].check_time(&mut self.fabric, &mut wait, now, now);
                assert_eq!(looked, Err(WaitFailed::Deadline));
            }
        }
        self.listed(side);
        for _ in 0..steps {
            self.fabric.step();
        }
        self.check();
    }

    fn check(&mut self) {
        for side in 0..2 {
            while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
                let sent = &mut self.flows[side].sent[usize::try_from(transfer).unwrap() - 1];
                assert_eq!((sent.rejected, sent.told), (Some(reason), false));
                sent.told = true;
            }
            if let Some(Closed::Failed(failure)) = self.ends[side].endpoint().closed() {
                panic!("{failure}");
            }
        }
    }
}

impl Flow {
    /// The receiver may know of the message that is being sent.
    fn list(&mut self, cancelled: Option<Reason>) {
        if let Some(sends) = &mut self.sends {
            sends.index = Some(self.sent.len());
            let payload = sends.payload.clone();
            self.sent.push(Sent { tag: sends.tag, payload, cancelled, rejected: None, told: false });
        }
    }
}

fn play<F: TestFabric>(world: World, ops: &[Op]) {
    let mut model = Model::<F>::new(world);
    for op in ops {
        model.play(*op);
    }
    model.settle();
    if let Some((side, is_orderly)) = world.close {
        model.close(side, is_orderly);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn drivers_keep_to_the_model_by_direct_store(world in world(), ops in prop::collection::vec(op(), 1..150)) {
        play::<Direct>(world, &ops);
    }

    #[test]
    fn drivers_keep_to_the_model_by_posted_writes(world in world(), ops in prop::collection::vec(op(), 1..150)) {
        play::<Posted>(world, &ops);
    }
}
