//! Every interleaving, within bounded preemptions, of two threads that drive the shipped [`Endpoint`] over loom's
//! atomics: flags and lines through [`superpipe_core::word`], payload in cells whose unordered use loom reports as a
//! race. `scripts/test-loom.sh` runs it.
#![cfg(loom)]

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use superpipe_core::{
    Attachment, Caps, Completion, Config, CopyHint, End, Endpoint, Fabric, FlagPlace, LINE_BYTES, Landing,
    Layout, Length, Line, Nanos, Origin, Protocol, Readable, RefusedSend, SEAT_BYTES, SqFull, TryRecv, WrId,
    seat, word,
};

const BLOCK_BYTES: u32 = 128;

/// A model that is not explored whole by then has found nothing in some hundred thousand executions.
const SECONDS_MAX: u64 = 10;

/// Blocks of the largest landing buffer here.
const BLOCKS_MAX: u32 = 3;

/// Of a thread, in what loom counts them in.
const STACK: usize = 1 << 16;

/// Control lines that these models use.
const MAILBOX_LINES: u32 = 3;

enum Word {
    /// As it is shipped, with loom's atomic.
    Modelled(AtomicU64),
    /// Always this value: a word whose changes a model does without, since each doubles the number of executions.
    Fixed(u64),
}

impl word::Word for Word {
    fn load(&self, ordering: Ordering) -> u64 {
        match self {
            Self::Modelled(word) => word.load(ordering),
            Self::Fixed(value) => *value,
        }
    }
    fn store(&self, value: u64, ordering: Ordering) {
        if let Self::Modelled(word) = self {
            word.store(value, ordering);
        }
    }
}

impl Word {
    fn new() -> Self {
        Self::Modelled(AtomicU64::new(0))
    }
}

/// The line of acknowledgements: the count of blocks and its complement; no control message is acknowledged, and no sign
/// of life shown.
fn ack_line() -> [Word; 8] {
    let [controls, life] = [u64::MAX, 0];
    [Word::new(), Word::new()]
        .into_iter()
        .chain([controls, !controls, life, !life, 0, 0].map(Word::Fixed))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap_or_else(|_| unreachable!("eight words"))
}

/// Bytes that are read only once their flag was seen: they must never be read while they are written.
struct Flagged<const BYTES: usize> {
    body: UnsafeCell<[u8; BYTES]>,
    flag: Word,
}

/// A control line.
type ControlLine = Flagged<56>;

/// A block, with its flag inside.
type Block = Flagged<{ BLOCK_BYTES as usize - 8 }>;

impl<const BYTES: usize> Flagged<BYTES> {
    fn new() -> Self {
        Self { body: UnsafeCell::new([0; BYTES]), flag: Word::new() }
    }

    fn read(&self, at: usize, to: &mut [u8]) {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.body.with(|body| to.copy_from_slice(unsafe { &(&*body)[at..at + to.len()] }));
    }

    fn write(&self, at: usize, from: &[u8]) {
        // SAFETY: loom checks that nobody reads or writes meanwhile.
        self.body.with_mut(|body| unsafe { (&mut *body)[at..at + from.len()].copy_from_slice(from) });
    }
}

/// What one end owns and the other writes.
struct Memory {
    /// Written over and over, and read at any time.
    ack: [Word; 8],
    mailbox: Vec<ControlLine>,
    blocks: Vec<Block>,
}

// SAFETY: what is shared is loom's atomics, and cells of which loom reports every unordered use.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Self {
        Self {
            ack: ack_line(),
            mailbox: (0..MAILBOX_LINES).map(|_| ControlLine::new()).collect(),
            blocks: (0..BLOCKS_MAX).map(|_| Block::new()).collect(),
        }
    }

    fn control(&self, at: u32) -> &ControlLine {
        &self.mailbox[((at - seat::MAILBOX) / LINE_BYTES) as usize]
    }

    /// The block that has this offset, and where in it.
    fn block(&self, at: u32) -> (&Block, usize) {
        (&self.blocks[(at / BLOCK_BYTES) as usize], (at % BLOCK_BYTES) as usize)
    }

    fn flag(&self, place: Place, at: u32) -> &Word {
        match place {
            Place::Seat(_) if at < seat::ACK + LINE_BYTES => &self.ack[((at - seat::ACK) / 8) as usize],
            Place::Seat(_) => &self.control(at - (LINE_BYTES - 8)).flag,
            Place::Landing(_) => &self.block(at).0.flag,
        }
    }

    fn read(&self, place: Place, at: u32, to: &mut [u8]) {
        match place {
            Place::Seat(_) => self.control(at).read(0, to),
            Place::Landing(_) => {
                let (block, at) = self.block(at);
                block.read(at, to);
            }
        }
    }

    fn write(&self, place: Place, at: u32, from: &[u8]) {
        match place {
            Place::Seat(_) => self.control(at).write(0, from),
            Place::Landing(_) => {
                let (block, at) = self.block(at);
                block.write(at, from);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Seat(usize),
    Landing(usize),
}

impl Place {
    const fn owner(self) -> usize {
        match self {
            Self::Seat(owner) | Self::Landing(owner) => owner,
        }
    }
}

/// One thread's view of the memory that both share: with direct store, or as a device that carries an image over.
struct Loom<const DIRECT: bool> {
    shared: Arc<[Memory; 2]>,
    /// The peer's seat and landing buffer, as this end builds them.
    images: [Vec<u8>; 2],
    /// Completions that were not polled yet, at most as many as the send queue holds.
    completions: Vec<WrId>,
}

/// Work requests that the device takes before a completion is polled.
const SEND_QUEUE: usize = 2;

impl<const DIRECT: bool> Loom<DIRECT> {
    fn new(shared: Arc<[Memory; 2]>) -> Self {
        let landing = (BLOCKS_MAX * BLOCK_BYTES) as usize;
        let images = [SEAT_BYTES as usize, landing].map(|bytes| vec![0; if DIRECT { 0 } else { bytes }]);
        Self { shared, images, completions: Vec::new() }
    }

    fn of(&self, place: Place) -> &Memory {
        &self.shared[place.owner()]
    }

    fn image(&mut self, place: Place, at: u32, bytes: usize) -> &mut [u8] {
        let image = &mut self.images[usize::from(matches!(place, Place::Landing(_)))];
        &mut image[at as usize..][..bytes]
    }

    fn end(&self, side: usize, layout: Layout, config: Config) -> Endpoint<Self> {
        let attachment = Attachment {
            link: (),
            seat: Place::Seat(side),
            peer_seat: Place::Seat(1 - side),
            landing: Landing { memory: Place::Landing(side), layout },
            peer_landing: Landing { memory: Place::Landing(1 - side), layout },
        };
        Endpoint::new(self, attachment, config, Origin::default()).expect("a configuration that can be")
    }

    /// A line becomes visible, its flag last.
    fn show_line(&self, to: Place, at: u32, line: &Line) {
        let memory = self.of(to);
        if is_ack(to, at) {
            word::write_line(memory.ack.each_ref(), line);
        } else {
            memory.write(to, at, &line.body_bytes());
            word::publish(memory.flag(to, at + LINE_BYTES - 8), line.flag());
        }
    }
}

const fn is_ack(place: Place, at: u32) -> bool {
    matches!(place, Place::Seat(_)) && at == seat::ACK
}

fn line_of(bytes: &[u8]) -> Line {
    let words = bytes.as_chunks::<8>().0;
    Line(core::array::from_fn(|index| u64::from_le_bytes(words[index])))
}

impl<const DIRECT: bool> Fabric for Loom<DIRECT> {
    const DIRECT: bool = DIRECT;
    type Link = ();
    type Region = Place;
    type Remote = Place;

    fn caps(&self, (): &()) -> Caps {
        Caps { order_inside_write: true }
    }
    fn now(&mut self) -> Nanos {
        Nanos(0)
    }
    fn flag(&self, (): &(), from: Place, at: u32) -> u64 {
        word::observe(self.of(from).flag(from, at))
    }
    fn take_line(&self, (): &(), from: Place, at: u32) -> Line {
        let memory = self.of(from);
        if is_ack(from, at) {
            return word::take_line(memory.ack.each_ref());
        }
        let mut bytes = [0; 64];
        memory.read(from, at, &mut bytes[..56]);
        bytes[56..].copy_from_slice(&word::observe(memory.flag(from, at + 56)).to_le_bytes());
        line_of(&bytes)
    }
    fn copy_out(&mut self, (): &mut (), from: Place, at: u32, to: &mut [u8], _: CopyHint) {
        if !to.is_empty() {
            self.of(from).read(from, at, to);
        }
    }
    fn crc_out(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn write_line(&mut self, (): &mut (), to: Place, at: u32, line: &Line) {
        if DIRECT {
            self.show_line(to, at, line);
        } else {
            let image = self.image(to, at, 64);
            for (place, word) in image.as_chunks_mut::<8>().0.iter_mut().zip(line.0) {
                *place = word.to_le_bytes();
            }
        }
    }
    fn publish(&mut self, (): &mut (), to: Place, at: u32, flag: u64) {
        if DIRECT {
            word::publish(self.of(to).flag(to, at), flag);
        } else {
            self.image(to, at, 8).copy_from_slice(&flag.to_le_bytes());
        }
    }
    fn copy_in(&mut self, (): &mut (), to: Place, at: u32, from: &[u8]) {
        if !DIRECT {
            self.image(to, at, from.len()).copy_from_slice(from);
        } else if !from.is_empty() {
            self.of(to).write(to, at, from);
        }
    }
    fn crc_in(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn crc(&self, _: &[u8], _: u32) -> u32 {
        unreachable!("plain flags")
    }
    /// The device carries the bytes over in ascending order, block by block, and completes the write.
    fn post_write(
        &mut self,
        (): &mut (),
        to: Place,
        at: u32,
        bytes: u32,
        wr: Option<WrId>,
    ) -> Result<(), SqFull> {
        if self.completions.len() == SEND_QUEUE {
            return Err(SqFull);
        }
        let image = self.image(to, at, bytes as usize).to_vec();
        if matches!(to, Place::Seat(_)) {
            self.show_line(to, at, &line_of(&image));
        } else {
            let (mut at, mut rest) = (at, &image[..]);
            while !rest.is_empty() {
                let (here, after) = rest.split_at((BLOCK_BYTES - at % BLOCK_BYTES) as usize);
                let (body, flag) = here.split_at(here.len() - 8);
                self.of(to).write(to, at, body);
                at += BLOCK_BYTES - at % BLOCK_BYTES;
                let flag = u64::from_le_bytes(flag.try_into().expect("eight bytes"));
                word::publish(self.of(to).flag(to, at - 8), flag);
                rest = after;
            }
        }
        self.completions.extend(wr);
        Ok(())
    }
    fn ring_doorbell(&mut self, (): &mut ()) {}
    fn poll_cq(&mut self, (): &mut ()) -> Option<Completion> {
        let wr = (!self.completions.is_empty()).then(|| self.completions.remove(0))?;
        Some(Completion { wr, result: Ok(()) })
    }
}

/// Bytes that say where they belong.
fn payload(message: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|index| (index * 7 + message * 31 + 1).to_le_bytes()[0]).collect()
}

/// One thread's end of the connection.
struct Party<const DIRECT: bool> {
    fabric: Loom<DIRECT>,
    /// On the heap: loom's threads have small stacks.
    end: Box<Endpoint<Loom<DIRECT>>>,
}

impl<const DIRECT: bool> Party<DIRECT> {
    fn idle(&mut self) {
        if self.end.progress(&mut self.fabric) == 0 {
            loom::thread::yield_now();
        }
        assert_eq!(self.end.closed(), None);
    }

    /// Sends a message, at once if it fits a line, else pushed.
    fn send(&mut self, message: u64, bytes: usize) {
        let source = payload(message, bytes);
        if bytes <= 40 {
            while let Err(refused) = self.end.try_send(&mut self.fabric, message, &[&source]) {
                assert_eq!(refused, RefusedSend::NoCredit);
                self.idle();
            }
            return;
        }
        let id = self.end.start(message, Length::Exact(bytes as u64)).expect("nothing is open");
        let mut sent = 0;
        while sent < bytes {
            match self.end.push(&mut self.fabric, id, &[&source[sent..]]) {
                Ok(0) => self.idle(),
                Ok(pushed) => sent += pushed,
                Err(refused) => panic!("{refused}"),
            }
        }
        // What found the send queue full goes out later.
        while !self.end.is_told() {
            self.idle();
        }
    }

    /// Sends a message by one call, if it goes so.
    fn send_at_once(&mut self, message: u64, bytes: usize) {
        let source = payload(message, bytes);
        loop {
            match self.end.try_send(&mut self.fabric, message, &[&source]) {
                Ok(_) => return,
                Err(RefusedSend::NoCredit) => self.idle(),
                // Posted, behind the end of the ring.
                Err(RefusedSend::TooLong) => return self.send(message, bytes),
                Err(refused) => panic!("{refused}"),
            }
        }
    }

    /// Takes a message out by one call, if it comes so, and compares it.
    fn receive_at_once(&mut self, message: u64, bytes: usize) {
        let mut place = vec![0; bytes];
        let mut received = 0;
        loop {
            match self.end.try_recv(&mut self.fabric, &mut [&mut place], 1) {
                TryRecv::Taken { bytes, .. } => received = bytes,
                TryRecv::Begun { bytes, .. } => received = bytes,
                TryRecv::Nothing => {
                    self.idle();
                    continue;
                }
                TryRecv::Other => {}
            }
            break;
        }
        while received < bytes {
            let pulled = self.end.pull_from(&mut self.fabric, &mut [&mut place], received);
            received += pulled.bytes;
            if pulled.bytes == 0 {
                self.idle();
            }
        }
        assert_eq!(place, payload(message, bytes), "message {message}");
    }

    /// Takes a message out and compares it.
    fn receive(&mut self, message: u64, bytes: usize) {
        let mut place = vec![0; bytes];
        let mut received = 0;
        loop {
            let pulled = self.end.pull(&mut self.fabric, &mut [&mut place[received..]]);
            received += pulled.bytes;
            match pulled.end {
                End::Fin => break,
                End::No if pulled.bytes == 0 => self.idle(),
                End::No => {}
                End::Cancelled(_) => panic!("nobody cancels"),
            }
        }
        assert_eq!(place, payload(message, bytes), "message {message}");
    }

    /// The same, where it lies.
    fn read_in_place(&mut self, message: u64, bytes: usize) {
        let mut got = Vec::new();
        loop {
            match self.end.readable(&mut self.fabric, 1000) {
                Readable::Nothing => self.idle(),
                Readable::Ended(end) => {
                    assert_eq!(end, End::Fin);
                    break;
                }
                Readable::Run(run) => {
                    for (at, bytes) in run.spans() {
                        let mut here = vec![0; bytes as usize];
                        self.fabric.copy_out(&mut (), run.memory, at, &mut here, CopyHint::Cached);
                        got.extend(here);
                    }
                    if self.end.consume(&mut self.fabric, run.bytes) == End::Fin {
                        break;
                    }
                }
            }
        }
        assert_eq!(got, payload(message, bytes), "message {message}");
    }
}

/// Plays both ends on threads of their own, whose stacks have room for an endpoint, in every order.
fn explore<const DIRECT: bool>(
    block_count: u32,
    config: Config,
    a: fn(&mut Party<DIRECT>),
    b: fn(&mut Party<DIRECT>),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 50_000;
    builder.max_duration = Some(Duration::from_secs(SECONDS_MAX));
    builder.check(move || {
        let layout = Layout { block_bytes: BLOCK_BYTES, block_count, flags: FlagPlace::Inside };
        let shared = Arc::new([Memory::new(), Memory::new()]);
        let threads = [a, b].into_iter().enumerate().map(|(side, play)| {
            let shared = shared.clone();
            let run = move || {
                let fabric = Loom::new(shared);
                play(&mut Party { end: Box::new(fabric.end(side, layout, config)), fabric });
            };
            loom::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread")
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().expect("an end");
        }
    });
}

fn eager() -> Config {
    Config { protocol: Protocol::Eager, ..Config::default() }
}

/// Messages in lines go around the ring: each place is used again only once it was acknowledged.
fn lines_around_the_ring<const DIRECT: bool>() {
    explore::<DIRECT>(
        2,
        eager(),
        |a| (0..3).for_each(|message| a.send(message, 8)),
        |b| (0..3).for_each(|message| b.receive(message, 8)),
    );
}

/// Messages that open no transfer, of one block and of two, around a ring of three.
fn the_short_way<const DIRECT: bool>() {
    explore::<DIRECT>(
        3,
        Config { c0_bytes: 200, ..eager() },
        |a| [60, 150, 60].into_iter().zip(0..).for_each(|(bytes, message)| a.send_at_once(message, bytes)),
        |b| [60, 150, 60].into_iter().zip(0..).for_each(|(bytes, message)| b.receive_at_once(message, bytes)),
    );
}

/// A message of more blocks than there are is folded: payload is written again where it was read.
fn a_message_folded_over_two_blocks<const DIRECT: bool>() {
    explore::<DIRECT>(2, eager(), |a| a.send(1, 350), |b| b.receive(1, 350));
}

/// The same with three blocks, behind a message in a line.
fn a_line_and_a_message_folded_over_three_blocks<const DIRECT: bool>() {
    explore::<DIRECT>(
        3,
        eager(),
        |a| {
            a.send(1, 40);
            a.send(2, 400);
        },
        |b| {
            b.receive(1, 40);
            b.receive(2, 400);
        },
    );
}

/// RTS, CTS, then the payload, taken out as a whole.
fn a_rendezvous<const DIRECT: bool>() {
    let config = Config { protocol: Protocol::Copy, c0_bytes: 1, folds: 1, ..Config::default() };
    explore::<DIRECT>(3, config, |a| a.send(1, 250), |b| b.receive(1, 250));
}

/// The first chunk goes with the RTS, the rest after the CTS.
fn an_optimistic_start<const DIRECT: bool>() {
    let config = Config { c0_bytes: 64, ..Config::default() };
    explore::<DIRECT>(2, config, |a| a.send(1, 200), |b| b.receive(1, 200));
}

/// Both directions at once.
fn both_ways<const DIRECT: bool>() {
    explore::<DIRECT>(
        2,
        eager(),
        |a| {
            a.send(1, 150);
            a.receive(2, 8);
        },
        |b| {
            b.send(2, 8);
            b.receive(1, 150);
        },
    );
}

/// Payload read where it lies, and given back.
fn read_in_place<const DIRECT: bool>() {
    explore::<DIRECT>(2, eager(), |a| a.send(1, 300), |b| b.read_in_place(1, 300));
}

/// Every model over both fabrics.
macro_rules! models {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<true>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<false>(); })* }
    };
}

models! {
    lines_around_the_ring a_message_folded_over_two_blocks a_line_and_a_message_folded_over_three_blocks
    a_rendezvous an_optimistic_start both_ways read_in_place the_short_way
}
