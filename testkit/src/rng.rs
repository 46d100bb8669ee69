//! Deterministic random numbers by SplitMix64.

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator. The same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub const fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns true once in `n` times.
    pub const fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
