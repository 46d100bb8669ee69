//! Descriptors in packets: how many one may carry, and a switch in the kernel that lets them into a socket (SO_PASSRIGHTS).

use core::ffi::c_int;
use core::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Descriptors that a packet may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Descriptors {
    None,
    One,
}

/// Sets whether a socket, and those that a listening one accepts, take packets with descriptors in. Before Linux 6.16 all do.
pub(super) fn set_descriptor_passing(fd: BorrowedFd<'_>, is_wanted: bool) {
    // Of asm-generic/socket.h, and unknown to rustix. Elsewhere packets are inspected all the same.
    const SO_PASSRIGHTS: c_int = 83;
    if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
        return;
    }
    #[cfg(test)]
    if WITHOUT_PASSRIGHTS.get() {
        return;
    }
    let value = c_int::from(is_wanted);
    let value_bytes = const { socklen(size_of::<c_int>()) };
    // SAFETY: the pointer is to a local of the size that the call gets.
    unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            value_bytes,
        )
    };
}

/// Converts the size of a kernel structure, as calls on sockets want it.
pub(super) const fn socklen(bytes: usize) -> libc::socklen_t {
    assert!(bytes <= 4096, "sizes of kernel structures are small");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let len = bytes as libc::socklen_t;
    len
}

#[cfg(test)]
std::thread_local! {
    static WITHOUT_PASSRIGHTS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Makes the sockets of this thread those of a kernel without SO_PASSRIGHTS.
#[cfg(test)]
pub(crate) fn without_passrights(is_so: bool) {
    WITHOUT_PASSRIGHTS.set(is_so);
}
