//! `is_readable` and `is_writable`: what they promise, the next call does.

use superpipe_core::{Arrival, Config, Endpoint, FlagPlace, Layout, Length, Origin, Reason, RefusedSend};
use superpipe_testkit::{Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
/// Bytes of a message that can be sent at once: with posted writes at any place of the ring only what fits in a block.
const C0_BYTES: [u32; 2] = [200, 600];
const ROUNDS: usize = 500;

struct Ends<F: TestFabric> {
    fabric: F,
    ends: [Endpoint<F>; 2],
}

impl<F: TestFabric> Ends<F> {
    fn new() -> Self {
        let fabric = F::new(&Setup::new(LAYOUT, 1));
        let config = Config {
            arrival: Arrival::Flag,
            c0_bytes: C0_BYTES[usize::from(F::DIRECT)],
            ..Config::default()
        };
        let ends = [0, 1]
            .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
        Self { fabric, ends }
    }

    /// Lets everything arrive that is posted, and is due.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            self.ends.iter_mut().for_each(|end| _ = end.progress(&mut self.fabric));
            self.fabric.step();
        }
    }

    fn is_writable(&mut self) -> bool {
        self.ends[0].is_writable(&mut self.fabric)
    }

    fn is_readable(&self) -> bool {
        self.ends[1].is_readable(&self.fabric)
    }

    fn pull(&mut self) -> usize {
        self.ends[1].pull(&mut self.fabric, &mut [&mut [0; 1000]]).bytes
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
    messages_go_while_writable_and_come_while_readable
    an_open_transfer_is_writable_while_its_next_part_can_go
    a_rejected_transfer_is_writable_and_reports_it
    a_transfer_that_is_discarded_is_not_readable
    an_end_that_has_closed_is_not_writable
}

fn messages_go_while_writable_and_come_while_readable<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let message = vec![7; C0_BYTES[usize::from(F::DIRECT)] as usize];
    for lap in 0..40 {
        assert!(!ends.is_readable(), "{lap}");
        let mut sent = 0;
        while ends.is_writable() {
            let refused = ends.ends[0].try_send(&mut ends.fabric, 1, &[&message]).err();
            assert_eq!(refused, None, "it was writable, after {sent}");
            sent += 1;
        }
        assert!(sent > 0, "{lap}");
        ends.settle();
        let mut received = 0;
        while ends.is_readable() {
            received += ends.pull();
            ends.settle();
        }
        assert_eq!(received, sent * message.len(), "{lap}");
        ends.settle();
    }
}

fn an_open_transfer_is_writable_while_its_next_part_can_go<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let length = 20_000;
    let id = ends.ends[0].start(1, Length::Exact(length)).unwrap();
    let (mut sent, mut received, mut waits) = (0, 0, 0);
    while received < length {
        let mut pushed_any = false;
        while sent < length && ends.is_writable() {
            let left = usize::try_from(length - sent).unwrap();
            let pushed = ends.ends[0].push(&mut ends.fabric, id, &[&vec![3; left.min(700)]]).unwrap();
            assert!(pushed > 0, "it was writable, after {sent}");
            sent += pushed as u64;
            pushed_any = true;
        }
        waits += u32::from(!pushed_any && sent < length);
        ends.settle();
        while ends.is_readable() {
            received += ends.pull() as u64;
            ends.settle();
        }
    }
    assert_eq!((sent, received), (length, length));
    assert!(waits <= 1000, "{waits}");
}

fn a_rejected_transfer_is_writable_and_reports_it<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let id = ends.ends[0].start(1, Length::Exact(20_000)).unwrap();
    while ends.is_writable() {
        ends.ends[0].push(&mut ends.fabric, id, &[&[3; 700]]).unwrap();
    }
    ends.settle();
    assert!(ends.ends[1].incoming(&mut ends.fabric).is_some());
    assert!(ends.ends[1].reject(&mut ends.fabric, Reason(9)));
    ends.settle();
    assert!(ends.is_writable());
    let refused = ends.ends[0].push(&mut ends.fabric, id, &[&[3; 700]]).unwrap_err();
    assert_eq!(refused, RefusedSend::Rejected(Reason(9)));
}

fn a_transfer_that_is_discarded_is_not_readable<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    let id = ends.ends[0].start(1, Length::Exact(20_000)).unwrap();
    assert!(ends.ends[0].push(&mut ends.fabric, id, &[&[3; 700]]).unwrap() > 0);
    for _ in 0..ROUNDS {
        ends.fabric.step();
    }
    assert!(ends.is_readable());
    assert!(ends.ends[1].incoming(&mut ends.fabric).is_some());
    assert!(ends.ends[1].reject(&mut ends.fabric, Reason(9)));
    assert!(!ends.is_readable());
}

fn an_end_that_has_closed_is_not_writable<F: TestFabric>() {
    let mut ends = Ends::<F>::new();
    assert!(ends.is_writable());
    ends.ends[0].close(&mut ends.fabric, Reason::DONE);
    assert!(!ends.is_writable());
}
