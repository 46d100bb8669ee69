//! Peers that answer some timings only, messages that are not timed, and windows that are chosen meanwhile.

use superpipe_core::{Config, CopyKernel, Endpoint, FlagPlace, Layout};

use super::{LAYOUT, Timed, config, message, pair, progress};

const LARGE: Layout = Layout { block_count: 128, ..LAYOUT };
fn in_place(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2], bytes: usize) {
    use superpipe_core::{End, Readable};
    ends[0].try_send(fabric, 1, &[&vec![7; bytes]]).unwrap();
    while let Readable::Run(run) = ends[1].readable(fabric, u32::MAX) {
        if ends[1].consume(fabric, run.bytes) != End::No {
            break;
        }
    }
    progress(fabric, ends);
}

#[test]
fn a_peer_that_answers_sometimes_leaves_no_choice_open() {
    let mut bad = Vec::new();
    for period in [1, 5, 9, 13, 17, 25, 35, usize::MAX] {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        fabric.cost = [[1000, 1500, 1500, 100], [1000, 1500, 1500, 1000]];
        let run = |count: usize, fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2]| {
            for index in 0..count {
                if index % period == 0 {
                    message(fabric, ends, 16 << 10)
                } else {
                    in_place(fabric, ends, 16 << 10)
                }
            }
        };
        run(100_000, &mut fabric, &mut ends);
        fabric.cost[0] = [100, 1500, 1500, 1000]; // the cores move
        run(500_000, &mut fabric, &mut ends);
        let before = ends[0].counters().copies_timed[0];
        run(100_000, &mut fabric, &mut ends);
        let one_in = 100_000 / (ends[0].counters().copies_timed[0] - before);
        if ends[0].counters().copy_in[1] != CopyKernel::Plain || one_in < 32 {
            bad.push((period, ends[0].counters().copy_in[1], one_in));
        }
    }
    assert!(bad.is_empty(), "one message copied of so many, kernel, one timed in: {bad:?}");
}

#[test]
fn a_trial_ends_although_short_messages_follow() {
    let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: None, ..config() });
    fabric.cost = [[1000; 4]; 2];
    ends[0].pin_copies(Some(CopyKernel::Plain), None);
    while u64::from(ends[0].window()) == ends[0].counters().window_bytes {
        message(&mut fabric, &mut ends, 64 << 10);
    }
    (0..100_000).for_each(|_| message(&mut fabric, &mut ends, 1 << 10));
    assert_eq!(u64::from(ends[0].window()), ends[0].counters().window_bytes);
}

#[test]
fn acknowledgements_are_not_read_for_ever() {
    let reads = [Some(u32::MAX), None].map(|window| {
        let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: window, ..config() });
        fabric.cost = [[1000; 4]; 2];
        ends[0].pin_copies(Some(CopyKernel::Plain), None);
        (0..20).for_each(|_| in_place(&mut fabric, &mut ends, 64 << 10));
        let before = fabric.acks_read.get();
        (0..10_000).for_each(|_| message(&mut fabric, &mut ends, 1 << 10));
        fabric.acks_read.get() - before
    });
    assert!(
        reads[1] <= reads[0] + 3 * u64::from(LARGE.block_count),
        "until three laps have ended: {reads:?}"
    );
}

#[test]
fn chunks_that_are_not_timed_take_no_turn() {
    use superpipe_core::Length;
    let layout =
        Layout { block_bytes: 4 << 10, block_count: 2048, flags: FlagPlace::Apart { group_blocks: 4 } };
    let windows = [64 << 10, 65 << 10, 72 << 10].map(|bytes| {
        let (mut fabric, mut ends) = pair(layout, Config { window_bytes: None, ..config() });
        ends[0].pin_copies(Some(CopyKernel::Plain), None);
        let (from, mut to) = (vec![7; bytes], vec![0; bytes]);
        for _ in 0..40_000 {
            fabric.cost = [[if ends[0].window() == 8 << 20 { 600 } else { 1000 }; 4]; 2];
            let id = ends[0].start(1, Length::Exact(bytes as u64)).unwrap();
            let (mut sent, mut got) = (0, 0);
            while got < bytes {
                if sent < bytes {
                    sent += ends[0].push(&mut fabric, id, &[&from[sent..]]).unwrap();
                }
                ends[1].incoming(&mut fabric);
                got += ends[1].pull(&mut fabric, &mut [&mut to[got..]]).bytes;
                ends[1].progress(&mut fabric);
                ends[0].progress(&mut fabric);
            }
        }
        (ends[0].counters().window_bytes >> 10, ends[0].counters().copies_timed[0])
    });
    assert!(windows.iter().all(|window| window.0 == 8 << 10), "KiB, timed: {windows:?}");
}

#[test]
fn a_given_kernel_stays() {
    let config = Config { window_bytes: None, copy_in: Some(CopyKernel::Streaming), ..config() };
    let (mut fabric, mut ends) = pair(LARGE, config);
    fabric.cost = [[1000; 4]; 2];
    (0..2000).for_each(|_| in_place(&mut fabric, &mut ends, 64 << 10));
    fabric.ins.clear();
    message(&mut fabric, &mut ends, 8 << 10);
    assert_eq!(fabric.ins[0].0, CopyKernel::Streaming);
}

#[test]
fn setting_the_same_again_changes_nothing() {
    let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: None, ..config() });
    for _ in 0..20_000 {
        let cost = if ends[0].window() == 2 << 20 { 600 } else { 1000 };
        fabric.cost = [[cost; 4], [cost, cost / 2, cost, cost]];
        ends[0].set_window(None);
        ends[1].pin_copies(Some(CopyKernel::Plain), None);
        message(&mut fabric, &mut ends, 64 << 10);
    }
    assert_eq!(
        (ends[0].counters().window_bytes, ends[1].counters().copy_out[1]),
        (2 << 20, CopyKernel::String)
    );
}

/// Copies that take longer in another window are no move of the cores, whether it was chosen or given.
#[test]
fn a_window_that_is_set_is_no_move() {
    let (mut fabric, mut ends) = pair(LARGE, config());
    let cost = |ends: &[Endpoint<Timed>; 2]| if ends[0].window() == 2 << 20 { 1000 } else { 1250 };
    for turn in 0..20 {
        ends[0].set_window(Some(if turn % 2 == 0 { u32::MAX } else { 128 << 10 }));
        for _ in 0..2000 {
            let plain = cost(&ends);
            fabric.cost = [[plain, plain + 100, plain + 100, plain + 100]; 2];
            message(&mut fabric, &mut ends, 64 << 10);
        }
    }
    let before = ends[0].counters().copies_timed[0];
    // The cores move.
    let mut messages = 0;
    while ends[0].counters().copy_in[1] != CopyKernel::String {
        fabric.cost = [[1800, 1200, 1800, 1800], [1800; 4]];
        message(&mut fabric, &mut ends, 64 << 10);
        messages += 1;
        assert!(messages < 400, "messages after a move, which followed {before} timings");
    }
}

/// Messages in several slices are followed by a look for timings like those in one.
#[test]
fn gathered_messages_choose_a_window_as_soon() {
    let took = [1, 2].map(|slices| {
        let (mut fabric, mut ends) = pair(LARGE, Config { window_bytes: None, ..config() });
        ends[0].pin_copies(Some(CopyKernel::Plain), None);
        let (from, mut to) = (vec![7; 64 << 10], vec![0; 64 << 10]);
        let mut messages = 0;
        while ends[0].counters().window_bytes != 2 << 20 {
            fabric.cost = [[if ends[0].window() == 2 << 20 { 600 } else { 1000 }; 4]; 2];
            let (a, b) = from.split_at(from.len() / slices);
            // The sender is two messages ahead.
            ends[0].try_send(&mut fabric, 1, &[a, b][..slices]).unwrap();
            messages += 1;
            if messages > 2 {
                ends[1].incoming(&mut fabric);
                assert_eq!(ends[1].pull(&mut fabric, &mut [&mut to]).bytes, to.len());
                ends[1].acknowledge(&mut fabric);
            }
            ends[0].progress(&mut fabric);
            assert!(messages < 100_000, "{slices} slices");
        }
        messages
    });
    assert!(took[1] <= took[0] + took[0] / 4, "messages in one slice and in two: {took:?}");
}
