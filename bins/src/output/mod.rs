//! Output of rrecv, and the reports of rperf.
//!
//! A FILE appears whole or not at all: see `staged`. Pipes and devices are opened and written as they are. Standard output,
//! and a descriptor that is named by a path, are written where they stand: see `descriptor`.

mod acl;
mod ahead;
mod descriptor;
mod directory;
mod hidden;
mod kept;
pub(crate) mod pipe;
mod staged;

pub use descriptor::{duplicate, own_descriptor};

use crate::exit::{Code, Failure};
use crate::options::is_dash;
use crate::preserve::Attributes;
use crate::signals::Signals;
use core::time::Duration;
use pipe::Patience;
use staged::{Existing, Staged, existing, stage, stage_in};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use superpipe::io::Sink;

/// Standard output and standard error.
const STDOUT: RawFd = 1;
const STDERR: RawFd = 2;

/// Policy for a FILE that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Old {
    /// It is replaced once the new one is whole.
    #[default]
    Replaced,
    /// It stays, and the output fails.
    Kept,
    /// It gets longer, by all that is written and at once.
    Extended,
}

/// Destination of the bytes. Dropped before [`Output::commit`], it leaves nothing.
#[derive(Debug)]
pub struct Output {
    name: String,
    kind: Kind,
    /// false in a directory, until the sender has told a name
    is_named: bool,
}

#[derive(Debug)]
enum Kind {
    /// Written as it is, by [`pipe::write`]; a regular file is put on disk at the end.
    AsItIs(File, Signals),
    Staged(Staged),
}

impl Output {
    /// Opens the file of a report, which is to be replaced, or takes standard output. A FIFO is waited for, for 10 s or until a
    /// signal comes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(file: Option<&Path>, signals: &Signals) -> Result<Self, Failure> {
        Self::open_at(file, Old::Replaced, signals, Patience::REPORT)
    }

    /// Opens FILE, or takes standard output, and does with what is there already as it is told. A FIFO is waited for, for
    /// `accept_timeout` or until a signal comes.
    ///
    /// # Errors
    /// When it cannot be written, or not so.
    pub fn open_with(
        file: Option<&Path>,
        old: Old,
        signals: &Signals,
        accept_timeout: Duration,
    ) -> Result<Self, Failure> {
        Self::open_at(file, old, signals, Patience::to_accept(accept_timeout))
    }

    /// Takes standard error.
    ///
    /// # Errors
    /// When it was closed when this process began, or cannot be written.
    pub fn stderr(signals: &Signals) -> Result<Self, Failure> {
        Self::standard(STDERR, "standard error".to_owned(), signals)
    }

    fn open_at(
        file: Option<&Path>,
        old: Old,
        signals: &Signals,
        patience: Patience,
    ) -> Result<Self, Failure> {
        let Some(path) = file.filter(|path| !is_dash(path)) else {
            return Self::standard(STDOUT, "standard output".to_owned(), signals);
        };
        let name = path.display().to_string();
        match own_descriptor(path) {
            Some(fd) => Self::standard(fd, name, signals),
            None => {
                let kind = open_path(path, old, signals, patience, &cannot_write(&name))?;
                Ok(Self { name, kind, is_named: true })
            }
        }
    }

    /// Takes a descriptor that this process was started with.
    fn standard(fd: RawFd, name: String, signals: &Signals) -> Result<Self, Failure> {
        let file = duplicate(fd).map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
        Ok(Self { name, kind: Kind::AsItIs(file, *signals), is_named: true })
    }

    /// Opens a file in a directory, which [`Output::preserve`] gives its name.
    ///
    /// # Errors
    /// When none can be made there.
    pub fn open_in(directory: &Path, old: Old) -> Result<Self, Failure> {
        let name = directory.display().to_string();
        let staged =
            stage_in(directory, old).map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
        Ok(Self { name, kind: Kind::Staged(staged), is_named: false })
    }

    /// Returns true if this is a file that has its name in the end only.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Staged(_))
    }

    /// Gives a file the mode and time of the sender's file once it is whole, and in a directory its name.
    ///
    /// # Errors
    /// When the sender told no name, or it cannot be had.
    pub fn preserve(&mut self, attributes: &Attributes) -> Result<(), Failure> {
        let Kind::Staged(staged) = &mut self.kind else { return Ok(()) };
        staged.preserve(attributes);
        if self.is_named {
            return Ok(());
        }
        let Some(name) = attributes.name() else {
            let text = format!("cannot write to {}: is a directory, and the sender tells no name", self.name);
            return Err(Failure::new(Code::LocalIo, text));
        };
        let named = staged.set_name(name);
        self.name = Path::new(&self.name).join(name).display().to_string();
        named.map_err(|error| self.cannot_write(&error))
    }

    /// Returns a sink for a stream. Long runs of zeros become holes of a FILE.
    ///
    /// # Errors
    /// When there is no descriptor left for it.
    pub fn sink(&self) -> Result<Sink, Failure> {
        let (Kind::AsItIs(file, _) | Kind::Staged(Staged { file, .. })) = &self.kind;
        let sink = file.as_fd().try_clone_to_owned().and_then(Sink::new);
        let mut sink = sink.map_err(|error| self.cannot_write(&error))?;
        if matches!(self.kind, Kind::Staged(_)) {
            sink.leave_holes();
        }
        Ok(sink)
    }

    /// Checks that there is room for what the sender announces. Of `sparse` data it is not known how much they need.
    ///
    /// # Errors
    /// When there is not.
    pub fn check_room(&self, bytes: u64, sparse: bool) -> Result<(), Failure> {
        let (Kind::AsItIs(file, _) | Kind::Staged(Staged { file, .. })) = &self.kind;
        ahead::check_room(file, bytes, sparse).map_err(|error| self.cannot_write(&error))
    }

    /// Writes all of these bytes. A pipe that is full is waited for, for as long as its reader goes on within 10 s.
    ///
    /// # Errors
    /// When the file does not take them, or the reader of a pipe does not.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let doing = cannot_write(&self.name);
        match &mut self.kind {
            Kind::AsItIs(file, signals) => pipe::write(file, bytes, &doing, signals),
            Kind::Staged(staged) => {
                staged.file.write_all(bytes).map_err(|error| Failure::local_io(doing, &error))
            }
        }
    }

    fn cannot_write(&self, error: &io::Error) -> Failure {
        Failure::local_io(cannot_write(&self.name), error)
    }

    /// "standard output", or the path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All was written and is right: puts it on disk, under its name. May take as long as the disk does. What is written
    /// after that is in the file as soon as it is written.
    ///
    /// # Errors
    /// When the disk refuses. A FILE is then as it was before, unless it says that the directory alone was refused.
    pub fn commit(&mut self) -> Result<(), Failure> {
        let committed = match &mut self.kind {
            Kind::AsItIs(file, _) => put_on_disk(file),
            Kind::Staged(staged) => staged.commit(),
        };
        committed.map_err(|error| Failure::local_io(format!("cannot complete {}", self.name), &error))
    }
}

fn cannot_write(name: &str) -> String {
    format!("cannot write to {name}")
}

/// Opens what is at `path`, or makes a file to be.
fn open_path(
    path: &Path,
    old: Old,
    signals: &Signals,
    patience: Patience,
    doing: &str,
) -> Result<Kind, Failure> {
    let failed = |error: io::Error| Failure::local_io(doing, &error);
    let opened = match (existing(path).map_err(failed)?, old) {
        (Existing::Odd, _) => {
            let file = pipe::open(path, &mut OpenOptions::new(), doing, patience, signals)?;
            return Ok(Kind::AsItIs(file, *signals));
        }
        (_, Old::Extended) => append(path).map(|file| Kind::AsItIs(file, *signals)),
        (Existing::Regular(..), Old::Kept) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        (Existing::Regular(target, found), Old::Replaced) => {
            stage(&target, Some(found), old).map(Kind::Staged)
        }
        (Existing::Nothing, _) => stage(path, None, old).map(Kind::Staged),
    };
    opened.map_err(failed)
}

/// Opens a file for writing at its end, wherever that is by then.
fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// A regular file as standard output is put on disk like a FILE; what has no disk is not asked.
fn put_on_disk(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() { file.sync_all() } else { Ok(()) }
}
