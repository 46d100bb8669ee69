//! `has_arrivals`, which callers ask before a sleep: every arrival is reported, and only once.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, Layout, Length, Line, Origin, Protocol, Readable, Reason,
    control_page,
};
use superpipe_testkit::{
    Direct, Memory, Posted, Setup, TestFabric,
    wire::{self, kind},
};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;
const ROUNDS: usize = 500;

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new(arrival: Arrival) -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let ends = [0, 1].map(|side| {
            let config = Config { arrival, c0_bytes: 600, ..Config::default() };
            Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap()
        });
        Self { fabric, ends }
    }

    fn asks(&self, side: usize) -> bool {
        self.ends[side].has_arrivals(&self.fabric)
    }

    fn slot(&mut self, block: u32, line: Line) {
        self.fabric.forge(Memory::landing(1), LAYOUT.line_at(block), &line);
    }

    fn pull(&mut self) -> (usize, End) {
        let pulled = self.ends[1].pull(&mut self.fabric, &mut [&mut [0; 1000]]);
        (pulled.bytes, pulled.end)
    }

    /// Lets everything that this end has posted arrive, while the other one asks at every step; returns true if it was told.
    fn comes(&mut self, side: usize) -> bool {
        let mut told = false;
        for _ in 0..ROUNDS {
            self.ends[side].progress(&mut self.fabric);
            self.fabric.step();
            told |= self.asks(1 - side);
        }
        told
    }
}

/// The same on both fabrics.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<superpipe_testkit::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<superpipe_testkit::Posted>(); })* }
    };
}

on_both! {
    a_message_is_told_of_once
    so_is_each_block_that_comes_late
    so_is_what_was_not_taken_to_its_end
    a_control_message_is_told_of_until_it_is_taken
    an_acknowledgement_of_blocks_is_told_of_until_it_is_taken
}

fn a_message_is_told_of_once<F: TestFabric>() {
    let mut t = Ends::<F>::new(Arrival::Flag);
    assert!(!t.asks(1), "{}", F::NAME);
    t.slot(0, wire::inline(1, b"tiny", 1));
    t.slot(1, wire::inline(1, b"tiny", 2));
    for _ in 0..2 {
        assert!(t.asks(1), "{}", F::NAME);
        assert!(!t.asks(1), "{}", F::NAME);
        assert_eq!(t.pull(), (4, End::Fin), "{}", F::NAME);
    }
    assert!(!t.asks(1), "{}", F::NAME);
    // Lines in the place of something else are no arrivals.
    t.slot(2, wire::inline(1, b"tiny", 4));
    assert!(!t.asks(1), "{}", F::NAME);
}

/// A chunk of three blocks: 12 bytes, 248 and 248.
fn so_is_each_block_that_comes_late<F: TestFabric>() {
    let mut t = Ends::<F>::new(Arrival::Flag);
    t.slot(0, wire::chunk(kind::RTS | kind::FIN, 7, 508, 508, 1, 1));
    assert!(t.asks(1), "{}", F::NAME);
    assert_eq!(t.pull(), (12, End::No), "{}", F::NAME);
    assert!(!t.asks(1), "{}", F::NAME);
    for block in 1..3 {
        t.slot(block, Line([0, 0, 0, 0, 0, 0, 0, 1]));
        assert!(t.asks(1), "{}: block {block}", F::NAME);
        assert!(!t.asks(1), "{}: block {block}", F::NAME);
        let end = if block == 2 { End::Fin } else { End::No };
        assert_eq!(t.pull(), (248, end), "{}: block {block}", F::NAME);
        assert!(!t.asks(1), "{}: block {block}", F::NAME);
    }
}

fn so_is_what_was_not_taken_to_its_end<F: TestFabric>() {
    for line in [
        wire::inline(1, b"tiny", 1),
        wire::chunk(kind::RTS | kind::FIN, 7, 100, 100, 1, 1),
        wire::chunk(kind::RTS | kind::STREAM, 7, 0, 100, 1, 1),
    ] {
        let mut t = Ends::<F>::new(Arrival::Flag);
        t.slot(0, line);
        let pulled = t.ends[1].pull(&mut t.fabric, &mut [&mut [0; 1]]);
        assert_eq!((pulled.bytes, pulled.end), (1, End::No), "{}", F::NAME);
        assert!(t.asks(1), "{}", F::NAME);
        assert!(!t.asks(1), "{}", F::NAME);
    }
}

fn a_control_message_is_told_of_until_it_is_taken<F: TestFabric>() {
    let mut t = Ends::<F>::new(Arrival::Flag);
    t.fabric.forge(Memory::control_page(1), wire::mailbox(0), &wire::cts(0, 2));
    assert!(!t.asks(1), "{}: it is not the next", F::NAME);
    t.fabric.forge(Memory::control_page(1), wire::mailbox(0), &wire::cts(0, 1));
    assert!(t.asks(1) && t.asks(1), "{}", F::NAME);
    t.ends[1].progress(&mut t.fabric);
    assert!(!t.asks(1), "{}", F::NAME);
}

fn an_acknowledgement_of_blocks_is_told_of_until_it_is_taken<F: TestFabric>() {
    let mut t = Ends::<F>::new(Arrival::Flag);
    for _ in 0..2 {
        t.ends[0].try_send(&mut t.fabric, 1, &[b"tiny"]).unwrap();
        t.comes(0);
    }
    for blocks in 1..3 {
        assert!(!t.asks(0), "{}", F::NAME);
        t.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(blocks, BEFORE_FIRST, 0));
        assert!(t.asks(0) && t.asks(0), "{}", F::NAME);
        t.ends[0].poll_acknowledgements(&mut t.fabric);
    }
    assert!(!t.asks(0), "{}", F::NAME);
}

/// Nothing is looked at before its notification has come.
#[test]
fn a_notified_write_is_an_arrival() {
    let mut t = Ends::<Posted>::new(Arrival::Notify);
    assert!(!t.asks(0) && !t.asks(1));
    t.ends[0].set_protocol(Protocol::Copy);
    let id = t.ends[0].start(1, Length::Exact(1000)).unwrap();
    assert_eq!(t.ends[0].push(&mut t.fabric, id, &[&[7; 1000]]), Ok(0));
    assert!(t.comes(0), "a chunk");
    assert!(t.asks(1), "its notification is not taken");
    t.ends[1].progress(&mut t.fabric);
    assert!(t.asks(1), "a chunk was notified");
    assert!(!t.asks(1), "and told of");
    assert_eq!(t.pull(), (0, End::No));
    assert!(t.comes(1), "a CTS and an acknowledgement");
    t.ends[0].poll_acknowledgements(&mut t.fabric);
    assert!(t.asks(0) && t.asks(0), "its notification is taken, and it is not");
    t.ends[0].progress(&mut t.fabric);
    assert!(!t.asks(0));
}

/// Without a round of progress.
#[test]
fn each_receiving_call_takes_the_notifications_that_it_needs() {
    let calls: [fn(&mut Endpoint<Posted>, &mut Posted) -> bool; 3] = [
        |end, fabric| end.incoming(fabric).is_some(),
        |end, fabric| end.pull(fabric, &mut [&mut [0; 100]]).end == End::Fin,
        |end, fabric| matches!(end.readable(fabric, 100), Readable::Run(run) if run.bytes == 100),
    ];
    for call in calls {
        let mut t = Ends::<Posted>::new(Arrival::Notify);
        t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 100]]).unwrap();
        assert!(t.comes(0));
        assert!(call(&mut t.ends[1], &mut t.fabric));
    }
}

#[test]
fn a_sender_sees_a_reject() {
    let mut t = Ends::<Direct>::new(Arrival::Flag);
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(t.ends[0].push(&mut t.fabric, id, &[&[7; 100]]), Ok(100));
    assert!(!t.asks(0));
    assert!(t.ends[1].reject(&mut t.fabric, Reason(5)));
    assert!(t.asks(0));
}
