//! Where a stream's bytes come from.

use super::{Access, bounded, header, refusal, settle, total};
use crate::os::error::retry;
use crate::os::poll::{PollFd, poll_now};
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
    /// a FIFO that we opened: until a writer comes it reads as ended, and is not
    awaits_writer: bool,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes, in the first of the spans. Fewer than there is room for say nothing about the end.
    Bytes(usize),
    /// There will be no more.
    End,
    /// There are none now: poll for [`Source::interest`], then ask again.
    WouldBlock,
}

impl Source {
    /// Reads an inherited descriptor, such as standard input, from where it stands.
    ///
    /// # Errors
    /// When it cannot be read: closed, write-only, or a directory.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: no span is given, so no memory is touched; the call only says whether reading is allowed.
        if retry(|| unsafe { libc::readv(fd.as_raw_fd(), core::ptr::null(), 0) }) < 0 {
            match io::Error::last_os_error() {
                // sockets and some devices want at least one span
                error if error.raw_os_error() == Some(libc::EINVAL) => {}
                error => return Err(error),
            }
        }
        let (fd, access, _) = settle(fd, OpenOptions::new().read(true))?;
        Self::with(fd, access, false)
    }

    /// Opens a file, device or FIFO. Does not wait for a FIFO's writer: reading does.
    ///
    /// # Errors
    /// When it cannot be opened, or is a directory.
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
            // SAFETY: the descriptor is ours; the call takes integers only. It is advice, and may be refused.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_SEQUENTIAL) };
        }
        Ok(Self { fd: file.into(), access, size_hint, awaits_writer })
    }

    /// Reads what there is into `spans`, the first first.
    ///
    /// # Errors
    /// The system's refusal.
    ///
    /// # Safety
    /// 1. Each span is valid for writes of its length.
    /// 2. No reference of this process to any of these bytes lives.
    pub unsafe fn read_spans(&mut self, spans: &[libc::iovec]) -> io::Result<ReadOutcome> {
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

    /// What to poll for after [`ReadOutcome::WouldBlock`]; None for what never says that.
    #[must_use]
    pub fn interest(&self) -> Option<PollFd<'_>> {
        (self.access != Access::Disk).then(|| PollFd::new(self.fd.as_fd(), libc::POLLIN))
    }

    /// How it is asked.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a read may take as long as a disk does.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.access.may_block()
    }

    /// Bytes left when it was opened, where that is known. A file may grow or shrink afterwards: who relies on it checks.
    #[must_use]
    pub fn size_hint(&self) -> Option<u64> {
        self.size_hint
    }

    /// A FIFO hangs up only after a writer has come and gone.
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

/// From where it stands to its end. Files of /proc say 0 and are not empty.
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
