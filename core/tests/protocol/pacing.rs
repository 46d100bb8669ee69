//! Sizes of chunks, and what they wait for.

use superpipe_core::{
    Config, Endpoint, FlagPlace, Layout, Length, Origin, Protocol, RefusedSend, TransferId, control_page,
};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric, wire};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 64, flags: FlagPlace::Inside };

/// End 0 has started a stream; the peer is this test.
struct Sender<F: TestFabric> {
    fabric: F,
    end: Endpoint<F>,
    id: TransferId,
}

impl<F: TestFabric> Sender<F> {
    fn new(config: Config) -> Self {
        let fabric = F::new(&Setup { send_queue: 64, ..Setup::new(LAYOUT, 1) });
        let mut end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        let id = end.start(1, Length::Stream).unwrap();
        Self { fabric, end, id }
    }

    fn push(&mut self, bytes: usize) -> usize {
        let pushed = self.end.push(&mut self.fabric, self.id, &[&vec![7; bytes]]).unwrap();
        for _ in 0..500 {
            self.end.progress(&mut self.fabric);
            self.fabric.step();
        }
        pushed
    }

    fn acknowledge(&mut self, blocks: u64) {
        self.fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(blocks, u64::MAX, 0));
    }

    /// The sizes of the chunks from this block on.
    fn chunks(&self, mut block: u32) -> Vec<u32> {
        let mut sizes = Vec::new();
        loop {
            let line = self.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block));
            if line == superpipe_core::Line::default() {
                return sizes;
            }
            let bytes = u32::try_from(line.0[3]).unwrap();
            sizes.push(bytes);
            block += LAYOUT.blocks_for(bytes);
        }
    }
}

fn chunks_grow_once_the_peer_has_answered<F: TestFabric>() {
    let config = Config { c0_bytes: 400, folds: 4, ..Config::default() };
    let mut t = Sender::<F>::new(config);
    assert_eq!(t.push(9000), 400, "{}: C0 goes before the CTS", F::NAME);
    t.fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
    assert_eq!(t.push(6000), 6000, "{}", F::NAME);
    // q is 1.5, up to a quarter of the ring.
    assert_eq!(t.chunks(0), [400, 600, 900, 1350, 2025, 1125], "{}", F::NAME);
    assert_eq!(t.push(5000), 5000, "{}", F::NAME);
    assert_eq!(t.chunks(0)[6..], [3912, 1088], "{}", F::NAME);
}

#[test]
fn chunks_grow() {
    chunks_grow_once_the_peer_has_answered::<Direct>();
    chunks_grow_once_the_peer_has_answered::<Posted>();
}

fn chunk_waits_for_the_last_but_one<F: TestFabric>() {
    let config = Config { triple_buffer: true, protocol: Protocol::Eager, ..Config::default() };
    let mut t = Sender::<F>::new(config);
    assert_eq!([t.push(100), t.push(440), t.push(100)], [100, 440, 0], "{}", F::NAME);
    t.acknowledge(1);
    assert_eq!([t.push(100), t.push(100)], [100, 0], "{}", F::NAME);
    t.acknowledge(2);
    assert_eq!(t.push(100), 0, "{}: half of the second chunk", F::NAME);
    t.acknowledge(3);
    assert_eq!([t.push(100), t.push(100)], [100, 0], "{}", F::NAME);
    t.acknowledge(5);
    assert_eq!([t.push(100), t.push(100), t.push(100)], [100, 100, 0], "{}", F::NAME);
}

#[test]
fn with_three_buffers_a_chunk_waits_for_the_last_but_one() {
    chunk_waits_for_the_last_but_one::<Direct>();
    chunk_waits_for_the_last_but_one::<Posted>();
}

/// Posted writes wait for half a fold; by direct store each free block is used.
#[test]
fn posted_chunks_are_no_crumbs() {
    let config = Config { protocol: Protocol::Eager, folds: 4, ..Config::default() };
    let mut direct = Sender::<Direct>::new(config);
    let mut posted = Sender::<Posted>::new(config);
    // All blocks but the one that is kept for CANCEL; then that which is at the end of the ring.
    let all = usize::try_from(3 * LAYOUT.capacity(16) + LAYOUT.capacity(15)).unwrap();
    assert_eq!([direct.push(2 * all), posted.push(2 * all)], [all; 2]);
    direct.acknowledge(1);
    posted.acknowledge(1);
    assert_eq!([direct.push(5000), posted.push(5000)], [192; 2]);
    // Half a fold is 8 blocks.
    for blocks in 2..9 {
        direct.acknowledge(blocks);
        posted.acknowledge(blocks);
        assert_eq!([direct.push(5000), posted.push(5000)], [192, 0], "{blocks} blocks");
    }
    posted.acknowledge(9);
    assert_eq!(posted.push(5000), usize::try_from(LAYOUT.capacity(8)).unwrap());
    posted.acknowledge(10);
    assert_eq!(posted.push(100), 100, "what fits is no crumb");
}

/// One that was started and ended before anything of it was sent has given its number to the next.
#[test]
fn a_stale_name_is_refused() {
    let mut t = Sender::<Direct>::new(Config::default());
    let (stale, writes) = (t.id, t.fabric.write_counts(0).writes);
    t.end.cancel(&mut t.fabric, stale, superpipe_core::Reason(1)).unwrap();
    assert_eq!(t.fabric.write_counts(0).writes, writes, "there is nobody to tell");
    t.id = t.end.start(1, Length::Stream).unwrap();
    assert_eq!(t.id.number(), stale.number());
    assert_eq!(t.end.push(&mut t.fabric, stale, &[&[7; 9]]), Err(RefusedSend::NotOpen));
    assert_eq!(t.push(9), 9);
}

/// A call that returns true if it was not refused.
type Call<F> = fn(&mut Endpoint<F>, &mut F, TransferId) -> bool;

fn credit_that_is_there_is_found<F: TestFabric>() {
    let calls: [Call<F>; 2] = [
        |end, fabric, id| end.push(fabric, id, &[&[7; 100]]) == Ok(100),
        |end, fabric, id| end.reserve(fabric, id, 100).is_ok(),
    ];
    for call in calls {
        let mut t = Sender::<F>::new(Config { protocol: Protocol::Eager, folds: 1, ..Config::default() });
        let all = usize::try_from(LAYOUT.capacity(63)).unwrap();
        assert_eq!(t.push(2 * all), all, "{}", F::NAME);
        assert!(!call(&mut t.end, &mut t.fabric, t.id), "{}: the ring is full", F::NAME);
        t.acknowledge(63);
        assert!(call(&mut t.end, &mut t.fabric, t.id), "{}: it is not", F::NAME);
        let mut t = Sender::<F>::new(Config { protocol: Protocol::Eager, folds: 1, ..Config::default() });
        assert_eq!(t.push(2 * all), all, "{}", F::NAME);
        assert_eq!(
            t.end.finish(&mut t.fabric, t.id),
            Ok(()),
            "{}: the end takes the block that is kept",
            F::NAME
        );
    }
    let mut t = Sender::<F>::new(Config { c0_bytes: 100, ..Config::default() });
    assert_eq!([t.push(300), t.push(300)], [100, 0], "{}: the CTS is awaited", F::NAME);
    t.fabric.forge(Memory::control_page(0), wire::mailbox(0), &wire::cts(1, 1));
    assert_eq!(t.end.push(&mut t.fabric, t.id, &[&[7; 100]]), Ok(100), "{}: it is there", F::NAME);
}

#[test]
fn a_call_polls_acknowledgements_before_it_is_refused() {
    credit_that_is_there_is_found::<Direct>();
    credit_that_is_there_is_found::<Posted>();
}

fn what_is_longer_than_c0<F: TestFabric>() {
    for (bytes, sent) in [(400, true), (401, false), (4000, false)] {
        let fabric = &mut F::new(&Setup::new(LAYOUT, 1));
        let config = Config { c0_bytes: 400, ..Config::default() };
        let mut end = Endpoint::new(fabric, fabric.attachment(0), config, Origin::default()).unwrap();
        for slices in [1, 2] {
            let (head, tail) = (vec![7; bytes / 2], vec![7; bytes - bytes / 2]);
            let whole = [head.clone(), tail.clone()].concat();
            let slices = if slices == 1 { &[&whole[..]][..] } else { &[&head[..], &tail] };
            let result = end.try_send(fabric, 1, slices).map(drop);
            assert_eq!(result, if sent { Ok(()) } else { Err(RefusedSend::TooLong) }, "{}: {bytes}", F::NAME);
        }
    }
}

#[test]
fn no_more_than_c0_goes_at_once() {
    what_is_longer_than_c0::<Direct>();
    what_is_longer_than_c0::<Posted>();
}
