//! One connection between two processes of a host: SOCK_SEQPACKET, which keeps packets whole and carries descriptors.
//!
//! Non-blocking and close-on-exec throughout. Every wait has an absolute deadline in monotonic nanoseconds; a signal ends
//! it early with [`SocketError::Interrupted`], and the caller comes back with the same deadline. So does every tenth of a
//! second, because a signal that arrives just before the wait would otherwise go unnoticed until its end.
//!
//! A packet is taken whole or not at all: truncation, surplus descriptors and empty packets are errors. The kernel gives the
//! packet that a peer sent before it died, then its end. Each is looked at before it is taken: see `queue.rs`.

use super::ancillary::{Control, SentFd, socklen};
use super::rights::{Rights, pass_rights};
use super::socket_error::{ConnectError, SocketError};
use super::sun::SunAddress;
use crate::os::OsError;
use crate::os::clock::until;
use crate::os::closer::{check_closer, close_elsewhere};
use crate::os::error::{last_errno, retry};
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, Polled, poll, poll_now};
use core::ffi::c_int;
use core::mem::{ManuallyDrop, MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// The longest that a wait goes on without an [`SocketError::Interrupted`].
const SLICE_NS: u64 = 100_000_000;
/// A connected socket. Dropped, it is shut down both ways; in a child of fork only the descriptor is closed.
#[derive(Debug)]
pub struct Socket {
    fd: ManuallyDrop<OwnedFd>,
    owner: Owner,
}

/// One packet that was received.
#[derive(Debug)]
pub struct Received {
    /// bytes of it, in the caller's buffer
    pub bytes: usize,
    /// the descriptor that came with it
    pub fd: Option<SentFd>,
}

/// Who connected, in the words of the kernel, as seen from our own namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCred {
    /// process; 0 where it is not visible from here
    pub pid: libc::pid_t,
    /// effective user
    pub uid: libc::uid_t,
    /// effective group
    pub gid: libc::gid_t,
}

impl Socket {
    /// Connects at once or not at all.
    ///
    /// # Errors
    /// Why not, in a variant each: [`ConnectError::NotFound`], [`ConnectError::Refused`] and [`ConnectError::Busy`] may
    /// be otherwise a moment later.
    pub fn connect(path: &Path) -> Result<Self, ConnectError> {
        let address = SunAddress::new(path).map_err(ConnectError::Path)?;
        check_closer("cannot connect").map_err(ConnectError::Os)?;
        let socket = Self::from_fd(new_socket().map_err(ConnectError::Os)?);
        match connect_raw(socket.as_fd(), &address) {
            Ok(()) => Ok(socket),
            Err(errno) => Err(ConnectError::of(errno, path)),
        }
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
        let address = SunAddress::new(path).map_err(ConnectError::Path)?;
        check_closer("cannot connect").map_err(ConnectError::Os)?;
        let socket =
            Self::from_fd(socket_of(libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC).map_err(ConnectError::Os)?);
        let wait_us = wait_ns.min(999_999_999) / 1000;
        let wait = libc::timeval { tv_sec: 0, tv_usec: wait_us.cast_signed() };
        // SAFETY: the pointer is to a local of the size that the call is told.
        let is_set = unsafe {
            libc::setsockopt(
                socket.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDTIMEO,
                (&raw const wait).cast(),
                const { socklen(size_of::<libc::timeval>()) },
            )
        };
        if is_set != 0 {
            return Err(ConnectError::Os(OsError::last("cannot bound the wait for a listener")));
        }
        let (raw, len) = address.as_raw();
        // SAFETY: the address and its length come together and outlive the call.
        if unsafe { libc::connect(socket.fd.as_raw_fd(), raw, len) } != 0 {
            let errno = last_errno();
            return Err(ConnectError::of(if errno == libc::EINTR { libc::EAGAIN } else { errno }, path));
        }
        // SAFETY: the descriptor is ours; the call takes integers only.
        if unsafe { libc::fcntl(socket.fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(ConnectError::Os(OsError::last("cannot make a socket non-blocking")));
        }
        Ok(socket)
    }

    /// Two sockets that are connected to each other, for two threads of one process.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn pair() -> Result<(Self, Self), OsError> {
        let mut fds: [c_int; 2] = [-1; 2];
        // SAFETY: the pointer is to room for the two descriptors that the call makes.
        if unsafe { libc::socketpair(libc::AF_UNIX, SOCKET_KIND, 0, fds.as_mut_ptr()) } != 0 {
            return Err(too_many_files("cannot make a pair of sockets"));
        }
        let [a, b] = fds.map(|fd| {
            // SAFETY: the kernel has just made both for us, and nobody else knows their numbers.
            Self::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        Ok((a, b))
    }

    pub(super) fn from_fd(fd: OwnedFd) -> Self {
        Self { fd: ManuallyDrop::new(fd), owner: Owner::current() }
    }

    /// Tells the kernel whether to take packets with descriptors in from now on (Linux 6.16).
    pub(crate) fn expect_fd(&self, is_expected: bool) {
        pass_rights(self.as_fd(), is_expected);
    }

    /// Who is at the other end: whoever connected, or whoever began to listen.
    ///
    /// # Errors
    /// When the kernel refuses, which it has no reason to.
    pub fn peer_cred(&self) -> Result<PeerCred, OsError> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut cred_bytes = const { socklen(size_of::<libc::ucred>()) };
        // SAFETY: both pointers are to locals of the sizes that the call is told.
        let answer = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut cred).cast(),
                &raw mut cred_bytes,
            )
        };
        if answer != 0 {
            return Err(OsError::last("cannot tell who the peer is"));
        }
        Ok(PeerCred { pid: cred.pid, uid: cred.uid, gid: cred.gid })
    }

    /// Sends one packet, and with it a duplicate of `fd`. Never waits.
    ///
    /// # Errors
    /// [`SocketError::Full`], [`SocketError::Closed`], [`SocketError::Empty`] for no bytes, or the system's refusal.
    pub fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), SocketError> {
        if bytes.is_empty() {
            return Err(SocketError::Empty);
        }
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control::new();
        let mut header = header(&mut part);
        if let Some(fd) = fd {
            control.put(&mut header, fd);
        }
        // SAFETY: the header points to `part` and `control`, which live and are not written during the call; `part`
        // points to the caller's bytes, which sendmsg only reads.
        let sent = retry(|| unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const header, FLAGS) });
        if sent >= 0 {
            return Ok(()); // a packet goes whole or not at all
        }
        Err(match last_errno() {
            libc::EAGAIN | libc::ENOBUFS => SocketError::Full,
            libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => SocketError::Closed,
            libc::EMSGSIZE => SocketError::Oversized { limit: bytes.len().saturating_sub(1) },
            errno => SocketError::Os(OsError::new(errno, "cannot send to the peer")),
        })
    }

    /// Takes one packet into `buf`, with at most one descriptor, waiting for it until `deadline_ns`. A deadline that has
    /// passed still takes what is there.
    ///
    /// # Errors
    /// What came instead of a packet, or how the packet was wrong. One with more descriptors is not taken.
    pub fn receive(&self, buf: &mut [u8], deadline_ns: u64) -> Result<Received, SocketError> {
        loop {
            match self.try_receive(buf)? {
                None => wait_readable(self.as_fd(), deadline_ns)?,
                Some(received) => return Ok(received),
            }
        }
    }

    /// Takes one packet into `buf` if there is one.
    ///
    /// # Errors
    /// As for [`Socket::receive`], without the waiting.
    pub fn try_receive(&self, buf: &mut [u8]) -> Result<Option<Received>, SocketError> {
        self.try_receive_with(buf, Rights::One)
    }

    /// As [`try_receive`](Self::try_receive), of a packet without descriptors.
    pub(super) fn try_receive_plain(&self, buf: &mut [u8]) -> Result<Option<Received>, SocketError> {
        self.try_receive_with(buf, Rights::None)
    }

    fn try_receive_with(&self, buf: &mut [u8], rights: Rights) -> Result<Option<Received>, SocketError> {
        let limit = buf.len();
        let Some((bytes, flags, fd)) = self.look(buf, rights)? else { return Ok(None) };
        if flags & libc::MSG_CTRUNC != 0 {
            // Left in the queue: to take it is to close what it carries.
            return Err(if rights == Rights::One && fd.is_none() {
                SocketError::Os(
                    OsError::new(libc::EMFILE, "cannot take the descriptor that the peer sent")
                        .with_remedy("raise the limit of open files (ulimit -n)"),
                )
            } else {
                SocketError::Descriptors
            });
        }
        self.skip();
        if flags & libc::MSG_TRUNC != 0 {
            return Err(SocketError::Oversized { limit });
        }
        if bytes == 0 {
            return Err(if self.has_ended() { SocketError::Closed } else { SocketError::Empty });
        }
        Ok(Some(Received { bytes, fd }))
    }

    /// Descriptor that is readable when a packet waits, and hung up when the peer is gone.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLIN | libc::POLLRDHUP)
    }

    /// Descriptor that is hung up when the peer is gone. Packets that wait do not make it ready.
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
            // From here on nothing can be queued. What was sent stays with the peer.
            // SAFETY: the call takes integers only.
            unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
        }
        let is_harmless = !is_ours || self.drain();
        // SAFETY: it is taken once: nobody has `self` any more.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if is_harmless {
            drop(fd);
        } else {
            close_elsewhere(fd);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

const SOCKET_KIND: c_int = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
const FLAGS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// A socket that is neither bound nor connected.
pub(super) fn new_socket() -> Result<OwnedFd, OsError> {
    socket_of(SOCKET_KIND)
}

fn socket_of(kind: c_int) -> Result<OwnedFd, OsError> {
    // SAFETY: socket takes integers and touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(too_many_files("cannot make a socket"));
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects, or answers the errno.
pub(super) fn connect_raw(fd: BorrowedFd<'_>, address: &SunAddress) -> Result<(), c_int> {
    let (raw, len) = address.as_raw();
    // SAFETY: the address and its length come together and outlive the call.
    if retry(|| unsafe { libc::connect(fd.as_raw_fd(), raw, len) }) == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Waits for a packet, a connection or an end. `Ok` says only that it is worth looking.
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

pub(super) fn too_many_files(doing: &'static str) -> OsError {
    OsError::last(doing).with_remedy("raise the limit of open files (ulimit -n)")
}

/// A message header for one part.
pub(super) fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: a msghdr is pointers and integers, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

#[cfg(test)]
#[path = "socket_tests.rs"]
pub(super) mod tests;
