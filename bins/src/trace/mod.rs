//! `--trace`: what the flight recorder holds at the end of a run, or where it failed, as a file that Perfetto and
//! `chrome://tracing` open.
//!
//! The file is made anew before anything else is done, so that whoever asks for a trace gets one or is told at once; it is
//! written when the run is over, however it ended.

pub mod chrome;
pub mod journey;
pub mod mark;
pub mod picture;
pub mod track;

use crate::exit::{Code, Failure, explain};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use superpipe::Connection;
use track::Track;

/// The trace of a run: nothing, where none is asked for.
#[derive(Debug)]
pub struct Trace {
    out: Option<Out>,
    tracks: Vec<Track>,
}

#[derive(Debug)]
struct Out {
    file: File,
    name: String,
}

impl Trace {
    /// Makes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| {
            let name = path.display().to_string();
            let file = File::create(path)
                .map_err(|error| Failure::local_io(format!("cannot write a trace to {name}"), &error))?;
            Ok(Out { file, name })
        };
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

    /// Writes the file, once.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self) -> Result<(), Failure> {
        let Some(Out { file, name }) = self.out.take() else { return Ok(()) };
        let mut writer = BufWriter::new(file);
        let written = chrome::write(&self.tracks, &mut writer).and_then(|()| writer.flush());
        written.map_err(|error| {
            Failure::new(Code::LocalIo, explain(format!("cannot write a trace to {name}"), &error))
        })
    }
}
