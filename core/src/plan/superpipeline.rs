//! Time of a message in growing chunks. Denis, section 4: equations 4, 8 and 9.

use super::chunks::Chunks;
use super::profile::Profile;

impl Profile {
    /// Equation 4, C_(i+1) in bytes: as much as is copied while chunk i is on the wire, the gap included, and the overhead of posting not.
    ///
    /// ```text
    /// C_(i+1) / B_copy(L) = C_i / B_net + g - o
    /// ```
    ///
    /// B_copy is that beside the wire ([`overlapped_copy_bytes_per_ns`](Self::overlapped_copy_bytes_per_ns)), which the paper has as large as alone.
    #[must_use]
    pub fn next_chunk_bytes(&self, bytes: u64, chunk_bytes: f64) -> f64 {
        let wire_ns = chunk_bytes / self.net_bytes_per_ns + self.gap_ns - self.overhead_ns;
        wire_ns * self.overlapped_copy_bytes_per_ns(bytes)
    }

    /// q of equation 5: B_copy(L) / B_net, the largest growth with which each copy is hidden, and 1 at least. B_copy is that beside the wire.
    #[must_use]
    pub fn growth(&self, bytes: u64) -> f64 {
        (self.overlapped_copy_bytes_per_ns(bytes) / self.net_bytes_per_ns).max(1.0)
    }

    /// Returns the C0 that is copied during a rendezvous, in bytes: B_copy · 2 λ_net (Denis, section 4). B_copy is that of memory, as there.
    #[must_use]
    pub fn rendezvous_c0_bytes(&self) -> f64 {
        self.copy_bytes_per_ns(u64::MAX) * self.rendezvous_ns()
    }

    /// Equation 8, T_superpipeline(L) without sub-blocks, in nanoseconds: the copies of the first and the last chunk are not hidden.
    ///
    /// ```text
    /// (C0 + C_(n-1)) / B_copy(L) + n g + λ_net + L / B_net
    /// ```
    ///
    /// It holds if chunks grow by [`growth`](Self::growth) at most: with more, the wire waits for the next copy, which the equation does not count. No
    /// rendezvous is in it, and no largest chunk.
    #[must_use]
    pub fn superpipeline_ns(&self, bytes: u64, chunks: Chunks) -> f64 {
        let first = chunks.c0_bytes.min(bytes as f64);
        self.copy_ns(first + chunks.last_bytes(bytes), bytes) + self.chunks_ns(bytes, chunks)
    }

    /// Equation 9, T_superpipeline(L) with all refinements, in nanoseconds: of the copies only that of the last block of `block_bytes` bytes is left, since C0 is
    /// copied during the rendezvous, and the others beside the wire.
    ///
    /// ```text
    /// b / B_copy(L) + g log_q(1 + L / C0 (q - 1)) + λ_net + L / B_net
    /// ```
    ///
    /// It holds as equation 8 does. The rendezvous is not in it, though C0 is free only because of that: so it is for comparisons with times that lack theirs,
    /// too. The flags of blocks are not in it either.
    #[must_use]
    pub fn sub_blocked_ns(&self, bytes: u64, chunks: Chunks, block_bytes: f64) -> f64 {
        self.copy_ns(block_bytes.min(bytes as f64), bytes) + self.chunks_ns(bytes, chunks)
    }

    /// Returns the part that equations 8 and 9 share: n g + λ_net + L / B_net. A message has one chunk at least.
    fn chunks_ns(&self, bytes: u64, chunks: Chunks) -> f64 {
        chunks.count(bytes).max(1.0) * self.gap_ns + self.net_ns(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    const GRAPHENE: Profile = Machine::GRAPHENE.profile;

    fn is_near(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 1e-9
    }

    #[test]
    fn a_chunk_is_copied_while_the_one_before_is_on_the_wire() {
        let profile = Profile { gap_ns: 300.0, overhead_ns: 100.0, contention: 0.0, ..GRAPHENE };
        // 8000 bytes take 4000 ns on the wire, and 200 ns more are left of the gap.
        assert!(is_near(profile.next_chunk_bytes(u64::MAX, 8000.0), 4200.0 * 5.4));
        assert!(is_near(profile.growth(u64::MAX), 2.7));
        assert!(is_near(Profile { contention: 1.0, ..profile }.growth(u64::MAX), 1.7));
        assert!(is_near(Profile { net_bytes_per_ns: 100.0, ..profile }.growth(u64::MAX), 1.0));
    }

    /// From 8 KB to 16 KB (Denis, section 4).
    #[test]
    fn c0_of_the_rendezvous_is_that_of_the_paper() {
        assert!((8000.0..=16_000.0).contains(&GRAPHENE.rendezvous_c0_bytes()));
    }

    #[test]
    fn equations_8_and_9_by_hand() {
        let chunks = Chunks { c0_bytes: 1_048_576.0, growth: 2.0, ..Chunks::HARDWIRED };
        let bytes = 7 << 20;
        let wire = 3.0 * 250.0 + 1270.0 + bytes as f64 / 2.0;
        let rate = GRAPHENE.copy_bytes_per_ns(bytes);
        assert!(is_near(GRAPHENE.superpipeline_ns(bytes, chunks), 5.0 * 1_048_576.0 / rate + wire));
        assert!(is_near(GRAPHENE.sub_blocked_ns(bytes, chunks, 4096.0), 4096.0 / rate + wire));
    }

    #[test]
    fn a_message_shorter_than_c0_is_one_chunk() {
        let wire = 250.0 + 1270.0 + 500.0;
        assert!(is_near(GRAPHENE.superpipeline_ns(1000, Chunks::HARDWIRED), 200.0 + wire));
        assert!(is_near(GRAPHENE.sub_blocked_ns(1000, Chunks::HARDWIRED, 4096.0), 100.0 + wire));
    }
}
