//! Machines by tables: what each kernel's copy of a block takes, with noise, and what the choice makes of it.

extern crate std;

use super::*;
use crate::copying::cost::NS_MAX;

const BLOCK: u32 = 16 << 10;

/// A machine whose kernels take these nanoseconds for a block, and a choice on it.
struct Machine {
    chooser: KernelChooser,
    class: SizeClass,
    ns: [u64; 4],
    /// What a kernel takes instead where it has copied the blocks before, too.
    alone: Option<(CopyKernel, u64)>,
    /// Percent of noise either way, and one in this many copies takes a hundred times as long.
    noise: u64,
    outliers: u64,
    seed: u64,
    blocks: u64,
    /// Time of all copies, and blocks that other kernels than the chosen one have copied.
    spent: u64,
    tried: u64,
}

impl Machine {
    fn new(ns: [u64; 4]) -> Self {
        let class = SizeClass::of(64 << 10);
        let chooser = KernelChooser::new(KernelSet::ALL, None, (0, 4), 32 << 20);
        Self {
            chooser,
            class,
            ns,
            alone: None,
            noise: 0,
            outliers: 0,
            seed: 1,
            blocks: 0,
            spent: 0,
            tried: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn run(&mut self, blocks: u64) {
        for _ in 0..blocks {
            let plan = self.chooser.plan(self.class, self.blocks, true);
            assert!(plan.is_timed || plan.first == plan.others);
            assert_eq!(plan.others, self.chooser.chosen(self.class));
            let ns = match self.alone {
                Some((kernel, ns)) if kernel == plan.first && kernel == plan.others => ns,
                _ => self.ns[plan.first as usize],
            };
            let noise = ns * self.noise / 100;
            let mut took = ns - noise + self.random(2 * noise + 1);
            if self.outliers > 0 && self.random(self.outliers) == 0 {
                took *= 100;
            }
            self.spent += ns;
            self.tried += u64::from(plan.first != plan.others);
            self.blocks += 1;
            if plan.is_timed {
                self.chooser.note(self.class, plan.first, BLOCK, took);
            }
        }
    }

    fn chosen(&self) -> CopyKernel {
        self.chooser.chosen(self.class)
    }
}

/// What the kernels took where cores are near, apart and far (docs/performance.md), and the best.
const NEAR: ([u64; 4], CopyKernel) = ([450, 460, 700, 1400], CopyKernel::Plain);
const APART: ([u64; 4], CopyKernel) = ([1200, 1300, 950, 2100], CopyKernel::Fetching);
const FAR: ([u64; 4], CopyKernel) = ([9000, 9100, 12_000, 2000], CopyKernel::Streaming);

#[test]
fn the_best_kernel_is_chosen_at_each_distance() {
    for (ns, best) in [NEAR, APART, FAR, ([700, 500, 2600, 800], CopyKernel::String)] {
        let mut machine = Machine { noise: 10, ..Machine::new(ns) };
        machine.run(300);
        assert_eq!(machine.chosen(), best, "{ns:?}");
    }
}

/// 64 KiB at 2 GB/s take 33 µs: 20 ms are 600 messages, 2400 blocks. Where the chosen kernel takes as long as before, a trial of another one must come, in one of 3072
/// blocks at most.
#[test]
fn a_change_of_distance_is_answered_within_20_ms() {
    let mut machine = Machine { noise: 10, ..Machine::new(NEAR.0) };
    for (ns, best) in [FAR, NEAR, APART, FAR, APART, NEAR].into_iter().cycle().take(600) {
        let chosen = machine.chosen() as usize;
        let is_seen = ns[chosen].abs_diff(machine.ns[chosen]) * 10 > ns[chosen];
        machine.ns = ns;
        let is_as_good = |machine: &Machine| ns[machine.chosen() as usize] * 9 <= ns[best as usize] * 10;
        machine.run(if is_seen { 2400 } else { 3500 });
        assert!(is_as_good(&machine), "{ns:?}: {:?}", machine.chosen());
        let blocks = 10_000 + machine.random(3000);
        machine.run(blocks);
        assert!(is_as_good(&machine), "{ns:?}, later: {:?}", machine.chosen());
    }
}

#[test]
fn kernels_that_are_much_the_same_do_not_replace_each_other() {
    let mut machine = Machine { noise: 20, outliers: 50, ..Machine::new([500, 497, 503, 495]) };
    machine.run(1_000_000);
    assert!(machine.chooser.changes() <= 20, "{} changes", machine.chooser.changes());
    let mut machine = Machine { noise: 3, outliers: 50, ..Machine::new([500, 497, 503, 495]) };
    machine.run(1_000_000);
    assert_eq!(machine.chooser.changes(), 0);
}

#[test]
fn outliers_change_nothing() {
    for outliers in [10, 20, 100] {
        let mut machine = Machine { outliers, noise: 5, ..Machine::new(NEAR.0) };
        machine.run(200_000);
        assert_eq!((machine.chosen(), machine.chooser.changes()), (CopyKernel::Plain, 0), "{outliers}");
    }
}

#[test]
fn trials_cost_little() {
    for (ns, _) in [NEAR, APART, FAR] {
        let mut machine = Machine { noise: 10, outliers: 100, ..Machine::new(ns) };
        machine.run(100_000);
        let least = ns.into_iter().min().unwrap() * machine.blocks;
        assert!(machine.spent < least + least / 50, "{ns:?}: {} of {least} ns", machine.spent);
        assert!(machine.tried < machine.blocks / 100);
    }
}

/// A machine whose times mean nothing opens the class ever more rarely.
#[test]
fn noise_alone_makes_few_trials() {
    let mut machine = Machine { noise: 90, outliers: 4, ..Machine::new([500; 4]) };
    machine.run(1_000_000);
    assert!(machine.tried < machine.blocks / 50, "{} of {}", machine.tried, machine.blocks);
}

#[test]
fn absurd_measurements_are_ignored_or_lead_to_some_kernel() {
    let mut machine = Machine::new(NEAR.0);
    let class = machine.class;
    for (bytes, ns) in [(0, 5), (5, 0), (BLOCK, u64::MAX), (BLOCK, NS_MAX + 1), (1, NS_MAX), (u32::MAX, 1)] {
        for kernel in CopyKernel::ALL {
            for _ in 0..20 {
                machine.chooser.note(class, kernel, bytes, ns);
            }
        }
    }
    machine.run(20_000);
    assert_eq!(machine.chosen(), CopyKernel::Plain, "what follows is believed again");
}

#[test]
fn a_pinned_kernel_stays_and_nothing_is_timed() {
    for pinned in CopyKernel::ALL {
        let mut chooser = KernelChooser::new(KernelSet::ALL, Some(pinned), (0, 4), 0);
        for blocks in 0..1000 {
            let plan = chooser.plan(SizeClass::of(1 << 20), blocks, true);
            assert_eq!((plan.first, plan.others, plan.is_timed), (pinned, pinned, false));
            chooser.note(plan.class, CopyKernel::Plain, BLOCK, 1);
        }
    }
    // One that the fabric has not is no reason to copy by it.
    let chooser = KernelChooser::new(KernelSet::PLAIN, Some(CopyKernel::Streaming), (0, 4), 0);
    assert_eq!(chooser.all_chosen(), [CopyKernel::Plain; SIZE_CLASSES]);
}

#[test]
fn classes_choose_apart_and_long_messages_begin_streaming() {
    let chooser = KernelChooser::new(KernelSet::ALL, None, (0, 4), 32 << 20);
    let [.., largest] = chooser.all_chosen();
    assert_eq!(largest, CopyKernel::Streaming);
    assert_eq!(chooser.all_chosen()[..4], [CopyKernel::Plain; 4]);
    let mut machine = Machine::new(FAR.0);
    machine.run(1000);
    assert_eq!(machine.chooser.chosen(SizeClass::of(4 << 10)), CopyKernel::Plain);
}

#[test]
fn blocks_are_counted_across_the_wrap() {
    let chooser = KernelChooser::new(KernelSet::ALL, None, (u64::MAX - 1000, 4), 32 << 20);
    let mut machine = Machine { chooser, blocks: u64::MAX - 1000, ..Machine::new(FAR.0) };
    for _ in 0..2000 {
        let plan = machine.chooser.plan(machine.class, machine.blocks, true);
        machine.blocks = machine.blocks.wrapping_add(1);
        if plan.is_timed {
            let ns = machine.ns[plan.first as usize];
            machine.chooser.note(machine.class, plan.first, BLOCK, ns);
        }
    }
    assert_eq!(machine.chosen(), CopyKernel::Streaming);
}

/// A kernel that is good among others and bad by itself is chosen ever more rarely.
#[test]
fn a_kernel_that_does_not_prove_itself_is_left_alone() {
    let ns = [1000, 1010, 1200, 800];
    let mut machine = Machine { alone: Some((CopyKernel::Streaming, 1100)), noise: 5, ..Machine::new(ns) };
    machine.run(1_000_000);
    assert!(machine.chooser.changes() <= 24, "{} changes", machine.chooser.changes());
    assert!(machine.spent < 1012 * machine.blocks, "{} ns a block", machine.spent / machine.blocks);
}

/// Good in trials, among copies of others, and bad alone: with noise and outliers the class opens now and then, and would choose it each time.
#[test]
fn what_fails_to_prove_itself_is_an_opening_in_vain() {
    let alone = Some((CopyKernel::Streaming, 1100));
    let mut machine = Machine { noise: 10, outliers: 8, alone, ..Machine::new([1000, 1020, 1550, 800]) };
    machine.run(400_000);
    assert!(machine.chooser.changes() <= 40, "{} changes", machine.chooser.changes());
}

/// Costs in turn, as of messages of two buffers: trials of the sender come in every fourth timing, and must not be the ones that are doubted.
#[test]
fn two_costs_in_turn_starve_no_trial() {
    let mut machine = Machine { noise: 1, ..Machine::new([1000, 1020, 1550, 3100]) };
    let run = |machine: &mut Machine, ns: [u64; 4], blocks: u64| {
        for index in 0..blocks {
            machine.ns = if index / 8 % 2 == 0 { ns } else { ns.map(|ns| ns * 116 / 100) };
            machine.run(1);
        }
    };
    run(&mut machine, [1000, 1020, 1550, 3100], 20_000);
    run(&mut machine, [1000, 1020, 600, 3100], 20_000);
    assert_eq!(machine.chosen(), CopyKernel::Fetching);
}

/// Long messages are timed by groups, and those below 16 KiB by blocks.
#[test]
fn the_distance_of_timed_copies_is_in_groups() {
    for (bytes, group_blocks, between) in [(64 << 10, 1, 8), (64 << 10, 4, 32), (4 << 10, 4, 8)] {
        let mut chooser = KernelChooser::new(KernelSet::ALL, None, (0, 4), 32 << 20);
        chooser.set_group(group_blocks);
        let timed = (0..100).filter(|blocks| chooser.plan(SizeClass::of(bytes), *blocks, true).is_timed);
        let timed: std::vec::Vec<u64> = timed.take(2).collect();
        assert_eq!(timed, [0, between], "{bytes} {group_blocks}");
    }
}

/// Copies whose cost noise does not explain are timed soon, so that a move that costs much is answered within few of them.
#[test]
fn a_doubted_cost_is_timed_soon() {
    for group_blocks in [1, 4] {
        let mut machine = Machine::new(NEAR.0);
        machine.chooser.set_group(group_blocks);
        machine.run(10_000);
        machine.ns = FAR.0;
        let mut blocks = 0;
        while machine.chosen() != CopyKernel::Streaming {
            machine.run(1);
            blocks += 1;
        }
        // The first one in 64 groups, or in 128 if that is a trial, then the other two of three in five and two more medians, and all four kernels five times.
        let most = u64::from(group_blocks) * (128 + 8 * (4 + 20));
        assert!(blocks <= most, "{blocks} blocks, groups of {group_blocks}");
    }
}

/// A single outlier makes one more timing, and that is all.
#[test]
fn an_outlier_makes_one_more_timing() {
    let mut machine = Machine::new(NEAR.0);
    machine.run(10_000);
    let class = machine.class;
    loop {
        let plan = machine.chooser.plan(class, machine.blocks, true);
        machine.blocks += 1;
        if plan.is_timed && plan.first == plan.others {
            machine.chooser.note(class, plan.first, BLOCK, 100 * NEAR.0[0]);
            break;
        } else if plan.is_timed {
            machine.chooser.note(class, plan.first, BLOCK, machine.ns[plan.first as usize]);
        }
    }
    let begin = machine.blocks;
    let mut timed = std::vec::Vec::new();
    while timed.len() < 3 {
        let plan = machine.chooser.plan(class, machine.blocks, true);
        if plan.is_timed {
            timed.push(machine.blocks - begin + 1);
            machine.chooser.note(class, plan.first, BLOCK, machine.ns[plan.first as usize]);
        }
        machine.blocks += 1;
    }
    assert_eq!(timed, [8, 8 + 64, 8 + 2 * 64]);
}

/// Moves that change no kernel open the class each time: only an opening after which the cost is what it was makes the next one rarer.
#[test]
fn moves_that_change_no_kernel_do_not_make_it_deaf() {
    let mut machine = Machine::new(NEAR.0);
    for factor in [1, 2, 4, 1, 3, 1, 2, 1, 4, 2, 1].into_iter().cycle().take(40) {
        machine.ns = NEAR.0.map(|ns| ns * factor);
        machine.run(2000);
    }
    machine.ns = APART.0;
    machine.run(1200);
    assert_eq!(machine.chosen(), CopyKernel::Fetching);
}

fn blocks_to_fetching(machine: &mut Machine) -> u64 {
    machine.ns = [600, 610, 500, 1400];
    let begin = machine.blocks;
    while machine.chosen() != CopyKernel::Fetching && machine.blocks - begin < 200_000 {
        machine.run(1);
    }
    machine.blocks - begin
}

#[test]
fn turns_begin_anew() {
    let mut machine = Machine::new([1000, 1010, 1200, 1400]);
    machine.chooser = KernelChooser::new(KernelSet::ALL, None, (0, TRIAL_EVERY[1]), 32 << 20);
    machine.run(10_000);
    machine.chooser.classes[1].turn = TURNS_MAX - 3;
    machine.run(1000);
    machine.ns[0] = 5000;
    machine.run(10_000_000);
    assert_eq!(machine.chosen(), CopyKernel::String);
}

#[test]
fn asking_for_a_choice_is_no_opening_in_vain() {
    let mut machine = Machine { noise: 5, ..Machine::new(NEAR.0) };
    machine.run(3000);
    for _ in 0..4 {
        machine.chooser.pin(Some(CopyKernel::Plain));
        machine.chooser.pin(None);
        machine.run(2000);
    }
    let blocks = blocks_to_fetching(&mut machine);
    assert!(blocks < 1000, "{blocks}");
}

#[test]
fn moves_by_a_fifth_and_more_are_no_noise() {
    for percent in [120, 130, 140] {
        let mut machine = Machine::new(NEAR.0);
        for index in 0..21 {
            machine.ns = NEAR.0.map(|ns| if index % 2 == 0 { ns } else { ns * percent / 100 });
            machine.run(5000);
        }
        let blocks = blocks_to_fetching(&mut machine);
        assert!(blocks < 1000, "{percent}: {blocks}");
    }
}

#[test]
fn a_pinned_kernel_stays() {
    let mut chooser = KernelChooser::new(KernelSet::ALL, Some(CopyKernel::Streaming), (0, 4), 32 << 20);
    chooser.open_all();
    assert_eq!(chooser.all_chosen(), [CopyKernel::Streaming; SIZE_CLASSES]);
}

#[test]
fn a_fabric_without_streaming_stores_times_as_rarely() {
    let mut chooser = KernelChooser::new(KernelSet::PLAIN.with(CopyKernel::String), None, (0, 4), 32 << 20);
    chooser.set_group(4);
    let timed = (0..100).filter(|blocks| chooser.plan(SizeClass::of(64 << 10), *blocks, true).is_timed);
    assert_eq!(timed.take(2).collect::<std::vec::Vec<u64>>(), [0, 32]);
}

#[test]
fn another_window_begins_an_open_class_anew() {
    let mut machine = Machine::new([1000; 4]);
    (0..5).for_each(|_| _ = machine.chooser.note(machine.class, CopyKernel::Plain, BLOCK, 1000));
    machine.chooser.rebase();
    machine.ns = [600, 700, 700, 700];
    machine.run(300);
    assert_eq!(machine.chosen(), CopyKernel::Plain);
}

/// The choice of windows is told of it.
#[test]
fn a_kernel_that_is_given_is_news() {
    let mut machine = Machine::new([100, 100, 100, 100]);
    let news = |machine: &Machine| machine.chooser.state(machine.class).news;
    let before = news(&machine);
    machine.chooser.pin(Some(CopyKernel::Plain));
    assert_eq!(news(&machine), before, "the same kernel");
    machine.chooser.pin(Some(CopyKernel::String));
    assert_ne!(news(&machine), before);
}

#[test]
fn a_kernel_without_proof_is_compared_anew_in_another_window() {
    let mut machine = Machine::new([100, 50, 200, 200]);
    while machine.chosen() != CopyKernel::String {
        machine.run(1);
    }
    machine.chooser.rebase();
    assert!(!machine.chooser.state(machine.class).is_settled);
    machine.run(10_000);
    assert!(machine.chooser.state(machine.class).is_settled);
    assert_eq!(machine.chosen(), CopyKernel::String);
}

/// Messages below 16 KiB choose no streaming stores, and may be given them.
#[test]
fn a_given_kernel_stays_in_another_window() {
    let mut machine = Machine { class: SizeClass::of(4 << 10), ..Machine::new([100, 50, 200, 200]) };
    while machine.chosen() != CopyKernel::String {
        machine.run(1);
    }
    machine.chooser.pin(Some(CopyKernel::Streaming));
    machine.chooser.rebase();
    assert_eq!(machine.chooser.all_chosen(), [CopyKernel::Streaming; SIZE_CLASSES]);
}

/// Of five buffers in turn one is in no cache: its costs are doubted, and fall on each trial's turn.
#[test]
fn a_cold_buffer_in_turn_starves_no_trial() {
    for start in 0..5 {
        let mut machine = Machine { noise: 5, ..Machine::new([1000, 1020, 1200, 3100]) };
        let run = |machine: &mut Machine, ns: [u64; 4], blocks: u64| {
            for index in 0..blocks {
                machine.ns = if (index + start) % 5 == 0 { ns.map(|ns| ns * 180 / 100) } else { ns };
                machine.run(1);
            }
        };
        run(&mut machine, [1000, 1020, 1200, 3100], 19_000);
        machine.tried = 0;
        run(&mut machine, [1000, 1020, 500, 3100], 100_000);
        assert_eq!((machine.chosen(), machine.tried > 0), (CopyKernel::Fetching, true), "{start}");
    }
}

/// Copies of some buffers take less than half of the time: a kernel that is much worse seems to be better now and then.
#[test]
fn fast_buffers_open_seldom() {
    let ns = [1000, 1600, 1600, 1600];
    let mut machine = Machine { noise: 5, ..Machine::new([1000; 4]) };
    let (mut opened, mut was_settled) = (0, false);
    for _ in 0..300_000 {
        let is_slow = machine.random(10) < 8;
        machine.ns = if is_slow { ns } else { ns.map(|ns| ns * 40 / 100) };
        machine.run(1);
        let is_settled = machine.chooser.classes[1].is_settled;
        opened += u32::from(was_settled && !is_settled);
        was_settled = is_settled;
    }
    assert!(opened <= 30, "{opened} openings");
}

/// Streaming stores are better in each opening, and never alone.
#[test]
fn what_was_asked_for_and_fails_makes_nobody_patient() {
    let alone = Some((CopyKernel::Streaming, 1100));
    let mut machine = Machine { alone, noise: 2, ..Machine::new([1000, 1010, 1200, 800]) };
    for _ in 0..4 {
        machine.run(1500);
        machine.chooser.pin(Some(CopyKernel::Plain));
        machine.chooser.pin(None);
    }
    assert_eq!(machine.chooser.classes[1].watch.patience(), 1);
}

/// A choice that proves itself after a changed cost ends the patience that openings in vain have made.
#[test]
fn a_proof_ends_the_patience() {
    let mut machine = Machine { noise: 3, ..Machine::new([1000, 1020, 1550, 3100]) };
    machine.run(5000);
    let patience = |machine: &Machine| machine.chooser.classes[1].watch.patience();
    // Costs that change for a while, and are as before when all kernels were timed again.
    for _ in 0..4 {
        machine.ns = [1240, 1260, 1920, 3800];
        while machine.chooser.classes[1].is_settled {
            machine.run(1);
        }
        machine.ns = [1000, 1020, 1550, 3100];
        machine.run(5000);
    }
    assert!(patience(&machine) > 1);
    machine.ns = [3000, 3060, 1500, 3100];
    machine.run(50_000);
    assert_eq!((machine.chosen(), patience(&machine)), (CopyKernel::Fetching, 1));
}
