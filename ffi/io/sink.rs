//! Sinks of streams.

use super::holes::{Run, first_run};
use super::{Access, bounded, determine_access, header, refusal, total};
use crate::os::error::retry;
use crate::os::poll::{PollFd, poll_now};
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, retry_on_intr, writev};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes that a pipe accepts in one write without blocking, if poll reports that it has room.
const ATOMIC_BYTES: usize = libc::PIPE_BUF;

/// A descriptor that is written to.
#[derive(Debug)]
pub struct Sink {
    fd: OwnedFd,
    access: Access,
    leaves_holes: bool,
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// Count of bytes written, from the first span on.
    Bytes(usize),
    /// There is no room now: poll [`Sink::interest`], then try again.
    WouldBlock,
}

impl Sink {
    /// Makes a sink of a descriptor, such as standard output, from its present offset on.
    ///
    /// # Errors
    /// It cannot be written to: closed, read-only, or a directory.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // A write of nothing only tells whether writing is allowed. Sockets and some devices want at least one span.
        match retry_on_intr(|| writev(&fd, &[])) {
            Ok(_) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (fd, access, _) = determine_access(fd, OpenOptions::new().write(true))?;
        Ok(Self { fd, access, leaves_holes: false })
    }

    /// Leaves holes in place of long runs of zeros. The descriptor must be a regular file without O_APPEND and without data from
    /// its offset on. A hole at the end does not extend a file: the caller must set its length to the offset. Has no effect on
    /// other kinds of descriptors.
    pub fn leave_holes(&mut self) {
        self.leaves_holes = self.access == Access::Disk;
    }

    /// Writes `spans` in order, as far as there is room.
    ///
    /// # Errors
    /// The system refuses: no space, no reader, a limit. A socket raises no SIGPIPE; a pipe does unless the process
    /// ignores it.
    ///
    /// # Safety
    /// Each span is valid for reads of its length, and no `&mut` of this process to any of these bytes lives.
    pub(crate) unsafe fn write_spans(&mut self, spans: &[libc::iovec]) -> io::Result<WriteOutcome> {
        if total(spans) == 0 {
            return Ok(WriteOutcome::Bytes(0));
        }
        let fd = self.fd.as_raw_fd();
        let spans = if self.leaves_holes {
            // SAFETY: the caller promises that each span is valid for reads, and that no `&mut` to these bytes lives.
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

    /// Skips bytes, which read as zeros once data follow them.
    fn skip(&self, bytes: usize) -> io::Result<WriteOutcome> {
        let by = i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        seek(&self.fd, SeekFrom::Current(by))?;
        Ok(WriteOutcome::Bytes(bytes))
    }

    /// Descriptor to poll after [`WriteOutcome::WouldBlock`]; none for a sink that never returns that.
    #[must_use]
    pub(crate) fn interest(&self) -> Option<PollFd<'_>> {
        (self.access != Access::Disk).then(|| PollFd::new(self.fd.as_fd(), libc::POLLOUT))
    }

    #[cfg(test)]
    pub(super) fn force_polled(&mut self) {
        self.access = Access::Polled;
    }

    /// Returns true if a write may take as long as a disk.
    pub(crate) fn may_block(&self) -> bool {
        self.access.may_block()
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
