//! The monotonic clock, in nanoseconds. A read costs about 20 ns: never one a message.

use core::mem::MaybeUninit;

/// Nanoseconds of CLOCK_MONOTONIC, which no one sets and which is the same for every process of the machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to a timespec of ours. The call cannot fail: the clock exists on every Linux, and the
    // pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) };
    // SAFETY: clock_gettime has filled it, as argued above.
    let now = unsafe { now.assume_init() };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// What is left until `deadline_ns`; 0 when it has passed.
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
