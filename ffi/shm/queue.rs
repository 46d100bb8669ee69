//! The packets that wait in a socket, which are looked at before they are taken.
//!
//! **No close blocks.** The last close of a descriptor that a peer sent can take as long as the peer likes, and the kernel
//! makes it whenever it drops a packet that carries the descriptor: received without room for it, or still queued when the
//! socket is closed. So every packet is looked at before it is taken. One that carries what it may not is never taken;
//! one that carries a descriptor is taken only while a duplicate of that is held, which [`SentFd`] closes elsewhere. A socket
//! with such packets in its queue is closed elsewhere, too. From Linux 6.16 on a socket takes descriptors in only while one
//! is expected (SO_PASSRIGHTS).

use super::ancillary::{Control, SentFd, socklen};
use super::rights::{Rights, set_option};
use super::socket::{Socket, header};
use super::socket_error::SocketError;
use crate::os::OsError;
use crate::os::error::{last_errno, retry};
use core::ffi::c_int;
use core::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Packets that a drop takes out of the queue: more than fit into one of the default size.
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

impl Socket {
    /// The packet at the head of the queue, or the end of it: no bytes.
    pub(super) fn head(&self) -> Option<Head> {
        let mut first = [0];
        let (bytes, flags, _) = self.look(&mut first, Rights::None).ok()??;
        Some(Head { bytes, first: first[0], has_fds: flags & libc::MSG_CTRUNC != 0 })
    }

    /// Takes the packet at the head away. The caller has looked at it: every descriptor that it carries has another holder.
    pub(super) fn skip(&self) {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: no byte is to be written, so the pointer is not used.
        look_again(|| unsafe { libc::recv(self.as_fd().as_raw_fd(), core::ptr::null_mut(), 0, flags) });
    }

    /// Copies the packet at the head: its length, its flags, and a duplicate of its descriptor where there is room for it.
    pub(super) fn look(
        &self,
        buf: &mut [u8],
        rights: Rights,
    ) -> Result<Option<(usize, c_int, Option<SentFd>)>, SocketError> {
        let mut part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let mut control = Control::new();
        let mut header = header(&mut part);
        if rights == Rights::One {
            control.offer(&mut header);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: the header points to `part` and, or not, to `control`, which live during the call and are of the lengths
        // that it names; `part` points to the caller's buffer, which is ours to write.
        let got = look_again(|| unsafe { libc::recvmsg(self.as_fd().as_raw_fd(), &raw mut header, flags) });
        let Ok(bytes) = usize::try_from(got) else {
            return match last_errno() {
                libc::EAGAIN => Ok(None),
                libc::ECONNRESET | libc::ENOTCONN => Err(SocketError::Closed),
                errno => Err(SocketError::Os(OsError::new(errno, "cannot receive from the peer"))),
            };
        };
        let fd = if rights == Rights::One { control.take(&header) } else { None };
        Ok(Some((bytes, header.msg_flags, fd)))
    }

    /// Empties the queue of a socket that is shut down. False where a packet with descriptors is left, or too many are, or the
    /// kernel does not tell.
    pub(super) fn drain(&self) -> bool {
        // Every packet then comes with its sender, which tells an empty one from the end.
        set_option(self.as_fd(), libc::SO_PASSCRED, true);
        for _ in 0..DRAIN_MAX {
            match self.head_with_sender() {
                Ok(None) => return true,
                Ok(Some(true)) | Err(_) => return false,
                Ok(Some(false)) => self.skip(),
            }
        }
        false
    }

    /// Looks whether the packet at the head carries descriptors; `None` if there is no packet; or the errno.
    fn head_with_sender(&self) -> Result<Option<bool>, c_int> {
        let mut part = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        let mut sender = [0_u64; SENDER_WORDS];
        let mut header = header(&mut part);
        header.msg_control = sender.as_mut_ptr().cast();
        header.msg_controllen = SENDER_BYTES;
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        // SAFETY: the header points to `part`, which names no byte, and to `sender`, which lives during the call and has
        // the length that is named.
        let got = look_again(|| unsafe { libc::recvmsg(self.as_fd().as_raw_fd(), &raw mut header, flags) });
        if got < 0 {
            return match last_errno() {
                // The second of one that was never connected.
                libc::EAGAIN | libc::ENOTCONN => Ok(None),
                errno => Err(errno),
            };
        }
        let has_fds = header.msg_flags & libc::MSG_CTRUNC != 0;
        Ok((header.msg_controllen > 0 || has_fds).then_some(has_fds))
    }
}

/// Calls once more after ECONNRESET: so the kernel tells, once, that the peer closed with something unread. Packets that the
/// peer sent before are queued all the same.
fn look_again(mut call: impl FnMut() -> isize) -> isize {
    let got = retry(&mut call);
    if got < 0 && last_errno() == libc::ECONNRESET { retry(call) } else { got }
}

/// Room for the sender of a packet (SCM_CREDENTIALS), and for no descriptor.
// SAFETY: CMSG_LEN is arithmetic on its argument.
const SENDER_BYTES: usize = unsafe { libc::CMSG_LEN(socklen(size_of::<libc::ucred>())) } as usize;
const SENDER_WORDS: usize = SENDER_BYTES.div_ceil(size_of::<u64>());
