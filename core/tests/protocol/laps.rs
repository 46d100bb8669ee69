//! Laps: a sender cycles through a part of the ring, and its receiver follows. wire.md 4.11.

use superpipe_core::{
    Closed, Config, End, Endpoint, Failure, FlagPlace, Layout, Length, Line, Origin, Protocol, ProtocolError,
    Pulled, Reason, RefusedSend, TryRecv, control_page,
};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Direct, Memory, PairFabric, Posted, Setup, TestFabric};

const BLOCK: u32 = 256;

fn layout(block_count: u32) -> Layout {
    Layout { block_bytes: BLOCK, block_count, flags: FlagPlace::Inside }
}

fn one<F: TestFabric>(block_count: u32) -> (F, Endpoint<F>) {
    let fabric = F::new(&Setup { send_queue: 8, ..Setup::new(layout(block_count), 1) });
    let config = Config { c0_bytes: 64, folds: 1, ..Config::default() };
    let end = Endpoint::new(&fabric, fabric.attachment(0), config, Origin::default()).unwrap();
    (fabric, end)
}

/// Puts a slot line into block `index` of the ring of end 0.
fn forge(fabric: &mut impl TestFabric, index: u32, line: Line) {
    fabric.forge(Memory::landing(0), layout(8).line_at(index), &line);
}

fn ends_lap(mut line: Line) -> Line {
    line.0[0] |= kind::LAP;
    line
}

/// Returns a message of `bytes` bytes in one chunk.
fn message(transfer: u64, bytes: u64, flag: u64) -> Line {
    wire::chunk(kind::RTS | kind::FIN | kind::LEFT, 9, bytes, bytes, transfer, flag)
}

/// The chunks of three laps, and where they begin: a line, a block, two blocks; a line that ends a lap at once; one more.
fn laps(fabric: &mut Direct, step: usize) -> usize {
    match step {
        0 => {
            forge(fabric, 0, wire::inline(9, b"first", 1));
            5
        }
        1 => {
            forge(fabric, 1, ends_lap(message(2, 100, 2)));
            100
        }
        2 => {
            // Its second block carries its sequence in the last word.
            forge(fabric, 1, Line([0, 0, 0, 0, 0, 0, 0, 3]));
            forge(fabric, 0, ends_lap(message(3, 300, 3)));
            300
        }
        3 => {
            forge(fabric, 0, ends_lap(wire::inline(9, b"fourth", 4)));
            6
        }
        _ => {
            forge(fabric, 0, wire::inline(9, b"fifth", 5));
            5
        }
    }
}

#[test]
fn a_receiver_follows_laps_by_try_recv() {
    let (mut fabric, mut end) = one::<Direct>(8);
    for step in 0..5 {
        let bytes = laps(&mut fabric, step);
        let mut place = [0; 512];
        let taken = end.try_recv(&mut fabric, &mut [&mut place], 1);
        assert_eq!(taken, TryRecv::Taken { tag: 9, bytes }, "{step}: {:?}", end.closed());
    }
}

#[test]
fn a_receiver_follows_laps_by_pull() {
    let (mut fabric, mut end) = one::<Direct>(8);
    for step in 0..5 {
        let bytes = laps(&mut fabric, step);
        let mut place = [0; 512];
        assert_eq!(
            end.incoming(&mut fabric).map(|it| it.length),
            Some(Length::Exact(bytes as u64)),
            "{step}"
        );
        let pulled = end.pull(&mut fabric, &mut [&mut place]);
        assert_eq!(pulled, Pulled { bytes, end: End::Fin }, "{step}: {:?}", end.closed());
    }
}

#[test]
fn a_message_whose_end_is_late_ends_its_lap() {
    let (mut fabric, mut end) = one::<Direct>(8);
    forge(&mut fabric, 0, ends_lap(message(1, 300, 1)));
    let mut place = [0; 512];
    assert_eq!(
        end.try_recv(&mut fabric, &mut [&mut place], 1),
        TryRecv::Begun { tag: 9, bytes: layout(8).capacity(1) as usize }
    );
    forge(&mut fabric, 1, Line([0, 0, 0, 0, 0, 0, 0, 1]));
    let rest = end.pull(&mut fabric, &mut [&mut place]);
    assert_eq!(rest, Pulled { bytes: 300 - layout(8).capacity(1) as usize, end: End::Fin });
    forge(&mut fabric, 0, wire::inline(9, b"next", 2));
    assert_eq!(
        end.try_recv(&mut fabric, &mut [&mut place], 1),
        TryRecv::Taken { tag: 9, bytes: 4 },
        "{:?}",
        end.closed()
    );
}

#[test]
fn a_cancel_ends_its_lap() {
    let (mut fabric, mut end) = one::<Direct>(8);
    forge(&mut fabric, 0, wire::chunk(kind::RTS | kind::STREAM | kind::LEFT, 9, 0, 50, 1, 1));
    forge(&mut fabric, 1, ends_lap(wire::cancel(1, 5, 2)));
    let mut place = [0; 512];
    assert_eq!(
        end.pull(&mut fabric, &mut [&mut place]),
        Pulled { bytes: 50, end: End::Cancelled(Reason(5)) }
    );
    forge(&mut fabric, 0, wire::inline(9, b"next", 3));
    assert_eq!(end.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 4 });
}

#[test]
fn with_posted_writes_a_lap_is_a_violation() {
    let (mut fabric, mut end) = one::<Posted>(8);
    forge(&mut fabric, 0, ends_lap(wire::inline(9, b"first", 1)));
    let mut place = [0; 64];
    for _ in 0..100 {
        end.try_recv(&mut fabric, &mut [&mut place], 1);
        end.incoming(&mut fabric);
        end.progress(&mut fabric);
    }
    assert_eq!(end.closed(), Some(Closed::Failed(Failure::Protocol(ProtocolError::ReservedNotZero))));
}

/// Acknowledgements come as often as the last lap is long.
#[test]
fn a_short_lap_is_acknowledged_more_often() {
    let (mut fabric, mut end) = one::<Direct>(16);
    let acked = |fabric: &Direct| fabric.memories().line(Memory::control_page(1), control_page::ACK).0[0];
    let forge = |fabric: &mut Direct, index, line| {
        fabric.forge(Memory::landing(0), layout(16).line_at(index), &line);
    };
    let mut place = [0; 64];
    let (mut at, mut flag) = (0, 1);
    let mut seen = Vec::new();
    for ends in [7, 7, 3] {
        for index in 0..=ends {
            let line = wire::inline(9, b"x", flag);
            forge(&mut fabric, index, if index == ends { ends_lap(line) } else { line });
            assert_eq!(end.try_recv(&mut fabric, &mut [&mut place], 1), TryRecv::Taken { tag: 9, bytes: 1 });
            (at, flag) = (at + 1, flag + 1);
            seen.push(at - acked(&fabric));
        }
    }
    // A sixteenth-block ring: every second block. After the lap of eight: every block.
    assert_eq!(seen[..8], [1, 0, 1, 0, 1, 0, 1, 0]);
    assert_eq!(seen[8..], [0; 12]);
}

/// Sends `count` lines, and returns the block of each and whether it ended its lap.
fn send(fabric: &mut Direct, end: &mut Endpoint<Direct>, count: u64) -> Vec<(u32, bool)> {
    let mut sent = Vec::new();
    for _ in 0..count {
        match end.try_send(fabric, 9, &[b"x"]) {
            Ok(_) => {}
            Err(RefusedSend::NoCredit) => break,
            Err(other) => panic!("{other}"),
        }
        let newest = end.counters().inline_sent;
        let place = (0..8)
            .map(|index| (index, fabric.memories().line(Memory::landing(1), layout(8).line_at(index))))
            .find(|(_, line)| line.flag() == newest)
            .unwrap();
        sent.push((place.0, place.1.0[0] & kind::LAP != 0));
    }
    sent
}

#[test]
fn a_sender_keeps_to_its_window_from_the_next_lap_on() {
    let (mut fabric, mut end) = one::<Direct>(8);
    // A send that finds no block free looks for acknowledgements.
    let ack = |fabric: &mut Direct, blocks| {
        fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(blocks, u64::MAX, 0));
    };
    end.set_window(Some(3 * BLOCK + 255));
    assert_eq!(end.window(), 3 * BLOCK);
    // The lap that has begun goes on to the end of the ring, which no bit says.
    let all = (0..8).map(|index| (index, false)).collect::<Vec<_>>();
    assert_eq!(send(&mut fabric, &mut end, 20), all);
    ack(&mut fabric, 2);
    assert_eq!(send(&mut fabric, &mut end, 20), [(0, false), (1, false)]);
    // The lap of three blocks ends, and the next may not begin before its first block is acknowledged.
    ack(&mut fabric, 3);
    assert_eq!(send(&mut fabric, &mut end, 20), [(2, true)]);
    for blocks in [5, 8] {
        ack(&mut fabric, blocks);
        assert_eq!(
            send(&mut fabric, &mut end, 20),
            [],
            "{blocks} blocks are no longer under way, and none is free"
        );
    }
    ack(&mut fabric, 9);
    assert_eq!(send(&mut fabric, &mut end, 20), [(0, false)]);
    // A larger window: behind the lap of three blocks everything is free once that lap is acknowledged.
    end.set_window(Some(u32::MAX));
    assert_eq!(end.window(), 8 * BLOCK);
    ack(&mut fabric, 12);
    assert_eq!(send(&mut fabric, &mut end, 20), [(1, false), (2, true), (0, false)]);
    ack(&mut fabric, 13);
    assert_eq!(send(&mut fabric, &mut end, 20), [(1, false)]);
    ack(&mut fabric, 14);
    assert_eq!(send(&mut fabric, &mut end, 20), (2..8).map(|index| (index, false)).collect::<Vec<_>>());
    // Two blocks at least, for a message of C0 bytes that begins in the last one; all of the ring with posted writes.
    end.set_window(Some(0));
    assert_eq!(end.window(), 2 * BLOCK);
    let (_, mut posted) = one::<Posted>(8);
    posted.set_window(Some(2 * BLOCK));
    assert_eq!(posted.window(), 8 * BLOCK);
}

/// A block is kept for CANCEL in a lap of which nothing is acknowledged.
#[test]
fn a_cancel_never_waits_for_the_reader_at_the_end_of_a_lap() {
    let (mut fabric, mut end) = one::<Direct>(8);
    end.set_window(Some(2 * BLOCK));
    assert_eq!(send(&mut fabric, &mut end, 8).len(), 8);
    fabric.forge(Memory::control_page(0), control_page::ACK, &wire::ack(8, u64::MAX, 0));
    end.progress(&mut fabric);
    let id = end.start(9, Length::Stream).unwrap();
    let sent = end.push(&mut fabric, id, &[&[7; 2000]]).unwrap();
    assert_eq!(sent, 64, "one block, and one is kept");
    end.cancel(&mut fabric, id, Reason(5)).unwrap();
    let cancel = fabric.memories().line(Memory::landing(1), layout(8).line_at(1));
    assert_eq!(cancel, ends_lap(wire::cancel(9, 5, 10)), "CANCEL is in the ring at once");
}

/// Also where the window is given in mid-transfer.
#[test]
fn chunks_are_a_fold_of_the_window_at_most() {
    let layout = Layout { block_count: 32, flags: FlagPlace::Apart { group_blocks: 1 }, ..layout(8) };
    let mut fabric = Direct::new(&Setup::new(layout, 1));
    let config = Config { c0_bytes: BLOCK, folds: 4, protocol: Protocol::Eager, ..Config::default() };
    let [mut sender, mut receiver] = [0, 1]
        .map(|side| Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default()).unwrap());
    let bytes = vec![1; 300 * BLOCK as usize];
    let mut to = vec![0; bytes.len()];
    let id = sender.start(1, Length::Exact(bytes.len() as u64)).unwrap();
    let mut at = 0;
    for (window, fold) in [(None, 8), (Some(8), 2), (Some(16), 4)] {
        if let Some(blocks) = window {
            sender.set_window(Some(blocks * BLOCK));
        }
        let fold_bytes = fold * BLOCK as usize;
        for i in 0..8 {
            let before = sender.counters().chunks_sent;
            let pushed = sender.push(&mut fabric, id, &[&bytes[at..at + 2 * fold_bytes]]).unwrap();
            // The lap that is under way ends as it began, and the end of a lap makes two chunks of one.
            let chunks = sender.counters().chunks_sent - before;
            assert!(
                i < 4 || pushed == 2 * fold_bytes && (2..=3).contains(&chunks),
                "{window:?}: {pushed}, {chunks}"
            );
            at += pushed;
            receiver.pull(&mut fabric, &mut [&mut to]);
            (0..10).for_each(|_| _ = receiver.progress(&mut fabric));
            sender.poll_acknowledgements(&mut fabric);
        }
    }
}
