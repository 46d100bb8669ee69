//! The size from which on registering a buffer is cheaper than copying it, and the largest buffers that are registered inside a round trip. Frey and Alonso, sections 3.4, 4.1 and 4.2.

use super::profile::Profile;
use super::registration::{BASE_BYTES, HUGE_BYTES, PageSize, Pages};

impl Profile {
    /// Returns the nanoseconds in which a buffer of `bytes` bytes is copied into another one, both in such pages, with the faults of both (Frey and Alonso,
    /// section 3.4).
    #[must_use]
    pub fn refill_ns(&self, bytes: u64, pages: Pages) -> f64 {
        let faults_ns = 2.0 * self.registration.faults_ns(bytes, pages);
        self.copy_ns(bytes as f64, bytes) * self.registration.factor(bytes, pages) + faults_ns
    }

    /// Returns the critical size in bytes: the smallest multiple of 4 KiB from which on registering a buffer takes less time than copying it (Frey and Alonso,
    /// section 4.1). For cold pages source and destination are both cold, with which the 32 KB of their section 4.1 come out; they say "nonresident" and no more. A
    /// landing buffer that is registered is resident, so a copy into it faults half as often. `None`: no buffer up to 1 TiB.
    #[must_use]
    pub fn critical_bytes(&self, pages: Pages) -> Option<u64> {
        first_that(pages, |bytes| self.registration.ns(bytes, pages) < self.refill_ns(bytes, pages))
    }

    /// Returns the bytes of the largest buffer that is registered inside a round trip, in whole pages of 4 KiB (Frey and Alonso, section 4.2). Of huge pages
    /// that is the largest one of less than 2 MiB if one of 2 MiB takes longer.
    #[must_use]
    pub fn registered_in_round_trip_bytes(&self, pages: Pages) -> u64 {
        let takes_longer = |bytes| self.registration.ns(bytes, pages) > self.rendezvous_ns();
        first_that(pages, takes_longer).unwrap_or(BYTES_MAX) - BASE_BYTES
    }

    /// Returns the bytes of the largest buffer that is deregistered inside a round trip, in whole pages of 4 KiB.
    #[must_use]
    pub fn deregistered_in_round_trip_bytes(&self) -> u64 {
        let takes_longer = |bytes| self.registration.deregistration_ns(bytes) > self.rendezvous_ns();
        first_that(Pages::RESIDENT, takes_longer).unwrap_or(BYTES_MAX) - BASE_BYTES
    }
}

/// Largest buffer that is looked at.
const BYTES_MAX: u64 = 1 << 40;

/// Returns the smallest size in whole pages of 4 KiB from which on a condition holds. The condition must not cease to hold as the size grows, except at 2 MiB for huge
/// pages, whose costs fall there.
fn first_that(pages: Pages, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(BYTES_MAX) {
        return None;
    }
    let falls_at = if pages.size == PageSize::Huge && !holds(HUGE_BYTES) { HUGE_BYTES } else { 0 };
    let (mut below, mut from) = (falls_at / BASE_BYTES, BYTES_MAX / BASE_BYTES);
    while from - below > 1 {
        let middle = u64::midpoint(below, from);
        if holds(middle * BASE_BYTES) {
            from = middle;
        } else {
            below = middle;
        }
    }
    Some(from * BASE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::registration::Registration;
    use super::super::{CopyStep, Machine};
    use super::*;

    const T3: Profile = Machine::CHELSIO_T3.profile;
    const HUGE: Pages = Pages { size: PageSize::Huge, are_resident: true };

    /// Frey and Alonso, sections 4.1 and 4.2.
    #[test]
    fn critical_sizes_of_the_paper_come_out_within_a_power_of_two() {
        let critical = [Pages::RESIDENT, Pages::COLD].map(|pages| T3.critical_bytes(pages).unwrap());
        assert!((128 << 10..=512 << 10).contains(&critical[0]), "{}", critical[0]);
        assert!((16 << 10..=64 << 10).contains(&critical[1]), "{}", critical[1]);
        for (bytes, most) in [
            (T3.registered_in_round_trip_bytes(Pages::RESIDENT), 64 << 10),
            (T3.registered_in_round_trip_bytes(Pages::COLD), 8 << 10),
            (T3.deregistered_in_round_trip_bytes(), 1 << 20),
        ] {
            assert!((most..2 * most).contains(&bytes), "{bytes} for {most}");
        }
    }

    #[test]
    fn a_critical_size_is_where_registering_begins_to_be_cheaper() {
        let critical = T3.critical_bytes(Pages::RESIDENT).unwrap();
        let gain = |bytes| T3.refill_ns(bytes, Pages::RESIDENT) - T3.registration.ns(bytes, Pages::RESIDENT);
        assert!(gain(critical) > 0.0 && gain(critical - BASE_BYTES) <= 0.0);
        let with = |registration| Profile { registration, ..T3 };
        let never = Registration { bytes_per_ns: 1.0, ..T3.registration };
        assert_eq!(with(never).critical_bytes(Pages::RESIDENT), None);
        let at_once = Registration { latency_ns: 0.0, bytes_per_ns: 1e6, ..T3.registration };
        assert_eq!(with(at_once).critical_bytes(Pages::RESIDENT), Some(BASE_BYTES));
    }

    /// Frey and Alonso, section 4.1.
    #[test]
    fn a_slower_processor_lowers_the_critical_size() {
        let critical = T3.critical_bytes(Pages::RESIDENT).unwrap();
        let slow = T3.copy.map(|step| CopyStep { bytes_per_ns: step.bytes_per_ns / 2.0, ..step });
        assert!(Profile { copy: slow, ..T3 }.critical_bytes(Pages::RESIDENT).unwrap() < critical);
        // Huge pages take off more where the critical size is above theirs.
        let dear = Registration { latency_ns: 2_000_000.0, ..T3.registration };
        let dear = Profile { registration: dear, ..T3 };
        let [base, huge] = [Pages::RESIDENT, HUGE].map(|pages| dear.critical_bytes(pages).unwrap());
        assert!(base > HUGE_BYTES && huge > base && huge < 2 * base, "{base} {huge}");
    }

    #[test]
    fn a_round_trip_may_hold_a_huge_page() {
        for (latency_ns, least, most) in [(50_000.0, 2 << 20, 4 << 20), (12_500.0, 64 << 10, 128 << 10)] {
            let bytes = Profile { latency_ns, ..T3 }.registered_in_round_trip_bytes(HUGE);
            assert!((least..most).contains(&bytes), "{bytes}");
        }
    }
}
