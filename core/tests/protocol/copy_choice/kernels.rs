//! The kernel of each class, over a machine whose costs a table says.

use superpipe_core::{Config, CopyKernel, Endpoint, Fabric, FlagPlace, Layout};

use super::{LAYOUT, Timed, config, message, pair, progress};

const STREAMING: usize = CopyKernel::Streaming as usize;

/// `pin_copies(None, None)`: "they are chosen while data flow". The streaming kernel is 10 times as slow as the others.
#[test]
fn a_choice_that_is_made_again_leaves_a_bad_kernel() {
    let (mut fabric, mut ends) = pair(LAYOUT, config());
    fabric.cost = [[100; 4]; 2];
    fabric.cost[0][STREAMING] = 1000;
    fabric.cost[1][STREAMING] = 1000;
    for end in &mut ends {
        end.pin_copies(Some(CopyKernel::Streaming), Some(CopyKernel::Streaming));
    }
    message(&mut fabric, &mut ends, 8 << 10);
    for end in &mut ends {
        end.pin_copies(None, None);
    }
    for _ in 0..200_000 {
        message(&mut fabric, &mut ends, 8 << 10);
    }
    fabric.ins.clear();
    for _ in 0..10_000 {
        message(&mut fabric, &mut ends, 8 << 10);
    }
    let streamed = fabric.ins.iter().filter(|(kernel, _)| *kernel == CopyKernel::Streaming).count();
    let counters = [ends[0].counters(), ends[1].counters()];
    assert!(
        counters[0].copy_in[0] != CopyKernel::Streaming && counters[1].copy_out[0] != CopyKernel::Streaming,
        "after 200000 messages of 8 KiB: in {:?}, out {:?}; {streamed} of the last 10000 were streamed; changes {:?} {:?}, timed {:?}",
        counters[0].copy_in,
        counters[1].copy_out,
        counters[0].copy_changes,
        counters[1].copy_changes,
        counters[0].copies_timed,
    );
}

/// Messages of two classes in turn, one block each: the counts between timed blocks are even, and each class has its own.
#[test]
fn each_of_two_classes_in_turn_is_measured() {
    let (mut fabric, mut ends) = pair(LAYOUT, config());
    // The string instruction takes a tenth.
    fabric.cost = [[1000, 100, 1000, 1000]; 2];
    for _ in 0..100_000 {
        message(&mut fabric, &mut ends, 8 << 10);
        message(&mut fabric, &mut ends, 16 << 10);
    }
    let chosen = ends[0].counters().copy_in;
    assert_eq!(
        chosen[..2],
        [CopyKernel::String; 2],
        "classes of 8 KiB and of 16 KiB, after 100000 messages each"
    );
}

/// A group is one copy, and the first one of a chunk is what is timed.
#[test]
fn the_unit_of_copies_is_a_group() {
    let grouped =
        Layout { block_bytes: 4 << 10, block_count: 64, flags: FlagPlace::Apart { group_blocks: 4 } };
    let (mut fabric, mut ends) = pair(grouped, config());
    for bytes in [64 << 10, 50_000] {
        fabric.ins.clear();
        message(&mut fabric, &mut ends, bytes);
        let copies: Vec<usize> = fabric.ins.iter().map(|(_, bytes)| *bytes).collect();
        let rest = bytes - 3 * (16 << 10);
        assert_eq!(copies, [16 << 10, 16 << 10, 16 << 10, rest]);
    }
    // The string instruction takes a tenth: the choice is made by groups of 16 KiB in messages of 64 KiB.
    fabric.cost = [[1000, 100, 1000, 1000]; 2];
    for _ in 0..2000 {
        message(&mut fabric, &mut ends, 64 << 10);
    }
    let chosen = [ends[0].counters().copy_in[1], ends[1].counters().copy_out[1]];
    assert_eq!(chosen, [CopyKernel::String; 2]);
}

/// "all copies into blocks ... of messages of that length and more" use the kernel that was given.
#[test]
fn a_given_kernel_is_used_for_all_copies_of_long_messages() {
    let inside = Layout { block_bytes: 16 << 10, block_count: 8, flags: FlagPlace::Inside };
    let (mut fabric, mut ends) = pair(inside, Config { copy_in: Some(CopyKernel::Streaming), ..config() });
    message(&mut fabric, &mut ends, 50_000);
    assert!(
        fabric.ins.iter().all(|(kernel, _)| *kernel == CopyKernel::Streaming),
        "a message of 50000 bytes: {:?}",
        fabric.ins
    );
}

/// Receives a message of `bytes` bytes into two places, of which no copy out of a block is timed.
fn in_halves(fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2], bytes: usize) {
    let from = vec![7; bytes];
    let [mut left, mut right] = [vec![0; bytes / 2], vec![0; bytes - bytes / 2]];
    ends[0].try_send(fabric, 1, &[&from]).unwrap();
    assert_eq!(ends[1].pull(fabric, &mut [&mut left, &mut right]).bytes, bytes);
    progress(fabric, ends);
}

/// A receiver that tries another kernel says nothing. If its trials always fell together with those of the sender, the sender would never learn what
/// another kernel takes.
#[test]
fn trials_of_both_ends_do_not_always_fall_together() {
    let mut chosen = Vec::new();
    for shift in 0..4 {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        for _ in 0..20_000 {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        // Some timed blocks are copied out into two places: 64 blocks have one.
        for _ in 0..64 * shift {
            in_halves(&mut fabric, &mut ends, 16 << 10);
        }
        // The string instruction is twenty times as fast as it was, at the sender.
        fabric.cost[0] = [1000, 50, 1000, 1000];
        for _ in 0..500_000 {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        chosen.push((shift, ends[0].counters().copy_in[1], ends[0].counters().copies_timed));
    }
    assert!(chosen.iter().all(|(_, kernel, _)| *kernel == CopyKernel::String), "{chosen:?}");
}

/// A sender that stays ahead of its receiver by a ring of 32 blocks. Nothing ever changes: once the kernels are chosen, one block in 64 is timed.
fn ahead(ring: u32, taken: usize) -> ([u64; 2], usize, usize, [u32; 2]) {
    use superpipe_core::{Length, Protocol};
    let layout = Layout { block_count: ring, ..LAYOUT };
    let (mut fabric, mut ends) = pair(layout, config());
    fabric.cost = [[1000, 1500, 1500, 1500]; 2];
    ends[0].set_protocol(Protocol::Eager);
    let id = ends[0].start(1, Length::Exact(1 << 45)).unwrap();
    let from = vec![7; 1 << 20];
    let mut to = vec![0; taken << 14];
    let mut run = |blocks: u64, fabric: &mut Timed, ends: &mut [Endpoint<Timed>; 2]| {
        let end = ends[0].counters().bytes_sent + (blocks << 14);
        while ends[0].counters().bytes_sent < end {
            ends[0].push(fabric, id, &[&from]).unwrap();
            ends[1].incoming(fabric);
            ends[1].pull(fabric, &mut [&mut to]);
            ends[1].progress(fabric);
            ends[0].progress(fabric);
        }
    };
    run(50_000, &mut fabric, &mut ends);
    let before = ends[0].counters().copies_timed;
    fabric.ins.clear();
    run(50_000, &mut fabric, &mut ends);
    let after = ends[0].counters().copies_timed;
    let tried = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
    (
        [after[0] - before[0], ends[1].counters().copies_timed[1]],
        tried,
        fabric.ins.len(),
        ends[0].counters().copy_changes,
    )
}

#[test]
fn a_sender_that_is_ahead_settles() {
    let mut seen = Vec::new();
    for (ring, taken) in [(8, 1), (16, 2), (32, 1), (32, 4), (48, 6), (64, 8), (96, 4), (128, 8)] {
        let (timed, tried, all, _) = ahead(ring, taken);
        seen.push((ring, taken, timed[0], tried, all));
    }
    // One block in 64 of 50000 is timed: 781; of these, one in four is a trial.
    assert!(seen.iter().all(|seen| seen.2 < 1600), "ring, taken at a time, timed, tried, all: {seen:?}");
}

/// A receiver that keeps pace: each message is taken before the next one is sent. Rings of every size.
#[test]
fn a_sender_whose_receiver_keeps_pace_settles() {
    let mut bad = Vec::new();
    for ring in 6..=80 {
        for bytes in [8 << 10, 16 << 10, 48 << 10] {
            let (mut fabric, mut ends) = pair(Layout { block_count: ring, ..LAYOUT }, config());
            fabric.cost = [[1000, 1500, 1500, 1500]; 2];
            let blocks = |bytes: usize| bytes.div_ceil(16 << 10) as u64;
            let count = 20_000 / blocks(bytes);
            for _ in 0..count {
                message(&mut fabric, &mut ends, bytes);
            }
            let before = ends[0].counters().copies_timed[0];
            fabric.ins.clear();
            for _ in 0..count {
                message(&mut fabric, &mut ends, bytes);
            }
            let timed = ends[0].counters().copies_timed[0] - before;
            let tried = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
            if timed > 2 * count * blocks(bytes) / 64 {
                bad.push((ring, bytes, timed, tried, fabric.ins.len()));
            }
        }
    }
    assert!(bad.is_empty(), "ring, bytes, timed, tried, all: {bad:?}");
}

/// The plain kernel takes two thirds of what each other takes, always. Returns how many of each 10000 copies another one made.
fn others_of_10000(ring: u32, bytes: usize) -> Vec<usize> {
    let (mut fabric, mut ends) = pair(Layout { block_count: ring, ..LAYOUT }, config());
    fabric.cost = [[1000, 1500, 1500, 1500]; 2];
    (0..30)
        .map(|_| {
            fabric.ins.clear();
            for _ in 0..10_000 {
                message(&mut fabric, &mut ends, bytes);
            }
            fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count()
        })
        .collect()
}

#[test]
fn the_best_kernel_is_chosen_and_kept() {
    let mut bad = Vec::new();
    for ring in [32, 35, 61, 65, 129, 257, 300] {
        for bytes in [8 << 10, 16 << 10] {
            let others = others_of_10000(ring, bytes);
            if others.iter().any(|others| *others > 5000) {
                bad.push((ring, bytes, others));
            }
        }
    }
    assert!(bad.is_empty(), "ring, bytes, copies by slower kernels of each 10000: {bad:#?}");
}

/// The application takes some messages by a copy, and then reads all others in place, of which its end says no time. Copies in and copies out take
/// 1000 ns by the plain kernel and 1500 by others: a sum for the plain kernel, and the sender's time alone for another, are not to be compared.
#[test]
fn times_with_and_without_those_of_the_peer_are_not_compared() {
    use superpipe_core::{End, Readable};
    let mut bad = Vec::new();
    for answered in (0..600).step_by(8) {
        let (mut fabric, mut ends) = pair(LAYOUT, config());
        fabric.cost = [[1000, 1500, 1500, 1500]; 2];
        for _ in 0..answered {
            message(&mut fabric, &mut ends, 16 << 10);
        }
        fabric.ins.clear();
        let from = vec![7; 16 << 10];
        for _ in 0..3000 {
            ends[0].try_send(&mut fabric, 1, &[&from]).unwrap();
            while let Readable::Run(run) = ends[1].readable(&mut fabric, u32::MAX) {
                if ends[1].consume(&mut fabric, run.bytes) != End::No {
                    break;
                }
            }
            progress(&mut fabric, &mut ends);
        }
        let others = fabric.ins.iter().filter(|(kernel, _)| *kernel != CopyKernel::Plain).count();
        if others > 500 {
            bad.push((answered, others, ends[0].counters().copy_in[1], ends[0].counters().copy_changes[0]));
        }
    }
    assert!(bad.is_empty(), "answered before, copies of 3000 by slower kernels, chosen, changes: {bad:?}");
}

/// Absurd clocks, absurd words 6, and every kernel given at every time lead to no panic and no wrong byte.
#[test]
fn absurd_times_do_no_harm() {
    use superpipe_core::control_page;
    use superpipe_testkit::Rng;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (mut fabric, mut ends) = pair(
            Layout { block_count: 6 + u32::try_from(rng.below(60)).unwrap(), ..LAYOUT },
            Config { timed_bytes: 1, least_window_bytes: 1, ..config() },
        );
        let mut sequence = 0_u64;
        for _ in 0..20_000 {
            for side in 0..2 {
                for kernel in 0..4 {
                    fabric.cost[side][kernel] = match rng.below(5) {
                        0 => 0,
                        1 => 1 << 40,
                        2 => u64::MAX / (1 << 20),
                        _ => 1000,
                    };
                }
            }
            fabric.now = match rng.below(4) {
                0 => 0,
                1 => u64::MAX / 2,
                2 => fabric.now % (1 << 30),
                _ => fabric.now % (1 << 50),
            };
            if rng.one_in(50) {
                let kernel = |rng: &mut Rng| {
                    [
                        None,
                        Some(CopyKernel::Plain),
                        Some(CopyKernel::String),
                        Some(CopyKernel::Fetching),
                        Some(CopyKernel::Streaming),
                    ][rng.below(5)]
                };
                let (a, b) = (kernel(&mut rng), kernel(&mut rng));
                ends[rng.below(2)].pin_copies(a, b);
                let window = u32::try_from(rng.below(1 << 20)).ok().filter(|window| window % 4 == 0);
                ends[rng.below(2)].set_window(window);
            }
            let bytes = [41, 100, 8 << 10, 16 << 10, 40_000, 64 << 10][rng.below(6)];
            if ends[0].counters().chunks_sent > 0 {
                sequence = ends[0].counters().chunks_sent;
            }
            if rng.one_in(2) {
                let word = match rng.below(3) {
                    0 => rng.next(),
                    1 => sequence | u64::from(u32::MAX) << 32,
                    _ => sequence | (rng.next() << 32),
                };
                fabric.publish(&mut (), 0, control_page::ACK + 48, word);
            }
            message(&mut fabric, &mut ends, bytes);
        }
        assert_eq!((ends[0].closed(), ends[1].closed()), (None, None));
    }
}
