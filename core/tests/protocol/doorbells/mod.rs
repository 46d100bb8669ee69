//! An end that writes rings, so that a peer that sleeps is woken: after each call that writes, nothing that it wrote is
//! without a doorbell behind it.

use superpipe_core::{
    Arrival, Config, Endpoint, FirstChunk, FlagPlace, Layout, Length, Line, Origin, Protocol, Reason,
};
use superpipe_testkit::{Memory, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
const C0_BYTES: usize = 600;
/// More rounds than anything here takes, and more empty ones than keep an acknowledgement back.
const ROUNDS: usize = 500;

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new() -> Self {
        Self::with(&Setup::new(LAYOUT, 1), Arrival::Flag)
    }

    fn with(setup: &Setup, arrival: Arrival) -> Self {
        Self::under(setup, Config { arrival, ..Config::default() })
    }

    /// The first chunk of a longer message is copied while its CTS is awaited.
    fn during_rendezvous() -> Self {
        let first_chunk = FirstChunk::DuringRendezvous;
        Self::under(&Setup::new(LAYOUT, 1), Config { first_chunk, ..Config::default() })
    }

    fn under(setup: &Setup, config: Config) -> Self {
        let fabric = F::new(setup);
        let ends = [0, 1].map(|side| {
            let c0_bytes = u32::try_from(C0_BYTES).unwrap();
            let config = Config { c0_bytes, chunk_bytes: 300, folds: 1, ..config };
            Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap()
        });
        Self { fabric, ends }
    }

    /// All that end 0 has written arrives; end 1 does nothing meanwhile.
    fn arrive(&mut self) {
        for _ in 0..ROUNDS {
            self.ends[0].progress(&mut self.fabric);
            self.fabric.step();
        }
    }

    /// Both ends do all that they can do without being asked.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            for end in &mut self.ends {
                end.progress(&mut self.fabric);
            }
            self.fabric.step();
        }
    }

    /// Makes a call, checks that a peer that sleeps is woken for what it wrote, and counts the writes.
    fn writes<T>(&mut self, side: usize, call: impl FnOnce(&mut Endpoint<F>, &mut F) -> T) -> (u64, T) {
        let before = self.fabric.write_counts(side);
        assert_eq!(
            before.unrung,
            0,
            "{}: of what was written before a peer that sleeps learns nothing",
            F::NAME
        );
        let result = call(&mut self.ends[side], &mut self.fabric);
        let after = self.fabric.write_counts(side);
        assert_eq!(
            after.unrung,
            0,
            "{}: of what was written last a peer that sleeps learns nothing",
            F::NAME
        );
        (after.writes - before.writes, result)
    }

    /// The call writes, and rings after all that it has written.
    fn rings<T>(&mut self, side: usize, call: impl FnOnce(&mut Endpoint<F>, &mut F) -> T) -> T {
        let (writes, result) = self.writes(side, call);
        assert!(writes > 0, "{}: nothing is written, so this tests nothing", F::NAME);
        result
    }

    /// The round of progress that brings this about writes, and each rings after all that it has written.
    fn rings_in_progress(&mut self, side: usize, done: impl Fn(&mut Endpoint<F>) -> bool) {
        assert!(!done(&mut self.ends[side]), "{}: nothing is left to be done", F::NAME);
        for _ in 0..ROUNDS {
            let (writes, done) = self.writes(side, |end, fabric| {
                end.progress(fabric);
                done(end)
            });
            if done {
                assert!(writes > 0, "{}: nothing is written, so this tests nothing", F::NAME);
                return;
            }
            self.fabric.step();
        }
        panic!("{}: it does not come about", F::NAME);
    }

    /// End 0 sends a stream of so many bytes, up to its end; end 1 has not looked at it.
    fn stream(&mut self, bytes: usize) {
        let id = self.ends[0].start(1, Length::Stream).unwrap();
        let pushed = self.ends[0].push(&mut self.fabric, id, &[&vec![7; bytes]]);
        assert_eq!(pushed, Ok(bytes));
        self.arrive();
        self.ends[0].finish(&mut self.fabric, id).unwrap();
        self.arrive();
    }

    /// End 0 sends an RTS without payload, and waits for the CTS.
    fn bare_rts(&mut self) {
        self.ends[0].set_protocol(Protocol::Copy);
        let id = self.ends[0].start(1, Length::Exact(1000)).unwrap();
        assert_eq!(self.ends[0].push(&mut self.fabric, id, &[&[7; 1000]]), Ok(0));
        self.arrive();
    }

    fn forge(&mut self, memory: Memory, at: u32, line: Line) {
        self.fabric.forge(memory, at, &line);
    }
}

/// The same on both fabrics.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<superpipe_testkit::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<superpipe_testkit::Posted>(); })* }
    };
}

mod driving;
mod receiving;
mod sending;
mod unrung;

/// The second REJECT, for as long as the first is not acknowledged.
fn second_reject_waits<F: TestFabric>() -> Ends<F> {
    let mut t = Ends::<F>::new();
    for _ in 0..2 {
        t.ends[0].try_send(&mut t.fabric, 1, &[&[7; 150]]).unwrap();
        t.arrive();
    }
    assert!(t.ends[1].reject(&mut t.fabric, Reason(5)));
    // Both are thrown away, and what that takes is acknowledged.
    let mut second = false;
    for _ in 0..ROUNDS {
        t.ends[1].progress(&mut t.fabric);
        second = second || t.ends[1].reject(&mut t.fabric, Reason(6));
        t.fabric.step();
    }
    assert!(second && t.ends[1].counters().controls_sent == 1, "{}", F::NAME);
    t.arrive();
    t.ends[0].acknowledge(&mut t.fabric);
    t.arrive();
    t
}
