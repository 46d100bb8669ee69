//! A report that is written piece by piece while a run goes on: to a file that is made anew, to a pipe, or to a descriptor
//! as it stands. The reader of a pipe is waited for, but not for ever: see `output::pipe`.

use crate::exit::Failure;
use crate::options::is_dash;
use crate::output::pipe::{self, Patience};
use crate::output::{duplicate, own_descriptor};
use crate::signals::Signals;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// An open report.
#[derive(Debug)]
pub struct Lines {
    file: File,
    /// "cannot write events to x", with which every failure begins
    doing: String,
    signals: Signals,
}

impl Lines {
    /// Opens the file at `path`; `-` is the descriptor `standard`. A FIFO is waited for, for 10 s or until a signal comes.
    ///
    /// # Errors
    /// When it cannot be written.
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
                pipe::open(path, &mut options, &doing, Patience::REPORT, signals)?
            }
        };
        Ok(Self { file, doing, signals: *signals })
    }

    /// Writes all of these bytes. A pipe that is full is waited for, for as long as its reader goes on within 10 s.
    ///
    /// # Errors
    /// When the file does not take them, or the reader of a pipe does not.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        pipe::write(&mut self.file, bytes, &self.doing, &self.signals)
    }

    /// Returns the failure that an error is which events met.
    pub fn failure(&self, error: &io::Error) -> Failure {
        Failure::local_io(self.doing.as_str(), error)
    }
}
