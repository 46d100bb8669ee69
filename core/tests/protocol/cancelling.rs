//! CANCEL waits for completions and for credit, never for a reader. wire.md 4.4.

use superpipe_core::{
    Arrival, Config, End, Endpoint, FlagPlace, Layout, Length, Origin, Reason, RefusedSend, Sending,
};
use superpipe_testkit::{Direct, Posted, Setup, TestFabric};

/// Both ends over rings of so many blocks.
fn ends<F: TestFabric>(block_count: u32, arrival: Arrival) -> (F, [Endpoint<F>; 2]) {
    let layout = Layout { block_bytes: 256, block_count, flags: FlagPlace::Inside };
    let fabric = F::new(&Setup::new(layout, 1));
    let config = Config { arrival, c0_bytes: 64 << 10, folds: 1, ..Config::default() };
    let end = |side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap();
    let ends = [end(0), end(1)];
    (fabric, ends)
}

/// Lets everything arrive and complete; the receiver makes progress, and takes nothing.
fn settle<F: TestFabric>(fabric: &mut F, ends: &mut [Endpoint<F>; 2]) {
    for _ in 0..300 {
        fabric.step();
        ends.iter_mut().for_each(|end| _ = end.progress(fabric));
        ends[0].poll_delivered();
    }
}

/// A stream fills the ring, and is cancelled.
fn cancel_one<F: TestFabric>(fabric: &mut F, ends: &mut [Endpoint<F>; 2], tag: u64) -> usize {
    let id = ends[0].start(tag, Length::Stream).unwrap();
    let mut sent = 0;
    loop {
        match ends[0].push(fabric, id, &[&[7; 4000]]).unwrap() {
            0 => break,
            bytes => sent += bytes,
        }
        settle(fabric, ends);
    }
    ends[0].cancel(fabric, id, Reason(3)).unwrap();
    settle(fabric, ends);
    assert_eq!(ends[0].state().sending, Sending::Nothing, "CANCEL waits for the reader");
    sent
}

fn take<F: TestFabric>(fabric: &mut F, ends: &mut [Endpoint<F>; 2]) -> (usize, End) {
    let (mut place, mut bytes) = ([0; 8000], 0);
    for _ in 0..100 {
        let pulled = ends[1].pull_from(fabric, &mut [&mut place], bytes);
        bytes += pulled.bytes;
        if pulled.end != End::No {
            assert!(place[..bytes].iter().all(|byte| *byte == 7));
            return (bytes, pulled.end);
        }
        settle(fabric, ends);
    }
    panic!("{bytes} bytes, and no end")
}

fn cancel_waits_for_no_reader<F: TestFabric>(arrival: Arrival) {
    for blocks in [2, 3, 16] {
        let (mut fabric, mut ends) = ends::<F>(blocks, arrival);
        let sent = cancel_one(&mut fabric, &mut ends, 1);
        assert!(sent > 0, "{blocks} blocks");
        // The ring is full: the next stream begins, and cannot send, so that nothing of it need be told.
        let id = ends[0].start(2, Length::Stream).unwrap();
        assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(0));
        ends[0].cancel(&mut fabric, id, Reason(4)).unwrap();
        ends[0].close(&mut fabric, Reason::DONE);
        settle(&mut fabric, &mut ends);
        assert!(ends[0].is_flushed() && ends[1].peer_closes(), "{blocks} blocks");
        assert_eq!(take(&mut fabric, &mut ends), (sent, End::Cancelled(Reason(3))));
    }
}

/// One after the other, all blocks of each acknowledged before the next begins.
fn every_cancel_is_told<F: TestFabric>(arrival: Arrival) {
    for blocks in [2, 3, 16] {
        let (mut fabric, mut ends) = ends::<F>(blocks, arrival);
        for tag in 1..40 {
            let id = ends[0].start(tag, Length::Stream).unwrap();
            assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50), "{tag}");
            let mut place = [0; 50];
            let mut bytes = 0;
            while bytes < 50 {
                bytes += ends[1].pull_from(&mut fabric, &mut [&mut place], bytes).bytes;
                settle(&mut fabric, &mut ends);
            }
            ends[1].acknowledge(&mut fabric);
            settle(&mut fabric, &mut ends);
            assert!(ends[0].poll_delivered());
            ends[0].cancel(&mut fabric, id, Reason(3)).unwrap();
            assert_eq!(
                take(&mut fabric, &mut ends),
                (0, End::Cancelled(Reason(3))),
                "{tag}, {blocks} blocks"
            );
            ends[1].acknowledge(&mut fabric);
            settle(&mut fabric, &mut ends);
        }
    }
}

/// All that was sent is acknowledged when the first is cancelled, and the second is cancelled before the reader looks again.
fn a_second_cancel_is_told<F: TestFabric>(arrival: Arrival) {
    for blocks in [3, 16] {
        let (mut fabric, mut ends) = ends::<F>(blocks, arrival);
        let id = ends[0].start(1, Length::Stream).unwrap();
        assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50));
        settle(&mut fabric, &mut ends);
        assert_eq!(ends[1].pull(&mut fabric, &mut [&mut [0; 50]]).bytes, 50);
        ends[1].acknowledge(&mut fabric);
        settle(&mut fabric, &mut ends);
        assert!(ends[0].poll_delivered());
        ends[0].cancel(&mut fabric, id, Reason(1)).unwrap();
        settle(&mut fabric, &mut ends);
        let id = ends[0].start(2, Length::Stream).unwrap();
        assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 50]]), Ok(50));
        settle(&mut fabric, &mut ends);
        ends[0].cancel(&mut fabric, id, Reason(2)).unwrap();
        settle(&mut fabric, &mut ends);
        assert_eq!(ends[0].state().sending, Sending::Nothing, "the second CANCEL is not told");
        assert_eq!(take(&mut fabric, &mut ends), (0, End::Cancelled(Reason(1))));
        assert_eq!(take(&mut fabric, &mut ends), (50, End::Cancelled(Reason(2))));
    }
}

/// Whole messages may use every block; a transfer that may be cancelled keeps one.
#[test]
fn one_block_is_kept_for_cancel() {
    let (mut fabric, mut ends) = ends::<Direct>(4, Arrival::Flag);
    for tag in 0..3 {
        ends[0].try_send(&mut fabric, tag, &[&[7; 8]]).unwrap();
    }
    let id = ends[0].start(3, Length::Stream).unwrap();
    assert_eq!(ends[0].push(&mut fabric, id, &[&[7; 8]]), Ok(0));
    ends[0].cancel(&mut fabric, id, Reason(1)).unwrap();
    ends[0].try_send(&mut fabric, 4, &[&[7; 8]]).unwrap();
    assert_eq!(ends[0].try_send(&mut fabric, 5, &[&[7; 8]]), Err(RefusedSend::NoCredit));
}

#[test]
fn direct() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        cancel_waits_for_no_reader::<Direct>(arrival);
        every_cancel_is_told::<Direct>(arrival);
        a_second_cancel_is_told::<Direct>(arrival);
    }
}

#[test]
fn posted() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify] {
        cancel_waits_for_no_reader::<Posted>(arrival);
        every_cancel_is_told::<Posted>(arrival);
        a_second_cancel_is_told::<Posted>(arrival);
    }
}
