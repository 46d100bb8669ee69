//! The protocols beside those in chunks: naive copies, registration for each message, a cache of registrations, and copies over shared memory.

use super::profile::Profile;
use super::registration::Pages;
use super::start::Start;

impl Profile {
    /// Returns the nanoseconds of a message that is copied whole, sent, and copied whole: the naive copy (Denis, section 2). Its bandwidth comes to
    /// 1 / (1 / B_net + 2 / B_copy), since both ends copy. The paper prints 1 / B_copy, with which its 57 % would need a B_copy of 2.65 GB/s, and C0 of the
    /// rendezvous would be 6.7 KB. With two copies it is 5.3, and C0 inside the paper's 8 to 16 KB; 5.4, which `graphene` has here, gives 57.4 %.
    #[must_use]
    pub fn naive_copy_ns(&self, bytes: u64, start: Start) -> f64 {
        let copy_ns = self.copy_ns(bytes as f64, bytes);
        start.ns(copy_ns, self.rendezvous_ns()) + self.gap_ns + self.net_ns(bytes) + copy_ns
    }

    /// Returns the nanoseconds of a message that both ends register at the same time and the sender writes; deregistration comes after it. Its bandwidth comes to
    /// 1 / (1 / B_net + 1 / B_reg) (Denis, section 2).
    #[must_use]
    pub fn register_ns(&self, bytes: u64, pages: Pages, start: Start) -> f64 {
        let prepare_ns = self.registration.ns(bytes, pages);
        start.of_registration().ns(prepare_ns, self.rendezvous_ns()) + self.gap_ns + self.net_ns(bytes)
    }

    /// Returns the nanoseconds of a message by a cache of registrations of which the share `hits` of messages, 0 to 1, finds both of its buffers: on the
    /// average of hits, which register nothing, and misses (Denis, section 2, "Real behavior of rcache"). Looking costs nothing.
    #[must_use]
    pub fn register_cached_ns(&self, bytes: u64, pages: Pages, start: Start, hits: f64) -> f64 {
        let hit_ns = start.of_registration().ns(0.0, self.rendezvous_ns()) + self.gap_ns + self.net_ns(bytes);
        hits * hit_ns + (1.0 - hits) * self.register_ns(bytes, pages, start)
    }

    /// Returns the nanoseconds of a message whose registration is pipelined: parts of one size are registered at both ends while the one before is on the wire
    /// (Denis, section 6, on Open MPI). With the best number of parts, up to 1,024. Registering a part may take longer than sending it, and each costs λ_reg.
    #[must_use]
    pub fn pipelined_registration_ns(&self, bytes: u64, pages: Pages, start: Start) -> f64 {
        let with = |count: u32| {
            let part = bytes.div_ceil(u64::from(count));
            let register_ns = self.registration.ns(part, pages);
            let wire_ns = self.gap_ns + part as f64 / self.net_bytes_per_ns;
            let first_ns = start.of_registration().ns(register_ns, self.rendezvous_ns());
            first_ns + f64::from(count - 1) * register_ns.max(wire_ns) + wire_ns + self.latency_ns
        };
        (1..=1024).map(with).fold(f64::INFINITY, f64::min)
    }

    /// Returns the nanoseconds of a message over shared memory that the receiver copies straight out of the sender's mapped buffer. No CTS is asked for (wire.md 4.9).
    #[must_use]
    pub fn one_copy_ns(&self, bytes: u64) -> f64 {
        self.latency_ns + self.copy_ns(bytes as f64, bytes)
    }

    /// Returns the nanoseconds of a message over shared memory of which each end copies a half, where both have mapped both buffers (wire.md 4.10).
    #[must_use]
    pub fn split_copy_ns(&self, bytes: u64) -> f64 {
        self.latency_ns + self.copy_ns(bytes as f64 / 2.0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chunks, CopyStep, Machine};
    use super::*;

    const GRAPHENE: Profile = Machine::GRAPHENE.profile;
    const LARGE: u64 = 1 << 34;

    /// Returns the bandwidth in percent of the wire's.
    fn share(bytes: u64, ns: f64) -> f64 {
        100.0 * bytes as f64 / ns / GRAPHENE.net_bytes_per_ns
    }

    /// Returns how much longer a message takes than a raw write, as a part of its time in percent.
    fn below_raw(bytes: u64, ns: f64) -> f64 {
        100.0 * (1.0 - (GRAPHENE.gap_ns + GRAPHENE.net_ns(bytes)) / ns)
    }

    /// Denis, section 2: 91 % and 57 % of the wire for large messages, and as much as 60 % lost by registration.
    #[test]
    fn naive_protocols_come_to_the_bandwidths_of_the_paper() {
        let registered = share(LARGE, GRAPHENE.register_ns(LARGE, Pages::RESIDENT, Start::Raw));
        assert!((registered - 91.0).abs() < 0.5, "{registered}");
        let copied = share(LARGE, GRAPHENE.naive_copy_ns(LARGE, Start::Raw));
        assert!((copied - 57.0).abs() < 0.5, "{copied}");
        for (bytes, percent) in [(65_536, 67.7), (95_232, 59.9)] {
            let lost = below_raw(bytes, GRAPHENE.register_ns(bytes, Pages::RESIDENT, Start::Raw));
            assert!((lost - percent).abs() < 0.3, "{bytes}: {lost}");
        }
    }

    /// First message over best one: what a miss keeps of the bandwidth of a hit.
    #[test]
    fn a_miss_of_the_cache_is_a_registration() {
        for (bytes, percent) in [(64 << 10, 32.0), (256 << 10, 62.0), (1 << 20, 81.0), (8 << 20, 90.0)] {
            let ns = |hits| GRAPHENE.register_cached_ns(bytes, Pages::RESIDENT, Start::Raw, hits);
            let first = 100.0 * ns(1.0) / ns(0.0);
            assert!((first - percent).abs() < 1.0, "{bytes}: {first}");
            assert!((ns(0.5) - f64::midpoint(ns(0.0), ns(1.0))).abs() < 1e-6);
        }
    }

    /// Denis, section 6: pipelined registration loses more than copies in a superpipeline.
    #[test]
    fn pipelined_registration_loses_to_pipelined_copies() {
        let copy = [CopyStep { data_bytes_max: u64::MAX, bytes_per_ns: 5.4 }; 4];
        let memory = Profile { copy, ..GRAPHENE };
        for (bytes, percent, copied_percent) in
            [(256 << 10, 38.0, 3.3), (1 << 20, 13.0, 1.0), (8 << 20, 2.0, 0.2)]
        {
            let ns = GRAPHENE.pipelined_registration_ns(bytes, Pages::RESIDENT, Start::Raw);
            assert!((below_raw(bytes, ns) - percent).abs() < 1.0, "{bytes}: {}", below_raw(bytes, ns));
            let c0_ns = memory.copy_ns(Chunks::HARDWIRED.c0_bytes, bytes);
            let copied = below_raw(bytes, c0_ns + memory.sub_blocked_ns(bytes, Chunks::HARDWIRED, 4096.0));
            assert!((copied - copied_percent).abs() < 0.4, "{bytes}: {copied}");
        }
    }

    #[test]
    fn remote_writes_need_a_rendezvous() {
        for start in [Start::Rendezvous, Start::Optimistic] {
            let ns = GRAPHENE.register_cached_ns(4096, Pages::RESIDENT, start, 1.0);
            assert!((ns - (2540.0 + 250.0 + 1270.0 + 2048.0)).abs() < 1e-6);
        }
        let overlapped = GRAPHENE.register_ns(4096, Pages::RESIDENT, Start::Overlapped);
        let after = GRAPHENE.register_ns(4096, Pages::RESIDENT, Start::Rendezvous);
        assert!((after - overlapped - GRAPHENE.rendezvous_ns()).abs() < 1e-6);
    }

    #[test]
    fn a_half_copied_by_each_end_takes_half_of_the_copy() {
        let saved = GRAPHENE.one_copy_ns(1 << 20) - GRAPHENE.split_copy_ns(1 << 20);
        assert!((saved - GRAPHENE.copy_ns(524_288.0, 1 << 20)).abs() < 1e-6);
        assert!((GRAPHENE.one_copy_ns(4096) - (1270.0 + 409.6)).abs() < 1e-6);
    }
}
