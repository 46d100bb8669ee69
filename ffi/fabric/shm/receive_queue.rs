//! Packets that wait in a socket: each is inspected before it is taken.
//!
//! **No close blocks.** The last close of a descriptor that a peer sent can take as long as the peer likes, and the kernel
//! makes it whenever it drops a packet that carries the descriptor: received without room for it, or still queued when the
//! socket is closed. So every packet is inspected before it is taken. One that carries what it may not is never taken;
//! one that carries a descriptor is taken only while a duplicate of that is held, which [`SentFd`] closes in the background. A socket
//! with such packets in its queue is closed in the background, too. From Linux 6.16 on a socket takes descriptors in only while one
//! is expected (SO_PASSRIGHTS).

use super::ancillary::{DescriptorSpace, SentFd, control_bytes, take};
use super::descriptor_passing::Descriptors;
use super::socket::Socket;
use super::socket_error::SocketError;
use crate::os::OsError;
use core::mem::{MaybeUninit, size_of};
use rustix::io::{Errno, IoSliceMut, retry_on_intr};
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, recv, recvmsg};
use std::os::fd::{AsFd, AsRawFd};

/// Packets that a drop takes out of the queue: more than fit into a socket's buffer of the default size.
const DRAIN_MAX: usize = 1024;

/// The packet at the head of the queue, which is still there.
#[derive(Debug)]
pub(super) struct Head {
    /// bytes of it
    pub(super) bytes: usize,
    /// its first byte
    pub(super) first: u8,
    /// whether it carries descriptors
    pub(super) has_fds: bool,
}

/// A copy of the packet at the head of the queue.
#[derive(Debug)]
pub(super) struct Peeked {
    /// bytes of the packet, of which the buffer has as many as fit
    pub(super) bytes: usize,
    /// true if the buffer is shorter
    pub(super) is_truncated: bool,
    /// a duplicate of its descriptor
    pub(super) fd: Option<SentFd>,
    /// true if it carries descriptors for which there was no room
    pub(super) has_more_fds: bool,
}

impl Socket {
    /// Inspects the packet at the head of the queue; none if there is no packet. The end of the queue has no bytes.
    pub(super) fn head(&self) -> Option<Head> {
        let mut first = [0];
        let peeked = self.peek(&mut first, Descriptors::None).ok()??;
        Some(Head { bytes: peeked.bytes, first: first[0], has_fds: peeked.has_more_fds })
    }

    /// Discards the packet at the head. The caller has inspected it: every descriptor that it carries has another holder.
    pub(super) fn discard_head(&self) {
        let _ = again_after_reset(|| recv(self, &mut [0_u8; 0], RecvFlags::DONTWAIT));
    }

    /// Copies the packet at the head; none if there is no packet.
    pub(super) fn peek(
        &self,
        buf: &mut [u8],
        descriptors: Descriptors,
    ) -> Result<Option<Peeked>, SocketError> {
        let mut space = DescriptorSpace::new();
        let mut control = match descriptors {
            Descriptors::None => RecvAncillaryBuffer::default(),
            Descriptors::One => space.offer(),
        };
        let mut parts = [IoSliceMut::new(buf)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::CMSG_CLOEXEC;
        match again_after_reset(|| recvmsg(self, &mut parts, &mut control, flags)) {
            Ok(got) => Ok(Some(Peeked {
                bytes: got.bytes,
                is_truncated: got.flags.contains(ReturnFlags::TRUNC),
                fd: take(&mut control),
                has_more_fds: got.flags.contains(ReturnFlags::CTRUNC),
            })),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::CONNRESET | Errno::NOTCONN) => Err(SocketError::Closed),
            Err(errno) => Err(SocketError::Os(OsError::of(errno, "cannot receive from the peer"))),
        }
    }

    /// Empties the queue of a socket that is shut down. Returns false if a packet with descriptors is left, or too many packets
    /// are, or the kernel does not tell.
    pub(super) fn drain(&self) -> bool {
        // Every packet then has a sender, which distinguishes an empty one from the end.
        let _ = set_socket_passcred(self, true);
        for _ in 0..DRAIN_MAX {
            match self.head_with_sender() {
                Ok(None) => return true,
                Ok(Some(true)) | Err(_) => return false,
                Ok(Some(false)) => self.discard_head(),
            }
        }
        false
    }

    /// Returns whether the packet at the head carries descriptors; none if there is no packet.
    ///
    /// By libc: rustix takes it that no sender has pid 0, which one of another pid namespace has.
    fn head_with_sender(&self) -> Result<Option<bool>, Errno> {
        let mut part = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        let mut sender = [0_u64; SENDER_WORDS];
        // SAFETY: a msghdr is pointers and integers, for all of which zero is a value.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        let got = again_after_reset(|| {
            header.msg_control = sender.as_mut_ptr().cast();
            header.msg_controllen = SENDER_BYTES;
            let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
            // SAFETY: the header points to `part`, which names no byte, and to `sender`, which lives during the call and has
            // the length that is named.
            let got = unsafe { libc::recvmsg(self.as_fd().as_raw_fd(), &raw mut header, flags) };
            usize::try_from(got).map_err(|_| last_errno())
        });
        match got {
            Ok(_) => {
                let has_fds = header.msg_flags & libc::MSG_CTRUNC != 0;
                Ok((header.msg_controllen > 0 || has_fds).then_some(has_fds))
            }
            // The second of one that was never connected.
            Err(Errno::AGAIN | Errno::NOTCONN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

fn last_errno() -> Errno {
    Errno::from_raw_os_error(crate::os::error::last_errno())
}

/// Calls again after ECONNRESET: the kernel reports so, once, that the peer closed with packets unread. Packets that the peer
/// sent before are queued all the same.
fn again_after_reset<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match retry_on_intr(&mut call) {
        Err(Errno::CONNRESET) => retry_on_intr(call),
        done => done,
    }
}

/// Room for the sender of a packet (SCM_CREDENTIALS), and for no descriptor.
const SENDER_BYTES: usize = control_bytes(size_of::<libc::ucred>());
const SENDER_WORDS: usize = SENDER_BYTES.div_ceil(size_of::<u64>());
