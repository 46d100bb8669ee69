//! Workloads and costs that change under the planner, and peers that decline.

use super::super::super::{Machine, Profile};
use super::super::*;
use super::NICS;
use super::machine::{Cell, Random, other};

const MACHINES: u64 = 100;

fn machine(number: u64) -> (Profile, Profile, Random) {
    let mut random = Random::new(number + 7000);
    let profile = Machine::ALL[(number % NICS) as usize].profile;
    let truth = other(&profile, &mut random);
    (profile, truth, random)
}

/// Messages out of `buffers` buffers in turn, those that are registered kept for ever; 0: each buffer is new.
struct Buffers {
    cells: [Cell; 3],
    registered: std::vec::Vec<bool>,
    seen: usize,
    next: usize,
    /// The sender remembers buffers that it did not register.
    remembers: bool,
}

impl Buffers {
    fn new(planner: &Planner, truth: &Profile, bytes: u64, buffers: usize, remembers: bool) -> Self {
        let memories = [Memory::Keepable, Memory::KeepableAgain, Memory::Kept];
        let cells = memories.map(|memory| Cell::new(planner, truth, bytes, memory));
        Self { cells, registered: std::vec![false; buffers], seen: 0, next: 0, remembers }
    }

    /// Returns the nanoseconds of a message of the two policies: all misses are registered, and none is. `reuse`: the part of messages out of buffers that were sent before.
    fn policies_ns(&self, reuse: f64) -> [f64; 2] {
        let [miss, _, hit] = &self.cells;
        let copied_ns = miss.truth[..3].iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let hit_ns = hit.ns(Way::RegisterCached).min(copied_ns);
        [(1.0 - reuse) * miss.ns(Way::Register) + reuse * hit_ns, copied_ns]
    }

    /// Sends a message out of the next buffer, or, if `is_new`, out of one that is used once.
    fn send(&mut self, planner: &mut Planner, random: &mut Random, is_new: bool) -> Plan {
        let [miss, again, hit] = &self.cells;
        if is_new || self.registered.is_empty() {
            return miss.send(planner, random);
        }
        let place = self.next;
        self.next = (self.next + 1) % self.registered.len();
        let cell = if self.registered[place] {
            hit
        } else if self.seen > place && self.remembers {
            again
        } else {
            miss
        };
        self.seen = self.seen.max(place + 1);
        let plan = cell.send(planner, random);
        self.registered[place] |= plan.way == Way::Register;
        plan
    }

    /// Checks that the choice for a miss is at most 10 % worse than the better policy.
    fn assert_good(&self, planner: &Planner, reuse: f64, name: &str) {
        let [registered_ns, copied_ns] = self.policies_ns(reuse);
        let choice = self.cells[0].choice(planner);
        let ns = match choice {
            Way::Register => registered_ns,
            way => self.cells[0].ns(way),
        };
        let best_ns = registered_ns.min(copied_ns);
        assert!(
            ns <= 1.1 * best_ns,
            "{name}: {ns} {best_ns} {}",
            planner.explain(self.cells[0].bytes, Memory::Keepable)
        );
    }
}

#[test]
fn reused_buffers_then_new_ones_then_reused_ones() {
    let (mut invested, mut cells) = (0, 0);
    for number in 0..MACHINES {
        for bytes in [256 << 10, 1 << 20, 4 << 20] {
            let (profile, truth, mut random) = machine(number);
            let mut planner = Planner::new(profile, Terms::default());
            let mut buffers = Buffers::new(&planner, &truth, bytes, 8, true);
            let name = std::format!("{number} {bytes}");
            for phase in 0..3 {
                let is_new = phase == 1;
                for _ in 0..32 {
                    buffers.send(&mut planner, &mut random, is_new);
                }
                // A reused buffer is registered once and pays for itself, whatever it costs.
                let reuse = planner.explain(bytes, Memory::Keepable).reuse;
                assert!((reuse < 0.15) == is_new && (reuse > 0.7) != is_new, "{name} {phase}: {reuse}");
                buffers.assert_good(&planner, reuse, &name);
                cells += 1;
                let choice = buffers.cells[0].choice(&planner);
                invested += u32::from(choice == Way::Register);
                // New buffers again, which were sent never before.
                buffers.registered.fill(false);
                buffers.seen = 0;
            }
        }
    }
    assert!(invested > cells / 10 && invested < cells / 10 * 9, "{invested} of {cells}");
}

#[test]
fn a_sender_without_memory_learns_of_reuse_by_trials() {
    let (mut most, mut cells) = (0, 0);
    for number in 0..MACHINES {
        let (profile, truth, mut random) = machine(number);
        let mut planner = Planner::new(profile, Terms::default());
        let mut buffers = Buffers::new(&planner, &truth, 1 << 20, 8, false);
        let [registered_ns, copied_ns] = buffers.policies_ns(1.0);
        // As rare as trials of what is dearer are.
        if registered_ns > 0.9 * copied_ns || buffers.cells[0].ns(Way::Register) > 3.0 * copied_ns {
            continue;
        }
        for _ in 0..300 {
            buffers.send(&mut planner, &mut random, true);
        }
        let count = (1..20_000).find(|_| {
            buffers.send(&mut planner, &mut random, false);
            buffers.registered.iter().filter(|&&is_registered| is_registered).count() >= 6
        });
        let explained = planner.explain(1 << 20, Memory::Keepable);
        assert!(count.is_some(), "{number} {registered_ns} {copied_ns} {:?} {explained}", buffers.registered);
        most = most.max(count.unwrap_or(0));
        cells += 1;
    }
    std::println!("{cells} machines, at most {most} messages");
    assert!(cells > 10 && most < 20_000, "{cells} {most}");
}

#[test]
fn small_messages_then_large_ones_then_small_ones() {
    for number in 0..MACHINES {
        for memory in [Memory::Unnamed, Memory::Fresh, Memory::Kept] {
            let (profile, truth, mut random) = machine(number);
            let mut planner = Planner::new(profile, Terms { c0_bytes: 12 << 10, ..Terms::default() });
            for bytes in [16 << 10, 4 << 20, 16 << 10, 64 << 20] {
                let cell = Cell::new(&planner, &truth, bytes, memory);
                cell.send_many(32, &mut planner, &mut random);
                let ratio = cell.ns(cell.choice(&planner)) / cell.best_ns();
                assert!(ratio < 1.11, "{number} {bytes} {ratio}: {}", planner.explain(bytes, memory));
            }
        }
    }
}

#[test]
fn the_chosen_way_that_takes_three_times_as_long_is_left() {
    let (mut left, mut cells) = (0, 0);
    for number in 0..MACHINES {
        for (memory, is_direct) in
            [(Memory::Unnamed, false), (Memory::Fresh, false), (Memory::Kept, false), (Memory::Kept, true)]
        {
            for bytes in [256 << 10, 4 << 20] {
                let (profile, truth, mut random) = machine(number);
                let mut planner = Planner::new(profile, Terms { is_direct, ..Terms::default() });
                let cell = Cell::new(&planner, &truth, bytes, memory);
                cell.send_many(100, &mut planner, &mut random);
                let slow = cell.choice(&planner);
                let factor = |way| if way == slow { 3.0 } else { 1.0 };
                for _ in 0..32 {
                    cell.send_slower(&mut planner, &mut random, factor);
                }
                let ns = |way| cell.ns(way) * factor(way);
                let choice = cell.choice(&planner);
                let possible = Way::ALL.into_iter().filter(|&way| cell.truth[way as usize].is_some());
                let best_ns = possible.map(ns).fold(f64::INFINITY, f64::min);
                let ratio = ns(choice) / best_ns;
                cells += 1;
                left += u32::from(choice != slow);
                let explained = planner.explain(bytes, memory);
                assert!(ratio < 1.15, "{number} {bytes} {ratio}: {slow:?} {:?} {explained}", cell.truth);
                // And back.
                cell.send_many(32, &mut planner, &mut random);
                let ratio = cell.ns(cell.choice(&planner)) / cell.best_ns();
                assert!(ratio < 3.1, "{number} {bytes} {ratio}: {explained}");
            }
        }
    }
    assert!(left > cells / 2, "{left} of {cells}");
}

#[test]
fn all_ways_three_times_as_slow_change_no_choice_for_worse() {
    for number in 0..MACHINES {
        let (profile, truth, mut random) = machine(number);
        let mut planner = Planner::new(profile, Terms::default());
        let cell = Cell::new(&planner, &truth, 1 << 20, Memory::Fresh);
        cell.send_many(100, &mut planner, &mut random);
        for _ in 0..32 {
            cell.send_slower(&mut planner, &mut random, |_| 3.0);
        }
        let ratio = cell.ns(cell.choice(&planner)) / cell.best_ns();
        assert!(ratio < 1.15, "{number} {ratio}: {}", planner.explain(1 << 20, Memory::Fresh));
        let plan = planner.plan(1 << 20, Memory::Fresh);
        assert!((plan.predicted_ns / cell.ns(plan.way) / 3.0 - 1.0).abs() < 0.25, "{plan:?}");
    }
}

/// Nothing but a rare trial shows it, and these are as rare as the way was dear.
#[test]
fn another_way_that_becomes_faster_is_found_in_the_end() {
    let (mut counts, mut cells) = (std::vec::Vec::new(), 0);
    for number in 0..MACHINES {
        let (profile, truth, mut random) = machine(number);
        let mut planner = Planner::new(profile, Terms::default());
        let cell = Cell::new(&planner, &truth, 1 << 20, Memory::Fresh);
        cell.send_many(200, &mut planner, &mut random);
        let chosen = cell.choice(&planner);
        let is_gain = |way: Way| {
            way != chosen && cell.truth[way as usize].is_some_and(|ns| ns / 3.0 < 0.7 * cell.ns(chosen))
        };
        let Some(fast) = Way::ALL.into_iter().find(|&way| is_gain(way)) else { continue };
        let factor = |way| if way == fast { 1.0 / 3.0 } else { 1.0 };
        let count = (1..20_000).find(|_| {
            cell.send_slower(&mut planner, &mut random, factor);
            cell.choice(&planner) == fast
        });
        counts.push(count.expect("it is found"));
        cells += 1;
    }
    counts.sort_unstable();
    std::println!("{cells} machines: median {}, at most {:?} messages", counts[cells / 2], counts.last());
    assert!(cells > 20 && counts[cells / 2] <= 300 && counts[cells - 1] < 2000, "{counts:?}");
}

/// Without direct store: mapped memory is not declined.
#[test]
fn a_peer_that_declines_costs_a_bounded_number() {
    for memory in [Memory::Fresh, Memory::Kept] {
        let (mut profile, _, mut random) = machine(3);
        // Registering is cheap here, so that the ways that are declined are the best.
        (profile.registration.latency_ns, profile.registration.bytes_per_ns) = (100.0, 1000.0);
        profile.registration.deregistration.latency_ns = 100.0;
        profile.copy.iter_mut().for_each(|step| step.bytes_per_ns = 3.0);
        let truth = profile;
        let mut planner = Planner::new(profile, Terms::default());
        let cell = Cell::new(&planner, &truth, 16 << 20, memory);
        let mut declined = 0;
        for count in 1..=40_000_u32 {
            let plan = planner.plan(cell.bytes, memory);
            if plan.way.is_through_landing() {
                planner.observe(cell.bytes, memory, plan.way, cell.ns(plan.way) * random.noise());
            } else {
                planner.declined(cell.bytes, memory, plan.way);
                declined += 1;
            }
            // Up to two ways, each after 8, 16, 32, .. messages.
            assert!(declined <= 2 * (count / 8 + 1).ilog2() + 4, "{declined} of {count}");
        }
        assert!(declined >= 8, "{declined}");
        // Once it takes messages again, they go that way again.
        for _ in 0..20_000 {
            cell.send(&mut planner, &mut random);
        }
        assert!(!cell.choice(&planner).is_through_landing(), "{}", planner.explain(cell.bytes, memory));
    }
}

#[test]
fn a_declined_way_is_left_out_of_its_class_only() {
    let mut planner = Planner::new(Machine::GRAPHENE.profile, Terms::default());
    let best = |planner: &Planner, bytes| planner.explain(bytes, Memory::Kept);
    assert_eq!(best(&planner, 1 << 20).chosen, Way::RegisterCached);
    planner.declined(1 << 20, Memory::Kept, Way::RegisterCached);
    assert_eq!(best(&planner, 1 << 20).reason, Reason::OtherDeclined);
    assert!(best(&planner, 1 << 20).chosen.is_through_landing());
    assert_eq!(best(&planner, 2 << 20).chosen, Way::RegisterCached);
    for _ in 0..8 {
        let plan = planner.plan(1 << 20, Memory::Kept);
        assert!(plan.way.is_through_landing());
        planner.observe(1 << 20, Memory::Kept, plan.way, plan.predicted_ns);
    }
    // It was never observed, so it has to prove itself.
    for _ in 0..8 {
        let plan = planner.plan(1 << 20, Memory::Kept);
        planner.observe(1 << 20, Memory::Kept, plan.way, plan.predicted_ns);
    }
    assert_eq!(best(&planner, 1 << 20).chosen, Way::RegisterCached);
}

#[test]
fn a_larger_landing_buffer_keeps_what_was_learnt() {
    let (profile, truth, mut random) = machine(1);
    let small = Terms { landing_bytes: 128 << 10, ..Terms::default() };
    let mut planner = Planner::new(profile, small);
    Cell::new(&planner, &truth, 1 << 20, Memory::Unnamed).send_many(50, &mut planner, &mut random);
    let large = Terms { landing_bytes: 8 << 20, ..small };
    planner.set_terms(large);
    assert_eq!(planner.terms(), &large);
    assert!(planner.explain(1 << 20, Memory::Unnamed).ways().any(|one| one.observations > 8));
    let eager = |terms| Planner::new(profile, terms).explain(1 << 20, Memory::Unnamed).ways().nth(2).copied();
    let learnt = planner.explain(1 << 20, Memory::Unnamed).ways().nth(2).copied();
    assert_eq!(learnt.map(|one| one.predicted_ns), eager(large).map(|one| one.predicted_ns));
    assert_ne!(eager(large), eager(small));
    planner.set_terms(Terms { has_zero_copy: false, ..large });
    assert!(planner.plan(1 << 20, Memory::Kept).way.is_through_landing());
}

/// The estimates of the other ways are old as well, and do not show it.
#[test]
fn slower_while_the_others_became_faster() {
    let mut cells = 0;
    for number in 0..MACHINES {
        for memory in [Memory::Fresh, Memory::Kept] {
            for bytes in [64 << 10, 256 << 10, 4 << 20] {
                let (mut profile, _, mut random) = machine(number);
                // Copies take so long that some ways are far apart.
                profile.copy.iter_mut().for_each(|step| step.bytes_per_ns /= 6.0);
                let truth = other(&profile, &mut random);
                let terms = Terms { c0_bytes: 12 << 10, ..Terms::default() };
                let mut planner = Planner::new(profile, terms);
                let cell = Cell::new(&planner, &truth, bytes, memory);
                cell.send_many(100, &mut planner, &mut random);
                let chosen = cell.choice(&planner);
                let is_dearer = |ns: f64| ns > 3.2 * cell.ns(chosen);
                if !cell
                    .truth
                    .iter()
                    .enumerate()
                    .all(|(way, ns)| way == chosen as usize || ns.is_none_or(is_dearer))
                {
                    continue;
                }
                let factor = |way| if way == chosen { 3.0 } else { 1.0 / 3.0 };
                for _ in 0..36 {
                    cell.send_slower(&mut planner, &mut random, factor);
                }
                let choice = cell.choice(&planner);
                let possible = Way::ALL.into_iter().filter(|&way| cell.truth[way as usize].is_some());
                let ns = |way| cell.ns(way) * factor(way);
                let best_ns = possible.map(ns).fold(f64::INFINITY, f64::min);
                let explained = planner.explain(bytes, memory);
                assert!(ns(choice) < 1.15 * best_ns, "{number} {bytes} {:?} {explained}", cell.truth);
                cells += u32::from(choice != chosen);
            }
        }
    }
    assert!(cells > 5, "{cells}");
}

#[test]
fn hits_alone_make_a_miss_worth_registering() {
    let mut planner = Planner::new(Machine::GRAPHENE.profile, Terms::default());
    let bytes = 128 << 10;
    let choice = |planner: &Planner| planner.explain(bytes, Memory::Keepable).chosen;
    (0..40).for_each(|_| planner.observe(bytes, Memory::Keepable, Way::Superpipeline, 1e5));
    assert!(choice(&planner).is_through_landing());
    // Copies take as long as predicted for a hit and half of it more.
    let hit_ns = planner.model.ns(Way::RegisterCached, Kind::Kept, bytes as f64);
    for way in [Way::Superpipeline, Way::Pipeline, Way::Eager, Way::Superpipeline] {
        (0..20).for_each(|_| planner.observe(bytes, Memory::Unnamed, way, 1.5 * hit_ns));
    }
    assert!(choice(&planner).is_through_landing(), "{}", planner.explain(bytes, Memory::Keepable));
    (0..5).for_each(|_| planner.observe(bytes, Memory::Keepable, Way::Register, 2.0 * hit_ns));
    assert!(choice(&planner).is_through_landing(), "{}", planner.explain(bytes, Memory::Keepable));
    for _ in 0..200 {
        planner.observe(bytes, Memory::Kept, Way::RegisterCached, hit_ns);
    }
    let explained = planner.explain(bytes, Memory::Keepable);
    assert_eq!((explained.chosen, explained.reason), (Way::Register, Reason::Invested), "{explained}");
}

#[test]
fn corrections_are_taken_over_by_other_classes() {
    let mut planner = Planner::new(Machine::GRAPHENE.profile, Terms::default());
    let correction = |planner: &Planner, bytes, memory| {
        let explained = planner.explain(bytes, memory);
        explained.ways().next().map(|one| (one.correction, one.observations))
    };
    let took_ns = 2.0 * planner.model.ns(Way::Superpipeline, Kind::Unnamed, 1_048_576.0);
    (0..9).for_each(|_| planner.observe(1 << 20, Memory::Unnamed, Way::Superpipeline, took_ns));
    let near = |one: Option<(f64, u8)>, by: f64| one.is_some_and(|(one, _)| (one / by - 1.0).abs() < 1e-3);
    assert!(near(correction(&planner, 1 << 20, Memory::Kept), 2.0));
    assert_eq!(correction(&planner, 1 << 20, Memory::Kept).map(|(_, count)| count), Some(0));
    for (bytes, distance) in [(2 << 20, 1), (512 << 10, 1), (16 << 20, 4)] {
        let expected = 0.8_f64.powi(distance).exp2();
        assert!(near(correction(&planner, bytes, Memory::Unnamed), expected), "{bytes}");
    }
}
