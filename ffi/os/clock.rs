//! The monotonic clock, in nanoseconds. A read costs about 20 ns, too much for one per message.

/// Returns the nanoseconds of CLOCK_MONOTONIC, which nobody can set and which is the same for every process of the machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By libc, whose vDSO is there from the start: rustix looks for it with a system call, and in /proc before Linux 6.4.
    // SAFETY: the pointer is to a local. The call cannot fail: the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Returns the nanoseconds left until `deadline_ns`; 0 once it has passed.
#[must_use]
pub fn until(deadline_ns: u64) -> u64 {
    deadline_ns.saturating_sub(monotonic_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back() {
        let mut last = monotonic_ns();
        assert!(last > 0);
        for _ in 0..10_000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_deadline_that_passed_leaves_nothing() {
        assert_eq!(until(0), 0);
        assert_eq!(until(monotonic_ns()), 0);
        assert!(until(u64::MAX) > u64::MAX / 2);
    }
}
