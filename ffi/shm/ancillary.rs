//! Descriptors that travel with a packet (SCM_RIGHTS): at most one to send; whatever came is owned, and surplus closed.

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use core::ptr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Descriptors that there is room to receive, so that surplus ones are seen and closed.
const FDS_SEEN_MAX: usize = 4;

/// Room for descriptors that travel with a packet, aligned as the kernel wants it.
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; Self::BYTES],
}

impl Control {
    const FD_BYTES: u32 = socklen(size_of::<c_int>());
    // SAFETY: CMSG_SPACE is arithmetic on its argument.
    const BYTES: usize = unsafe { libc::CMSG_SPACE(socklen(FDS_SEEN_MAX * size_of::<c_int>())) } as usize;
    // SAFETY: CMSG_SPACE is arithmetic on its argument.
    const BYTES_OF_ONE: usize = unsafe { libc::CMSG_SPACE(Self::FD_BYTES) } as usize;

    pub(super) fn new() -> Self {
        Self { bytes: [0; Self::BYTES] }
    }

    /// Lets the kernel write here.
    pub(super) fn offer(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.bytes.as_mut_ptr().cast::<c_void>();
        header.msg_controllen = Self::BYTES;
    }

    /// Makes the packet carry `fd`.
    pub(super) fn put(&mut self, header: &mut libc::msghdr, fd: BorrowedFd<'_>) {
        self.offer(header);
        header.msg_controllen = Self::BYTES_OF_ONE;
        // SAFETY: the header was just given room for one message, so there is a first.
        let first = unsafe { libc::CMSG_FIRSTHDR(header) };
        let message = libc::cmsghdr {
            // SAFETY: CMSG_LEN is arithmetic on its argument.
            cmsg_len: unsafe { libc::CMSG_LEN(Self::FD_BYTES) } as usize,
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

    /// Owns what the kernel wrote: the first descriptor, and whether there were more, which are closed.
    pub(super) fn take(&self, header: &libc::msghdr) -> (Option<OwnedFd>, bool) {
        let (mut first, mut surplus) = (None, false);
        // SAFETY: the header is as recvmsg left it, and its control pointer is to our bytes, which live.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: FIRSTHDR and NXTHDR answer only headers that lie whole inside the control bytes.
            let found = unsafe { message.read() };
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                // SAFETY: as above.
                let data = unsafe { libc::CMSG_DATA(message) };
                for index in 0..Self::fds_in(found.cmsg_len) {
                    // SAFETY: the kernel counted this descriptor into cmsg_len, so it lies inside our bytes.
                    let fd = unsafe { data.cast::<c_int>().add(index).read_unaligned() };
                    // SAFETY: the kernel has just made it for us, and it is taken once.
                    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                    surplus |= first.is_some();
                    first.get_or_insert(fd);
                }
            }
            // SAFETY: as for FIRSTHDR; `message` is the one that was just read.
            message = unsafe { libc::CMSG_NXTHDR(ptr::from_ref(header), message) };
        }
        (first, surplus)
    }

    fn fds_in(cmsg_len: usize) -> usize {
        // SAFETY: CMSG_LEN is arithmetic on its argument.
        let header_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
        cmsg_len.saturating_sub(header_bytes) / size_of::<c_int>()
    }
}

/// The length of a kernel structure, as calls on sockets want it.
pub(super) const fn socklen(bytes: usize) -> libc::socklen_t {
    assert!(bytes <= 4096, "sizes of kernel structures are small");
    #[expect(clippy::cast_possible_truncation, reason = "asserted above")]
    let len = bytes as libc::socklen_t;
    len
}
