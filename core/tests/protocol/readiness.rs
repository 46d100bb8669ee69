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
        Self::with(&Setup::new(LAYOUT, 1))
    }

    fn with(setup: &Setup) -> Self {
        Self::with_c0(setup, C0_BYTES[usize::from(F::DIRECT)])
    }

    fn with_c0(setup: &Setup, c0_bytes: u32) -> Self {
        let fabric = F::new(setup);
        let config = Config { arrival: Arrival::Flag, c0_bytes, ..Config::default() };
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
    where_the_lap_ends_what_fits_can_go_while_writable
    an_open_transfer_is_writable_while_its_next_part_can_go
    an_open_transfer_whose_next_part_waits_is_not_writable
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

/// Of messages of several lengths the longest that the ring holds in one piece goes, and all that are shorter. With posted writes that is little near the end of a lap.
fn where_the_lap_ends_what_fits_can_go_while_writable<F: TestFabric>() {
    let lengths = [600, 400, 150];
    let mut ends = Ends::<F>::with_c0(&Setup { send_queue: 64, ..Setup::new(LAYOUT, 1) }, 600);
    let (mut too_long, mut waits) = (0, 0);
    for step in 0..3000_usize {
        if ends.is_writable() {
            let length = lengths[step * step % 7 % 3];
            match ends.ends[0].try_send(&mut ends.fabric, 1, &[&vec![7; length]]) {
                Ok(_) => {}
                Err(RefusedSend::TooLong) => too_long += 1,
                Err(other) => panic!("{step}: it was writable, and {length} bytes are {other:?}"),
            }
        } else {
            waits += 1;
            ends.settle();
            ends.pull();
            ends.settle();
        }
    }
    assert!(waits > 100 && (F::DIRECT || too_long > 30), "{waits} {too_long}");
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

/// A part of less than a group, or than half a fold, waits for more room than a block.
fn an_open_transfer_whose_next_part_waits_is_not_writable<F: TestFabric>() {
    let flags = if F::DIRECT { FlagPlace::Apart { group_blocks: 4 } } else { FlagPlace::Inside };
    let setup = Setup { send_queue: 64, ..Setup::new(Layout { flags, ..LAYOUT }, 1) };
    for length in [Length::Exact(100_000), Length::Stream] {
        for part in [100, 500, 700, 1000, 4000] {
            let mut ends = Ends::<F>::with(&setup);
            let id = ends.ends[0].start(1, length).unwrap();
            let (mut sent, mut received, mut waits) = (0, 0, 0);
            for _ in 0..2000 {
                let is_writable = ends.is_writable();
                let pushed = ends.ends[0].push(&mut ends.fabric, id, &[&vec![3; part]]).unwrap();
                assert!(pushed > 0 || !is_writable, "{length:?} in parts of {part}, after {sent}");
                sent += pushed;
                if pushed > 0 {
                    continue;
                }
                assert!(!ends.is_writable(), "{length:?} in parts of {part}, after {sent}");
                waits += 1;
                // The receiver takes little, so that the ring is full most of the time.
                received += ends.ends[1].pull(&mut ends.fabric, &mut [&mut [0; 300]]).bytes;
                ends.ends.iter_mut().for_each(|end| _ = end.progress(&mut ends.fabric));
                for _ in 0..20 {
                    ends.fabric.step();
                }
                if sent > 50_000 {
                    break;
                }
            }
            assert!(sent > 20_000 && received > 10_000 && waits > 20, "{part}: {sent} {received} {waits}");
        }
    }
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
