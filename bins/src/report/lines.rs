//! A report that a tool writes piece by piece during a run: to a truncated file, a pipe, or an inherited descriptor at its
//! offset. The tool waits a limited time for the reader of a pipe: see `output::pipe`.

use crate::exit::Failure;
use crate::files::descriptor::{duplicate, is_dash, own_descriptor};
use crate::files::output::pipe::{self, ReaderTimeout};
use crate::signals::Signals;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// An open report.
#[derive(Debug)]
pub struct Lines {
    file: File,
    /// start of every failure's text: "cannot write events to x"
    doing: String,
    signals: Signals,
}

impl Lines {
    /// Opens the file at `path`; `-` is the descriptor `standard`. Waits for the reader of a FIFO, for 10 s or until a signal
    /// arrives.
    ///
    /// # Errors
    /// The file cannot be written, or a signal arrived.
    pub fn open(path: &Path, standard: RawFd, signals: &Signals) -> Result<Self, Failure> {
        let (name, descriptor) = match is_dash(path) {
            true if standard == 1 => ("standard output".to_owned(), Some(standard)),
            true => ("standard error".to_owned(), Some(standard)),
            false => (path.display().to_string(), own_descriptor(path)),
        };
        let doing = format!("cannot write events to {name}");
        let file = match descriptor {
            Some(descriptor) => {
                duplicate(descriptor).map_err(|error| Failure::local_io(doing.as_str(), &error))?
            }
            None => {
                let mut options = OpenOptions::new();
                options.create(true).truncate(true);
                pipe::open(path, &mut options, &doing, ReaderTimeout::REPORT, signals)?
            }
        };
        Ok(Self { file, doing, signals: *signals })
    }

    /// Writes all of these bytes. Waits while a pipe is full, as long as its reader never pauses for 10 s.
    ///
    /// # Errors
    /// The file rejects the bytes, or the reader of a pipe stops reading.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        pipe::write(&mut self.file, bytes, &self.doing, &self.signals)
    }

    /// Returns the failure for an error that occurred while events were written.
    pub fn failure(&self, error: &io::Error) -> Failure {
        Failure::local_io(self.doing.as_str(), error)
    }
}
