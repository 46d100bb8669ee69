//! Every interleaving, within bounded preemptions, of two threads that drive the shipped [`Endpoint`] over loom's
//! atomics: flags and lines through [`superpipe_core::word`], payload in cells whose unordered use loom reports as a
//! race. `scripts/test-loom.sh` runs it.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use superpipe_core::{
    Attachment, Caps, Completion, Config, CopyHint, End, Endpoint, Fabric, FlagPlace, LINE_STRIDE_BYTES,
    Landing, Layout, Length, Line, Nanos, Origin, Protocol, Readable, RefusedSend, SqFull, WrId, seat, word,
};

const BLOCK_BYTES: u32 = 128;

/// A model that is not explored whole by then has found nothing in some hundred thousand executions.
const SECONDS_MAX: u64 = 12;

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

/// A line that is read only once its flag was seen: its body must never be read while it is written.
struct FlaggedLine {
    body: UnsafeCell<[u64; 7]>,
    flag: Word,
}

fn lines(count: u32) -> Vec<FlaggedLine> {
    (0..count).map(|_| FlaggedLine { body: UnsafeCell::new([0; 7]), flag: Word::new() }).collect()
}

/// What one end owns and the other writes.
struct Memory {
    /// Written over and over, and read at any time.
    ack: [Word; 8],
    mailbox: Vec<FlaggedLine>,
    slots: Vec<FlaggedLine>,
    blocks: Vec<UnsafeCell<[u8; BLOCK_BYTES as usize]>>,
    layout: Layout,
}

// SAFETY: what is shared is loom's atomics, and cells of which loom reports every unordered use.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(layout: Layout) -> Self {
        Self {
            ack: ack_line(),
            mailbox: lines(MAILBOX_LINES),
            slots: lines(layout.block_count),
            blocks: (0..layout.block_count).map(|_| UnsafeCell::new([0; BLOCK_BYTES as usize])).collect(),
            layout,
        }
    }

    /// A line with a flag.
    fn line(&self, place: Place, at: u32) -> &FlaggedLine {
        match place {
            Place::Seat(_) => &self.mailbox[((at - seat::MAILBOX) / 64) as usize],
            Place::Landing(_) => &self.slots[(at / LINE_STRIDE_BYTES) as usize],
        }
    }

    /// The block that has this offset, and where in it.
    fn block(&self, at: u32) -> (&UnsafeCell<[u8; BLOCK_BYTES as usize]>, usize) {
        let at = at - (self.layout.bytes() - BLOCK_BYTES * self.layout.block_count);
        (&self.blocks[(at / BLOCK_BYTES) as usize], (at % BLOCK_BYTES) as usize)
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

/// One thread's view of the memory that both share.
#[derive(Clone)]
struct Loom(Arc<[Memory; 2]>);

impl Loom {
    fn of(&self, place: Place) -> &Memory {
        &self.0[place.owner()]
    }

    fn end(&self, side: usize, config: Config) -> Endpoint<Self> {
        let layout = |owner: usize| self.0[owner].layout;
        let attachment = Attachment {
            link: (),
            seat: Place::Seat(side),
            peer_seat: Place::Seat(1 - side),
            landing: Landing { memory: Place::Landing(side), layout: layout(side) },
            peer_landing: Landing { memory: Place::Landing(1 - side), layout: layout(1 - side) },
        };
        Endpoint::new(self, attachment, config, Origin::default()).expect("a configuration that can be")
    }
}

const fn is_ack(place: Place, at: u32) -> bool {
    matches!(place, Place::Seat(_)) && at == seat::ACK
}

impl Fabric for Loom {
    const DIRECT: bool = true;
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
        word::observe(&self.of(from).line(from, at - 56).flag)
    }
    fn take_line(&self, (): &(), from: Place, at: u32) -> Line {
        let memory = self.of(from);
        if is_ack(from, at) {
            return word::take_line(memory.ack.each_ref());
        }
        let line = memory.line(from, at);
        let mut words = [0; 8];
        // SAFETY: loom checks that nobody writes meanwhile.
        line.body.with(|body| words[..7].copy_from_slice(unsafe { &*body }));
        words[7] = word::observe(&line.flag);
        Line(words)
    }
    fn copy_out(&mut self, (): &mut (), from: Place, at: u32, to: &mut [u8], _: CopyHint) {
        let (block, offset) = self.of(from).block(at);
        // SAFETY: loom checks that nobody writes meanwhile.
        block.with(|block| to.copy_from_slice(unsafe { &(&*block)[offset..offset + to.len()] }));
    }
    fn crc_out(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn write_line(&mut self, (): &mut (), to: Place, at: u32, line: &Line) {
        let memory = self.of(to);
        if is_ack(to, at) {
            word::write_line(memory.ack.each_ref(), line);
            return;
        }
        let place = memory.line(to, at);
        // SAFETY: loom checks that nobody reads or writes meanwhile.
        place.body.with_mut(|body| unsafe { (*body).copy_from_slice(&line.0[..7]) });
        word::publish(&place.flag, line.flag());
    }
    fn publish(&mut self, (): &mut (), to: Place, at: u32, flag: u64) {
        word::publish(&self.of(to).line(to, at - 56).flag, flag);
    }
    fn copy_in(&mut self, (): &mut (), to: Place, at: u32, from: &[u8]) {
        let (block, offset) = self.of(to).block(at);
        // SAFETY: loom checks that nobody reads or writes meanwhile.
        block.with_mut(|block| unsafe { (&mut *block)[offset..offset + from.len()].copy_from_slice(from) });
    }
    fn crc_in(&self, (): &(), _: Place, _: u32, _: u32, _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn crc(&self, _: &[u8], _: u32) -> u32 {
        unreachable!("plain flags")
    }
    fn post_write(&mut self, (): &mut (), _: Place, _: u32, _: u32, _: Option<WrId>) -> Result<(), SqFull> {
        unreachable!("direct store")
    }
    fn ring_doorbell(&mut self, (): &mut ()) {}
    fn poll_cq(&mut self, (): &mut ()) -> Option<Completion> {
        None
    }
}

/// Bytes that say where they belong.
fn payload(message: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 7 + message as usize * 31 + 1) as u8).collect()
}

/// One thread's end of the connection.
struct Party {
    fabric: Loom,
    /// On the heap: loom's threads have small stacks.
    end: Box<Endpoint<Loom>>,
}

impl Party {
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

/// Plays both ends on threads of their own, whose stacks have room for an endpoint.
fn play(block_count: u32, config: Config, a: fn(&mut Party), b: fn(&mut Party)) {
    let layout = Layout { block_bytes: BLOCK_BYTES, block_count, flags: FlagPlace::Apart };
    let fabric = Loom(Arc::new([Memory::new(layout), Memory::new(layout)]));
    let threads = [a, b].into_iter().enumerate().map(|(side, play)| {
        let fabric = fabric.clone();
        let run = move || play(&mut Party { end: Box::new(fabric.end(side, config)), fabric });
        loom::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread")
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("an end");
    }
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 50_000;
    builder.max_duration = Some(Duration::from_secs(SECONDS_MAX));
    builder.check(model);
}

fn eager() -> Config {
    Config { protocol: Protocol::Eager, ..Config::default() }
}

/// Messages in lines go around the ring: each place is used again only once it was acknowledged.
#[test]
fn lines_around_the_ring() {
    explore(2, || {
        play(
            2,
            eager(),
            |a| (0..3).for_each(|message| a.send(message, 8)),
            |b| (0..3).for_each(|message| b.receive(message, 8)),
        );
    });
}

/// A message of more blocks than there are is folded: payload is written again where it was read.
#[test]
fn a_message_folded_over_two_blocks() {
    explore(2, || play(2, eager(), |a| a.send(1, 500), |b| b.receive(1, 500)));
}

/// The same with three blocks, behind a message in a line.
#[test]
fn a_line_and_a_message_folded_over_three_blocks() {
    explore(2, || {
        play(
            3,
            eager(),
            |a| {
                a.send(1, 40);
                a.send(2, 450);
            },
            |b| {
                b.receive(1, 40);
                b.receive(2, 450);
            },
        );
    });
}

/// RTS, CTS, then the payload, taken out as a whole.
#[test]
fn a_rendezvous() {
    let config = Config { protocol: Protocol::Copy, c0_bytes: 1, folds: 1, ..Config::default() };
    explore(2, move || play(3, config, |a| a.send(1, 300), |b| b.receive(1, 300)));
}

/// The first chunk goes with the RTS, the rest after the CTS.
#[test]
fn an_optimistic_start() {
    let config = Config { c0_bytes: 128, ..Config::default() };
    explore(2, move || play(2, config, |a| a.send(1, 300), |b| b.receive(1, 300)));
}

/// Both directions at once.
#[test]
fn both_ways() {
    explore(2, || {
        play(
            2,
            eager(),
            |a| {
                a.send(1, 200);
                a.receive(2, 8);
            },
            |b| {
                b.send(2, 8);
                b.receive(1, 200);
            },
        );
    });
}

/// Payload read where it lies, and given back.
#[test]
fn read_in_place() {
    explore(2, || play(2, eager(), |a| a.send(1, 400), |b| b.read_in_place(1, 400)));
}
