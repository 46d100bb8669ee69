//! What a peer may answer, and when.

extern crate std;

use std::collections::VecDeque;

use super::*;

const LAP: LapNow = LapNow { blocks: 128, before: 128, is_first: false };

fn kernels() -> Kernels {
    let mut chooser = KernelChooser::new(KernelSet::ALL, None, (0, TRIAL_EVERY[0]), u64::MAX);
    chooser.set_group(1);
    Kernels::of(chooser, WindowChooser::new(Some(u32::MAX), 0), 4096)
}

/// A time of more than a second is none.
#[test]
fn absurd_answers_keep_no_class_open() {
    for answer_ns in [u64::from(u32::MAX), u64::MAX, 1_100_000_000] {
        let (mut kernels, class) = (kernels(), SizeClass::of(64 << 10));
        for block in 0..200_000_u64 {
            let plan = kernels.chooser.plan(class, block, true);
            if plan.is_timed {
                let at = Nanos(block * 4000);
                let copy =
                    TimedCopy { sequence: block + 1, block, plan, lap: LAP, bytes: 16 << 10, ns: 1000, at };
                kernels.note_own(copy, block);
                kernels.note_peers(Timing::new(block + 1, answer_ns), block);
            }
        }
        assert!(kernels.timed < 4000, "{} timed with {answer_ns}", kernels.timed);
        assert!(kernels.counts_own && kernels.chooser.state(class).is_settled);
    }
}

/// Both ends choose, answers come 32 groups later, and one of five buffers in turn is in no cache. Then a kernel takes half of the time.
#[test]
fn late_answers_and_a_cold_buffer_starve_no_trial() {
    for start in 0..5 {
        let (mut kernels, class) = (kernels(), SizeClass::of(64 << 10));
        let mut peer = KernelChooser::new(KernelSet::ALL, None, (0, TRIAL_EVERY[1]), 32 << 20);
        let (mut newest, mut answers) = (Timing::NONE, VecDeque::new());
        let (mut acked, mut seed, mut tried, mut timed) = (0, 1_u64, 0, 0);
        for block in 0..130_000_u64 {
            let mut took = |kernel: CopyKernel| {
                let fetching = if block > 30_000 { 500 } else { 1200 };
                let ns = [1000, 1020, fetching, 1800][kernel as usize];
                let ns = if (block + start) % 5 == 0 { ns * 180 / 100 } else { ns };
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ns * (95 + (seed >> 33) % 11) / 100
            };
            if block == 30_001 {
                (tried, timed) = (0, 0);
            }
            let is_full = kernels.pending.is_full()
                && kernels.pending.front().is_some_and(|copy| !is_before(copy.block, acked));
            let plan = kernels.chooser.plan(class, block, !is_full);
            if plan.is_timed {
                (tried, timed) = (tried + u32::from(plan.first != plan.others), timed + 1);
                let (at, ns) = (Nanos(block * 4000), took(plan.first));
                kernels.note_own(
                    TimedCopy { sequence: block + 1, block, plan, lap: LAP, bytes: 16 << 10, ns, at },
                    block,
                );
                let (chosen, kernel) = (peer.chosen(class), peer.next_of(class));
                let ns = took(kernel);
                peer.note(class, kernel, 16 << 10, ns);
                if kernel == chosen {
                    newest = Timing::new(block + 1, ns);
                }
            }
            answers.push_back((block + 1, newest));
            if answers.len() > 32 {
                let (count, timing) = answers.pop_front().unwrap();
                acked = count;
                kernels.note_peers(timing, block + 1);
            }
        }
        let chosen = [kernels.chooser.chosen(class), peer.chosen(class)];
        assert_eq!(chosen, [CopyKernel::Fetching; 2], "start {start}");
        // One in 64 groups would be some 1,560, of which every fourth is a trial.
        assert!(timed < 4000 && tried > 150, "start {start}: {timed} timed, {tried} trials");
    }
}
