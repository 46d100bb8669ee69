//! Registration of memory, and what it takes. Denis, section 2; Frey and Alonso, sections 3.3 and 4.4.

/// Size of the pages of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB.
    Base,
    /// 2 MiB.
    Huge,
}

/// Pages of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pages {
    /// 4 KiB or 2 MiB.
    pub size: PageSize,
    /// They are resident, so that no access faults.
    pub are_resident: bool,
}

impl Pages {
    /// Pages of 4 KiB that are resident.
    pub const RESIDENT: Self = Self { size: PageSize::Base, are_resident: true };
    /// Pages of 4 KiB that were never touched.
    pub const COLD: Self = Self { size: PageSize::Base, are_resident: false };
}

/// Bytes of a page of each size.
pub(super) const BASE_BYTES: u64 = 4096;
pub(super) const HUGE_BYTES: u64 = 2 << 20;

/// Time that deregistering takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deregistration {
    /// Nanoseconds up to [`short_bytes_max`](Self::short_bytes_max).
    pub latency_ns: f64,
    /// Bytes up to which it takes no longer.
    pub short_bytes_max: u64,
    /// Bandwidth of what is above.
    pub bytes_per_ns: f64,
}

/// Time that registering takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Registration {
    /// λ_reg.
    pub latency_ns: f64,
    /// B_reg of resident pages.
    pub bytes_per_ns: f64,
    /// Nanoseconds of a fault, by which a page of 4 KiB becomes resident.
    pub fault_ns: f64,
    /// Faults of several cores that the system handles at once (Frey and Alonso, section 4.4: its rate of faults is limited).
    pub faults_at_once: u32,
    /// Factor of L / B_reg, of copies and of faults in buffers of a huge page and more (Frey and Alonso, section 3.3: 0.6 at best; section 4.1: the same for
    /// copies). Deregistering is left as it is.
    pub huge_factor: f64,
    /// Part of registering and deregistering, 0 to 1, during which the core waits for the device (Frey and Alonso, section 4.1). It is inside all times.
    pub device_share: f64,
    /// Deregistering.
    pub deregistration: Deregistration,
}

impl Registration {
    /// Returns the nanoseconds of all faults in a buffer of `bytes` bytes.
    pub(super) fn faults_ns(&self, bytes: u64, pages: Pages) -> f64 {
        if pages.are_resident {
            return 0.0;
        }
        bytes.div_ceil(BASE_BYTES) as f64 * self.fault_ns * self.factor(bytes, pages)
    }

    /// Returns the factor of [`huge_factor`](Self::huge_factor) for a buffer.
    pub(super) fn factor(&self, bytes: u64, pages: Pages) -> f64 {
        match pages.size {
            PageSize::Huge if bytes >= HUGE_BYTES => self.huge_factor,
            PageSize::Base | PageSize::Huge => 1.0,
        }
    }

    /// Returns T_reg of resident pages: λ_reg + L / B_reg. Whole pages are registered, so it is constant up to one.
    fn resident_ns(&self, bytes: u64, pages: Pages) -> f64 {
        let whole = bytes.div_ceil(BASE_BYTES).saturating_mul(BASE_BYTES);
        self.latency_ns + whole as f64 / self.bytes_per_ns * self.factor(bytes, pages)
    }

    /// Returns T_reg(L) = λ_reg + L / B_reg in nanoseconds (Denis, section 2), and a fault for each page that is not resident (Frey and Alonso, section 3.3).
    #[must_use]
    pub fn ns(&self, bytes: u64, pages: Pages) -> f64 {
        self.resident_ns(bytes, pages) + self.faults_ns(bytes, pages)
    }

    /// Returns the nanoseconds in which `cores` cores register `regions` regions of `bytes` bytes, each core one at a time (Frey and Alonso, section 4.4). No
    /// more faults than [`faults_at_once`](Self::faults_at_once) are handled at once.
    #[must_use]
    pub fn parallel_ns(&self, regions: u32, bytes: u64, pages: Pages, cores: u32) -> f64 {
        let rounds = |at_once: u32| f64::from(regions.div_ceil(at_once.max(1)));
        let faulting = cores.min(self.faults_at_once);
        rounds(cores) * self.resident_ns(bytes, pages) + rounds(faulting) * self.faults_ns(bytes, pages)
    }

    /// Returns the nanoseconds of deregistering: constant up to a size, then by the byte (Frey and Alonso, section 3.3). Residency makes no difference.
    #[must_use]
    pub fn deregistration_ns(&self, bytes: u64) -> f64 {
        let Deregistration { latency_ns, short_bytes_max, bytes_per_ns } = self.deregistration;
        latency_ns + bytes.saturating_sub(short_bytes_max) as f64 / bytes_per_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;

    const T3: Registration = Machine::CHELSIO_T3.profile.registration;
    const HUGE: Pages = Pages { size: PageSize::Huge, are_resident: true };

    /// Frey and Alonso, section 3.3.
    #[test]
    fn cold_pages_cost_almost_ten_times_as_much() {
        let ns = |bytes| T3.ns(bytes, Pages::RESIDENT);
        assert_eq!(ns(1), ns(4096));
        assert!((ns(4096) - 20_200.0).abs() < 10.0 && ns(4097) > ns(4096));
        let cold = T3.ns(2 << 20, Pages::COLD) / ns(2 << 20);
        assert!((9.0..=10.5).contains(&cold), "{cold}");
    }

    #[test]
    fn huge_pages_are_cheaper_from_their_size_on() {
        let share = |bytes| T3.ns(bytes, HUGE) / T3.ns(bytes, Pages::RESIDENT);
        assert_eq!(share((2 << 20) - 4096), 1.0);
        assert!((0.6..0.7).contains(&share(2 << 20)) && share(1 << 30) < 0.601);
        let cold = T3.ns(1 << 30, Pages { are_resident: false, ..HUGE }) / T3.ns(1 << 30, Pages::COLD);
        assert!((0.6..0.601).contains(&cold), "{cold}");
    }

    #[test]
    fn cores_register_resident_pages_at_once_and_no_cold_ones() {
        let ns = |regions, pages, cores| T3.parallel_ns(regions, 1 << 20, pages, cores);
        let gain = |pages| ns(4, pages, 1) / ns(4, pages, 4);
        assert!((gain(Pages::RESIDENT) - 4.0).abs() < 1e-9);
        assert!((1.0..1.2).contains(&gain(Pages::COLD)), "{}", gain(Pages::COLD));
        assert!((ns(4, Pages::COLD, 1) - 4.0 * ns(1, Pages::COLD, 1)).abs() < 1e-3);
        assert_eq!(ns(1, Pages::COLD, 4), T3.ns(1 << 20, Pages::COLD));
        assert_eq!(ns(5, Pages::RESIDENT, 4), 2.0 * T3.ns(1 << 20, Pages::RESIDENT));
    }

    #[test]
    fn deregistering_is_constant_up_to_a_size() {
        let ns = |bytes| T3.deregistration_ns(bytes);
        assert_eq!((ns(1), ns(128 << 10)), (15_000.0, 15_000.0));
        assert!((ns((128 << 10) + 1024) - 15_011.0).abs() < 0.5);
    }
}
