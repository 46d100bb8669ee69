//! `has_arrivals`, which callers ask before a sleep: true for writes that can be taken, and false for torn ones. An end that counted
//! those would neither sleep nor see that its peer is gone.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, Layout, Line, NOTIFICATIONS_MIN, Notification, Origin, Reason,
    control_page,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric, crc32c};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };
/// Payload of a chunk's first block.
const FIRST_BYTES: u32 = 256 - 64;
/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;
const CHUNK: u32 = 1 << 28;
const CONTROL: u32 = 2 << 28;
const ACK: u32 = 3 << 28;

/// A fabric that notifies of writes.
trait Notify {
    fn notify(&mut self, notice: u32);
}

impl Notify for Posted {
    fn notify(&mut self, notice: u32) {
        self.forge_notification(1, Notification(notice));
    }
}

impl Notify for Direct {
    fn notify(&mut self, _: u32) {
        unreachable!("nothing is posted")
    }
}

/// End 0; the peer is played by hand.
struct Victim<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
    arrival: Arrival,
}

impl<F: TestFabric + Notify> Victim<F> {
    fn new(arrival: Arrival) -> Self {
        let setup = Setup {
            order_inside_write: arrival == Arrival::Flag,
            notifications_max: NOTIFICATIONS_MIN,
            send_queue: 8,
            ..Setup::new(LAYOUT, 1)
        };
        let fabric = F::new(&setup);
        let config = Config { arrival, ..Config::default() };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        Self { fabric, end, arrival }
    }

    /// Whose message and whose REJECT are on their way.
    fn said_something(arrival: Arrival) -> Self {
        let mut victim = Self::new(arrival);
        let line = wire::inline(4, b"to you", 1);
        victim.slot(0, &if arrival == Arrival::CheckedFlag { wire::checked(line, 1) } else { line });
        if arrival == Arrival::Notify {
            victim.fabric.notify(CHUNK | 1);
        }
        victim.settle();
        assert!(victim.end.incoming(&mut victim.fabric).is_some());
        assert!(victim.end.reject(&mut victim.fabric, Reason(5)));
        victim.end.try_send(&mut victim.fabric, 7, &[&[1; 8]]).unwrap();
        victim.settle();
        assert_eq!(victim.end.counters().controls_sent, 1);
        assert!(!victim.has_arrivals());
        victim
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    fn has_arrivals(&self) -> bool {
        self.end.has_arrivals(&self.fabric)
    }

    /// The line of acknowledgements, with the flag that a checked-flag reader expects.
    fn ack(&mut self, mut line: Line) {
        if self.arrival == Arrival::CheckedFlag {
            line.0[7] = u64::from(crc32c(&line.body_bytes(), !0));
        }
        self.fabric.forge(Memory::control_page(0), control_page::ACK, &line);
    }

    fn control(&mut self, line: &Line) {
        self.fabric.forge(Memory::control_page(0), wire::mailbox(0), line);
    }

    fn slot(&mut self, block: u32, line: &Line) {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), line);
    }
}

fn an_acknowledgement_arrives_when_taking_it_changes_something<F: TestFabric + Notify>(arrival: Arrival) {
    let mut t = Victim::<F>::said_something(arrival);
    // Word by word: that of a peer that dies meanwhile, or lies.
    let whole = wire::ack(1, 1, 1).0;
    for words in 1..6 {
        let mut torn = Line([0; 8]);
        torn.0[..words].copy_from_slice(&whole[..words]);
        t.ack(torn);
        assert!(!t.has_arrivals(), "{}: {words} words of a line are none", F::NAME);
    }
    t.ack(wire::ack(0, BEFORE_FIRST, 0));
    assert!(!t.has_arrivals(), "{}: it says what is known", F::NAME);
    for news in [wire::ack(1, BEFORE_FIRST, 0), wire::ack(1, 1, 0)] {
        t.ack(news);
        assert!(t.has_arrivals() && t.has_arrivals(), "{}: until it is looked at", F::NAME);
        t.end.poll_acknowledgements(&mut t.fabric);
        assert!(!t.has_arrivals(), "{}: once it was", F::NAME);
    }
    t.ack(wire::ack(0, BEFORE_FIRST, 0));
    assert!(!t.has_arrivals(), "{}: an older one that came late", F::NAME);
    assert_eq!(t.end.closed(), None);
}

fn what_was_never_sent_is_judged_once<F: TestFabric + Notify>(arrival: Arrival) {
    for beyond in [wire::ack(9, BEFORE_FIRST, 0), wire::ack(0, 9, 0)] {
        let mut t = Victim::<F>::said_something(arrival);
        t.ack(beyond);
        t.end.poll_acknowledgements(&mut t.fabric);
        assert!(t.end.closed().is_some() && !t.has_arrivals(), "{}: it cannot fail twice", F::NAME);
    }
}

#[test]
fn acknowledgements() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        an_acknowledgement_arrives_when_taking_it_changes_something::<Posted>(arrival);
        what_was_never_sent_is_judged_once::<Posted>(arrival);
    }
    an_acknowledgement_arrives_when_taking_it_changes_something::<Direct>(Arrival::Flag);
    what_was_never_sent_is_judged_once::<Direct>(Arrival::Flag);
}

#[test]
fn a_torn_acknowledgement_is_taken_once_in_notify_mode() {
    let mut t = Victim::<Posted>::said_something(Arrival::Notify);
    t.ack(Line([1, 0, 0, 0, 0, 0, 0, 0]));
    assert!(!t.has_arrivals(), "nothing was notified");
    t.fabric.notify(ACK);
    while !t.has_arrivals() {
        t.fabric.step();
    }
    t.end.progress(&mut t.fabric);
    assert!(!t.has_arrivals() && t.end.closed().is_none());
}

#[test]
fn a_control_message_that_is_torn_has_not_arrived() {
    let mut t = Victim::<Posted>::new(Arrival::CheckedFlag);
    let whole = wire::checked(wire::cts(1, 0), 1);
    let mut torn = whole;
    torn.0[1] ^= 1;
    t.control(&torn);
    assert!(!t.has_arrivals());
    t.end.progress(&mut t.fabric);
    assert!(!t.has_arrivals() && t.end.closed().is_none());
    t.control(&whole);
    assert!(t.has_arrivals() && t.has_arrivals(), "until it is taken");
    t.end.progress(&mut t.fabric);
    assert!(!t.has_arrivals());
}

#[test]
fn a_control_message_has_arrived_until_it_is_taken() {
    let mut t = Victim::<Direct>::new(Arrival::Flag);
    t.control(&wire::close(0, 0, 1));
    assert!(t.has_arrivals() && t.has_arrivals());
    t.end.progress(&mut t.fabric);
    assert!(!t.has_arrivals());
}

#[test]
fn with_notifications_a_control_message_is_taken_or_named() {
    for there in [true, false] {
        let mut t = Victim::<Posted>::new(Arrival::Notify);
        if there {
            t.control(&wire::close(u64::MAX, 0, 1));
        }
        assert!(!t.has_arrivals(), "nothing was notified");
        t.fabric.notify(CONTROL | 1);
        while !t.has_arrivals() {
            t.fabric.step();
        }
        for _ in 0..2 {
            t.end.progress(&mut t.fabric);
        }
        assert!(!t.has_arrivals() && t.end.closed().is_some(), "taken or not: {there}");
    }
}

/// A message in a line, torn at first: whoever was told of it then would not be told once it is whole, and sleep.
#[test]
fn a_torn_line_has_not_arrived_and_a_complete_one_counts_once() {
    let mut t = Victim::<Posted>::new(Arrival::CheckedFlag);
    let whole = wire::checked(wire::inline(4, b"to you", 0), 1);
    let mut torn = whole;
    torn.0[2] ^= 1;
    t.slot(0, &torn);
    assert!(!t.has_arrivals(), "torn");
    t.slot(0, &whole);
    assert!(t.has_arrivals(), "whole");
    assert!(!t.has_arrivals(), "told of once");
    assert_eq!(t.end.pull(&mut t.fabric, &mut [&mut [0; 6]]).end, End::Fin);
}

/// The same of the blocks of a chunk.
#[test]
fn a_block_that_is_torn_has_not_arrived() {
    const BYTES: usize = FIRST_BYTES as usize + 100;
    let mut t = Victim::<Posted>::new(Arrival::CheckedFlag);
    let seed = |bytes: u32| crc32c(&bytes.to_le_bytes(), crc32c(&1u64.to_le_bytes(), !0));
    let bits = kind::RTS | kind::FIN | kind::LEFT;
    let header = wire::chunk(bits, 7, BYTES as u64, BYTES as u64, 1, 0);
    // All payload is zero, as the memory is.
    let first = crc32c(&header.body_bytes(), crc32c(&[0; FIRST_BYTES as usize], seed(FIRST_BYTES)));
    let second = 1 << 32 | u64::from(crc32c(&[0; 100], seed(100)));
    t.slot(0, &wire::chunk(bits, 7, BYTES as u64, BYTES as u64, 1, 1 << 32 | u64::from(first ^ 1)));
    assert!(!t.has_arrivals(), "the first is torn");
    t.slot(0, &wire::chunk(bits, 7, BYTES as u64, BYTES as u64, 1, 1 << 32 | u64::from(first)));
    assert!(t.has_arrivals(), "the first is whole");
    let mut place = [1; BYTES];
    let pulled = t.end.pull(&mut t.fabric, &mut [&mut place]);
    assert_eq!((pulled.bytes, pulled.end), (FIRST_BYTES as usize, End::No));
    assert!(!t.has_arrivals(), "the second has not come");
    t.slot(1, &Line([0, 0, 0, 0, 0, 0, 0, second ^ 1]));
    assert!(!t.has_arrivals(), "the second is torn");
    t.slot(1, &Line([0, 0, 0, 0, 0, 0, 0, second]));
    assert!(t.has_arrivals() && !t.has_arrivals(), "the second is whole, and told of once");
    let pulled = t.end.pull_from(&mut t.fabric, &mut [&mut place], FIRST_BYTES as usize);
    assert_eq!((pulled.bytes, pulled.end), (100, End::Fin));
    assert!(place.iter().all(|byte| *byte == 0));
}
