//! Accounting, refusals, and the order of reclaim.

mod fairness;

use super::super::place::{DEMAND_NS, PATIENCE_NS};
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 8 * MIB;
/// What is not reserve.
const LENDABLE: u64 = 6 * MIB;
const PAGE: u64 = 4096;
const SLAB: u64 = 64 << 10;
const MS: u64 = 1_000_000;

type Small = Pool<AtomicU64, 16>;

/// The limit at a time in milliseconds.
fn at(ms: u64) -> Terms {
    Terms { limit_bytes: LIMIT, now_ns: ms * MS }
}

fn members<const K: usize>(pool: &Small) -> [Member; K] {
    array::from_fn(|_| pool.open(PAGE, at(1)).unwrap())
}

fn cause(refused: Result<(), Refusal>) -> RefusalCause {
    refused.unwrap_err().cause
}

#[test]
fn a_hog_leaves_the_reserve_to_minimums() {
    let pool = Small::new();
    let [hog] = members(&pool);
    assert_eq!(pool.grow(&hog, LENDABLE, at(1)), Ok(()));
    let refused = pool.grow(&hog, 1, at(1)).unwrap_err();
    assert_eq!(
        refused,
        Refusal { cause: RefusalCause::Limit, bytes_max: 0, used: LENDABLE + PAGE, members: 1 }
    );
    // All of the reserve, by members of both kinds.
    let mut fixed = pool.open_fixed(MIB, at(1)).unwrap();
    let mut opened = pool.open(MIB - 2 * PAGE, at(1)).unwrap();
    pool.raise(&mut opened, PAGE, at(1)).unwrap();
    let all = Use { used: LIMIT, reserved: 2 * MIB, grown: LENDABLE, cached: 0, members: 3 };
    assert_eq!(pool.usage(), all);
    assert_eq!(pool.open(1, at(1)).unwrap_err(), NoRoom { used: LIMIT });
    assert_eq!(pool.raise(&mut opened, 1, at(1)), Err(NoRoom { used: LIMIT }));
    assert_eq!(pool.usage(), all);
    pool.close(&mut fixed);
    assert_eq!(pool.usage().used, LIMIT - MIB);
}

#[test]
fn minimums_beyond_the_reserve_are_not_lent() {
    let pool = Small::new();
    let mut fixed = pool.open_fixed(5 * MIB, at(1)).unwrap();
    let [one] = members(&pool);
    let refused = pool.grow(&one, 3 * MIB, at(1)).unwrap_err();
    assert_eq!((refused.cause, refused.bytes_max), (RefusalCause::Limit, 3 * MIB - PAGE));
    pool.grow(&one, 3 * MIB - PAGE, at(1)).unwrap();
    assert_eq!(pool.used(), LIMIT);
    pool.close(&mut fixed);
    assert_eq!(
        pool.usage(),
        Use { used: 3 * MIB, reserved: PAGE, grown: 3 * MIB - PAGE, cached: 0, members: 1 }
    );
}

#[test]
fn a_part_of_a_minimum_is_given_back_before_the_rest() {
    let pool = Small::new();
    let mut whole = pool.open(3 * PAGE, at(1)).unwrap();
    let mut part = Small::split(&mut whole, PAGE);
    pool.grow(&whole, MIB, at(1)).unwrap();
    let both = Use { used: MIB + 3 * PAGE, reserved: 3 * PAGE, grown: MIB, cached: 0, members: 1 };
    assert_eq!((pool.usage(), pool.bytes(&whole), pool.bytes(&part)), (both, MIB + 2 * PAGE, PAGE));
    assert_eq!(cause(pool.grow(&part, 1, at(1))), RefusalCause::NoPlace);
    pool.close(&mut part);
    assert_eq!(pool.usage(), Use { used: MIB + 2 * PAGE, reserved: 2 * PAGE, ..both });
    // No more than there is, and after the whole as well.
    let mut rest = Small::split(&mut whole, MIB);
    assert_eq!(pool.bytes(&rest), 2 * PAGE);
    pool.close(&mut whole);
    assert_eq!(pool.usage(), Use { used: 2 * PAGE, reserved: 2 * PAGE, grown: 0, cached: 0, members: 0 });
    pool.close(&mut rest);
    assert_eq!(pool.used(), 0);
}

#[test]
fn a_sum_does_not_wrap() {
    let pool = Small::new();
    let [one] = members(&pool);
    let terms = Terms { limit_bytes: u64::MAX, now_ns: MS };
    assert_eq!(pool.open_fixed(u64::MAX, terms).unwrap_err(), NoRoom { used: PAGE });
    assert_eq!(cause(pool.grow(&one, u64::MAX, terms)), RefusalCause::Limit);
    assert_eq!(pool.used(), PAGE);
}

#[test]
fn no_more_is_given_back_than_was_lent() {
    let pool = Small::new();
    let [mut one, other] = members(&pool);
    pool.grow(&one, MIB, at(1)).unwrap();
    pool.cache(&one, SLAB, at(1)).unwrap();
    pool.grow(&other, MIB, at(1)).unwrap();
    assert_eq!(pool.bytes(&one), PAGE + MIB + SLAB);
    pool.shrink(&one, 2 * MIB);
    assert_eq!(
        pool.usage(),
        Use { used: MIB + SLAB + 2 * PAGE, reserved: 2 * PAGE, grown: MIB, cached: SLAB, members: 2 }
    );
    pool.uncache(&one, u64::MAX);
    assert_eq!((pool.usage().cached, pool.bytes(&one)), (0, PAGE));
    pool.grow(&one, MIB, at(1)).unwrap();
    pool.close(&mut one);
    pool.close(&mut one);
    assert_eq!(pool.bytes(&one), 0);
    assert_eq!((pool.used(), pool.usage().grown), (MIB + PAGE, MIB));
}

#[test]
fn a_member_without_a_place_never_grows() {
    let pool = Pool::<AtomicU64, 2>::new();
    let fixed = pool.open_fixed(PAGE, at(1)).unwrap();
    assert_eq!(cause(pool.grow(&fixed, 1, at(1))), RefusalCause::NoPlace);
    let mut places: [Member; 3] = array::from_fn(|_| pool.open(PAGE, at(1)).unwrap());
    let grown = places.each_ref().map(|member| pool.grow(member, 1, at(1)).is_ok());
    assert_eq!(grown, [true, true, false]);
    // A place that is left is taken again, and nothing of the old member is left.
    pool.set_idle(&places[0], true, MS);
    pool.close(&mut places[0]);
    let next = pool.open(PAGE, at(1)).unwrap();
    assert_eq!((pool.bytes(&next), pool.excess(&next)), (PAGE, 0));
    pool.grow(&next, 1, at(1)).unwrap();
    assert_eq!(pool.usage().members, 4);
}

#[test]
fn reclaim_goes_by_class() {
    let pool = Small::new();
    let [idle, cacher, above, asker] = members(&pool);
    pool.grow(&idle, MIB, at(1)).unwrap();
    pool.cache(&cacher, 2 * MIB, at(1)).unwrap();
    pool.grow(&above, 3 * MIB, at(1)).unwrap();
    pool.set_idle(&idle, true, MS);
    let asked = || (pool.excess(&idle), pool.cached_excess(&cacher), pool.excess(&above));
    assert_eq!(asked(), (0, 0, 0));

    let refused = pool.grow(&asker, SLAB, at(1)).unwrap_err();
    assert_eq!((refused.cause, refused.bytes_max), (RefusalCause::Limit, 0));
    assert_eq!(asked(), (MIB, 0, 0), "the idle one suffices");
    // It asks again before the idle one had time.
    pool.grow(&asker, SLAB, at(2)).unwrap_err();
    assert_eq!(asked(), (MIB, 0, 0));
    // More than the idle one has.
    pool.grow(&asker, MIB + SLAB, at(3)).unwrap_err();
    assert_eq!(asked(), (MIB, SLAB, 0), "as many registrations as are lacking");
    pool.shrink(&idle, MIB);
    pool.uncache(&cacher, SLAB);
    assert_eq!(asked(), (0, 0, 0));
    pool.grow(&asker, MIB + SLAB, at(4)).unwrap();
}

#[test]
fn those_above_their_fair_share_come_last() {
    let pool = Small::new();
    let [idle, cacher, above, asker] = members(&pool);
    pool.grow(&idle, SLAB, at(1)).unwrap();
    pool.cache(&cacher, SLAB, at(1)).unwrap();
    pool.grow(&above, LENDABLE - 2 * SLAB, at(1)).unwrap();
    pool.set_idle(&idle, true, MS);
    let asked = || (pool.excess(&idle), pool.cached_excess(&cacher), pool.excess(&above));
    pool.grow(&asker, 2 * SLAB, at(1)).unwrap_err();
    assert_eq!(asked(), (SLAB, SLAB, 0));
    // The fair share of two.
    pool.grow(&asker, 2 * SLAB + 1, at(1)).unwrap_err();
    assert_eq!(asked(), (SLAB, SLAB, LENDABLE / 2 - 2 * SLAB));
    for (member, bytes) in [(&idle, SLAB), (&above, LENDABLE)] {
        pool.shrink(member, bytes);
    }
    pool.grow(&asker, LENDABLE / 2, at(2)).unwrap();
}

#[test]
fn a_demand_above_the_fair_share_takes_idle_memory_only() {
    let pool = Small::new();
    let [one, other, idle] = members(&pool);
    pool.grow(&one, 3 * MIB, at(1)).unwrap();
    pool.grow(&other, 2 * MIB, at(1)).unwrap();
    pool.grow(&idle, MIB, at(1)).unwrap();
    pool.set_idle(&idle, true, MS);
    // Its fair share is 3 MiB, which it has.
    assert_eq!(cause(pool.grow(&one, 2 * MIB, at(1))), RefusalCause::Limit);
    assert_eq!((pool.excess(&idle), pool.excess(&other)), (MIB, 0));
    pool.shrink(&idle, MIB);
    // Nothing is kept for it: the other may have that as well.
    assert_eq!(pool.grow(&other, MIB, at(1)), Ok(()));
}

#[test]
fn while_one_waits_nobody_exceeds_its_fair_share() {
    let pool = Small::new();
    let [hog, asker] = members(&pool);
    pool.grow(&hog, LENDABLE, at(1)).unwrap();
    assert_eq!(cause(pool.grow(&asker, MIB, at(1))), RefusalCause::Limit);
    assert_eq!(pool.excess(&hog), 3 * MIB);
    let give_back = RefusalCause::GiveBack { excess_bytes: 3 * MIB };
    assert_eq!(cause(pool.grow(&hog, 1, at(1))), give_back);
    pool.shrink(&hog, LENDABLE);
    let refused = pool.grow(&hog, 4 * MIB, at(2)).unwrap_err();
    assert_eq!(
        (refused.cause, refused.bytes_max),
        (RefusalCause::FairShare { fair_bytes: 3 * MIB }, 3 * MIB)
    );
    assert_eq!(
        pool.cache(&hog, 1, at(2)).map_err(|it| it.bytes_max),
        Err(0),
        "registrations are for leisure"
    );
    pool.grow(&hog, 3 * MIB, at(2)).unwrap();
    pool.grow(&asker, MIB, at(3)).unwrap();
    pool.cache(&asker, 1, at(3)).unwrap();
    assert_eq!(
        pool.cache(&hog, 3 * MIB + 1, at(3)).map_err(|it| it.bytes_max),
        Err(2 * MIB - 1),
        "its fair share"
    );
    assert_eq!(pool.grow(&hog, 2 * MIB, at(1000)).map_err(|it| it.bytes_max), Err(0));
    pool.grow(&hog, 2 * MIB - 1, at(1001)).unwrap();
}

#[test]
fn a_demand_is_forgotten_after_a_while_or_when_idle() {
    for is_withdrawn in [false, true] {
        let pool = Small::new();
        let [hog, asker] = members(&pool);
        pool.grow(&hog, LENDABLE, at(1)).unwrap();
        pool.grow(&asker, MIB, at(1)).unwrap_err();
        pool.shrink(&hog, LENDABLE);
        let (waits, over) = (at(2), at(1 + DEMAND_NS / MS));
        assert!(matches!(cause(pool.grow(&hog, LENDABLE, waits)), RefusalCause::FairShare { .. }));
        if is_withdrawn {
            pool.set_idle(&asker, true, 2 * MS);
        }
        pool.grow(&hog, LENDABLE, if is_withdrawn { waits } else { over }).unwrap();
    }
}

#[test]
fn an_idle_member_gives_back_at_once_while_one_waits() {
    let pool = Small::new();
    let [hog, other, asker] = members(&pool);
    pool.grow(&hog, 4 * MIB, at(1)).unwrap();
    pool.grow(&other, 2 * MIB, at(1)).unwrap();
    pool.set_idle(&other, true, MS);
    assert_eq!(pool.excess(&other), 0, "there is no need");
    pool.set_idle(&other, false, MS);
    pool.grow(&asker, MIB, at(1)).unwrap_err();
    assert_eq!((pool.excess(&hog), pool.excess(&other)), (2 * MIB, 0));
    pool.set_idle(&other, true, MS);
    assert_eq!(pool.excess(&other), 2 * MIB);
    // Data flow again: it may keep its fair share, and grow again.
    pool.set_idle(&other, false, MS);
    assert_eq!(pool.excess(&other), 0);
    pool.set_idle(&other, true, MS);
    assert!(!matches!(cause(pool.grow(&other, MIB, at(1))), RefusalCause::GiveBack { .. }));
    assert_eq!(pool.excess(&other), 0, "growing ends idleness");
}

#[test]
fn a_member_may_grow_again_once_nobody_waits() {
    // It cannot give back: it writes to landing buffers that its peer owns.
    let pool = Small::new();
    let [sender, mut asker] = members(&pool);
    pool.grow(&sender, 4 * MIB, at(1)).unwrap();
    pool.grow(&asker, 3 * MIB, at(1)).unwrap_err();
    assert!(pool.excess(&sender) > 0);
    pool.close(&mut asker);
    let waits = DEMAND_NS / MS;
    assert!(matches!(cause(pool.grow(&sender, SLAB, at(waits))), RefusalCause::GiveBack { .. }));
    assert_eq!(pool.grow(&sender, SLAB, at(1 + waits)), Ok(()));
    assert_eq!(pool.excess(&sender), 0);
    // The same for a minimum that was refused, and for registrations.
    pool.cache(&sender, SLAB, at(1 + waits)).unwrap();
    pool.open(LIMIT - 2 * SLAB, at(2 + waits)).unwrap_err();
    assert!(pool.excess(&sender) > 0 && pool.cached_excess(&sender) > 0);
    let later = at(2 + waits + PATIENCE_NS / MS);
    assert_eq!((pool.grow(&sender, SLAB, later), pool.cache(&sender, SLAB, later)), (Ok(()), Ok(())));
}

#[test]
fn what_is_withheld_is_asked_of_others() {
    let pool = Small::new();
    let [idle, above, asker] = members(&pool);
    pool.grow(&idle, 2 * MIB, at(1)).unwrap();
    pool.grow(&above, 4 * MIB, at(1)).unwrap();
    pool.set_idle(&idle, true, MS);
    let patience_ms = PATIENCE_NS / MS;
    for (ms, expected) in [(1, 0), (patience_ms, 0), (1 + patience_ms, 2 * MIB)] {
        pool.grow(&asker, MIB, at(ms)).unwrap_err();
        // Its fair share is half of the 4 MiB that are left.
        assert_eq!((pool.excess(&idle), pool.excess(&above)), (2 * MIB, expected), "at {ms} ms");
    }
    pool.shrink(&above, 4 * MIB);
    pool.grow(&asker, 2 * MIB, at(30)).unwrap();
    pool.grow(&above, 2 * MIB, at(30)).unwrap();
    assert_eq!(pool.used(), LENDABLE + 3 * PAGE);
    // It gives back after all, and is one of three.
    pool.shrink(&idle, 2 * MIB);
    pool.grow(&idle, 2 * MIB, at(31)).unwrap();
}

#[test]
fn a_minimum_without_room_is_asked_of_loans_and_kept() {
    let pool = Small::new();
    let [hog] = members(&pool);
    pool.grow(&hog, LENDABLE, at(1)).unwrap();
    let minimum = 3 * MIB;
    pool.open(minimum, at(1)).unwrap_err();
    assert_eq!(pool.excess(&hog), 3 * MIB, "what the hog has above half");
    pool.shrink(&hog, LENDABLE);
    // The hog is faster.
    let refused = pool.grow(&hog, LENDABLE, at(2)).unwrap_err();
    assert_eq!((refused.cause, refused.bytes_max), (RefusalCause::Limit, 5 * MIB - PAGE));
    pool.grow(&hog, 4 * MIB, at(3)).unwrap();
    let opened = pool.open(minimum, at(4)).unwrap();
    assert_eq!(pool.bytes(&opened), minimum);
    // It is kept for a moment only, and not if no loan makes room for it.
    let all = LIMIT - minimum - PAGE;
    pool.open(all, at(5)).unwrap_err();
    pool.open(all + 1, at(5)).unwrap_err();
    pool.open(LIMIT + 1, at(5)).unwrap_err();
    assert!(pool.excess(&hog) > 0, "asked for what makes room");
    pool.shrink(&hog, 4 * MIB);
    assert_eq!(cause(pool.grow(&hog, MIB, at(5))), RefusalCause::Limit);
    pool.grow(&hog, MIB, at(5 + PATIENCE_NS / MS)).unwrap();
}

/// A stranger that asks for more than can ever be given back takes nothing from anybody.
#[test]
fn a_minimum_that_can_never_fit_strips_nobody() {
    let pool = Small::new();
    let [hog] = members(&pool);
    let _fixed = pool.open(2 * MIB, at(1)).unwrap();
    pool.cache(&hog, MIB, at(1)).unwrap();
    pool.grow(&hog, 2 * MIB, at(1)).unwrap();
    pool.open(LIMIT - MIB, at(2)).unwrap_err();
    assert_eq!((pool.excess(&hog), pool.cached_excess(&hog)), (0, 0));
    pool.grow(&hog, MIB, at(2)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_sums_are_those_of_the_members(
        ops in prop::collection::vec((0..8_usize, 0..10_u8, 0..3 * MIB, 0..40_u64), 1..200)
    ) {
        let pool = Small::new();
        let mut now_ms = 1;
        // minimum, grown, cached
        let mut members: [Option<(Member, [u64; 3])>; 8] = array::from_fn(|_| None);
        for (index, op, bytes, pause_ms) in ops {
            now_ms += pause_ms;
            let terms = at(now_ms);
            let minimums: u64 = members.iter().flatten().map(|(_, [minimum, ..])| minimum).sum();
            let fits_reserve = |bytes: u64| minimums + bytes <= reserve(LIMIT);
            match (&mut members[index], op) {
                (place @ None, _) => {
                    let minimum = bytes / 8;
                    match pool.open(minimum, terms) {
                        Ok(member) => *place = Some((member, [minimum, 0, 0])),
                        Err(NoRoom { used }) => {
                            prop_assert!(!fits_reserve(minimum) && used + minimum > LIMIT);
                        }
                    }
                }
                (Some((member, [minimum, ..])), 0) => match pool.raise(member, bytes / 8, terms) {
                    Ok(()) => *minimum += bytes / 8,
                    Err(_) => prop_assert!(!fits_reserve(bytes / 8)),
                },
                (Some((member, [_, grown, _])), 1..=4) => match pool.grow(member, bytes, terms) {
                    Ok(()) => *grown += bytes,
                    Err(Refusal { bytes_max, .. }) => {
                        prop_assert!(bytes_max < bytes);
                        if bytes_max > 0 {
                            prop_assert_eq!(pool.grow(member, bytes_max, terms), Ok(()));
                            *grown += bytes_max;
                        }
                    }
                },
                (Some((member, [_, _, cached])), 5) => {
                    *cached += if pool.cache(member, bytes, terms).is_ok() { bytes } else { 0 };
                }
                (Some((member, [_, grown, cached])), 6) => {
                    pool.shrink(member, bytes);
                    pool.uncache(member, bytes);
                    (*grown, *cached) = (grown.saturating_sub(bytes), cached.saturating_sub(bytes));
                }
                (Some((member, _)), 7) => pool.set_idle(member, bytes % 2 == 0, terms.now_ns),
                (Some((member, [_, grown, cached])), 8) => {
                    let (excess, cached_excess) = (pool.excess(member), pool.cached_excess(member));
                    prop_assert!(excess <= *grown && cached_excess <= *cached);
                    pool.shrink(member, excess);
                    pool.uncache(member, cached_excess);
                    prop_assert_eq!((pool.excess(member), pool.cached_excess(member)), (0, 0));
                    (*grown, *cached) = (*grown - excess, *cached - cached_excess);
                }
                (place, _) => {
                    if let Some((mut member, _)) = place.take() {
                        pool.close(&mut member);
                    }
                }
            }
            let mut sums = [0; 3];
            for (member, parts) in members.iter().flatten() {
                prop_assert_eq!(pool.bytes(member), parts.iter().sum::<u64>());
                sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
            }
            let [reserved, grown, cached] = sums;
            let used = reserved + grown + cached;
            let count = members.iter().flatten().count() as u64;
            prop_assert_eq!(pool.usage(), Use { used, reserved, grown, cached, members: count });
            prop_assert!(used <= LIMIT && grown + cached <= LENDABLE);
        }
        // Once nobody waits, any member may have what is left, whatever was asked of it.
        let Use { used, grown, cached, .. } = pool.usage();
        let left = (LENDABLE - grown - cached).min(LIMIT - used);
        for (member, _) in members.iter().flatten().take(1) {
            prop_assert_eq!(pool.grow(member, left, at(now_ms + DEMAND_NS / MS)), Ok(()));
        }
    }
}
