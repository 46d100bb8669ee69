//! Tests of the hints that core gives a fabric about the bytes that it will read and write. They change only timing.

use superpipe_core::{Config, Endpoint, FlagPlace, LINE_BYTES, LINE_STRIDE_BYTES, Layout, Origin, TryRecv};
use superpipe_testkit::{Direct, PairFabric, Setup, TestFabric};

const LAYOUT: Layout =
    Layout { block_bytes: 256, block_count: 4, flags: FlagPlace::Apart { group_blocks: 2 } };
/// Bytes before the first block: the slot lines.
const BLOCKS_AT: u32 = 4096;
/// Bytes of a message that takes a block.
const BYTES: usize = 200;

fn both(layout: Layout) -> (Direct, [Endpoint<Direct>; 2]) {
    let fabric = Direct::new(&Setup::new(layout, 1));
    let config = Config { c0_bytes: 300, folds: 1, ..Config::default() };
    let ends = [0, 1]
        .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    (fabric, ends)
}

/// Offset and bytes of a message in `block`.
fn span_of(block: u32, bytes: usize) -> (u32, u32) {
    (BLOCKS_AT + block * LAYOUT.block_bytes, u32::try_from(bytes).unwrap())
}

fn send(fabric: &mut Direct, end: &mut Endpoint<Direct>, bytes: usize) {
    end.try_send(fabric, 1, &[&vec![7; bytes]]).unwrap();
}

fn receive(fabric: &mut Direct, end: &mut Endpoint<Direct>, bytes: usize) {
    let mut buffer = vec![0; 300];
    let taken = end.try_recv(fabric, &mut [&mut buffer], 2);
    assert!(matches!(taken, TryRecv::Taken { bytes: its, .. } if its == bytes), "{taken:?}");
    assert_eq!(buffer[..bytes], vec![7; bytes]);
}

#[test]
fn a_message_behind_another_is_expected() {
    let (mut fabric, [mut a, mut b]) = both(LAYOUT);
    (0..3).for_each(|_| send(&mut fabric, &mut a, BYTES));
    let reads = [1, 2, 2].map(|expected| {
        receive(&mut fabric, &mut b, BYTES);
        (fabric.hints(1).reads, expected)
    });
    assert!(reads.iter().all(|(reads, expected)| reads == expected), "{reads:?}");
    assert_eq!(fabric.hints(1).last_read, span_of(2, BYTES));
}

/// The bytes after the last slot line are payload of block 0 here. They are set to the value of the next flag, which must not be read there.
#[test]
fn no_message_is_expected_behind_the_last_block() {
    let blocks = 32;
    let (mut fabric, [mut a, mut b]) = both(Layout { block_count: blocks, ..LAYOUT });
    let flag_at = (blocks * LINE_STRIDE_BYTES + LINE_BYTES - 8 - BLOCKS_AT) as usize;
    let flag = Origin::default().sequence + u64::from(blocks);
    let mut message = vec![0; BYTES];
    message[flag_at..flag_at + 8].copy_from_slice(&flag.to_le_bytes());
    for _ in 0..blocks {
        a.try_send(&mut fabric, 1, &[&message]).unwrap();
        let mut buffer = vec![0; BYTES];
        assert_eq!(b.try_recv(&mut fabric, &mut [&mut buffer], 1), TryRecv::Taken { tag: 1, bytes: BYTES });
        b.progress(&mut fabric);
    }
    assert_eq!(fabric.hints(1).reads, 0);
}

#[test]
fn an_end_that_has_waited_looks_at_nothing_more() {
    let (mut fabric, [mut a, mut b]) = both(LAYOUT);
    assert_eq!(b.try_recv(&mut fabric, &mut [&mut [0; 300]], 1), TryRecv::Nothing);
    (0..3).for_each(|_| send(&mut fabric, &mut a, BYTES));
    receive(&mut fabric, &mut b, BYTES);
    assert_eq!(fabric.hints(1).reads, 0);
    receive(&mut fabric, &mut b, BYTES);
    assert_eq!(fabric.hints(1).reads, 1);
}

#[test]
fn an_end_whose_message_comes_within_a_call_has_waited() {
    let (mut fabric, [mut a, mut b]) = both(LAYOUT);
    (0..3).for_each(|_| send(&mut fabric, &mut a, BYTES));
    fabric.delay_flags(1);
    receive(&mut fabric, &mut b, BYTES);
    assert_eq!(fabric.hints(1).reads, 0);
    receive(&mut fabric, &mut b, BYTES);
    assert_eq!(fabric.hints(1).reads, 1);
}

#[test]
fn no_message_is_expected_where_slot_lines_lie_in_the_blocks() {
    let (mut fabric, [mut a, mut b]) = both(Layout { flags: FlagPlace::Inside, ..LAYOUT });
    (0..3).for_each(|_| send(&mut fabric, &mut a, 100));
    (0..3).for_each(|_| receive(&mut fabric, &mut b, 100));
    assert_eq!(fabric.hints(1).reads, 0);
}

#[test]
fn a_message_follows_an_answer_if_the_last_did() {
    let (mut fabric, [mut a, mut b]) = both(LAYOUT);
    send(&mut fabric, &mut a, BYTES);
    assert_eq!(fabric.hints(0).last_write, (span_of(1, BYTES), false));
    receive(&mut fabric, &mut b, BYTES);
    send(&mut fabric, &mut b, 8);
    fabric.delay_flags(1);
    receive(&mut fabric, &mut a, 8);
    send(&mut fabric, &mut a, BYTES);
    assert_eq!(fabric.hints(0).last_write, (span_of(2, BYTES), true));
    send(&mut fabric, &mut a, BYTES);
    assert_eq!(fabric.hints(0).last_write, (span_of(3, BYTES), false));
}

#[test]
fn messages_that_were_there_before_are_no_answers() {
    let (mut fabric, [mut a, mut b]) = both(LAYOUT);
    (0..3).for_each(|_| send(&mut fabric, &mut b, 8));
    for block in 1..4 {
        receive(&mut fabric, &mut a, 8);
        send(&mut fabric, &mut a, BYTES);
        assert_eq!(fabric.hints(0).last_write, (span_of(block, BYTES), false));
    }
}
