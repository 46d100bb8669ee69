//! The descriptors that the process was started with, and which of 0, 1 and 2 were among them.
//!
//! std opens /dev/null in place of those that were closed, before main. A tool whose standard output was closed would
//! then write its data to nowhere, and report success: it must know.

use super::error::retry;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Bit n: descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether `fd`, one of 0 to 2, was closed when the process began.
#[must_use]
pub fn was_closed_at_start(fd: c_int) -> bool {
    (0..=2).contains(&fd) && CLOSED.load(Ordering::Relaxed) >> fd & 1 != 0
}

/// Duplicates a descriptor that the process was started with: the copy shares its offset and its flags.
///
/// # Errors
/// EBADF where it was closed, or where the process opened it itself, which is known by close-on-exec; EMFILE.
pub fn duplicate(fd: c_int) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes integers here, and touches no memory of ours; any descriptor number may be asked for.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 || was_closed_at_start(fd) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: as above. The smallest number that may be given is 3.
    let copy = retry(|| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) });
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above opened it, and nothing else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
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
    use std::os::fd::AsRawFd;

    #[test]
    fn a_test_has_its_standard_descriptors() {
        assert!(!was_closed_at_start(1) && !was_closed_at_start(-1) && !was_closed_at_start(3));
    }

    #[test]
    fn only_what_was_handed_over_is_duplicated() {
        assert!(duplicate(1).is_ok());
        let own = std::fs::File::open("/dev/null").unwrap();
        for fd in [own.as_raw_fd(), -1, c_int::MAX] {
            assert_eq!(duplicate(fd).unwrap_err().raw_os_error(), Some(libc::EBADF), "{fd}");
        }
    }
}
