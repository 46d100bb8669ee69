//! Machines by tables: what a copy costs in each window, with noise, and what the choice makes of it.

extern crate std;

use super::*;
use crate::copying::chooser::KernelState;
use crate::copying::wish::{LapNow, Wish};
use crate::wire::layout::FlagPlace;

const LAYOUT: Layout =
    Layout { block_bytes: 16 << 10, block_count: 128, flags: FlagPlace::Apart { group_blocks: 1 } };
const MESSAGE: u64 = 4 << 20;
const SETTLED: KernelState = KernelState { is_settled: true, is_timed: false, news: 0 };

/// A machine on which a copy costs so much in a window of 2 MiB, 512 KiB and 128 KiB, and a choice on it.
struct Machine {
    chooser: WindowChooser,
    costs: [u32; 3],
    class: SizeClass,
    kernels: KernelState,
    /// Percent of noise either way, and one in this many copies costs a hundred times as much.
    noise: u32,
    outliers: u32,
    /// The peer answers.
    answers: bool,
    seed: u64,
    now: u64,
    blocks: u64,
    lap: LapNow,
    at: u32,
    /// Blocks in each window, and blocks that were timed.
    seen: [u64; 3],
    timed: u64,
}

impl Machine {
    fn new(costs: [u32; 3]) -> Self {
        let mut chooser = WindowChooser::new(None, 0);
        chooser.enter(LAYOUT, 5, 128 << 10);
        let blocks = chooser.blocks();
        Self {
            chooser,
            costs,
            class: SizeClass::of(MESSAGE),
            kernels: SETTLED,
            noise: 0,
            outliers: 0,
            answers: true,
            seed: 1,
            now: 0,
            blocks: 0,
            lap: LapNow { blocks, before: blocks, is_first: true },
            at: 0,
            seen: [0; 3],
            timed: 0,
        }
    }

    fn random(&mut self, below: u32) -> u32 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.seed >> 33) % u64::from(below)).unwrap()
    }

    /// Sends blocks, each a chunk, which take 4 µs.
    fn run(&mut self, blocks: u64) {
        for _ in 0..blocks {
            let window = [128, 32, 8].iter().position(|&blocks| blocks == self.lap.blocks).unwrap();
            self.seen[window] += 1;
            let wish = self.chooser.plan(self.class, (self.blocks, true), self.lap, self.kernels);
            let is_usual = self.chooser.is_usual(self.lap.blocks);
            assert!(is_usual || wish != Wish::Any, "no kernel is tried in a trial");
            self.now += 4000;
            self.blocks += 1;
            if wish == Wish::Time {
                assert!(self.lap.is_steady(), "the caches are in the state of this window: {:?}", self.lap);
                self.timed += 1;
                let cost = self.costs[window];
                let noise = cost * self.noise / 100;
                let mut cost = cost - noise + self.random(2 * noise + 1);
                if self.outliers > 0 && self.random(self.outliers) == 0 {
                    cost *= 100;
                }
                if self.answers {
                    let when = (Nanos(self.now), self.blocks);
                    self.chooser.note(self.class, self.lap.blocks, cost, when);
                }
            }
            self.at += 1;
            if self.at == self.lap.blocks {
                self.at = 0;
                let blocks = self.chooser.blocks();
                self.lap = LapNow { blocks, before: self.lap.blocks, is_first: false };
            }
        }
    }

    /// Runs for seconds.
    fn seconds(&mut self, seconds: u64) {
        // Few blocks are needed, and many seconds.
        for _ in 0..seconds * 4 {
            self.now += 250_000_000;
            self.run(2000);
        }
    }

    fn kib(&self) -> u32 {
        self.chooser.chosen_blocks() * 16
    }
}

/// 20 MiB.
const SOON: u64 = 1280;

#[test]
fn the_best_window_is_chosen_soon_and_kept() {
    for (costs, best) in [
        ([100, 100, 100], 512),
        ([100, 100, 80], 128),
        ([60, 100, 120], 2048),
        ([60, 100, 90], 2048),
        ([90, 100, 60], 128),
        ([95, 100, 96], 512),
    ] {
        let mut machine = Machine::new(costs);
        machine.run(SOON);
        assert_eq!(machine.kib(), best, "{costs:?}");
        machine.seconds(100);
        assert_eq!(machine.kib(), best, "{costs:?}");
        assert!(machine.chooser.changes() <= 2, "{costs:?}: {} changes", machine.chooser.changes());
    }
}

#[test]
fn a_changed_cost_is_answered_soon() {
    let mut machine = Machine::new([100, 100, 80]);
    for (costs, best) in
        [([60, 150, 200], 2048), ([130, 100, 100], 512), ([100, 60, 45], 128), ([40, 80, 110], 2048)]
    {
        machine.run(SOON);
        machine.costs = costs;
        // Signs come from one block in 64, and two others are tried, one after the other.
        machine.run(12 * 64 + 2 * SOON);
        assert_eq!(machine.kib(), best, "{costs:?}");
    }
}

/// The chosen window costs as much as before, so nothing but a trial shows that another one is better now.
#[test]
fn trials_go_on_and_are_rare() {
    let mut machine = Machine::new([100, 80, 100]);
    machine.run(10_000);
    (machine.seen, machine.timed) = ([0; 3], 0);
    machine.seconds(400);
    let others = machine.seen[0] + machine.seen[2];
    let all = machine.seen.iter().sum::<u64>();
    // 25 series of one trial in 16 seconds each, at most five laps of the other window.
    assert!(others > 0 && others * 100 < all, "{others} of {all} blocks");
    assert!(machine.timed < all / 50, "{} of {all} are timed", machine.timed);
    machine.costs = [100, 80, 60];
    machine.seconds(40);
    assert_eq!(machine.kib(), 128);
    machine.costs = [40, 80, 60];
    machine.seconds(40);
    assert_eq!(machine.kib(), 2048);
}

#[test]
fn noise_and_outliers_change_little() {
    for seed in 1..20 {
        let mut machine = Machine { seed, noise: 10, outliers: 10, ..Machine::new([110, 100, 110]) };
        machine.run(20_000);
        machine.seconds(60);
        assert_eq!(machine.kib(), 512, "seed {seed}");
        assert!(machine.chooser.changes() <= 2, "seed {seed}: {} changes", machine.chooser.changes());
    }
}

#[test]
fn one_outlier_changes_nothing() {
    let mut machine = Machine::new([110, 100, 110]);
    machine.run(20_000);
    let (class, blocks) = (machine.class, machine.chooser.blocks());
    for cost in [1, 1_000_000] {
        let when = (Nanos(machine.now), machine.blocks);
        assert!(!machine.chooser.note(class, blocks, cost, when));
        machine.seen = [0; 3];
        machine.run(2000);
        assert_eq!(machine.seen[0] + machine.seen[2], 0, "cost {cost}");
    }
}

/// Alone the window costs more than in trials: it comes back, and is left out for longer each time.
#[test]
fn a_window_that_does_not_prove_itself_is_left_out() {
    let mut machine = Machine::new([120, 100, 80]);
    for _ in 0..500 {
        machine.now += 250_000_000;
        for _ in 0..200 {
            let chosen = machine.chooser.chosen_blocks();
            machine.costs[2] = if chosen == 8 { 140 } else { 80 };
            machine.run(10);
        }
    }
    assert_eq!(machine.kib(), 512);
    let share = machine.seen[2] * 100 / machine.seen.iter().sum::<u64>();
    assert!(share < 3 && machine.chooser.changes() < 20, "{share} %, {} changes", machine.chooser.changes());
}

#[test]
fn a_peer_that_never_answers_changes_nothing() {
    let mut machine = Machine { answers: false, ..Machine::new([50, 100, 50]) };
    machine.run(10_000);
    assert_eq!((machine.kib(), machine.seen[0], machine.seen[2]), (512, 0, 0));
    // One that stops in a trial ends it.
    machine.answers = true;
    while machine.chooser.blocks() == 32 {
        machine.run(1);
    }
    machine.answers = false;
    machine.run(8 * 128 + 32 + 1);
    assert_eq!(machine.chooser.blocks(), 32);
}

#[test]
fn a_clock_that_jumps_does_no_harm() {
    for jump in [0, 1, u64::MAX - 1_000_000_000_000, 5_000_000_000] {
        let mut machine = Machine::new([110, 100, 110]);
        machine.run(20_000);
        machine.now = jump;
        machine.run(20_000);
        assert_eq!(machine.kib(), 512);
        machine.costs = [110, 100, 60];
        machine.seconds(40);
        assert_eq!(machine.kib(), 128, "jump to {jump}");
    }
}

#[test]
fn absurd_costs_do_no_harm() {
    let mut machine = Machine::new([100; 3]);
    for _ in 0..20_000 {
        let cost = [1, u32::MAX, 100, 1 << 20][machine.random(4) as usize];
        let (class, blocks) = (machine.class, machine.lap.blocks);
        machine.chooser.note(class, blocks, cost, (Nanos(machine.now), machine.blocks));
        machine.run(1);
        assert!([8, 32, 128].contains(&machine.chooser.blocks()));
    }
}

/// Kernels that have changed may want another window; while they are open, none is tried.
#[test]
fn a_changed_kernel_opens_the_choice() {
    let timed = KernelState { is_timed: true, ..SETTLED };
    let mut machine = Machine { kernels: timed, ..Machine::new([110, 100, 110]) };
    machine.run(5000);
    assert_eq!(machine.timed, machine.timed.min(500), "then the choice of kernels times");
    machine.costs = [110, 100, 60];
    machine.seen = [0; 3];
    machine.run(5000);
    machine.kernels = KernelState { is_settled: false, news: 1, ..timed };
    machine.run(5000);
    assert_eq!(machine.seen, [0, 10_000, 0]);
    machine.kernels.is_settled = true;
    machine.run(SOON);
    assert_eq!(machine.kib(), 128);
}

/// Two classes in turn, each of which costs least in another window: the one that moves more blocks decides, and nothing flaps.
#[test]
fn the_class_that_moves_most_decides() {
    for (long, short) in [(60, 40), (90, 10), (20, 80)] {
        let mut machine = Machine::new([100; 3]);
        for _ in 0..4000 {
            (machine.class, machine.costs) = (SizeClass::of(MESSAGE), [130, 100, 60]);
            machine.run(long);
            (machine.class, machine.costs) = (SizeClass::of(64 << 10), [60, 100, 130]);
            machine.run(short);
        }
        let best = if long > short { 128 } else { 2048 };
        let changes = machine.chooser.changes();
        assert_eq!(machine.kib(), best, "{long} and {short} blocks, {changes} changes");
        assert!(changes <= 3, "{long} and {short} blocks, {changes} changes");
    }
}

/// Messages that do not fill blocks decide nothing, and those that do not fill a window do not try it.
#[test]
fn short_messages_try_no_small_window() {
    for (bytes, costs, best) in
        [(8 << 10, [50, 100, 50], 512), (64 << 10, [100, 100, 50], 512), (64 << 10, [50, 100, 40], 2048)]
    {
        let mut machine = Machine { class: SizeClass::of(bytes), ..Machine::new(costs) };
        machine.run(20_000);
        assert_eq!((machine.kib(), machine.seen[2]), (best, 0), "{bytes} bytes");
    }
}

#[test]
fn a_given_window_is_kept_and_given_back() {
    let mut machine = Machine::new([100, 100, 50]);
    machine.chooser.pin(Some(600 << 10));
    assert_eq!((machine.chooser.blocks(), machine.chooser.reason()), (37, WindowReason::Pinned));
    machine.chooser.pin(Some(128 << 10));
    machine.lap = LapNow { blocks: 8, before: 8, is_first: false };
    machine.run(10_000);
    assert_eq!((machine.seen, machine.timed), ([0, 0, 10_000], 0));
    machine.chooser.pin(None);
    assert_eq!((machine.kib(), machine.chooser.reason()), (512, WindowReason::Start));
    machine.run(SOON + 8);
    assert_eq!((machine.kib(), machine.chooser.reason()), (128, WindowReason::Chosen));
}

/// The window of a landing buffer is the candidate nearest to the one before.
#[test]
fn a_larger_landing_buffer_keeps_the_window() {
    let mut machine = Machine::new([100, 100, 50]);
    machine.run(SOON);
    let ring = |block_count| Layout { block_count, ..LAYOUT };
    for (blocks, window) in [(2, 2), (512, 8), (32, 8), (128, 8)] {
        machine.chooser.enter(ring(blocks), 2, 128 << 10);
        assert_eq!(machine.chooser.blocks(), window, "{blocks} blocks");
    }
}

#[test]
fn trials_without_timings_pause_too() {
    let mut machine = Machine::new([110, 100, 110]);
    for _ in 0..4000 {
        machine.now += 1_000_000;
        for _ in 0..100 {
            machine.answers = machine.lap.blocks == 32; // no timing comes in a trial
            machine.run(1);
        }
    }
    let (others, all) = (machine.seen[0] + machine.seen[2], machine.seen.iter().sum::<u64>());
    assert!(others * 20 < all, "{others} of {all} blocks within 5.6 s");
}

#[test]
fn what_was_left_out_is_tried_after_a_move() {
    let took = [false, true].map(|is_timed| {
        let mut machine =
            Machine { kernels: KernelState { is_timed, ..SETTLED }, ..Machine::new([120, 100, 80]) };
        let rest = |machine: &mut Machine, cost| {
            // The kernels' timings at rest.
            if is_timed && machine.lap.is_steady() && machine.lap.blocks == 32 {
                machine.chooser.note(machine.class, 32, cost, (Nanos(machine.now), machine.blocks));
            }
        };
        for index in 0..160_000 {
            machine.now += if index % 200 == 0 { 250_000_000 } else { 0 };
            machine.costs[2] = if machine.chooser.chosen_blocks() == 8 { 140 } else { 80 };
            machine.run(10);
            rest(&mut machine, 100);
        }
        // The cores move; the small window is much better, and proves itself.
        machine.costs = [240, 200, 60];
        machine.kernels.news += u32::from(is_timed);
        let begin = machine.now;
        while machine.kib() != 128 && machine.now - begin < 2_000_000_000_000 {
            machine.now += 10_000_000;
            machine.run(100);
            rest(&mut machine, 200);
        }
        (machine.now - begin) / 1_000_000_000
    });
    assert!(took[1] <= took[0] + 2, "seconds, kernels pinned and chosen: {took:?}");
}

#[test]
fn measuring_ends_with_the_choice() {
    let mut machine = Machine::new([110, 100, 110]);
    while !machine.chooser.times_densely() {
        machine.run(1);
    }
    machine.chooser.enter(
        Layout { block_bytes: 256, block_count: 11, flags: FlagPlace::Inside },
        5,
        128 << 10,
    );
    machine.chooser.plan(
        machine.class,
        (machine.blocks, true),
        LapNow { blocks: 11, before: 11, is_first: true },
        SETTLED,
    );
    assert!(!machine.chooser.times_densely());
}

#[test]
fn a_window_that_came_back_was_not_chosen() {
    let mut machine = Machine::new([120, 100, 80]);
    for _ in 0..500 {
        machine.costs[2] = if machine.chooser.chosen_blocks() == 8 { 140 } else { 80 };
        machine.run(10);
    }
    assert_eq!((machine.kib(), machine.chooser.reason()), (512, WindowReason::Start));
}

/// Failures of a class say nothing about a choice that begins anew.
#[test]
fn what_was_left_out_is_tried_after_a_pin() {
    let mut machine = Machine::new([120, 100, 80]);
    for index in 0..160_000 {
        machine.now += if index % 200 == 0 { 250_000_000 } else { 0 };
        machine.costs[2] = if machine.chooser.chosen_blocks() == 8 { 140 } else { 80 };
        machine.run(10);
    }
    machine.chooser.pin(Some(512 << 10));
    machine.run(200);
    machine.chooser.pin(None);
    machine.costs[2] = 50;
    machine.run(SOON + 8);
    assert_eq!((machine.kib(), machine.chooser.reason()), (128, WindowReason::Chosen));
}

/// The last chunk of a lap is followed by a look for timings, too; two laps of messages that are not planned end that.
#[test]
fn a_lap_that_begins_ends_no_measurement() {
    let mut machine = Machine::new([110, 100, 110]);
    while !machine.chooser.times_densely() {
        machine.run(1);
    }
    machine.chooser.begin_lap(machine.blocks);
    assert!(machine.chooser.times_densely());
    machine.chooser.begin_lap(machine.blocks);
    assert!(!machine.chooser.times_densely());
}

#[test]
fn where_nothing_is_timed_asking_for_a_choice_pins_nothing() {
    let mut chooser = WindowChooser::new(None, 0);
    chooser.enter_untimed(LAYOUT, 5);
    let windows = [Some(128 << 10), None].map(|bytes| {
        chooser.pin_untimed(bytes);
        (chooser.pinned_blocks(), chooser.reason())
    });
    assert_eq!(windows, [(8, WindowReason::Pinned), (32, WindowReason::Start)]);
}

/// The smallest window is better in each trial, and not alone.
#[test]
fn a_window_that_fails_each_proof_is_opened_seldom() {
    let mut machine = Machine { noise: 20, ..Machine::new([120, 100, 80]) };
    for index in 0..300_000 {
        machine.now += if index % 400 == 0 { 10_000_000 } else { 0 };
        machine.costs[2] = if machine.chooser.chosen_blocks() == 8 { 140 } else { 80 };
        machine.run(1);
    }
    assert!(machine.chooser.changes() <= 20, "{} changes", machine.chooser.changes());
}

/// Kernels tell of moves then, so a cost that differs asks for nothing.
#[test]
fn where_kernels_tell_a_far_cost_times_nothing() {
    let kernels = KernelState { is_timed: true, ..SETTLED };
    let mut machine = Machine { kernels, ..Machine::new([100; 3]) };
    machine.seconds(40);
    let timed = machine.timed;
    for index in 0..200 {
        let (lap_blocks, cost) = (machine.chooser.chosen_blocks(), if index % 3 == 0 { 165 } else { 100 });
        machine.chooser.note(machine.class, lap_blocks, cost, (Nanos(machine.now), machine.blocks));
        machine.run(64);
    }
    assert!(machine.timed - timed < 20, "{} timed", machine.timed - timed);
}
