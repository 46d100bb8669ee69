//! Giving back what was read in place: what `readable` showed and nothing else, and never the end of a transfer.

use superpipe_core::{Config, End, Endpoint, FlagPlace, Layout, Length, Origin, Readable, Reason};
use superpipe_testkit::{Direct, PairFabric, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };

struct Ends<F: TestFabric> {
    fabric: F,
    sender: Endpoint<F>,
    receiver: Endpoint<F>,
}

impl<F: TestFabric> Ends<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let config = Config { c0_bytes: 1000, ..Config::default() };
        let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
        let [sender, receiver] = [end(0), end(1)];
        Self { fabric, sender, receiver }
    }

    fn send(&mut self, tag: u64, payload: &[u8]) {
        self.sender.try_send(&mut self.fabric, tag, &[payload]).unwrap();
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..500 {
            self.fabric.step();
            self.sender.progress(&mut self.fabric);
        }
    }

    fn consumes(&mut self, bytes: u32) {
        assert_eq!(self.receiver.consume(&mut self.fabric, bytes), End::No, "{}: {bytes} bytes", F::NAME);
    }

    fn at_head(&mut self) -> Option<u64> {
        self.receiver.incoming(&mut self.fabric).map(|incoming| incoming.tag)
    }

    fn shows(&mut self, bytes_max: u32) -> u32 {
        match self.receiver.readable(&mut self.fabric, bytes_max) {
            Readable::Run(run) => run.bytes,
            other => panic!("{}: {other:?}", F::NAME),
        }
    }

    fn ends(&mut self) {
        let readable = self.receiver.readable(&mut self.fabric, 100);
        assert!(matches!(readable, Readable::Ended(End::Fin)), "{}: {readable:?}", F::NAME);
    }
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod direct { $(#[test] fn $name() { super::$name::<super::Direct>(); })* }
        mod posted { $(#[test] fn $name() { super::$name::<super::Posted>(); })* }
    };
}

on_both! {
    nothing_of_an_empty_message_does_not_end_it
    nothing_of_an_empty_end_does_not_end_the_stream
    what_was_not_shown_stays
    more_than_was_shown_stays
    what_was_shown_and_taken_otherwise_is_given_back_once
    where_nothing_is_at_the_head_nothing_ends
    what_was_shown_of_a_rejected_message_is_none_of_the_next
}

fn nothing_of_an_empty_message_does_not_end_it<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    ends.send(7, &[]);
    assert_eq!(ends.at_head(), Some(7), "{}", F::NAME);
    ends.consumes(0);
    assert_eq!(ends.at_head(), Some(7), "{}: it is still there", F::NAME);
    ends.ends();
}

fn nothing_of_an_empty_end_does_not_end_the_stream<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let id = ends.sender.start(7, Length::Stream).unwrap();
    ends.sender.push(&mut ends.fabric, id, &[&[1; 100]]).unwrap();
    ends.settle();
    ends.sender.finish(&mut ends.fabric, id).unwrap();
    ends.settle();
    assert_eq!(ends.at_head(), Some(7), "{}", F::NAME);
    assert_eq!(ends.shows(100), 100);
    ends.consumes(100);
    assert_eq!(ends.at_head(), Some(7), "{}", F::NAME);
    ends.consumes(0);
    assert_eq!(ends.at_head(), Some(7), "{}: it is still there", F::NAME);
    ends.ends();
}

fn what_was_not_shown_stays<F: TestFabric>() {
    for bytes in [20, 600] {
        let mut ends = Ends::<F>::new();
        ends.send(7, &vec![1; bytes]);
        assert_eq!(ends.at_head(), Some(7), "{}", F::NAME);
        ends.consumes(u32::try_from(bytes).unwrap());
        let pulled = ends.receiver.pull(&mut ends.fabric, &mut [&mut [0; 1000]]);
        assert_eq!((pulled.bytes, pulled.end), (bytes, End::Fin), "{}", F::NAME);
    }
}

fn more_than_was_shown_stays<F: TestFabric>() {
    for bytes in [20, 600] {
        let mut ends = Ends::<F>::new();
        ends.send(7, &vec![1; bytes]);
        assert_eq!(ends.shows(10), 10, "{}", F::NAME);
        ends.consumes(11);
        ends.consumes(10);
        ends.consumes(1);
        let pulled = ends.receiver.pull(&mut ends.fabric, &mut [&mut [0; 1000]]);
        assert_eq!((pulled.bytes, pulled.end), (bytes - 10, End::Fin), "{}", F::NAME);
    }
}

fn what_was_shown_and_taken_otherwise_is_given_back_once<F: TestFabric>() {
    for bytes in [20, 600] {
        let mut ends = Ends::<F>::new();
        ends.send(7, &vec![1; bytes]);
        assert_eq!(ends.shows(10), 10, "{}", F::NAME);
        let pulled = ends.receiver.pull(&mut ends.fabric, &mut [&mut [0; 5]]);
        assert_eq!(pulled.bytes, 5, "{}", F::NAME);
        ends.consumes(10);
        let pulled = ends.receiver.pull(&mut ends.fabric, &mut [&mut [0; 1000]]);
        assert_eq!((pulled.bytes, pulled.end), (bytes - 5, End::Fin), "{}", F::NAME);
    }
}

fn where_nothing_is_at_the_head_nothing_ends<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    ends.consumes(0);
    ends.consumes(1);
    assert!(!ends.receiver.reject(&mut ends.fabric, Reason(1)), "{}", F::NAME);
    ends.send(7, &[1; 20]);
    assert_eq!(ends.at_head(), Some(7), "{}", F::NAME);
}

fn what_was_shown_of_a_rejected_message_is_none_of_the_next<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    ends.send(7, &[1; 20]);
    ends.send(8, &[2; 30]);
    assert_eq!(ends.shows(15), 15, "{}", F::NAME);
    assert!(ends.receiver.reject(&mut ends.fabric, Reason(1)), "{}", F::NAME);
    ends.settle();
    assert_eq!(ends.at_head(), Some(8), "{}", F::NAME);
    ends.consumes(15);
    assert_eq!(ends.shows(100), 30, "{}", F::NAME);
    let end = ends.receiver.consume(&mut ends.fabric, 30);
    assert_eq!(end, End::Fin, "{}", F::NAME);
}

/// The first block of this message has no payload: a call that takes that block, and no byte, takes nothing of what was shown.
#[test]
fn a_pull_of_nothing_keeps_what_was_shown() {
    for block_bytes in [128, 192, 256] {
        let layout = Layout { block_bytes, block_count: 9, flags: FlagPlace::Inside };
        let mut fabric = Direct::new(&Setup::new(layout, 1));
        let config = Config { c0_bytes: 600, folds: 1, ..Config::default() };
        let [mut sender, mut receiver] = [0, 1]
            .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
        let bytes = block_bytes - 8;
        sender.try_send(&mut fabric, 1, &[&vec![7; bytes as usize]]).unwrap();
        let Readable::Run(run) = receiver.readable(&mut fabric, u32::MAX) else { panic!("nothing is shown") };
        assert_eq!(run.bytes, bytes);
        let pulled = receiver.pull(&mut fabric, &mut []);
        assert_eq!((pulled.bytes, pulled.end), (0, End::No));
        assert_eq!(receiver.consume(&mut fabric, bytes), End::Fin);
    }
}
