//! Two endpoints against a plain model: every public method in random order with random arguments, in states where it makes
//! sense and where it does not. The model is a list of what was sent, and how far it was taken out.
//!
//! `SUPERPIPE_MODEL_CASES` and `SUPERPIPE_MODEL_SEED` choose how many cases are played, and which is the first.

#![expect(clippy::cast_possible_truncation, reason = "what is drawn is small")]

mod ending;
mod receiving;
mod sending;

use std::env;

use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Event, FirstChunk, FlagPlace, Layout, Length, NOTIFICATIONS_MIN,
    Origin, Protocol, Reason, Sending, TransferId,
};
use superpipe_testkit::{Direct, Posted, Rng, Setup, TestFabric};

const STEPS: usize = 1200;
const PLACE_BYTES: usize = 2000;

/// A transfer of which the peer can know.
#[derive(Debug)]
struct Sent {
    tag: u64,
    length: Length,
    bytes: Vec<u8>,
    end: Option<End>,
    rejected: Option<Reason>,
    told: bool,
}

/// The transfer that an end has open.
#[derive(Debug)]
struct Open {
    id: TransferId,
    tag: u64,
    length: Length,
    /// Set once something of it was sent.
    index: Option<usize>,
    /// Contents of the blocks that are reserved.
    reserved: Option<Vec<u8>>,
}

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    sent: Vec<Sent>,
    open: Option<Open>,
    stale: Vec<TransferId>,
    tags: u64,
    /// The transfer that its receiver takes next or takes, whether it was shown, and how much was taken.
    head: usize,
    shown: bool,
    at: usize,
    /// Bytes that the last look in place showed.
    in_place: u32,
}

struct Model<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
    flows: [Flow; 2],
    rng: Rng,
    origin: Origin,
    /// Reason that each end has closed with.
    closed: [Option<Reason>; 2],
}

fn near(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => u64::MAX - rng.below(12) as u64,
        1 => (1 + rng.below(8) as u64) << 32 | rng.below(12) as u64,
        2 => rng.next(),
        _ => 1,
    }
}

impl<F: TestFabric> Model<F> {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let arrivals = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];
        let arrival = arrivals[rng.below(if F::DIRECT { 2 } else { 3 })];
        let mut layout = || {
            let apart = F::DIRECT && rng.one_in(2);
            let more = [1, 3, 14][rng.below(3)];
            Layout {
                block_bytes: [128, 128, 192, 256, 512][rng.below(5)],
                block_count: 2 + rng.below(more) as u32,
                flags: if apart {
                    FlagPlace::Apart { group_blocks: [1, 2, 2, 4, 16][rng.below(5)] }
                } else {
                    FlagPlace::Inside
                },
            }
        };
        let layouts = [layout(), layout()];
        let setup = Setup {
            layouts,
            order_inside_write: arrival == Arrival::Flag || rng.one_in(2),
            send_queue: 1 + rng.below(4),
            notifications_max: NOTIFICATIONS_MIN + rng.below(8) as u16,
            seed: rng.next(),
            growth: None,
        };
        let fabric = F::new(&setup);
        let origin = Origin {
            sequence: near(&mut rng).max(1),
            blocks: near(&mut rng),
            controls: near(&mut rng).max(1),
            transfers: near(&mut rng),
            keepalives: near(&mut rng),
            notifications: near(&mut rng),
        };
        let ends = [0, 1].map(|side| {
            let config = Config {
                protocol: Protocol::ALL[rng.below(Protocol::ALL.len())],
                arrival,
                c0_bytes: 1 + [0, 200, 2000][rng.below(3)].min(rng.below(2000)) as u32,
                growth_q8: 256 + rng.below(700) as u32,
                chunk_bytes: [0, 1 + rng.below(800) as u32][rng.below(2)],
                folds: 1 + rng.below(6) as u8,
                triple_buffer: rng.one_in(4),
                first_chunk: FirstChunk::ALL[rng.below(4)],
                sub_blocks: !rng.one_in(5),
                streaming_bytes: rng.below(3000) as u64,
                order_asserted: rng.one_in(2) && setup.order_inside_write,
                threshold_bytes: 40 + rng.below(800) as u32,
                ..Config::default()
            };
            Endpoint::new(&fabric, fabric.attachment(side), config, origin).unwrap()
        });
        let mut model = Self { fabric, ends, flows: Default::default(), rng, origin, closed: [None; 2] };
        model.fabric.start(origin.blocks);
        model
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.below(limit)
    }

    fn reason(&mut self) -> Reason {
        Reason(1 + self.below(1000) as u32)
    }

    fn bytes(&mut self) -> usize {
        match self.below(5) {
            0 => self.below(9),
            1 => self.below(50),
            2 => self.below(300),
            _ => self.below(1500),
        }
    }

    /// Some of it looks like flags and headers.
    fn payload(&mut self, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::with_capacity(bytes + 8);
        while payload.len() < bytes {
            let word = match self.below(4) {
                0 => self.origin.sequence.wrapping_add(self.below(60) as u64),
                1 => self.origin.sequence.wrapping_add(self.below(60) as u64) << 32 | self.rng.next() >> 32,
                2 => self.below(256) as u64,
                _ => self.rng.next(),
            };
            payload.extend_from_slice(&word.to_le_bytes());
        }
        payload.truncate(bytes);
        payload
    }

    /// Returns true if nothing may be delivered at this end: it knows of a close with a reason.
    fn is_shut(&self, side: usize) -> bool {
        let with_reason = |side: usize| self.closed[side].is_some_and(|reason| reason != Reason::DONE);
        with_reason(side) || self.ends[side].peer_closes() && with_reason(1 - side)
    }

    /// Returns true if something may be missing at this end: either has closed with a reason.
    fn may_be_shut(&self) -> bool {
        self.closed.iter().flatten().any(|reason| *reason != Reason::DONE)
    }

    fn drive(&mut self, side: usize) {
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        match self.rng.below(16) {
            0 => end.poll_acknowledgements(fabric),
            1 => end.acknowledge(fabric),
            2 if self.rng.one_in(4) => end.send_keepalive(fabric),
            3 => _ = end.has_arrivals(fabric),
            4 => self.check_delivered(side),
            5 => {
                _ = end.poll_controls_delivered();
                _ = (end.activity(), end.is_quiescent(), end.is_flushed(), end.peer_closes(), end.counters());
            }
            _ => _ = end.progress(fabric),
        }
    }

    /// Compares `delivered` with what was taken out.
    fn check_delivered(&mut self, side: usize) {
        let is_moot = self.closed.iter().all(Option::is_some);
        if !self.ends[side].poll_delivered()
            || self.ends[side].state().sending == Sending::Cancelling
            || is_moot
        {
            return;
        }
        let flow = &self.flows[side];
        for (index, sent) in flow.sent.iter().enumerate().filter(|(_, sent)| sent.rejected.is_none()) {
            let taken = index < flow.head || index == flow.head && flow.at == sent.bytes.len();
            assert!(taken, "delivered, and not taken out: {index}");
            let ended = index < flow.head || sent.end.is_none();
            assert!(ended, "delivered, and its end was not taken out: {index} {sent:?}");
        }
    }

    fn check(&mut self) {
        for side in 0..2 {
            while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
                let index = transfer.wrapping_sub(self.origin.transfers).wrapping_sub(1) as usize;
                let sent = &mut self.flows[side].sent[index];
                assert_eq!((sent.rejected, sent.told), (Some(reason), false));
                sent.told = true;
            }
            match self.ends[side].closed() {
                None => assert_eq!(self.closed[side], None),
                Some(Closed::Here(reason)) => assert_eq!(self.closed[side], Some(reason)),
                Some(Closed::ByPeer(reason)) => {
                    assert_eq!(self.closed[1 - side], Some(reason), "closed by a peer that did not close so");
                    let flow = &self.flows[1 - side];
                    let taken = flow.head == flow.sent.len();
                    assert!(taken || reason != Reason::DONE, "closed, and not all was taken out");
                }
                Some(Closed::Failed(failure)) => panic!("{failure}"),
            }
        }
    }

    fn step(&mut self, closes: bool) {
        let side = self.below(2);
        match self.below(16) {
            0..=2 => {
                for _ in 0..=self.below(8) {
                    self.fabric.step();
                }
            }
            3..=6 => self.drive(side),
            7..=10 => self.send(side),
            11..=14 => self.receive(side),
            _ if closes && self.rng.one_in(60) => {
                let reason = if self.rng.one_in(2) { Reason::DONE } else { self.reason() };
                self.close(side, reason);
            }
            _ => {}
        }
        self.check();
    }
}

fn play<F: TestFabric>(seed: u64) {
    let mut model = Model::<F>::new(seed);
    let closes = seed.is_multiple_of(2);
    for _ in 0..STEPS {
        model.step(closes);
    }
    if seed % 3 == 1 {
        model.tell(closes && seed.is_multiple_of(4));
    }
    model.settle();
    if !closes && seed % 5 == 1 {
        model.tell(true);
    }
    if !closes {
        for side in 0..2 {
            model.close(side, Reason::DONE);
        }
        model.settle();
    }
    for _ in 0..100 {
        model.step(true);
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn all<F: TestFabric>() {
    let first = number("SUPERPIPE_MODEL_SEED", 0);
    let mut failed = vec![];
    for seed in first..first + number("SUPERPIPE_MODEL_CASES", 200) {
        if std::panic::catch_unwind(|| play::<F>(seed)).is_err() {
            let model = Model::<F>::new(seed);
            let (setup, config) = (model.fabric.setup(), model.ends[0].config());
            println!("^ {} seed {seed}: {:?} {setup:?}", F::NAME, config.arrival);
            failed.push(seed);
            if failed.len() > 20 {
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{} seeds {failed:?}", F::NAME);
}

#[test]
fn direct() {
    all::<Direct>();
}

#[test]
fn posted() {
    all::<Posted>();
}
