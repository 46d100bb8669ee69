//! `--trace`: what the flight recorder holds at the end of a run, or where it failed, as a file that Perfetto and
//! `chrome://tracing` open.
//!
//! The file is opened before anything else is done, so that whoever asks for a trace is told at once where there can be
//! none. It appears when the run is over, however it ended; where nobody connected there is nothing to tell, and what had
//! the name stays.

pub mod chrome;
pub mod journey;
pub mod mark;
pub mod picture;
pub mod track;

use crate::exit::Failure;
use crate::output::Output;
use crate::signals::Signals;
use std::path::Path;
use superpipe::Connection;
use track::Track;

/// The trace of a run: nothing, where none is asked for.
#[derive(Debug, Default)]
pub struct Trace {
    out: Option<Output>,
    tracks: Vec<Track>,
}

impl Trace {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: Option<&Path>, signals: &Signals) -> Result<Self, Failure> {
        let open = |path| Output::open(Some(path), signals);
        Ok(Self { out: path.map(open).transpose()?, tracks: Vec::new() })
    }

    /// Begins to record, if a trace is asked for.
    pub fn begin(&self, connection: &mut Connection) {
        if self.is_wanted() {
            connection.record(true);
        }
    }

    /// Whether a trace is asked for.
    #[must_use]
    pub const fn is_wanted(&self) -> bool {
        self.out.is_some()
    }

    /// Keeps what was recorded at one end, if a trace is asked for.
    pub fn add(&mut self, track: Track) {
        if self.is_wanted() {
            self.tracks.push(track);
        }
    }

    /// Whether nothing was kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Writes what was kept, once.
    ///
    /// # Errors
    /// When it cannot be written.
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
