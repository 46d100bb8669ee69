//! Every control message and every slot line, legal and illegal, played to one endpoint by a peer that is this test and
//! writes its lines by hand; on both fabrics. wire.md 2 to 5.

use superpipe_core::{
    Closed, Config, End, Endpoint, Failure, FlagPlace, Layout, Line, Origin, ProtocolError, TryRecv,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Memory, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 8, flags: FlagPlace::Inside };

/// The sequence before the first.
const BEFORE_FIRST: u64 = u64::MAX;

/// The endpoint under test is end 0; the peer is played by `feed!` and `expect!`.
struct Victim<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
    controls_fed: u32,
}

impl<F: TestFabric> Victim<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let config = Config { c0_bytes: 100, folds: 1, ..Config::default() };
        let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        Self { fabric, end, controls_fed: 0 }
    }

    /// Lets everything under way arrive, and polls it.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        self.end.poll_acknowledgements(&mut self.fabric);
    }

    fn control(&mut self, line: Line) {
        let at = wire::mailbox(self.controls_fed);
        self.controls_fed += 1;
        self.fabric.forge(Memory::control_page(0), at, &line);
        self.settle();
    }

    fn slot(&mut self, block: u32, line: Line) {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
        self.settle();
        self.end.incoming(&mut self.fabric);
    }

    /// Returns the line in the peer's mailbox or landing buffer.
    fn said(&self, slot: u32) -> Line {
        self.fabric.memories().line(Memory::control_page(1), wire::mailbox(slot))
    }

    fn sent(&self, block: u32) -> Line {
        self.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block))
    }

    /// A slot line, and what the short way makes of it.
    fn try_recv(&mut self, block: u32, line: Line) -> TryRecv {
        self.fabric.forge(Memory::landing(0), LAYOUT.line_at(block), &line);
        self.settle();
        let mut place = [0; 300];
        self.end.try_recv(&mut self.fabric, &mut [&mut place], 2)
    }

    fn pull(&mut self) -> (usize, End) {
        let mut place = [0; 4096];
        let pulled = self.end.pull(&mut self.fabric, &mut [&mut place]);
        self.settle();
        (pulled.bytes, pulled.end)
    }
}

macro_rules! feed {
    ($t:ident, control $line:expr) => {
        $t.control($line)
    };
    ($t:ident, slot $block:expr, $line:expr) => {
        $t.slot($block, $line)
    };
    ($t:ident, ack $line:expr) => {{
        $t.fabric.forge(
            superpipe_testkit::Memory::control_page(0),
            superpipe_core::control_page::ACK,
            &$line,
        );
        $t.settle();
    }};
}

macro_rules! expect {
    ($t:ident, open) => {
        assert_eq!($t.end.closed(), None)
    };
    ($t:ident, broken $rule:ident) => {
        assert_eq!($t.end.closed(), $crate::table::broken(superpipe_core::ProtocolError::$rule))
    };
    ($t:ident, closed $closed:expr) => {
        assert_eq!($t.end.closed(), Some($closed))
    };
    ($t:ident, said $slot:expr, $line:expr) => {
        assert_eq!($t.said($slot), $line)
    };
    ($t:ident, sent $block:expr, $line:expr) => {
        assert_eq!($t.sent($block), $line)
    };
    ($t:ident, pulled $bytes:expr, $end:expr) => {
        assert_eq!($t.pull(), ($bytes, $end))
    };
}

/// The same table on both fabrics.
macro_rules! tables {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<superpipe_testkit::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<superpipe_testkit::Posted>(); })* }
    };
}

mod acknowledging;
mod checked;
mod chunks;
mod closing;
mod controls;
mod fast_path;
mod notified;
mod sending;

/// Closed because the peer broke this rule.
const fn broken(rule: ProtocolError) -> Option<Closed> {
    Some(Closed::Failed(Failure::Protocol(rule)))
}

/// A first chunk of transfer 1, a stream, with so many bytes and this flag.
const fn stream(bytes: u64, flag: u64) -> Line {
    wire::chunk(kind::RTS | kind::STREAM, 7, 0, bytes, 1, flag)
}
