//! A machine and its fabric, in the letters of LogP as Denis writes it.

use super::registration::Registration;

/// Bandwidth of copies of data sets up to a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyStep {
    /// Largest data set in bytes; of the last step [`u64::MAX`].
    pub data_bytes_max: u64,
    /// Bandwidth of one core's copies.
    pub bytes_per_ns: f64,
}

/// A machine and its fabric. Times are nanoseconds, bandwidths bytes per nanosecond (GB/s), all above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// λ_net: time from the sender's NIC to the receiver's memory; over shared memory, from one core's store to the other one's load.
    pub latency_ns: f64,
    /// B_net: bandwidth of the wire.
    pub net_bytes_per_ns: f64,
    /// g: the gap between two messages on the wire.
    pub gap_ns: f64,
    /// o: CPU time of posting a message, during which nothing is copied.
    pub overhead_ns: f64,
    /// B_copy(L), from the smallest data sets to those in memory: mostly one step for each cache. The last step holds for all larger ones.
    pub copy: [CopyStep; 4],
    /// Part of B_net by which a copy is slower while the wire of its host is in use: 0 to 1. Denis, section 3: at most 1. For one direction at a time: a core
    /// that copies for both directions shares its time between them.
    pub contention: f64,
    /// Registration of memory.
    pub registration: Registration,
}

impl Profile {
    /// Returns B_copy(L), the bandwidth at which a core copies a message of `bytes` bytes. The data set is the message, not the chunk (Denis, section 3).
    #[must_use]
    pub fn copy_bytes_per_ns(&self, bytes: u64) -> f64 {
        let [.., last] = self.copy;
        self.copy.iter().find(|step| bytes <= step.data_bytes_max).unwrap_or(&last).bytes_per_ns
    }

    /// Returns B_copy(L) while the wire is in use: less by the [`contention`](Self::contention). At least half of B_copy, which is an assumption, for wires that
    /// are about as fast as copies.
    #[must_use]
    pub fn overlapped_copy_bytes_per_ns(&self, bytes: u64) -> f64 {
        let alone = self.copy_bytes_per_ns(bytes);
        (alone - self.contention * self.net_bytes_per_ns).max(alone / 2.0)
    }

    /// Returns the nanoseconds in which `part` bytes of a message of `bytes` bytes are copied: T_copy with λ_copy = 0 (Denis, section 3).
    #[must_use]
    pub fn copy_ns(&self, part: f64, bytes: u64) -> f64 {
        part / self.copy_bytes_per_ns(bytes)
    }

    /// Returns T_net(L) = λ_net + L / B_net, the nanoseconds of a raw write out of registered memory (Denis, section 3).
    #[must_use]
    pub fn net_ns(&self, bytes: u64) -> f64 {
        self.latency_ns + bytes as f64 / self.net_bytes_per_ns
    }

    /// Returns 2 λ_net, the nanoseconds of a rendezvous (Denis, section 4).
    #[must_use]
    pub fn rendezvous_ns(&self) -> f64 {
        2.0 * self.latency_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    #[test]
    fn copies_are_slower_by_the_data_set_and_beside_the_wire() {
        let profile = Profile { contention: 0.5, ..Machine::GRAPHENE.profile };
        let rates = |bytes| (profile.copy_bytes_per_ns(bytes), profile.overlapped_copy_bytes_per_ns(bytes));
        assert_eq!(rates(1), (10.0, 9.0));
        assert_eq!(rates(32 << 10), (10.0, 9.0));
        assert_eq!(rates((32 << 10) + 1), (9.0, 8.0));
        assert_eq!(rates(u64::MAX), (5.4, 4.4));
        let slow = Profile { contention: 1.0, net_bytes_per_ns: 5.0, ..profile };
        assert_eq!(slow.overlapped_copy_bytes_per_ns(u64::MAX), 2.7, "half at least");
        assert_eq!(profile.copy_ns(5.4, u64::MAX), 1.0);
    }
}
