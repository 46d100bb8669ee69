//! A socket between two processes of a host: SOCK_SEQPACKET, which keeps packets separate and carries descriptors.
//!
//! Always non-blocking and close-on-exec. Every wait has an absolute deadline in monotonic nanoseconds. A signal ends
//! it early with [`SocketError::Interrupted`], and the caller waits again with the same deadline. The same happens every
//! 100 ms, because a signal that arrives just before the wait would otherwise have no effect until its end.
//!
//! A packet is received completely or not at all: truncation, surplus descriptors and empty packets are errors. The kernel
//! delivers the packets that a peer sent before it died, then the end. Each is inspected before it is taken: see
//! `receive_queue.rs`.

use super::ancillary::SentFd;
use super::descriptor_passing::{Descriptors, set_descriptor_passing, socklen};
use super::socket_error::{ConnectError, SocketError};
use super::unix_address::unix_address;
use crate::os::OsError;
use crate::os::clock::until;
use crate::os::closer::{check_closer, close_in_background};
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, Polled, poll, poll_now};
use core::mem::{ManuallyDrop, MaybeUninit, size_of};
use core::time::Duration;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, IoSlice, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg, shutdown, socket_with, socketpair,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Longest wait before an [`SocketError::Interrupted`]: a bound on the delay of a signal that arrives just before.
const SLICE_NS: u64 = 100_000_000;

/// A connected socket. Dropping shuts it down both ways; in a child of fork it only closes the descriptor.
#[derive(Debug)]
pub struct Socket {
    fd: ManuallyDrop<OwnedFd>,
    owner: Owner,
}

/// A received packet.
#[derive(Debug)]
pub struct Received {
    /// bytes of it, in the caller's buffer
    pub bytes: usize,
    /// the descriptor that came with it
    pub fd: Option<SentFd>,
}

/// Process and user of the peer, as the kernel names them in the namespaces of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerCred {
    /// Process id; 0 if the process is not visible in this pid namespace.
    pub pid: u32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

impl Socket {
    /// Connects without waiting.
    ///
    /// # Errors
    /// One variant per cause. [`ConnectError::NotFound`], [`ConnectError::Refused`] and [`ConnectError::Busy`] are temporary.
    pub fn connect(path: &Path) -> Result<Self, ConnectError> {
        let address = unix_address(path).map_err(ConnectError::Path)?;
        check_closer("cannot connect").map_err(ConnectError::Os)?;
        let socket = Self::from_fd(new_socket().map_err(ConnectError::Os)?);
        connect_raw(&socket, &address).map_err(|errno| ConnectError::of(errno, path))?;
        Ok(socket)
    }

    /// Connects as [`connect`](Self::connect) does. If the listener's backlog is full, waits for a place in it, `wait_ns` at most and
    /// less than a second. The kernel wakes such a waiter when there is a place, so clients that only try again cannot keep it out.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); a signal ends the wait as well.
    pub(crate) fn connect_within(path: &Path, wait_ns: u64) -> Result<Self, ConnectError> {
        if wait_ns < 1000 {
            return Self::connect(path);
        }
        let address = unix_address(path).map_err(ConnectError::Path)?;
        check_closer("cannot connect").map_err(ConnectError::Os)?;
        let socket = Self::from_fd(socket_of(SocketFlags::CLOEXEC).map_err(ConnectError::Os)?);
        let wait = Duration::from_micros(wait_ns.min(999_999_999) / 1000);
        set_socket_timeout(&socket, Timeout::Send, Some(wait))
            .map_err(|errno| ConnectError::Os(OsError::of(errno, "cannot bound the wait for a listener")))?;
        rustix::net::connect(&socket, &address).map_err(|errno| {
            ConnectError::of(if errno == Errno::INTR { Errno::AGAIN } else { errno }, path)
        })?;
        fcntl_setfl(&socket, OFlags::NONBLOCK)
            .map_err(|errno| ConnectError::Os(OsError::of(errno, "cannot make a socket non-blocking")))?;
        Ok(socket)
    }

    /// Makes two sockets that are connected to each other, for two threads of one process.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn pair() -> Result<(Self, Self), OsError> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, NON_BLOCKING, None)
            .map_err(|errno| too_many_files(errno, "cannot make a pair of sockets"))?;
        Ok((Self::from_fd(a), Self::from_fd(b)))
    }

    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self { fd: ManuallyDrop::new(fd), owner: Owner::current() }
    }

    /// Sets whether the kernel accepts packets with descriptors from now on (Linux 6.16).
    pub(crate) fn expect_fd(&self, is_expected: bool) {
        set_descriptor_passing(self.as_fd(), is_expected);
    }

    /// Returns the process and user that connected, or that began to listen.
    ///
    /// By libc: rustix has no pid 0, which the kernel returns for a process of another pid namespace.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn peer_cred(&self) -> Result<PeerCred, OsError> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut cred_bytes = const { socklen(size_of::<libc::ucred>()) };
        // SAFETY: both pointers are to locals of the sizes that the call gets.
        let refused = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &raw mut cred_bytes,
            )
        };
        if refused != 0 {
            return Err(OsError::last("cannot tell who the peer is"));
        }
        Ok(PeerCred { pid: cred.pid.cast_unsigned(), uid: cred.uid, gid: cred.gid })
    }

    /// Sends a packet, and with it a duplicate of `fd`. Never waits.
    ///
    /// # Errors
    /// [`SocketError::Full`], [`SocketError::Closed`], [`SocketError::Empty`] for no bytes, or the system's refusal.
    pub fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), SocketError> {
        if bytes.is_empty() {
            return Err(SocketError::Empty);
        }
        let carried = fd.as_slice();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !carried.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(carried));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // The kernel sends a packet completely or not at all.
        match retry_on_intr(|| sendmsg(self, &[IoSlice::new(bytes)], &mut control, flags)) {
            Ok(_) => Ok(()),
            Err(Errno::AGAIN | Errno::NOBUFS) => Err(SocketError::Full),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(SocketError::Closed),
            Err(Errno::MSGSIZE) => Err(SocketError::Oversized { limit: bytes.len().saturating_sub(1) }),
            Err(errno) => Err(SocketError::Os(OsError::of(errno, "cannot send to the peer"))),
        }
    }

    /// Receives a packet into `buf`, with at most one descriptor. Waits for it until `deadline_ns`; with a deadline that has
    /// passed, receives a packet that is there already.
    ///
    /// # Errors
    /// The packet is invalid, or there is none. One with more descriptors stays in the queue.
    pub fn receive(&self, buf: &mut [u8], deadline_ns: u64) -> Result<Received, SocketError> {
        loop {
            match self.try_receive(buf)? {
                None => wait_readable(self.as_fd(), deadline_ns)?,
                Some(received) => return Ok(received),
            }
        }
    }

    /// Receives a packet into `buf` if there is one.
    ///
    /// # Errors
    /// As for [`Socket::receive`], without waiting.
    pub fn try_receive(&self, buf: &mut [u8]) -> Result<Option<Received>, SocketError> {
        self.try_receive_with(buf, Descriptors::One)
    }

    /// Receives a packet that may carry no descriptor, as [`try_receive`](Self::try_receive).
    pub(super) fn try_receive_plain(&self, buf: &mut [u8]) -> Result<Option<Received>, SocketError> {
        self.try_receive_with(buf, Descriptors::None)
    }

    fn try_receive_with(
        &self,
        buf: &mut [u8],
        descriptors: Descriptors,
    ) -> Result<Option<Received>, SocketError> {
        let limit = buf.len();
        let Some(peeked) = self.peek(buf, descriptors)? else { return Ok(None) };
        if peeked.has_more_fds {
            // Left in the queue: taking it would close the descriptors that it carries.
            return Err(if descriptors == Descriptors::One && peeked.fd.is_none() {
                SocketError::Os(
                    OsError::new(libc::EMFILE, "cannot take the descriptor that the peer sent")
                        .with_remedy("raise the limit of open files (ulimit -n)"),
                )
            } else {
                SocketError::Descriptors
            });
        }
        self.discard_head();
        if peeked.is_truncated {
            return Err(SocketError::Oversized { limit });
        }
        if peeked.bytes == 0 {
            return Err(if self.has_ended() { SocketError::Closed } else { SocketError::Empty });
        }
        Ok(Some(Received { bytes: peeked.bytes, fd: peeked.fd }))
    }

    /// Descriptor that is readable when a packet waits, and hung up once the peer is gone.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLIN | libc::POLLRDHUP)
    }

    /// Descriptor that is hung up once the peer is gone. Waiting packets do not make it ready.
    pub(super) fn interest_in_end(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLRDHUP)
    }

    /// Returns true if the peer has closed its end. Packets that it sent before may still wait here.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut fds = [self.interest()];
        poll_now(&mut fds) && fds[0].is_hung_up()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let is_ours = self.owner.is_current();
        if is_ours {
            // From here on nothing can be queued. Packets that were sent stay with the peer.
            let _ = shutdown(&*self, Shutdown::Both);
        }
        let closes_quickly = !is_ours || self.drain();
        // SAFETY: it is taken once, since `self` is not used afterwards.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if closes_quickly {
            drop(fd);
        } else {
            close_in_background(fd);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const NON_BLOCKING: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Makes a socket that is neither bound nor connected.
pub(super) fn new_socket() -> Result<OwnedFd, OsError> {
    socket_of(NON_BLOCKING)
}

fn socket_of(flags: SocketFlags) -> Result<OwnedFd, OsError> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|errno| too_many_files(errno, "cannot make a socket"))
}

/// Connects a socket that does not block.
pub(super) fn connect_raw(fd: &impl AsFd, address: &SocketAddrUnix) -> Result<(), Errno> {
    retry_on_intr(|| rustix::net::connect(fd, address))
}

/// Waits for a packet, a connection or an end. `Ok` means that a receive or accept may succeed.
pub(super) fn wait_readable(fd: BorrowedFd<'_>, deadline_ns: u64) -> Result<(), SocketError> {
    let left = until(deadline_ns);
    if left == 0 {
        return Err(SocketError::TimedOut);
    }
    let mut fds = [PollFd::new(fd, libc::POLLIN)];
    match poll(&mut fds, left.min(SLICE_NS)).map_err(SocketError::Os)? {
        Polled::Ready => Ok(()),
        Polled::TimedOut if left <= SLICE_NS => Err(SocketError::TimedOut),
        Polled::TimedOut | Polled::Interrupted => Err(SocketError::Interrupted),
    }
}

pub(super) fn too_many_files(errno: Errno, doing: &'static str) -> OsError {
    OsError::of(errno, doing).with_remedy("raise the limit of open files (ulimit -n)")
}

#[cfg(test)]
pub(super) mod tests;
