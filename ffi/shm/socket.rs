//! One connection between two processes of a host: SOCK_SEQPACKET, which keeps packets whole and carries descriptors.
//!
//! Non-blocking and close-on-exec throughout. Every wait has an absolute deadline in monotonic nanoseconds; a signal ends
//! it early with [`SocketError::Interrupted`], and the caller comes back with the same deadline. So does every tenth of a
//! second, because a signal that arrives just before the wait would otherwise go unnoticed until its end.
//!
//! A packet is taken whole or not at all: truncation, surplus descriptors and empty packets are errors. The kernel gives the
//! packet that a peer sent before it died, then its end.
//!
//! **No close blocks.** The last close of a descriptor that a peer sent can take as long as the peer likes, and the kernel
//! makes it whenever it drops a packet that carries the descriptor: received without room for it, or still queued when the
//! socket is closed. So every packet is looked at before it is taken. One that carries what it may not is never taken;
//! one that carries a descriptor is taken only while a duplicate of that is held, which [`SentFd`] closes elsewhere. A socket
//! with such packets in its queue is closed elsewhere, too. From Linux 6.16 on a socket takes descriptors in only while one
//! is expected (SO_PASSRIGHTS).

use super::ancillary::{Control, SentFd, socklen};
use super::sun::{PathError, SunAddress};
use crate::os::clock::until;
use crate::os::closer::{check_closer, close_elsewhere};
use crate::os::error::{last_errno, retry};
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, Polled, poll, poll_now};
use crate::os::{Bytes, OsError};
use core::ffi::c_int;
use core::mem::{ManuallyDrop, MaybeUninit, size_of};
use core::{error, fmt};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The longest that a wait goes on without an [`SocketError::Interrupted`].
const SLICE_NS: u64 = 100_000_000;
/// Packets that a drop takes out of the queue: more than fit into one of the default size.
const DRAIN_MAX: usize = 1024;

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

/// The packet at the head of the queue, which is still there.
#[derive(Debug)]
pub(super) struct Head {
    /// bytes of it
    pub(super) bytes: usize,
    /// its first two
    pub(super) first: [u8; 2],
    /// whether it carries descriptors
    pub(super) has_fds: bool,
}

/// Descriptors that a look at the head of the queue may duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    None,
    One,
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

/// What became of an accept, a send or a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketError {
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, or might have: look at your flags, then call again with the same deadline.
    Interrupted,
    /// The peer closed, or its process ended.
    Closed,
    /// The peer takes nothing in: its queue is full.
    Full,
    /// A packet without bytes: not what a peer of ours sends.
    Empty,
    /// A packet larger than any that was expected.
    Oversized {
        /// the most that was expected
        limit: usize,
    },
    /// A packet with more descriptors than it may carry. It is not taken.
    Descriptors,
    /// The system refused.
    Os(OsError),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens there: there is no such socket.
    NotFound(PathBuf),
    /// Nobody listens there any more: a socket that its process left behind.
    Refused(PathBuf),
    /// Somebody listens, and has not accepted those who came before.
    Busy(PathBuf),
    /// Its owner doesn't let us.
    Denied(PathBuf),
    /// It is no socket, or one of another kind.
    NotOurs(PathBuf),
    /// No socket can have this path.
    Path(PathError),
    /// The system refused.
    Os(OsError),
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
            Err(errno) => Err(connect_error(errno, path)),
        }
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
        self.receive_with(buf, Rights::One, deadline_ns)
    }

    /// As [`receive`](Self::receive), of a packet without descriptors.
    pub(super) fn receive_plain(&self, buf: &mut [u8], deadline_ns: u64) -> Result<Received, SocketError> {
        self.receive_with(buf, Rights::None, deadline_ns)
    }

    fn receive_with(
        &self,
        buf: &mut [u8],
        rights: Rights,
        deadline_ns: u64,
    ) -> Result<Received, SocketError> {
        loop {
            match self.try_receive_with(buf, rights) {
                Ok(None) => wait_readable(self.as_fd(), deadline_ns)?,
                Ok(Some(received)) => return Ok(received),
                Err(error) => return Err(error),
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

    /// The packet at the head of the queue, or the end of it: no bytes.
    pub(super) fn head(&self) -> Option<Head> {
        let mut first = [0; 2];
        let (bytes, flags, _) = self.look(&mut first, Rights::None).ok()??;
        Some(Head { bytes, first, has_fds: flags & libc::MSG_CTRUNC != 0 })
    }

    /// Takes the packet at the head away. The caller has looked at it: every descriptor that it carries has another holder.
    pub(super) fn skip(&self) {
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: no byte is to be written, so the pointer is not used.
        look_again(|| unsafe { libc::recv(self.fd.as_raw_fd(), core::ptr::null_mut(), 0, flags) });
    }

    /// Copies the packet at the head: its length, its flags, and a duplicate of its descriptor where there is room for it.
    fn look(
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
        let got = look_again(|| unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags) });
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
    fn drain(&self) -> bool {
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
        let got = look_again(|| unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, flags) });
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

    /// What to poll for: readable when a packet waits, hung up when the peer is gone.
    #[must_use]
    pub fn interest(&self) -> PollFd<'_> {
        PollFd::new(self.fd.as_fd(), libc::POLLIN | libc::POLLRDHUP)
    }

    /// Whether the peer has closed its end. Packets that it sent before may still wait here.
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

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the deadline passed"),
            Self::Interrupted => f.write_str("interrupted by a signal"),
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Full => f.write_str("the peer takes nothing in: its queue is full"),
            Self::Empty => f.write_str("a packet without bytes"),
            Self::Oversized { limit } => write!(f, "a packet of more than {}", Bytes(*limit as u64)),
            Self::Descriptors => f.write_str("a packet with a descriptor that it may not carry"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for SocketError {}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => {
                write!(f, "cannot connect to {}: no such socket; start the receiver first", path.display())
            }
            Self::Refused(path) => write!(
                f,
                "cannot connect to {}: its listener is gone; start the receiver again",
                path.display()
            ),
            Self::Busy(path) => {
                write!(f, "cannot connect to {}: its listener accepts nobody at the moment", path.display())
            }
            Self::Denied(path) => write!(
                f,
                "cannot connect to {}: permission denied; it must be your own user's",
                path.display()
            ),
            Self::NotOurs(path) => {
                write!(f, "cannot connect to {}: it is not a superpipe socket", path.display())
            }
            Self::Path(error) => write!(f, "cannot connect: {error}"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for ConnectError {}

const SOCKET_KIND: c_int = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
const FLAGS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// A socket that is neither bound nor connected.
pub(super) fn new_socket() -> Result<OwnedFd, OsError> {
    // SAFETY: socket takes integers and touches no memory of ours.
    let fd = unsafe { libc::socket(libc::AF_UNIX, SOCKET_KIND, 0) };
    if fd < 0 {
        return Err(too_many_files("cannot make a socket"));
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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
fn set_option(fd: BorrowedFd<'_>, option: c_int, is_on: bool) {
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

fn connect_error(errno: c_int, path: &Path) -> ConnectError {
    let is_other = || fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket());
    let path_buf = path.to_owned();
    match errno {
        libc::ENOENT => ConnectError::NotFound(path_buf),
        // The kernel says so of a file that is no socket, too.
        libc::ECONNREFUSED if is_other() => ConnectError::NotOurs(path_buf),
        libc::ECONNREFUSED => ConnectError::Refused(path_buf),
        libc::EPROTOTYPE => ConnectError::NotOurs(path_buf),
        libc::EAGAIN => ConnectError::Busy(path_buf),
        libc::EACCES | libc::EPERM => ConnectError::Denied(path_buf),
        errno => ConnectError::Os(OsError::new(errno, format!("cannot connect to {}", path.display()))),
    }
}

fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: a msghdr is pointers and integers, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header
}

#[cfg(test)]
#[path = "socket_tests.rs"]
pub(super) mod tests;
