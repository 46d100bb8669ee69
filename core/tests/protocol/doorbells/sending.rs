//! Doorbells of calls that send.

use superpipe_core::{Length, Protocol, Reason, RefusedSend};
use superpipe_testkit::{Memory, TestFabric, wire};

use crate::doorbells::{C0_BYTES, Ends};

on_both! {
    a_message_in_a_line
    a_message_in_a_block
    a_message_in_blocks
    a_message_from_several_slices
    pushed_bytes
    pushed_chunks
    a_pushed_message_of_no_bytes
    an_rts_before_reserved_bytes
    committed_bytes
    a_chunk_that_was_prepared
    the_end_of_a_stream
    a_cancelled_transfer
}

fn a_message_in_a_line<F: TestFabric>() {
    Ends::<F>::new().rings(0, |end, fabric| end.try_send(fabric, 1, &[&[7; 8]])).unwrap();
}

fn a_message_in_a_block<F: TestFabric>() {
    Ends::<F>::new().rings(0, |end, fabric| end.try_send(fabric, 1, &[&[7; 150]])).unwrap();
}

fn a_message_in_blocks<F: TestFabric>() {
    Ends::<F>::new().rings(0, |end, fabric| end.try_send(fabric, 1, &[&[7; C0_BYTES]])).unwrap();
}

fn a_message_from_several_slices<F: TestFabric>() {
    Ends::<F>::new().rings(0, |end, fabric| end.try_send(fabric, 1, &[&[7; 60], &[7; 90]])).unwrap();
}

fn pushed_bytes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Exact(200)).unwrap();
    for _ in 0..2 {
        assert_eq!(t.rings(0, |end, fabric| end.push(fabric, id, &[&[7; 100]])), Ok(100));
    }
}

fn pushed_chunks<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(t.rings(0, |end, fabric| end.push(fabric, id, &[&[7; C0_BYTES]])), Ok(C0_BYTES));
    assert_eq!(t.ends[0].counters().chunks_sent, 2);
}

fn a_pushed_message_of_no_bytes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Exact(0)).unwrap();
    assert_eq!(t.rings(0, |end, fabric| end.push(fabric, id, &[])), Ok(0));
}

fn an_rts_before_reserved_bytes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    t.ends[0].set_protocol(Protocol::Copy);
    let id = t.ends[0].start(1, Length::Exact(1000)).unwrap();
    let reserved = t.rings(0, |end, fabric| end.reserve(fabric, id, 1000).map(|it| it.bytes()));
    assert_eq!(reserved, Err(RefusedSend::NoCredit), "{}: the CTS is awaited", F::NAME);
}

fn committed_bytes<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    let (writes, reserved) = t.writes(0, |end, fabric| end.reserve(fabric, id, 100).map(|it| it.bytes()));
    assert_eq!((writes, reserved), (0, Ok(100)), "{}", F::NAME);
    t.rings(0, |end, fabric| end.commit(fabric, id, 100)).unwrap();
}

/// Its CTS is here, and it is sent by a round of progress, or by a call that sends nothing else.
fn a_chunk_that_was_prepared<F: TestFabric>() {
    for is_progress in [true, false] {
        let mut t = Ends::<F>::during_rendezvous();
        let id = t.ends[0].start(1, Length::Exact(2000)).unwrap();
        assert_eq!(t.ends[0].push(&mut t.fabric, id, &[&[7; 2000]]), Ok(300));
        t.arrive();
        t.forge(Memory::control_page(0), wire::mailbox(0), wire::cts(1, 1));
        if is_progress {
            t.rings(0, |end, fabric| end.progress(fabric));
        } else {
            t.rings(0, |end, fabric| end.reserve(fabric, id, 100).map(|_| ())).unwrap();
        }
        assert_eq!(t.ends[0].counters().bytes_sent, 300, "{}", F::NAME);
    }
}

fn the_end_of_a_stream<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    t.rings(0, |end, fabric| end.finish(fabric, id)).unwrap();
}

fn a_cancelled_transfer<F: TestFabric>() {
    let mut t = Ends::<F>::new();
    let id = t.ends[0].start(1, Length::Stream).unwrap();
    assert_eq!(t.ends[0].push(&mut t.fabric, id, &[&[7; 100]]), Ok(100));
    t.settle();
    t.rings(0, |end, fabric| end.cancel(fabric, id, Reason(5))).unwrap();
}
