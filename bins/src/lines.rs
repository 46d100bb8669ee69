//! A report that is written piece by piece while a run goes on: to a file that is made anew, to a pipe, or to a descriptor
//! as it stands. Who reads a pipe is waited for, but not for ever.

use crate::exit::{Code, Failure};
use crate::options::is_dash;
use crate::output::READER_PATIENCE;
use crate::output::{duplicate, own_descriptor};
use crate::session::LAST_WORDS;
use crate::signals::Signals;
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::Instant;
use superpipe::os::poll::{PollFd, poll_now};

/// Interval between looks at a pipe that nobody reads, and at the signals.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that a pipe which is ready takes without waiting: PIPE_BUF.
const PIECE_BYTES: usize = 4096;

/// An open report.
#[derive(Debug)]
pub struct Lines {
    file: File,
    name: String,
    signals: Signals,
}

impl Lines {
    /// Opens the file at `path`; `-` is the descriptor `standard`. A FIFO is waited for, until a signal or for
    /// [`READER_PATIENCE`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path, standard: RawFd, signals: &Signals) -> Result<Self, Failure> {
        let (name, descriptor) = match is_dash(path) {
            true if standard == 1 => ("standard output".to_owned(), Some(standard)),
            true => ("standard error".to_owned(), Some(standard)),
            false => (path.display().to_string(), own_descriptor(path)),
        };
        let opened = match descriptor {
            Some(descriptor) => duplicate(descriptor),
            None => open(path, &name, signals)?,
        };
        let file =
            opened.map_err(|error| Failure::local_io(format!("cannot write events to {name}"), &error))?;
        Ok(Self { file, name, signals: *signals })
    }

    /// Writes all of this. A pipe that is full is waited for: for [`READER_PATIENCE`], and for [`LAST_WORDS`] once a signal
    /// came.
    ///
    /// # Errors
    /// When the file does not take it, or nobody the pipe's contents.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let begin = Instant::now();
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(0) => return Err(self.failure(&ErrorKind::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let is_ending = self.signals.failure().is_some();
                    let patience = if is_ending { LAST_WORDS } else { READER_PATIENCE };
                    if begin.elapsed() >= patience {
                        return Err(nobody_reads(&self.name));
                    }
                    thread::sleep(LOOK);
                }
                Err(error) => return Err(self.failure(&error)),
            }
        }
        Ok(())
    }

    /// Writes what there is room for now. A descriptor of others stays one that waits: it is asked before.
    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !poll_now(&mut [PollFd::new(self.file.as_fd(), libc::POLLOUT)]) {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.file.write(&bytes[..bytes.len().min(PIECE_BYTES)])
    }

    /// The failure that an error is which events met.
    pub fn failure(&self, error: &io::Error) -> Failure {
        Failure::local_io(format!("cannot write events to {}", self.name), error)
    }
}

/// A file that is made anew, or a pipe once somebody reads it.
fn open(path: &Path, name: &str, signals: &Signals) -> Result<io::Result<File>, Failure> {
    let deadline = Instant::now() + READER_PATIENCE;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    loop {
        let opened = options.open(path);
        let is_fifo = || fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        match &opened {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && is_fifo() => {}
            _ => return Ok(opened),
        }
        if let Some(failure) = signals.failure() {
            return Err(failure);
        }
        if Instant::now() >= deadline {
            return Err(nobody_reads(name));
        }
        thread::sleep(LOOK);
    }
}

fn nobody_reads(name: &str) -> Failure {
    Failure::new(Code::LocalIo, format!("cannot write events to {name}: nobody reads it"))
}
