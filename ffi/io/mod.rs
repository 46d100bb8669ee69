//! Sources and sinks of streams: files, pipes, terminals and sockets, read directly into blocks and written directly out of
//! them, and checksums of the data.
//!
//! A [`Source`] and a [`Sink`] wait for disks only. One that has no bytes or no room returns the descriptor to poll by
//! `interest`, so that a single poll can wait for the data, the peer and a signal. Files and block devices are always ready
//! for poll and may still take long: `Access::may_block`.
//!
//! The flags of an inherited descriptor are shared with its other holders (a shell, the next program of a pipeline),
//! so O_NONBLOCK is never set on it: pipes, terminals and devices are opened again through /proc/self/fd, and sockets are
//! used with MSG_DONTWAIT. If the open is refused (no /proc, another user's pipe), a poll precedes each call.
//!
//! Reads and writes are made by libc: rustix takes slices, and the blocks are shared memory, never behind a reference.

mod digest;
mod holes;
mod sink;
mod source;

#[cfg(test)]
mod tests;

pub use digest::{Digest, DigestKind};
pub use sink::Sink;
pub(crate) use sink::WriteOutcome;
pub(crate) use source::ReadOutcome;
pub use source::Source;

use crate::os::error::last_errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

/// Capacity that pipes are set to, if the system allows: the most that a user may ask for by default (/proc/sys/fs/pipe-max-size). With
/// the default of 64 KiB the throughput is a third lower.
const PIPE_BYTES: usize = 1 << 20;
/// Limit of spans per call (IOV_MAX).
const SPANS_MAX: libc::c_int = 1024;

/// A way to use a descriptor without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// A regular file or block device: a call never reports that it would block, and may take long.
    Disk,
    /// The descriptor's own file description has O_NONBLOCK.
    NonBlocking,
    /// Polled before each call.
    Polled,
    /// A socket, with MSG_DONTWAIT.
    Socket,
}

impl Access {
    /// Returns true if a call may take as long as a disk, or a network file system.
    fn may_block(self) -> bool {
        self == Self::Disk
    }
}

/// Determines the kind of an inherited descriptor, and opens it again if that avoids a poll per call.
fn determine_access(fd: OwnedFd, reopen: &mut OpenOptions) -> io::Result<(OwnedFd, Access, FileType)> {
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
        // No /proc, another user's pipe, or one without a reader.
        Err(_) => (file.into(), Access::Polled, kind),
    })
}

/// Enlarges a pipe. A larger one only saves switches between its two ends, so a refusal does not matter.
fn enlarge_pipe(fd: BorrowedFd<'_>) {
    if fcntl_getpipe_size(fd).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        let _ = fcntl_setpipe_size(fd, PIPE_BYTES);
    }
}

/// Returns the calling thread's error; none for EAGAIN.
fn refusal() -> Option<io::Error> {
    match last_errno() {
        libc::EAGAIN => None,
        errno => Some(io::Error::from_raw_os_error(errno)),
    }
}

/// Returns the spans for one call, and their count.
fn bounded(spans: &[libc::iovec]) -> (*const libc::iovec, libc::c_int) {
    let count = libc::c_int::try_from(spans.len()).unwrap_or(SPANS_MAX);
    (spans.as_ptr(), count.min(SPANS_MAX))
}

/// Returns the bytes of `spans`.
fn total(spans: &[libc::iovec]) -> usize {
    spans.iter().map(|span| span.iov_len).sum()
}

/// Returns a message header over `spans`, for recvmsg and sendmsg.
fn header(spans: &[libc::iovec]) -> libc::msghdr {
    let (first, count) = bounded(spans);
    // SAFETY: a msghdr is pointers and integers, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = first.cast_mut();
    header.msg_iovlen = count.unsigned_abs() as usize;
    header
}
