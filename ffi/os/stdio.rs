//! Which of descriptors 0, 1 and 2 were open when the process began.
//!
//! std opens /dev/null in place of those that were closed, before main. A tool whose standard output was closed would
//! then write its data to nowhere, and report success: it must know.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};

/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether `fd`, one of 0 to 2, was closed when the process began.
#[must_use]
pub fn was_closed_at_start(fd: c_int) -> bool {
    (0..=2).contains(&fd) && CLOSED.load(Ordering::Relaxed) >> fd & 1 != 0
}

/// Runs before main, and so before std's own setup.
extern "C" fn look() {
    for fd in 0..=2 {
        // SAFETY: fcntl takes integers here, and touches no memory of ours; any descriptor number may be asked for.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the C library calls every pointer of this section once, before main, with arguments that a function of none
// ignores. `look` needs nothing that would not be set up by then: no allocation, no std, no other initialiser's work.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_its_standard_descriptors() {
        assert!(!was_closed_at_start(1) && !was_closed_at_start(-1) && !was_closed_at_start(3));
    }
}
