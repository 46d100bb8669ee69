//! Chunks that the receiver copies out only once all of their blocks are here. wire.md 3.2, 4.2.

use superpipe_core::driver::{Drive, SendOperation, WaitStrategy};
use superpipe_core::{
    Config, Driver, End, Endpoint, FlagPlace, Layout, Length, Line, Nanos, Origin, Protocol, SendMemory,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, Posted, Setup, TestFabric};

const LAYOUT: Layout = Layout { block_bytes: 256, block_count: 16, flags: FlagPlace::Inside };
/// Two blocks.
const C0_BYTES: u32 = 400;

/// End `side`; the peer is this test.
fn one<F: TestFabric>(side: usize, sub_blocks: bool, protocol: Protocol) -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { send_queue: 16, ..Setup::new(LAYOUT, 1) });
    let config = Config { sub_blocks, protocol, c0_bytes: C0_BYTES, folds: 1, ..Config::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
    (fabric, end)
}

/// Returns the header in this block of the peer.
fn header<F: TestFabric>(fabric: &F, block: u32) -> Line {
    fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block))
}

fn are_marked<F: TestFabric>() {
    for (sub_blocks, protocol, whole) in [
        (true, Protocol::Superpipeline, 0),
        (false, Protocol::Superpipeline, kind::WHOLE),
        (true, Protocol::Eager, 0),
        (true, Protocol::Pipeline, kind::WHOLE),
    ] {
        // In one block, in two, from two slices, and in pieces.
        let messages: [&[&[u8]]; 3] = [&[&[7; 150]], &[&[7; 400]], &[&[7; 100], &[7; 300]]];
        for message in messages {
            let (mut fabric, mut end) = one::<F>(0, sub_blocks, protocol);
            end.try_send(&mut fabric, 1, message).unwrap();
            settle(&mut fabric, &mut end);
            let kinds = header(&fabric, 0).0[0];
            assert_eq!(kinds & kind::WHOLE, whole, "{}, {protocol}, {} slices", F::NAME, message.len());
        }
        let (mut fabric, mut end) = one::<F>(0, sub_blocks, protocol);
        let id = end.start(1, Length::Exact(C0_BYTES.into())).unwrap();
        for block in 0..2 {
            assert_eq!(end.push(&mut fabric, id, &[&[7; 150]]), Ok(150));
            settle(&mut fabric, &mut end);
            let line = header(&fabric, block);
            assert_eq!((line.0[0] & kind::WHOLE, line.0[3]), (whole, 150), "{}, {protocol}", F::NAME);
        }
    }
}

fn settle<F: TestFabric>(fabric: &mut F, end: &mut Endpoint<F>) {
    for _ in 0..100 {
        end.progress(fabric);
        fabric.step();
    }
}

#[test]
fn whole_chunks_are_marked() {
    are_marked::<Direct>();
    are_marked::<Posted>();
}

fn are_taken_as_one<F: TestFabric>() {
    for (bits, first) in [(0, 192), (kind::WHOLE, 0)] {
        let (mut fabric, mut end) = one::<F>(0, true, Protocol::Superpipeline);
        let line = wire::chunk(kind::RTS | kind::FIN | kind::LEFT | bits, 9, 400, 400, 1, 1);
        fabric.forge(Memory::landing(0), LAYOUT.line_at(0), &line);
        let mut place = [0; 400];
        let pulled = end.pull(&mut fabric, &mut [&mut place]);
        assert_eq!((pulled.bytes, pulled.end), (first, End::No), "{}", F::NAME);
        fabric.forge(Memory::landing(0), LAYOUT.line_at(1), &Line([0, 0, 0, 0, 0, 0, 0, 1]));
        let pulled = end.pull(&mut fabric, &mut [&mut place[first..]]);
        assert_eq!((pulled.bytes, pulled.end), (400 - first, End::Fin), "{}", F::NAME);
    }
}

#[test]
fn a_whole_chunk_is_taken_as_one() {
    are_taken_as_one::<Direct>();
    are_taken_as_one::<Posted>();
}

/// It has no blocks to wait for, so the bit would be a violation.
#[test]
fn the_rts_of_remote_writes_is_not_whole() {
    let (mut fabric, end) = one::<Posted>(0, false, Protocol::Register);
    let mut driver = Driver::new(end, 1, WaitStrategy::Yield, 1_000_000_000, Nanos(0));
    let payload = vec![7; 2000];
    let buffer = fabric.lend(0, payload.clone());
    let mut op = SendOperation::new(9, payload.len()).with_memory(SendMemory::Lent(buffer));
    for _ in 0..100 {
        assert!(!matches!(driver.drive_send(&mut fabric, &mut op, &[&payload]), Drive::Done(_)));
        driver.progress(&mut fabric);
        fabric.step();
    }
    let kinds = header(&fabric, 0).0[0];
    assert_eq!(kinds, kind::RTS | kind::WANT_CTS | kind::REMOTE | kind::LEFT);
}
