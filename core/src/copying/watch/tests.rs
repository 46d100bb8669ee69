//! Costs and medians by tables, and what the watch makes of them.

use super::*;

/// Returns a watch whose reference is 1000, of so many medians, where costs take `noise` percent more and less in turn.
fn settled(medians: u32, noise: u32) -> Watch {
    let mut watch = Watch::NEW;
    watch.settle(1000, false);
    for turn in 0..64 {
        watch.note(if turn % 2 == 0 { 1000 - 10 * noise } else { 1000 + 10 * noise });
    }
    (1..medians).for_each(|_| assert!(!watch.has_moved(1000)));
    watch.note(1000);
    watch
}

/// Returns how many such medians open the choice; 0 if 200 do not.
fn opens_after(watch: &mut Watch, medians: &[u32]) -> usize {
    let mut medians = medians.iter().cycle().take(200);
    medians.position(|median| watch.has_moved(*median)).map_or(0, |at| at + 1)
}

#[test]
fn a_changed_median_opens_soon_if_noise_is_small() {
    let steady = [(2000, 4), (1240, 4), (1160, 8), (1070, 0), (930, 0), (840, 6), (770, 4), (1, 4)];
    let young = [(2000, 4), (1260, 13), (1130, 0), (870, 0), (740, 7), (1, 4)];
    for (medians, table) in [(8, &steady[..]), (1, &young)] {
        for (median, opens) in table {
            let mut watch = settled(medians, 0);
            assert_eq!(opens_after(&mut watch, &[*median]), *opens, "{median} after {medians}");
        }
    }
}

#[test]
fn the_slack_follows_the_noise() {
    for (noise, slack) in [(0, 20), (5, 20), (10, 28), (15, 39), (25, 61), (90, 78)] {
        assert_eq!(settled(8, noise).slack(), slack, "noise of {noise} %");
    }
    let mut watch = settled(8, 0);
    let before = watch.noise / NOISE_COSTS;
    for cost in [5000, 5000, 1000, 1000] {
        watch.note(cost);
    }
    let outlier = u16::try_from(NOISE_MAX).unwrap_or(0) / NOISE_COSTS;
    assert!(watch.noise / NOISE_COSTS <= before + 2 * outlier, "a move counts once, an outlier twice");
}

/// Every third median is one that noise explains; of two in turn, one is.
#[test]
fn a_move_within_the_noise_is_found_and_carries_nothing_along() {
    for (medians, opens) in [
        ([1380, 1380, 1100], 47),
        ([700, 700, 900], 44),
        ([1180, 900, 1000], 0),
        ([1600, 1000, 1000], 0),
        ([2000, 1000, 1000], 0),
    ] {
        let mut watch = settled(8, 12);
        watch.patience = 4;
        assert_eq!(opens_after(&mut watch, &medians), opens, "{medians:?}");
        assert!(opens == 0 || watch.reference().abs_diff(1000) <= 20, "{}", watch.reference());
    }
}

/// A connection between near cores that moves far apart at once: neither its noise nor its costs are known well.
#[test]
fn a_large_move_of_a_young_connection_is_found_soon() {
    for [low, high] in [[15_000, 25_000], [400, 500], [1500, 2000]] {
        let (mut watch, mut samples) = (Watch::NEW, crate::copying::samples::Samples::NONE);
        watch.settle(1000, false);
        let opens = (1..=200).find(|turn| {
            let cost = if turn % 2 == 0 { low } else { high };
            watch.note(cost);
            samples.add(cost);
            samples.median().is_some_and(|median| watch.has_moved(median))
        });
        assert!(opens.is_some_and(|costs| costs <= 12), "{low} to {high}: {opens:?}");
    }
}

/// Two kinds of buffers, of which one costs twice as much.
#[test]
fn two_costs_at_random_open_seldom() {
    let (mut watch, mut samples) = (Watch::NEW, crate::copying::samples::Samples::NONE);
    watch.settle(1000, false);
    let (mut seed, mut opened) = (1_u64, 0);
    for _ in 0..100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let cost = if seed >> 63 == 0 { 1000 } else { 2000 };
        watch.note(cost);
        samples.add(cost);
        if samples.median().is_some_and(|median| watch.has_moved(median)) {
            opened += 1;
            watch.open();
            watch.settle(cost, false);
        }
    }
    assert!(opened <= 200, "{opened}");
}

#[test]
fn one_median_takes_off_no_more_than_another_one_adds() {
    let mut watch = settled(8, 0);
    watch.patience = 4;
    let mut medians = [2000; 20];
    medians[6] = 1;
    assert_eq!(opens_after(&mut watch, &medians), 18);
}

#[test]
fn the_reference_follows_what_is_no_move() {
    let mut watch = settled(8, 0);
    for median in (1000..2000).step_by(2) {
        assert!(!watch.has_moved(median), "{median}");
    }
    assert!(watch.reference() > 1900);
}

/// The cores move while an opening in vain ends.
#[test]
fn an_opening_in_vain_keeps_the_reference() {
    for (cost, later, opens) in [(1000, 850, 13), (1120, 850, 12), (1240, 1150, 0), (1400, 1150, 22)] {
        let mut watch = settled(8, 0);
        watch.open();
        watch.settle(cost, false);
        assert_eq!(opens_after(&mut watch, &[later]), opens, "{cost}");
    }
}

#[test]
fn only_openings_in_vain_make_the_next_one_later() {
    for (now, is_replaced, patience) in
        [(100, false, 2), (100, true, 1), (123, false, 2), (124, false, 1), (76, false, 1), (77, false, 2)]
    {
        let mut watch = Watch::NEW;
        watch.settle(100, false);
        watch.open();
        watch.open();
        watch.settle(now, is_replaced);
        assert_eq!(watch.patience(), patience, "{now}");
    }
    let mut watch = Watch::NEW;
    for patience in [1, 2, 4, 8, 16, 16] {
        watch.settle(100, false);
        assert_eq!(watch.patience(), patience);
        watch.open();
    }
    watch.settle(300, false);
    assert_eq!(watch.patience(), 16, "a move that replaces nothing proves nothing of the noise");
    watch.open();
    watch.settle(100, true);
    assert_eq!(watch.patience(), 16, "it has to prove itself");
    watch.prove(90);
    assert_eq!(watch.patience(), 1);
    // After an opening for another cost, and after one for the same.
    for (now, [proved, failed]) in [(300, [1, 4]), (90, [2, 4])] {
        let mut watch = Watch { patience: 2, ..Watch::NEW };
        watch.settle(90, false);
        watch.open();
        watch.settle(now, true);
        let mut other = watch;
        watch.prove(80);
        other.fail(90);
        assert_eq!([watch.patience(), other.patience()], [proved, failed], "{now}");
        other.fail(90);
        assert_eq!(other.patience(), failed, "no opening");
    }
}

/// Whatever the noise.
#[test]
fn a_change_by_more_than_a_quarter_was_not_in_vain() {
    for (cost, patience) in [(1250, 2), (1254, 1)] {
        let mut watch = settled(8, 90);
        watch.open();
        watch.settle(cost, false);
        assert_eq!(watch.patience(), patience, "{cost}");
    }
}

#[test]
fn a_reference_that_is_kept_is_as_young_as_before() {
    for (medians, slack) in [(2, 40), (3, 20), (8, 20)] {
        let mut watch = settled(medians, 0);
        watch.open();
        watch.settle(1000, false);
        assert_eq!(watch.slack(), slack, "{medians}");
    }
}

#[test]
fn absurd_costs_do_no_harm() {
    let mut watch = settled(8, 0);
    for turn in 0..1000 {
        let cost = [1, u32::MAX, 1000, 0][turn % 4];
        watch.note(cost);
        if watch.has_moved(cost) {
            watch.open();
            watch.settle(cost, turn % 3 == 0);
        }
    }
    assert!(watch.noise <= NOISE_COSTS * u16::try_from(NOISE_MAX).unwrap_or(0) + NOISE_COSTS);
}

/// Without it the end that opens first, whose peer then tells the time of its chosen kernel rarely, keeps the other one from opening.
#[test]
fn a_sum_that_has_begun_presses() {
    let mut watch = settled(8, 0);
    for (median, is_pressing) in [(1000, false), (1300, true), (1000, false), (780, true), (1000, false)] {
        watch.note(1000);
        assert!(!watch.has_moved(median));
        assert_eq!((watch.is_pressing(), watch.is_doubted), (is_pressing, false), "{median}");
    }
}

#[test]
fn doubts_are_few() {
    let mut watch = Watch::NEW;
    watch.note(1);
    watch.settle(100, false);
    watch.note(300);
    assert!(!watch.is_doubted, "nothing is known of the noise yet");
    (0..40).for_each(|_| watch.note(110));
    let doubted = (0..40).filter(|_| {
        watch.note(300);
        watch.is_doubted
    });
    assert_eq!(doubted.count(), 16);
    watch.note(100);
    watch.note(20);
    assert!(watch.is_doubted);
    watch.note(20);
    assert!(!watch.is_doubted, "one cost gives one doubt back");
}

#[test]
fn noise_explains_a_single_cost_between_11_and_25_sixteenths() {
    for (cost, is_doubted) in [(687, true), (688, false), (1562, false), (1563, true)] {
        let mut watch = settled(8, 0);
        watch.note(cost);
        assert_eq!(watch.is_doubted, is_doubted, "{cost}");
    }
}

#[test]
fn a_restart_forgets_the_last_cost() {
    let mut watch = settled(8, 0);
    let noise = watch.noise;
    watch.note(3000);
    assert!(watch.is_doubted && watch.noise > noise);
    let noise = watch.noise;
    watch.restart(1000);
    assert!(!watch.is_doubted);
    watch.note(1000);
    assert_eq!(watch.noise, noise, "no difference from before");
}

/// A sum that stays above 0 and never comes to its limit.
#[test]
fn a_sum_presses_for_a_bounded_number_of_costs() {
    let mut watch = settled(8, 0);
    watch.patience = 16;
    let pressing = (0..60).filter(|_| {
        watch.note(1000);
        assert!(!watch.has_moved(1300));
        watch.is_pressing()
    });
    assert!((15..=17).contains(&pressing.count()));
}

/// Each opening has one proof: a choice that wins later, without an opening, says nothing of it.
#[test]
fn a_proof_counts_for_its_opening_only() {
    for proves in [true, false] {
        let mut watch = Watch { patience: 4, ..Watch::NEW };
        watch.settle(90, false);
        watch.open();
        watch.settle(300, true);
        watch.prove(80);
        assert_eq!(watch.patience(), 1);
        watch.patience = 4;
        if proves {
            watch.prove(80)
        } else {
            watch.fail(80)
        }
        assert_eq!(watch.patience(), 4, "{proves}");
    }
}
