//! Shares that become fair.

use super::*;

/// One connection that demands `wish` bytes more each millisecond, up to its demand.
struct Player {
    member: Member,
    demand: u64,
    has: u64,
    /// It gives nothing back.
    is_hog: bool,
    /// Time at which the release of its landing buffer ends.
    releasing: Option<u64>,
}

/// Milliseconds from `excess` to the end of the release.
const RELEASE_MS: u64 = 3;

impl Player {
    fn new(pool: &Small, demand: u64, is_hog: bool) -> Self {
        let member = pool.open(PAGE, at(1)).unwrap();
        Self { member, demand, has: 0, is_hog, releasing: None }
    }

    fn play(&mut self, pool: &Small, ms: u64) {
        if self.releasing == Some(ms) {
            pool.shrink(&self.member, self.has);
            (self.has, self.releasing) = (0, None);
        }
        if pool.excess(&self.member) > 0 && !self.is_hog && self.releasing.is_none() {
            self.releasing = Some(ms + RELEASE_MS);
        }
        let wish = SLAB.min(self.demand - self.has);
        if self.releasing.is_none() && wish > 0 && pool.grow(&self.member, wish, at(ms)).is_ok() {
            self.has += wish;
        }
    }
}

/// Plays all of them in turn for so many milliseconds.
fn play(pool: &Small, players: &mut [Player], ms: core::ops::Range<u64>) {
    for now_ms in ms {
        for player in &mut *players {
            player.play(pool, now_ms);
            assert!(pool.used() <= LIMIT, "at {now_ms} ms");
        }
    }
}

/// Plays until all have what they have a right to, and returns the time. A slab less: it can be lent in whole slabs only.
fn play_until_fair(pool: &Small, players: &mut [Player], fair: u64, begin_ms: u64) -> u64 {
    for now_ms in begin_ms..begin_ms + 10_000 {
        play(pool, players, now_ms..now_ms + 1);
        let is_fair = |player: &Player| {
            player.is_hog || player.releasing.is_none() && player.has + SLAB > player.demand.min(fair)
        };
        if players.iter().all(is_fair) {
            return now_ms - begin_ms;
        }
    }
    let has: Vec<_> = players.iter().map(|it| (it.demand, it.has)).collect();
    panic!("not fair: {fair} {has:?}");
}

#[test]
fn a_hog_beside_seven_starves_nobody() {
    let pool = Small::new();
    let mut hog = [Player::new(&pool, 4 * MIB, true)];
    play(&pool, &mut hog, 1..200);
    assert_eq!(hog[0].has, 4 * MIB);
    let mut seven: Vec<_> = (0..7).map(|_| Player::new(&pool, LIMIT, false)).collect();
    // Each has its minimum, and the seven share what the hog leaves.
    assert_eq!(pool.usage().reserved, 8 * PAGE);
    let fair = (LENDABLE - 4 * MIB) / 7;
    let took_ms = play_until_fair(&pool, &mut seven, fair, 200);
    assert!(took_ms < 100, "{took_ms} ms");
    play(&pool, &mut seven, 300..399);
    assert_eq!(play_until_fair(&pool, &mut seven, fair, 399), 0, "it stays so");
    assert!(seven.iter().all(|it| it.has <= fair + SLAB), "nobody is another hog");
    assert!(pool.excess(&hog[0].member) > 0, "it is asked all the time");
    // It goes away, and the seven have more.
    pool.close(&mut hog[0].member);
    play_until_fair(&pool, &mut seven, LENDABLE / 7, 400);
    for player in &mut seven {
        pool.close(&mut player.member);
    }
    assert_eq!(pool.usage(), Use { used: 0, reserved: 0, grown: 0, cached: 0, members: 0 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shares_become_fair_within_100_ms(
        early in prop::collection::vec(1..128_u64, 1..8),
        late in prop::collection::vec(1..128_u64, 1..8),
    ) {
        let pool = Small::new();
        let make = |slabs: &u64| Player::new(&pool, slabs * SLAB, false);
        let mut players: Vec<_> = early.iter().map(make).collect();
        play(&pool, &mut players, 1..200);
        players.extend(late.iter().map(make));
        let fair = LENDABLE / players.len() as u64;
        let took_ms = play_until_fair(&pool, &mut players, fair, 200);
        prop_assert!(took_ms < 100, "{took_ms} ms");
        let sum: u64 = players.iter().map(|it| it.has).sum();
        prop_assert_eq!(pool.usage().grown, sum);
    }
}
