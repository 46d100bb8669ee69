//! `--trace`: writes the contents of the recorder at the end or failure of a run, as a file for Perfetto and
//! `chrome://tracing`.
//!
//! The file is opened before the run, so that a path which cannot be written is reported at once. It appears when the run has
//! ended, with success or not. If no peer connected, there are no records, and an old file of this name is kept.

pub mod chrome;
pub mod mark;
pub mod picture;
pub mod planned;
pub mod timeline;
pub mod track;

use crate::exit::Failure;
use crate::files::output::Output;
use crate::signals::Signals;
use std::path::Path;
use superpipe::Connection;
use track::Track;

/// Trace of a run, which stays empty unless one is wanted.
#[derive(Debug, Default)]
pub struct Trace {
    out: Option<Output>,
    tracks: Vec<Track>,
}

impl Trace {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(path: Option<&Path>, signals: &Signals) -> Result<Self, Failure> {
        let open = |path| Output::open(Some(path), signals);
        Ok(Self { out: path.map(open).transpose()?, tracks: Vec::new() })
    }

    /// Starts to record, if a trace is wanted.
    pub fn start_recording(&self, connection: &mut Connection) {
        if self.is_wanted() {
            connection.record(true);
        }
    }

    /// Returns true if a trace is wanted.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        self.out.is_some()
    }

    /// Keeps the records of one end, if a trace is wanted.
    pub fn add(&mut self, track: Track) {
        if self.is_wanted() {
            self.tracks.push(track);
        }
    }

    /// Returns true if no records were kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Writes the records that were kept. Further calls do nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self) -> Result<(), Failure> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        if self.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        chrome::write(&self.tracks, &mut bytes)
            .map_err(|error| Failure::local_io(format!("cannot write to {}", out.name()), &error))?;
        out.write(&bytes)?;
        out.commit()
    }
}
