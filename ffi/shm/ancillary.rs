//! Descriptors that travel with a packet (SCM_RIGHTS): one at most, each way.

use crate::os::closer::close_elsewhere;
use core::ffi::{c_int, c_void};
use core::mem::{ManuallyDrop, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A descriptor that a peer sent. Its last close can block for as long as the peer likes, so it is closed elsewhere.
#[derive(Debug)]
pub struct SentFd(ManuallyDrop<OwnedFd>);

impl SentFd {
    /// The descriptor, for a caller that knows that it can be closed without blocking.
    #[must_use]
    pub fn into_owned(mut self) -> OwnedFd {
        // SAFETY: it is taken once: `self` is forgotten.
        let fd = unsafe { ManuallyDrop::take(&mut self.0) };
        core::mem::forget(self);
        fd
    }
}

impl From<OwnedFd> for SentFd {
    fn from(fd: OwnedFd) -> Self {
        Self(ManuallyDrop::new(fd))
    }
}

impl AsFd for SentFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for SentFd {
    fn drop(&mut self) {
        // SAFETY: it is taken once: nobody has `self` any more.
        close_elsewhere(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// Room for descriptors that travel with a packet, aligned as the kernel wants it.
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; Self::BYTES],
}

impl Control {
    const FD_BYTES: u32 = socklen(size_of::<c_int>());
    // SAFETY: CMSG_SPACE is arithmetic on its argument.
    const BYTES: usize = unsafe { libc::CMSG_SPACE(Self::FD_BYTES) } as usize;
    /// Without the padding, which has room for a second.
    // SAFETY: CMSG_LEN is arithmetic on its argument.
    const BYTES_OF_ONE: usize = unsafe { libc::CMSG_LEN(Self::FD_BYTES) } as usize;

    pub(super) fn new() -> Self {
        Self { bytes: [0; Self::BYTES] }
    }

    /// Lets the kernel write one descriptor here.
    pub(super) fn offer(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.bytes.as_mut_ptr().cast::<c_void>();
        header.msg_controllen = Self::BYTES_OF_ONE;
    }

    /// Makes the packet carry `fd`.
    pub(super) fn put(&mut self, header: &mut libc::msghdr, fd: BorrowedFd<'_>) {
        self.offer(header);
        header.msg_controllen = Self::BYTES;
        // SAFETY: the header was just given room for one message, so there is a first.
        let first = unsafe { libc::CMSG_FIRSTHDR(header) };
        let message = libc::cmsghdr {
            cmsg_len: Self::BYTES_OF_ONE,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        // SAFETY: `first` points into our aligned bytes, which have room for the header and one descriptor.
        unsafe { first.write(message) };
        // SAFETY: as above; the data follow the header.
        let data = unsafe { libc::CMSG_DATA(first) };
        // SAFETY: as above; written unaligned, as the data's alignment is nobody's promise.
        unsafe { data.cast::<c_int>().write_unaligned(fd.as_raw_fd()) };
    }

    /// Owns the descriptor that the kernel wrote.
    pub(super) fn take(&self, header: &libc::msghdr) -> Option<SentFd> {
        // SAFETY: the header is as recvmsg left it, and its control pointer is to our bytes, which live.
        let message = unsafe { libc::CMSG_FIRSTHDR(header) };
        if message.is_null() {
            return None;
        }
        // SAFETY: FIRSTHDR answers only a header that lies whole inside the control bytes.
        let found = unsafe { message.read() };
        if (found.cmsg_level, found.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS)
            || found.cmsg_len < Self::BYTES_OF_ONE
        {
            return None;
        }
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(message) };
        // SAFETY: the kernel counted this descriptor into cmsg_len, so it lies inside our bytes.
        let fd = unsafe { data.cast::<c_int>().read_unaligned() };
        // SAFETY: the kernel has just made it for us, and it is taken once.
        Some(unsafe { OwnedFd::from_raw_fd(fd) }.into())
    }
}

/// The length of a kernel structure, as calls on sockets want it.
pub(super) const fn socklen(bytes: usize) -> libc::socklen_t {
    assert!(bytes <= 4096, "sizes of kernel structures are small");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let len = bytes as libc::socklen_t;
    len
}
