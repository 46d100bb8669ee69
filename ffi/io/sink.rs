//! Where a stream's bytes go.

use super::holes::{Run, first_run};
use super::{Access, bounded, header, refusal, settle, total};
use crate::os::error::retry;
use crate::os::poll::{PollFd, poll_now};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The most that a pipe which says that it has room is sure to take at once.
const ATOMIC_BYTES: usize = libc::PIPE_BUF;

/// A descriptor that is written to.
#[derive(Debug)]
pub struct Sink {
    fd: OwnedFd,
    access: Access,
    leaves_holes: bool,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// So many bytes were taken, of the first of the spans.
    Bytes(usize),
    /// There is no room now: poll for [`Sink::interest`], then ask again.
    WouldBlock,
}

impl Sink {
    /// Writes to a descriptor, such as standard output, where it stands.
    ///
    /// # Errors
    /// When it cannot be written to: closed, read-only, or a directory.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: no span is given, so no memory is touched; the call only says whether writing is allowed.
        if retry(|| unsafe { libc::writev(fd.as_raw_fd(), core::ptr::null(), 0) }) < 0 {
            match io::Error::last_os_error() {
                // sockets and some devices want at least one span
                error if error.raw_os_error() == Some(libc::EINVAL) => {}
                error => return Err(error),
            }
        }
        let (fd, access, _) = settle(fd, OpenOptions::new().write(true))?;
        Ok(Self { fd, access, leaves_holes: false })
    }

    /// Leaves holes in place of long runs of zeros, in a regular file that has nothing from where it stands on, and no
    /// O_APPEND. A hole at the end gives a file no length: that is for the caller to set, to where the file stands. What is
    /// no file or block device is written as ever.
    pub fn leave_holes(&mut self) {
        self.leaves_holes = self.access == Access::Disk;
    }

    /// Writes `spans`, the first first, as far as there is room.
    ///
    /// # Errors
    /// The system's refusal: no space, nobody who reads, a limit. Nothing raises SIGPIPE on a socket; on a pipe that
    /// is the process's own to ignore.
    ///
    /// # Safety
    /// Each span is valid for reads of its length, and no `&mut` of this process to any of these bytes lives.
    pub unsafe fn write_spans(&mut self, spans: &[libc::iovec]) -> io::Result<WriteOutcome> {
        if total(spans) == 0 {
            return Ok(WriteOutcome::Bytes(0));
        }
        let fd = self.fd.as_raw_fd();
        let spans = if self.leaves_holes {
            // SAFETY: the caller promises the same.
            match unsafe { first_run(spans) } {
                Run::Zeros(bytes) => return self.skip(bytes),
                Run::Spans(count) => &spans[..count],
                Run::Part(index, bytes) => &[libc::iovec { iov_len: bytes, ..spans[index] }],
            }
        } else {
            spans
        };
        let (first, count) = bounded(spans);
        let put = match self.access {
            Access::Socket => {
                const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                let header = header(spans);
                // SAFETY: the header lives during the call and names the caller's spans, which sendmsg only reads.
                retry(|| unsafe { libc::sendmsg(fd, &raw const header, FLAGS) })
            }
            Access::Polled if !poll_now(&mut [PollFd::new(self.fd.as_fd(), libc::POLLOUT)]) => {
                return Ok(WriteOutcome::WouldBlock);
            }
            Access::Polled => {
                let Some(span) = spans.iter().find(|span| span.iov_len > 0) else {
                    return Ok(WriteOutcome::Bytes(0));
                };
                let bytes = span.iov_len.min(ATOMIC_BYTES);
                // SAFETY: these are the first bytes of one of the caller's spans, which write only reads.
                retry(|| unsafe { libc::write(fd, span.iov_base, bytes) })
            }
            Access::Disk | Access::NonBlocking => {
                // SAFETY: `first` and `count` are the caller's spans, which are only read; the count is below 1025.
                retry(|| unsafe { libc::writev(fd, first, count) })
            }
        };
        match usize::try_from(put) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => Ok(WriteOutcome::Bytes(bytes)),
            Err(_) => refusal().map_or(Ok(WriteOutcome::WouldBlock), Err),
        }
    }

    /// Moves on by so many bytes, which read as zeros once something follows them.
    fn skip(&self, bytes: usize) -> io::Result<WriteOutcome> {
        let by = libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: lseek takes integers, and touches no memory of ours.
        if unsafe { libc::lseek(self.fd.as_raw_fd(), by, libc::SEEK_CUR) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(WriteOutcome::Bytes(bytes))
    }

    /// What to poll for after [`WriteOutcome::WouldBlock`]; None for what never says that.
    #[must_use]
    pub fn interest(&self) -> Option<PollFd<'_>> {
        (self.access != Access::Disk).then(|| PollFd::new(self.fd.as_fd(), libc::POLLOUT))
    }

    /// How it is asked.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    #[cfg(test)]
    pub(super) fn force_polled(&mut self) {
        self.access = Access::Polled;
    }

    /// Whether a write may take as long as a disk does.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.access.may_block()
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
