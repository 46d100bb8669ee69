//! `--trace`: what the flight recorder holds at the end of a run, or where it failed, as a file that Perfetto and
//! `chrome://tracing` open.
//!
//! The file is made anew before anything else is done, so that whoever asks for a trace gets one or is told at once; it is
//! written when the run is over, however it ended.

pub mod chrome;
pub mod mark;

use crate::exit::{Code, Failure, explain};
use mark::Mark;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use superpipe::Connection;

/// What one process recorded of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// what the process is called
    pub name: String,
    /// its number
    pub pid: u32,
    /// what it recorded, in the order in which it was over
    pub marks: Vec<Mark>,
}

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

impl Track {
    /// What was recorded at this end of a connection: takes it out.
    pub fn of(name: &str, connection: &mut Connection) -> Self {
        let marks = connection.take_records().map(Mark::from).collect();
        Self { name: name.to_owned(), pid: std::process::id(), marks }
    }
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
        if self.out.is_some() {
            connection.record(true);
        }
    }

    /// Keeps what was recorded at this end, which the trace calls so.
    pub fn keep(&mut self, name: &str, connection: &mut Connection) {
        if self.out.is_some() {
            self.tracks.push(Track::of(name, connection));
        }
    }

    /// Keeps what another process recorded.
    pub fn add(&mut self, track: Track) {
        self.tracks.push(track);
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
