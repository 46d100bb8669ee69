//! Progress throws a rejected transfer away: all of it that has arrived, nothing that has not, and nothing that follows.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Line, Origin, Reason, control_page};
use superpipe_testkit::{
    Memory, Setup, TestFabric,
    wire::{self, kind},
};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const ROUNDS: usize = 500;

/// The endpoint under test is end 1; the peer is this test.
struct Receiver<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
}

impl<F: TestFabric> Receiver<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let end = Endpoint::new(&fabric, fabric.attachment(1), Config::default(), Origin::default()).unwrap();
        Self { fabric, end }
    }

    fn slot(&mut self, block: u32, line: Line) {
        self.fabric.forge(Memory::landing(1), LAYOUT.line_at(block), &line);
    }

    fn reject(&mut self) {
        assert!(self.end.reject(&mut self.fabric, Reason(5)), "{}", F::NAME);
    }

    /// Blocks that the peer is told of, after progress alone.
    fn acknowledged(&mut self) -> u64 {
        for _ in 0..ROUNDS {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        assert_eq!(self.end.closed(), None, "{}", F::NAME);
        self.fabric.memories().line(Memory::control_page(0), control_page::ACK).0[0]
    }

    fn pulls(&mut self, bytes: usize) {
        let pulled = self.end.pull(&mut self.fabric, &mut [&mut [0; 1000]]);
        assert_eq!((pulled.bytes, pulled.end), (bytes, End::Fin), "{}", F::NAME);
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
    what_follows_a_rejected_message_comes
    blocks_that_are_late_are_awaited
    chunks_of_a_rejected_stream_are_given_back
    a_transfer_is_rejected_once
}

fn what_follows_a_rejected_message_comes<F: TestFabric>() {
    let block = |flag| wire::chunk(kind::RTS | kind::FIN, 7, 100, 100, flag, flag);
    for rejected in [wire::inline(1, b"tiny", 1), block(1)] {
        for (next, bytes) in [(wire::inline(1, b"next", 2), 4), (block(2), 100)] {
            let mut t = Receiver::<F>::new();
            t.slot(0, rejected);
            t.slot(1, next);
            t.reject();
            assert_eq!(t.acknowledged(), 1, "{}", F::NAME);
            t.pulls(bytes);
        }
    }
}

fn blocks_that_are_late_are_awaited<F: TestFabric>() {
    let mut t = Receiver::<F>::new();
    t.slot(0, wire::chunk(kind::RTS | kind::FIN, 7, 508, 508, 1, 1));
    t.slot(3, wire::inline(1, b"next", 2));
    t.reject();
    assert_eq!(t.acknowledged(), 1, "{}", F::NAME);
    for block in 1..3 {
        t.slot(block, Line([0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(t.acknowledged(), u64::from(block) + 1, "{}", F::NAME);
    }
    t.pulls(4);
}

fn chunks_of_a_rejected_stream_are_given_back<F: TestFabric>() {
    let mut t = Receiver::<F>::new();
    t.slot(0, wire::chunk(kind::RTS | kind::STREAM, 7, 0, 100, 1, 1));
    t.reject();
    assert_eq!(t.acknowledged(), 1, "{}", F::NAME);
    for block in 1..9 {
        let flag = u64::from(block) + 1;
        t.slot(block, wire::chunk(0, 0, 0, 100, 1, flag));
        assert_eq!(t.acknowledged(), flag, "{}", F::NAME);
        assert_eq!(t.end.incoming(&mut t.fabric), None, "{}", F::NAME);
    }
    t.slot(9, wire::chunk(kind::FIN, 0, 0, 0, 1, 10));
    t.slot(10, wire::inline(1, b"next", 11));
    assert_eq!(t.acknowledged(), 10, "{}", F::NAME);
    t.pulls(4);
}

fn a_transfer_is_rejected_once<F: TestFabric>() {
    let mut t = Receiver::<F>::new();
    assert!(!t.end.reject(&mut t.fabric, Reason(5)), "{}: there is nothing", F::NAME);
    t.slot(0, wire::chunk(kind::RTS | kind::STREAM, 7, 0, 100, 1, 1));
    t.reject();
    // The sender has taken it, and there is room for another.
    t.fabric.forge(Memory::control_page(1), control_page::ACK, &wire::ack(0, 1, 0));
    t.end.poll_acknowledgements(&mut t.fabric);
    for _ in 0..3 {
        assert!(!t.end.reject(&mut t.fabric, Reason(6)), "{}: it was rejected", F::NAME);
        assert_eq!(t.acknowledged(), 1, "{}", F::NAME);
    }
    assert_eq!(t.end.counters().controls_sent, 1, "{}", F::NAME);
}
