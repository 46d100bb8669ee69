//! Sources of streams.

use super::{Access, bounded, determine_access, header, refusal, total};
use crate::os::error::retry;
use crate::os::poll::{PollFd, poll_now};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, readv, retry_on_intr};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A descriptor that is read to its end.
#[derive(Debug)]
pub struct Source {
    fd: OwnedFd,
    access: Access,
    size_hint: Option<u64>,
    /// true for a FIFO that we opened: until it has a writer, a read returns end of file
    awaits_writer: bool,
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Count of bytes read, from the first span on. Fewer than there is room for do not mean the end.
    Bytes(usize),
    /// The end.
    End,
    /// There are no bytes now: poll [`Source::interest`], then try again.
    WouldBlock,
}

impl Source {
    /// Makes a source of an inherited descriptor, such as standard input, from its present offset on.
    ///
    /// # Errors
    /// It cannot be read: closed, write-only, or a directory.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // A read of nothing only tells whether reading is allowed. Sockets and some devices want at least one span.
        match retry_on_intr(|| readv(&fd, &mut [])) {
            Ok(_) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (fd, access, _) = determine_access(fd, OpenOptions::new().read(true))?;
        Self::with(fd, access, false)
    }

    /// Opens a file, device or FIFO. Does not wait for a FIFO's writer.
    ///
    /// # Errors
    /// It cannot be opened, or is a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true);
        let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        let on_disk = kind.is_file() || kind.is_block_device();
        if kind.is_fifo() {
            super::enlarge_pipe(file.as_fd());
        }
        let access = if on_disk { Access::Disk } else { Access::NonBlocking };
        Self::with(file.into(), access, kind.is_fifo())
    }

    fn with(fd: OwnedFd, access: Access, awaits_writer: bool) -> io::Result<Self> {
        let mut file = File::from(fd);
        let size_hint = if access == Access::Disk { remaining(&mut file) } else { None };
        if access == Access::Disk {
            // Advice, which may be refused.
            let _ = fadvise(&file, 0, None, Advice::Sequential);
        }
        Ok(Self { fd: file.into(), access, size_hint, awaits_writer })
    }

    /// Reads into `spans` in order, as much as there is.
    ///
    /// # Errors
    /// The system refuses.
    ///
    /// # Safety
    /// 1. Each span is valid for writes of its length.
    /// 2. No reference of this process to any of these bytes lives.
    pub(crate) unsafe fn read_spans(&mut self, spans: &[libc::iovec]) -> io::Result<ReadOutcome> {
        if total(spans) == 0 {
            return Ok(ReadOutcome::Bytes(0));
        }
        if self.access == Access::Polled && !poll_now(&mut [PollFd::new(self.fd.as_fd(), libc::POLLIN)]) {
            return Ok(ReadOutcome::WouldBlock);
        }
        let fd = self.fd.as_raw_fd();
        let (first, count) = bounded(spans);
        let got = if self.access == Access::Socket {
            let mut header = header(spans);
            // SAFETY: the header lives during the call and names the caller's spans, which are ours to write.
            retry(|| unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT) })
        } else {
            // SAFETY: `first` and `count` are the caller's spans, which are ours to write; the count is below 1025.
            retry(|| unsafe { libc::readv(fd, first, count) })
        };
        match usize::try_from(got) {
            Ok(0) if self.awaits_writer && !self.is_hung_up() => Ok(ReadOutcome::WouldBlock),
            Ok(0) => Ok(ReadOutcome::End),
            Ok(bytes) => {
                self.awaits_writer = false;
                Ok(ReadOutcome::Bytes(bytes))
            }
            Err(_) => refusal().map_or(Ok(ReadOutcome::WouldBlock), Err),
        }
    }

    /// Descriptor to poll after [`ReadOutcome::WouldBlock`]; none for a source that never returns that.
    #[must_use]
    pub(crate) fn interest(&self) -> Option<PollFd<'_>> {
        (self.access != Access::Disk).then(|| PollFd::new(self.fd.as_fd(), libc::POLLIN))
    }

    #[cfg(test)]
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// Returns true if a read may take as long as a disk.
    pub(crate) fn may_block(&self) -> bool {
        self.access.may_block()
    }

    /// Returns the bytes left when it was opened, if that is known, for progress reports and to reserve space. A file may grow or shrink
    /// afterwards.
    #[must_use]
    pub fn size_hint(&self) -> Option<u64> {
        self.size_hint
    }

    /// Returns true once a FIFO had a writer and has none any more.
    fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), libc::POLLIN)];
        poll_now(&mut fds) && fds[0].is_hung_up()
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the bytes from the offset to the end. None for 0: files of /proc have that size, and are not empty.
fn remaining(file: &mut File) -> Option<u64> {
    let metadata = file.metadata().ok()?;
    let at = file.stream_position().ok()?;
    let end = if metadata.is_file() {
        metadata.len()
    } else {
        let end = file.seek(SeekFrom::End(0)).ok()?;
        file.seek(SeekFrom::Start(at)).ok()?;
        end
    };
    (end > 0).then(|| end.saturating_sub(at))
}
