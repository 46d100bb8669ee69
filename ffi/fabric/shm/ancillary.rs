//! Descriptors in packets (SCM_RIGHTS): one per packet at most.

use crate::os::closer::close_in_background;
use core::mem::{ManuallyDrop, MaybeUninit, size_of};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

/// A descriptor that a peer sent. Its last close can block for as long as the peer likes, so dropping closes it in another thread.
#[derive(Debug)]
pub struct SentFd(ManuallyDrop<OwnedFd>);

impl SentFd {
    /// Returns the descriptor, for a caller that knows that its close does not block.
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
        // SAFETY: it is taken once, since `self` is not used afterwards.
        close_in_background(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

/// Room for one descriptor that comes with a packet, aligned as the kernel wants it.
#[repr(C, align(8))]
pub(super) struct DescriptorSpace {
    bytes: [MaybeUninit<u8>; Self::BYTES],
}

impl DescriptorSpace {
    /// Without the padding, which has room for a second.
    const BYTES: usize = control_bytes(size_of::<RawFd>());

    pub(super) const fn new() -> Self {
        Self { bytes: [MaybeUninit::uninit(); Self::BYTES] }
    }

    /// Lets the kernel write one descriptor here.
    pub(super) fn offer(&mut self) -> RecvAncillaryBuffer<'_> {
        RecvAncillaryBuffer::new(&mut self.bytes)
    }
}

/// Takes the descriptor that the kernel wrote.
pub(super) fn take(control: &mut RecvAncillaryBuffer<'_>) -> Option<SentFd> {
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next().map(SentFd::from),
        _ => None,
    })
}

/// Bytes of a control message (CMSG_LEN).
pub(super) const fn control_bytes(data: usize) -> usize {
    size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>()) + data
}
