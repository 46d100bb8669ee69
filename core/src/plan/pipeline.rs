//! Time of a message in chunks of one size. Denis, section 3: equations 1 to 3.

use super::profile::Profile;

impl Profile {
    /// Equation 1, T_pipeline(L, C), in nanoseconds: copies of the first and the last chunk, a gap for each chunk, and the wire.
    ///
    /// ```text
    /// 2 C / B_copy(L) + L / C g + λ_net + L / B_net
    /// ```
    ///
    /// It holds if a copy is at least as fast as the wire. A chunk is not larger than the message. No rendezvous is in it.
    #[must_use]
    pub fn pipeline_ns(&self, bytes: u64, chunk_bytes: f64) -> f64 {
        let length = bytes as f64;
        let chunk = chunk_bytes.clamp(1.0, length.max(1.0));
        let copies_ns = 2.0 * self.copy_ns(chunk.min(length), bytes);
        copies_ns + (length / chunk).max(1.0) * self.gap_ns + self.net_ns(bytes)
    }

    /// Equation 2, T'_pipeline(C): nanoseconds by which the transfer takes longer for each byte more in a chunk.
    ///
    /// ```text
    /// 2 / B_copy(L) - L / C² g
    /// ```
    #[must_use]
    pub fn pipeline_slope(&self, bytes: u64, chunk_bytes: f64) -> f64 {
        2.0 / self.copy_bytes_per_ns(bytes) - bytes as f64 / (chunk_bytes * chunk_bytes) * self.gap_ns
    }

    /// Equation 3, C_opt(L), in bytes: the chunk with which equation 1 is least. More than L for short messages, for which a single chunk is best.
    ///
    /// ```text
    /// √(L g B_copy(L) / 2)
    /// ```
    #[must_use]
    pub fn optimal_chunk_bytes(&self, bytes: u64) -> f64 {
        libm::sqrt(bytes as f64 * self.gap_ns * self.copy_bytes_per_ns(bytes) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    const GRAPHENE: Profile = Machine::GRAPHENE.profile;

    #[test]
    fn equation_1_by_hand() {
        // 64 MiB, chunks of 64 KiB: 2 · 65536 / 5.4 + 1024 · 250 + 1270 + 2^26 / 2.
        let by_hand = 24_272.592 + 256_000.0 + 1270.0 + 33_554_432.0;
        assert!((GRAPHENE.pipeline_ns(64 << 20, 65536.0) - by_hand).abs() < 0.01);
    }

    #[test]
    fn a_message_has_one_chunk_at_least() {
        let ns = |bytes, chunk| GRAPHENE.pipeline_ns(bytes, chunk);
        assert!((ns(1000, 1_000_000.0) - (200.0 + 250.0 + 1270.0 + 500.0)).abs() < 1e-9);
        assert_eq!(ns(1000, 1000.0), ns(1000, 2000.0));
        assert_eq!(ns(0, 0.0), 250.0 + 1270.0);
    }

    /// Equation 2 is the slope of equation 1, and equation 3 its zero.
    #[test]
    fn the_optimal_chunk_is_where_the_slope_is_zero() {
        for bytes in [64 << 10, 1 << 20, 64 << 20] {
            let best = GRAPHENE.optimal_chunk_bytes(bytes);
            assert!(GRAPHENE.pipeline_slope(bytes, best).abs() < 1e-12);
            let (step, at) = (1.0, best / 3.0);
            let ns = |chunk| GRAPHENE.pipeline_ns(bytes, chunk);
            let slope = (ns(at + step) - ns(at - step)) / (2.0 * step);
            assert!((slope / GRAPHENE.pipeline_slope(bytes, at) - 1.0).abs() < 1e-3, "{slope}");
            assert!(ns(best) < ns(best * 1.1) && ns(best) < ns(best / 1.1));
        }
    }

    /// The number of gaps is O(√L): Denis, section 4.
    #[test]
    fn the_number_of_optimal_chunks_grows_by_the_root() {
        let count = |bytes: u64| bytes as f64 / GRAPHENE.optimal_chunk_bytes(bytes);
        assert!((count(64 << 20) / count(16 << 20) - 2.0).abs() < 1e-9);
    }
}
