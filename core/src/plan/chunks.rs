//! Sizes of chunks that grow. Denis, section 4: equations 5 to 7.

/// Chunks that grow: C_i = C0 q^i (equation 5), up to a largest one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunks {
    /// C0 in bytes, above 0.
    pub c0_bytes: f64,
    /// q: 1 or more. A smaller one counts as 1, since chunks that shrink without end carry no more than C0 / (1 - q) bytes.
    pub growth: f64,
    /// The largest chunk in bytes, that of a fold; infinite where the landing buffer is as large as the message, as in the equations.
    pub bytes_max: f64,
}

impl Chunks {
    /// C0 = 12 KiB and q = 1.5, almost as good as the best values (Denis, section 4, Discussion).
    pub const HARDWIRED: Self = Self { c0_bytes: 12_288.0, growth: 1.5, bytes_max: f64::INFINITY };

    /// Growth up to which the arithmetic of series takes chunks to be of one size.
    const FLAT: f64 = 1.0 + 1e-9;

    /// Returns chunks of one size.
    #[must_use]
    pub const fn flat(bytes: f64) -> Self {
        Self { c0_bytes: bytes, growth: 1.0, bytes_max: bytes }
    }

    fn is_flat(&self) -> bool {
        self.growth <= Self::FLAT
    }

    /// Equation 5, C_i in bytes, without the limit of the largest chunk.
    #[must_use]
    pub fn bytes_of(&self, index: f64) -> f64 {
        if self.is_flat() { self.c0_bytes } else { self.c0_bytes * libm::pow(self.growth, index) }
    }

    /// Equation 6, L: the bytes of the first `count` chunks, without that limit.
    ///
    /// ```text
    /// C0 (1 - q^n) / (1 - q)
    /// ```
    #[must_use]
    pub fn sum(&self, count: f64) -> f64 {
        if self.is_flat() {
            return self.c0_bytes * count;
        }
        self.c0_bytes * (1.0 - libm::pow(self.growth, count)) / (1.0 - self.growth)
    }

    /// Equation 7, n: the number of chunks of a message, each of which costs a gap, without that limit. It is real: below 1 for a message shorter than C0.
    ///
    /// ```text
    /// log_q(1 + L / C0 (q - 1))
    /// ```
    #[must_use]
    pub fn count(&self, bytes: u64) -> f64 {
        let parts = bytes as f64 / self.c0_bytes;
        if self.is_flat() { parts } else { libm::log1p(parts * (self.growth - 1.0)) / libm::log(self.growth) }
    }

    /// Returns the bytes of the last chunk of a message, C_(n-1), by these equations: in equation 8 it is called C_n, but the chunks of equation 6 are 0 to
    /// n - 1. Not more than the message.
    #[must_use]
    pub fn last_bytes(&self, bytes: u64) -> f64 {
        self.bytes_of((self.count(bytes) - 1.0).max(0.0)).min(bytes as f64)
    }

    /// Returns the chunk after one of `bytes` bytes.
    pub(super) fn after(&self, bytes: f64) -> f64 {
        (bytes * self.growth.max(1.0)).min(self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-9
    }

    #[test]
    fn equations_5_to_7_agree() {
        for growth in [0.5, 1.0, 1.5, 1.7, 2.7] {
            let chunks = Chunks { growth, ..Chunks::HARDWIRED };
            let total: f64 = (0..7).map(|index| chunks.bytes_of(f64::from(index))).sum();
            assert!(is_near(chunks.sum(7.0), total), "{growth}");
            let bytes = 10_000_000;
            assert!(is_near(chunks.sum(chunks.count(bytes)), bytes as f64), "{growth}");
        }
        assert!(is_near(Chunks::HARDWIRED.bytes_of(2.0), 27_648.0));
    }

    #[test]
    fn the_last_chunk_is_c_n_minus_1_and_no_more_than_the_message() {
        let chunks = Chunks { c0_bytes: 1000.0, growth: 2.0, ..Chunks::HARDWIRED };
        // 1000 + 2000 + 4000.
        assert!(is_near(chunks.last_bytes(7000), 4000.0));
        assert!(is_near(chunks.last_bytes(1000), 1000.0));
        assert!(is_near(chunks.last_bytes(10), 10.0));
    }

    #[test]
    fn chunks_grow_up_to_the_largest_one() {
        let chunks = Chunks { bytes_max: 20_000.0, ..Chunks::HARDWIRED };
        assert_eq!([chunks.after(12_288.0), chunks.after(18_432.0)], [18_432.0, 20_000.0]);
        assert_eq!(Chunks { growth: 0.5, ..chunks }.after(12_288.0), 12_288.0);
    }

    /// Denis, section 4: O(log L).
    #[test]
    fn the_number_of_chunks_grows_by_the_logarithm() {
        let [one, two, three] = [20, 24, 28].map(|log2| Chunks::HARDWIRED.count(1 << log2));
        assert!(((three - two) - (two - one)).abs() < 0.1);
    }
}
