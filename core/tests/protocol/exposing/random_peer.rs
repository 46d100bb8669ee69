//! A peer that is played at random: mostly by the rules, so that it gets far, and now and then with a word that is wrong. Nothing may panic or hang. The
//! fabric panics where memory is read or written that is not mapped, and what is mapped is what is counted.

use superpipe_core::driver::{Drive, SendOperation, WaitStrategy};
use superpipe_core::{
    Buffer, Config, Driver, Endpoint, Exposed, ExposedState, Line, Nanos, Origin, PeerAccess, Protocol,
    Readable, Reason, SendMemory,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, PairFabric, Rng, Setup, TestFabric};

use super::{LAYOUT, ONE_COPY_BYTES, payload};

struct Random(Rng);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next() % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let count = all.len() as u64;
        (count > 0).then(|| all[usize::try_from(self.below(count)).unwrap()])
    }
}

/// Memory of the peer at a place.
#[derive(Clone, Copy)]
struct Theirs {
    bytes: u64,
    access: PeerAccess,
    buffer: Buffer,
    is_mapped: bool,
    last: u64,
    withdrawn: Option<u64>,
}

struct Game {
    r: Random,
    fabric: Direct,
    victim: Driver<Direct>,
    controls: u32,
    chunks: u64,
    /// Control messages of the victim that the peer has read.
    heard: u32,
    theirs: [Option<Theirs>; 8],
    /// Memory of the victim, by its place.
    its: [Option<PeerAccess>; 8],
    asked: Option<(usize, PeerAccess)>,
    /// Transfer that the victim has offered memory to, and bytes of that from the offset on.
    offered: Option<(u64, u64)>,
    /// Place of that memory, and transfers that the victim has rejected.
    offered_place: usize,
    rejected: u64,
    transfers: u64,
    split: bool,
    own: Vec<(Exposed, Buffer)>,
    op: Option<SendOperation>,
    wrong: u64,
    /// Transfers that the victim has begun.
    sent: u64,
    /// Transfer that the peer has offered memory to.
    offering: u64,
}

impl Game {
    fn new(seed: u64, wrong: u64) -> Self {
        let fabric = Direct::new(&Setup::new(LAYOUT, seed));
        let config = Config {
            protocol: Protocol::RegisterCached,
            c0_bytes: super::C0_BYTES,
            one_copy_bytes: ONE_COPY_BYTES,
            folds: 1,
            ..Config::default()
        };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        let victim = Driver::new(end, 1, WaitStrategy::Yield, 2_000_000_000, Nanos(0));
        Self {
            r: Random(Rng::new(seed)),
            fabric,
            victim,
            controls: 0,
            chunks: 0,
            heard: 0,
            theirs: [None; 8],
            its: [None; 8],
            asked: None,
            offered: None,
            offered_place: 8,
            rejected: 0,
            transfers: 0,
            split: false,
            own: Vec::new(),
            op: None,
            wrong,
            sent: 0,
            offering: 0,
        }
    }

    fn spoil(&mut self, line: &mut Line, words: u64) {
        if self.wrong > 0 && self.r.below(self.wrong) == 0 {
            let word = usize::try_from(self.r.below(words)).unwrap();
            let values =
                [0, 1, 2, 7, 8, 448, 999, 1000, 1001, 1 << 32, u64::MAX, line.0[word] ^ 1, line.0[word] + 1];
            line.0[word] = self.r.of(&values).unwrap();
        }
    }

    fn control(&mut self, words: [u64; 4]) {
        let [number, one, two, three] = words;
        let mut line = Line([number, one, two, three, 0, 0, 0, 0]);
        self.spoil(&mut line, 5);
        line.0[7] = u64::from(self.controls) + 1;
        self.fabric.forge(Memory::control_page(0), wire::mailbox(self.controls % 16), &line);
        self.controls += 1;
        self.settle();
    }

    /// Chunks of the peer that the victim has acknowledged.
    fn consumed(&self) -> u64 {
        self.fabric.memories().line(Memory::control_page(1), 0).0[0]
    }

    fn chunk(&mut self, mut line: Line) {
        self.spoil(&mut line, 7);
        line.0[7] = self.chunks + 1;
        let block = u32::try_from(self.chunks % u64::from(LAYOUT.block_count)).unwrap();
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
        self.chunks += 1;
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..30 {
            self.victim.progress(&mut self.fabric);
        }
        while self.victim.endpoint().closed().is_none() {
            let line = self.fabric.memories().line(Memory::control_page(1), wire::mailbox(self.heard % 16));
            if line.0[7] != u64::from(self.heard) + 1 {
                break;
            }
            self.heard += 1;
            let place = usize::try_from(line.0[1]).unwrap() % 8;
            match line.0[0] {
                9 => {
                    let access = if line.0[3] == 1 { PeerAccess::Write } else { PeerAccess::Read };
                    let is_right = self.asked.is_none() && self.its[place].is_none();
                    assert!(is_right || self.wrong > 0, "EXPOSE: wire.md 5.6");
                    self.asked = Some((place, access));
                }
                10 if line.0[3] == 0 => {
                    if let Some(it) = &mut self.theirs[place] {
                        it.is_mapped = true;
                    }
                }
                10 => self.theirs[place] = None,
                11 => {
                    let lives = self.offered.is_some_and(|(transfer, _)| transfer == self.transfers + 1);
                    let is_written = lives || self.split && self.rejected != self.transfers;
                    let is_offered = place == self.offered_place && is_written;
                    let is_right = self.its[place].take().is_some() && !is_offered;
                    assert!(is_right || self.wrong > 0, "WITHDRAWN: wire.md 5.6");
                }
                12 => {
                    let there = usize::try_from(line.0[2]).unwrap();
                    let is_right = self.its[there] == Some(PeerAccess::Write);
                    assert!(is_right || self.wrong > 0, "OFFER: wire.md 5.7");
                    self.offered = Some((line.0[1], 3000 - line.0[3]));
                    self.offered_place = there;
                }
                2 => self.rejected = line.0[1],
                _ => {}
            }
        }
        // What the victim has sent is taken at once: each of its chunks has one block.
        let sent = self.victim.counters().chunks_sent;
        let acked = if self.r.below(4) == 0 { 0 } else { sent };
        let heard = if self.heard == 0 { u64::MAX } else { u64::from(self.heard) };
        let ack = wire::ack(acked, heard, 0);
        self.fabric.forge(Memory::control_page(0), 0, &ack);
        self.victim.endpoint_mut().poll_acknowledgements(&mut self.fabric);
        for place in &mut self.theirs {
            let done = self.fabric.memories().line(Memory::control_page(1), 0).0[0];
            if place.is_some_and(|it| it.withdrawn.is_some_and(|last| last <= done)) {
                *place = None;
            }
        }
    }

    fn places(&self, access: PeerAccess) -> Vec<usize> {
        let is_it = |it: Theirs| it.is_mapped && it.withdrawn.is_none() && it.access == access;
        (0..8).filter(|place| self.theirs[*place].is_some_and(is_it)).collect()
    }

    fn peer(&mut self) {
        match self.r.below(12) {
            0 | 1 => {
                let free: Vec<_> = (0..8).filter(|place| self.theirs[*place].is_none()).collect();
                let is_asking = self.theirs.iter().flatten().any(|it| !it.is_mapped);
                let Some(place) = self.r.of(&free).filter(|_| !is_asking) else { return };
                let access = self.r.of(&[PeerAccess::Read, PeerAccess::Write]).unwrap();
                let bytes = 1 + self.r.below(3000);
                let buffer = self.fabric.exposed().add(1, payload(usize::try_from(bytes).unwrap(), 3));
                let number = u8::try_from(place).unwrap();
                assert!(self.fabric.exposed().expose::<()>(1, number, buffer, access).is_ok());
                self.theirs[place] =
                    Some(Theirs { bytes, access, buffer, is_mapped: false, last: 0, withdrawn: None });
                self.control([9, place as u64, bytes, u64::from(access == PeerAccess::Write)]);
            }
            2 => {
                let mut all = self.places(PeerAccess::Read);
                if self.op.is_none() && self.offering != self.sent + 1 {
                    all.extend(self.places(PeerAccess::Write));
                }
                let Some(place) = self.r.of(&all) else { return };
                let it = self.theirs[place].as_mut().unwrap();
                it.withdrawn = Some(it.last);
                let last = it.last;
                self.control([11, place as u64, last, 0]);
            }
            3 | 4 => {
                let Some((place, access)) = self.asked.take() else { return };
                let cause = if self.r.below(5) == 0 { 1 + self.r.below(3) } else { 0 };
                if cause == 0 {
                    self.its[place] = Some(access);
                }
                self.control([10, place as u64, 0, cause]);
            }
            5 => {
                let places = self.places(PeerAccess::Write);
                let Some(place) = self.r.of(&places) else { return };
                let Theirs { bytes, buffer, .. } = self.theirs[place].unwrap();
                let offset = if self.r.below(2) == 0 { 0 } else { self.r.below(bytes) };
                if self.offering == self.sent + 1 {
                    return;
                }
                let transfer = if self.r.below(8) == 0 { self.sent.max(1) } else { self.sent + 1 };
                if transfer == self.sent + 1 {
                    self.fabric.exposed().offer(buffer, usize::try_from(offset).unwrap());
                    self.offering = transfer;
                }
                self.control([12, transfer, place as u64, offset]);
            }
            6 => {
                if self.sent == 0 || self.op.is_some() && self.r.below(2) == 0 {
                    return;
                }
                let transfer = 1 + self.r.below(self.sent);
                self.control([2, transfer, 0, 5]);
            }
            _ => self.data(),
        }
    }

    fn data(&mut self) {
        if self.chunks - self.consumed() >= u64::from(LAYOUT.block_count) {
            return;
        }
        let sequence = self.chunks + 1;
        if self.split {
            self.split = false;
            let is_last = self.r.below(4) > 0;
            let line = if is_last {
                Line([kind::FIN | kind::REMOTE, 0, 0, 0, self.transfers, 0, 0, 0])
            } else {
                wire::cancel(self.transfers, 3, 0)
            };
            return self.chunk(line);
        }
        let transfer = self.transfers + 1;
        let places = self.places(PeerAccess::Read);
        let Some(place) = self.r.of(&places).filter(|_| self.r.below(6) > 0) else {
            self.transfers = transfer;
            return self.chunk(Line([kind::RTS | kind::FIN | kind::INLINE | 8 << 8, 7, 5, 0, 0, 0, 0, 0]));
        };
        let all = self.theirs[place].unwrap().bytes;
        let bytes = self.r.below(all + 1);
        let offset = self.r.below(all - bytes + 1);
        let there = [place as u64, offset];
        self.theirs[place].as_mut().unwrap().last = sequence;
        self.transfers = transfer;
        let room = self.offered.filter(|(to, _)| *to == transfer).map_or(0, |(_, room)| room);
        let line = if bytes >= 2 && bytes <= room && self.r.below(5) > 0 {
            self.split = true;
            let head = 1 + self.r.below(bytes - 1);
            Line([kind::RTS | kind::REMOTE, 7, bytes, head, transfer, there[0], there[1], 0])
        } else {
            Line([kind::RTS | kind::FIN | kind::REMOTE, 7, bytes, 0, transfer, there[0], there[1], 0])
        };
        self.chunk(line);
    }

    fn victim(&mut self) {
        let bytes = self.r.below(3001);
        let count = usize::try_from(bytes).unwrap();
        let fabric = &mut self.fabric;
        match self.r.below(9) {
            0 | 1 => {
                let mut to = vec![0; count];
                let end = self.victim.endpoint_mut();
                let pulled = end.pull(fabric, &mut [&mut to]);
                assert!(pulled.bytes <= count);
            }
            2 | 3 => {
                let end = self.victim.endpoint_mut();
                if let Readable::Run(run) = end.readable(fabric, 1 + u32::try_from(bytes).unwrap()) {
                    for (at, bytes) in run.spans() {
                        assert_eq!(fabric.visible(run.memory, at, bytes).len(), bytes as usize);
                    }
                    if self.r.below(3) > 0 {
                        let _ = end.consume(fabric, run.bytes);
                    }
                }
            }
            4 if self.r.below(3) == 0 => _ = self.victim.reject(fabric, Reason(4)),
            5 => {
                let buffer = fabric.exposed().add(0, payload(3000, 1));
                let end = self.victim.endpoint_mut();
                let is_writable = self.r.below(2) > 0;
                let exposed = if is_writable {
                    end.expose_writable(fabric, buffer)
                } else {
                    end.expose(fabric, buffer)
                };
                self.own.extend(exposed.map(|exposed| (exposed, buffer)));
            }
            6 | 7 => {
                let Some((exposed, buffer)) = self.r.of(&self.own) else { return };
                let end = self.victim.endpoint_mut();
                if self.r.below(8) == 0 {
                    end.withdraw_exposed(fabric, exposed);
                } else {
                    let offset = u32::try_from(self.r.below(3) * 1000).unwrap();
                    if end.offer(fabric, exposed, offset) {
                        fabric.exposed().offer(buffer, offset as usize);
                        assert!(end.is_offered(exposed));
                    }
                }
            }
            8 => {
                let ready = |it: &(Exposed, Buffer)| {
                    self.victim.endpoint().exposed_state(it.0) == ExposedState::Ready
                };
                let all: Vec<_> = self.own.iter().copied().filter(ready).collect();
                let next = self.r.of(&all).map(|(exposed, _)| {
                    SendOperation::new(7, 900).with_memory(SendMemory::Exposed(exposed, 0))
                });
                let is_new = self.op.as_ref().is_none_or(|op| !op.has_begun());
                let Some(mut op) = self.op.take().or(next) else { return };
                let message = payload(3000, 1);
                let driven = self.victim.drive_send(&mut self.fabric, &mut op, &[&message[..900]]);
                self.sent += u64::from(is_new && driven != Drive::Idle);
                self.op = (!matches!(driven, Drive::Done(_))).then_some(op);
            }
            _ => {}
        }
    }

    fn play(&mut self) -> u64 {
        for _ in 0..150 {
            if self.r.below(2) == 0 {
                self.peer();
            } else {
                self.victim();
            }
            self.settle();
            if self.victim.endpoint().closed().is_some() {
                break;
            }
            let mapped: u64 = self.victim.counters().mapped_bytes;
            assert_eq!(mapped > 0, self.fabric.exposed().mapped(0) > 0);
        }
        self.chunks
    }
}

#[test]
fn a_random_peer_breaks_nothing() {
    let count: u64 = std::env::var("RANDOM_PEERS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000);
    for wrong in [0, 60, 8] {
        let (mut chunks, mut ends, mut split, mut exposed) =
            (0, std::collections::BTreeMap::new(), [0, 0], [0, 0]);
        for seed in 1..=count {
            let mut game = Game::new(seed, wrong);
            if wrong > 0 {
                // What a wrong OFFER names is what the victim writes.
                game.fabric.exposed().stop();
            }
            chunks += game.play();
            let counters = game.victim.counters();
            split[0] += counters.split_bytes_sent;
            split[1] += counters.split_bytes_received;
            exposed[0] += counters.exposed_bytes_sent;
            exposed[1] += counters.exposed_bytes_received;
            *ends.entry(format!("{:?}", game.victim.endpoint().closed())).or_insert(0) += 1;
        }
        println!("{wrong}: {chunks} chunks, split {split:?}, exposed {exposed:?}, {ends:#?}");
        assert!(split[0] > 0 && split[1] > 0, "{split:?}");
    }
}
