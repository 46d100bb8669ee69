//! Where the bytes of a stream come from and go to: files, pipes, terminals and sockets, read straight into blocks and
//! written straight out of them, and the checksum of what passed.
//!
//! A [`Source`] and a [`Sink`] never wait but for a disk. Whoever has none of the bytes or none of the room says
//! `interest` what to poll for, so that one poll can wait for the data, the peer and a signal together. Files
//! and block devices are always ready for poll and may still take long: [`Access::may_block`].
//!
//! The flags of an inherited descriptor are shared with whoever else holds it (a shell, the next program of a pipeline),
//! so O_NONBLOCK is never set on it: pipes, terminals and devices are opened anew through /proc/self/fd, and sockets are
//! asked with MSG_DONTWAIT. Where that is refused (no /proc, another user's pipe) each call is preceded by a poll.

mod digest;
mod holes;
mod sink;
mod source;

#[cfg(test)]
mod tests;

pub use digest::{Digest, DigestKind};
pub use sink::{Sink, WriteOutcome};
pub use source::{ReadOutcome, Source};

use crate::os::error::last_errno;
use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

/// What a pipe is made to hold, where the system lets us: its default of 64 KiB costs a third of the throughput.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// Spans that one call takes (IOV_MAX).
const SPANS_MAX: libc::c_int = 1024;

/// How a descriptor is asked without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A regular file or block device: never says that it would block, and may.
    Disk,
    /// The descriptor's own file description has O_NONBLOCK.
    NonBlocking,
    /// Polled before each call.
    Polled,
    /// A socket, with MSG_DONTWAIT.
    Socket,
}

impl Access {
    /// Whether a call may take as long as a disk does, or a network behind it.
    #[must_use]
    pub fn may_block(self) -> bool {
        self == Self::Disk
    }
}

/// Finds out what an inherited descriptor is, and makes one of our own of it where that helps.
fn settle(fd: OwnedFd, reopen: &mut OpenOptions) -> io::Result<(OwnedFd, Access, FileType)> {
    let file = File::from(fd);
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if kind.is_file() || kind.is_block_device() {
        return Ok((file.into(), Access::Disk, kind));
    }
    if kind.is_socket() {
        return Ok((file.into(), Access::Socket, kind));
    }
    if !kind.is_fifo() && !kind.is_char_device() {
        return Ok((file.into(), Access::Polled, kind));
    }
    if kind.is_fifo() {
        enlarge_pipe(file.as_fd());
    }
    let again = reopen
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok(match again {
        Ok(again) => (again.into(), Access::NonBlocking, kind),
        // no /proc, another user's pipe, or one that nobody reads any more
        Err(_) => (file.into(), Access::Polled, kind),
    })
}

/// A larger pipe only saves switches between its two ends: a refusal changes nothing else.
fn enlarge_pipe(fd: BorrowedFd<'_>) {
    // SAFETY: the descriptor is borrowed; both calls take integers only.
    let bytes = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) };
    if (0..PIPE_BYTES).contains(&bytes) {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    }
}

/// The calling thread's error, None where it means only that there is nothing to be had now.
fn refusal() -> Option<io::Error> {
    match last_errno() {
        libc::EAGAIN => None,
        errno => Some(io::Error::from_raw_os_error(errno)),
    }
}

/// The spans that one call may be given, and their number.
fn bounded(spans: &[libc::iovec]) -> (*const libc::iovec, libc::c_int) {
    let count = libc::c_int::try_from(spans.len()).unwrap_or(SPANS_MAX);
    (spans.as_ptr(), count.min(SPANS_MAX))
}

/// The bytes that `spans` have.
fn total(spans: &[libc::iovec]) -> usize {
    spans.iter().map(|span| span.iov_len).sum()
}

/// A message header over `spans`, which recvmsg and sendmsg need to be told of several.
fn header(spans: &[libc::iovec]) -> libc::msghdr {
    let (first, count) = bounded(spans);
    // SAFETY: a msghdr is pointers and integers, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = first.cast_mut();
    header.msg_iovlen = count.unsigned_abs() as usize;
    header
}
