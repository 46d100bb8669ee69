//! Descriptors that the process inherited, and a record of those of 0, 1 and 2 that were closed.
//!
//! std opens /dev/null in place of those that were closed, before main. A tool whose standard output was closed would
//! then write its data to /dev/null and report success. So this module records closed descriptors before std's set-up runs.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, retry_on_intr};

/// Bit n is set if descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Returns true if `fd`, one of 0 to 2, was closed when the process began.
#[must_use]
pub fn was_closed_at_start(fd: c_int) -> bool {
    (0..=2).contains(&fd) && CLOSED.load(Ordering::Relaxed) >> fd & 1 != 0
}

/// Duplicates a descriptor that the process was started with. The copy shares its offset and its flags.
///
/// # Errors
/// EBADF if it was closed, or has close-on-exec and so was opened by the process itself; EMFILE.
pub fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 || was_closed_at_start(fd) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the number is not -1. It is used in two fcntl calls only, which refuse a number that is not open.
    let named = unsafe { BorrowedFd::borrow_raw(fd) };
    if fcntl_getfd(named)?.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // The copy never gets a number from 0 to 2, even if one is free.
    Ok(retry_on_intr(|| fcntl_dupfd_cloexec(named, 3))?)
}

/// Records which of 0, 1 and 2 are closed. It runs before main, and so before std's own set-up.
extern "C" fn record_closed() {
    for fd in 0..=2 {
        // SAFETY: fcntl takes integers here, and touches no memory of ours; any descriptor number may be asked for.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the C library calls every pointer of this section once, before main, with arguments that a C function without
// parameters ignores. `record_closed` needs nothing that is not set up by then: no allocation, no std, no other initializer.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_CLOSED: extern "C" fn() = record_closed;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_standard_descriptors_of_a_test_were_open() {
        assert!(!was_closed_at_start(1) && !was_closed_at_start(-1) && !was_closed_at_start(3));
    }

    #[test]
    fn only_inherited_descriptors_are_duplicated() {
        assert!(duplicate(1).is_ok());
        let own = std::fs::File::open("/dev/null").unwrap();
        for fd in [own.as_raw_fd(), -1, c_int::MAX] {
            assert_eq!(duplicate(fd).unwrap_err().raw_os_error(), Some(libc::EBADF), "{fd}");
        }
    }
}
