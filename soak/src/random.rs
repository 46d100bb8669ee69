//! Random numbers by SplitMix64.

use core::time::Duration;

/// A random number generator.
pub(crate) struct Random(u64);

impl Random {
    /// Returns the generator that these words seed.
    pub(crate) fn new(words: &[u64]) -> Self {
        let mut random = Self(0);
        for word in words {
            random.0 ^= word;
            random.0 = random.word();
        }
        random
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub(crate) const fn below(&mut self, end: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
        let below = (self.word() % if end == 0 { 1 } else { end as u64 }) as usize;
        below
    }

    /// Returns a number from `least` to `most`; each power-of-two range is equally likely.
    pub(crate) fn doubling(&mut self, least: usize, most: usize) -> usize {
        let doublings = (most / least.max(1)).max(1).ilog2() as usize + 1;
        let low = least << self.below(doublings);
        (low + self.below(low)).min(most)
    }

    /// Returns a time from `least_us` to `most_us` microseconds; each power-of-two range is equally likely.
    pub(crate) fn time(&mut self, least_us: usize, most_us: usize) -> Duration {
        Duration::from_micros(self.doubling(least_us, most_us) as u64)
    }

    pub(crate) const fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns true in `percent` of 100 calls.
    pub(crate) const fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_reaches_and_keeps_its_bounds() {
        let mut random = Random::new(&[1, 2]);
        let drawn: Vec<_> = (0..100_000).map(|_| random.doubling(20, 2000)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&20), Some(&2000)));
        assert_eq!(random.below(0), 0);
    }
}
