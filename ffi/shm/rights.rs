//! Whether the kernel lets packets with descriptors into a socket (SO_PASSRIGHTS, Linux 6.16).

use super::ancillary::socklen;
use core::ffi::c_int;
use core::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Descriptors that a look at the head of the queue may duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    None,
    One,
}

/// Sets whether a socket, and those that a listening one accepts, take packets with descriptors in. Before Linux 6.16 all do.
pub(super) fn pass_rights(fd: BorrowedFd<'_>, is_wanted: bool) {
    // Of asm-generic/socket.h; elsewhere the packets are looked at all the same.
    const SO_PASSRIGHTS: c_int = 83;
    if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) {
        return;
    }
    #[cfg(test)]
    if WITHOUT_PASSRIGHTS.get() {
        return;
    }
    set_option(fd, SO_PASSRIGHTS, is_wanted);
}

/// Sets an option, if the kernel has it.
pub(super) fn set_option(fd: BorrowedFd<'_>, option: c_int, is_on: bool) {
    let value = c_int::from(is_on);
    // SAFETY: the pointer is to a local of the size that the call is told.
    unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            const { socklen(size_of::<c_int>()) },
        )
    };
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
