//! Output of rrecv, and the reports of rperf.
//!
//! A FILE appears complete or not at all: see `staged`. Pipes and devices are opened and written directly. Standard output, and
//! a descriptor that a path names, are written at their offset: see `descriptor`.

mod acl;
mod ahead;
mod appended;
mod directory;
mod hidden;
mod kept;
pub(crate) mod pipe;
mod staged;

use crate::exit::{Code, Failure};
use crate::files::descriptor::{duplicate, is_dash, own_descriptor};
use crate::files::preserve::Attributes;
use crate::signals::Signals;
use appended::Appended;
use core::time::Duration;
use pipe::ReaderTimeout;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::geteuid;
use staged::{Existing, Staged, existing, stage, stage_in};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use superpipe::io::Sink;

const STDOUT: RawFd = 1;
const STDERR: RawFd = 2;

/// Policy for a FILE that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Old {
    /// The new file replaces it once it is complete.
    #[default]
    Replaced,
    /// The new file replaces it likewise, if it is the file that existed at the start. One that appeared meanwhile stays.
    ReplacedIfSame,
    /// It stays, and the output fails.
    Kept,
    /// All data are appended to it as they are written.
    Extended,
}

/// Destination of the bytes. Dropping it before [`Output::commit`] discards a new FILE.
#[derive(Debug)]
pub struct Output {
    name: String,
    kind: Kind,
    /// false in a directory, until the sender has sent a name
    is_named: bool,
}

#[derive(Debug)]
enum Kind {
    /// Written directly, by [`pipe::write`]; a regular file is synced to disk at the end.
    AsItIs(File, Signals),
    Appended(Appended),
    Staged(Staged),
}

impl Output {
    /// Opens the file of a report, or takes standard output. Waits for the reader of a FIFO, for 10 s or until a signal arrives.
    ///
    /// # Errors
    /// The file cannot be written, or a signal arrived.
    pub fn open(file: Option<&Path>, signals: &Signals) -> Result<Self, Failure> {
        Self::open_at(file, Old::ReplacedIfSame, signals, ReaderTimeout::REPORT)
    }

    /// Opens FILE, or takes standard output, by the policy `old` for a file that exists. Waits for the reader of a FIFO, for
    /// `accept_timeout` or until a signal arrives.
    ///
    /// # Errors
    /// The file cannot be written, the policy forbids it, or a signal arrived.
    pub fn open_with(
        file: Option<&Path>,
        old: Old,
        signals: &Signals,
        accept_timeout: Duration,
    ) -> Result<Self, Failure> {
        Self::open_at(file, old, signals, ReaderTimeout::to_accept(accept_timeout))
    }

    /// Takes standard error.
    ///
    /// # Errors
    /// Standard error was closed when this process began, or cannot be written.
    pub fn stderr(signals: &Signals) -> Result<Self, Failure> {
        Self::standard(STDERR, "standard error".to_owned(), Old::Replaced, signals)
    }

    fn open_at(
        file: Option<&Path>,
        old: Old,
        signals: &Signals,
        timeout: ReaderTimeout,
    ) -> Result<Self, Failure> {
        let Some(path) = file.filter(|path| !is_dash(path)) else {
            return Self::standard(STDOUT, "standard output".to_owned(), old, signals);
        };
        let name = path.display().to_string();
        match own_descriptor(path) {
            Some(fd) => Self::standard(fd, name, old, signals),
            None => {
                let kind = open_path(path, old, signals, timeout, &cannot_write(&name))?;
                Ok(Self { name, kind, is_named: true })
            }
        }
    }

    /// Takes a descriptor that this process was started with.
    fn standard(fd: RawFd, name: String, old: Old, signals: &Signals) -> Result<Self, Failure> {
        let file = duplicate(fd).and_then(|file| check_as_it_is(&file, old).map(|()| file));
        let file = file.map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
        Ok(Self { name, kind: Kind::AsItIs(file, *signals), is_named: true })
    }

    /// Opens a file in a directory; [`Output::preserve`] names it.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn open_in(directory: &Path, old: Old) -> Result<Self, Failure> {
        let name = directory.display().to_string();
        let staged =
            stage_in(directory, old).map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
        Ok(Self { name, kind: Kind::Staged(staged), is_named: false })
    }

    /// Returns true if this is a file that gets its name only at the end.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Staged(_))
    }

    /// Sets the mode and time that a file gets once it is complete, and, in a directory, its name.
    ///
    /// # Errors
    /// The sender sent no name, or the file cannot have that name.
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

    /// Begins to write. With `--append`, it opens the file that has the name now.
    ///
    /// # Errors
    /// That file cannot be written.
    pub fn begin(&mut self) -> Result<(), Failure> {
        let begun = match &mut self.kind {
            Kind::Appended(appended) => appended.begin(),
            Kind::AsItIs(..) | Kind::Staged(_) => Ok(()),
        };
        begun.map_err(|error| self.cannot_write(&error))
    }

    /// Returns a sink for a stream. Long runs of zeros become holes of a FILE.
    ///
    /// # Errors
    /// No descriptor is left for it.
    pub fn sink(&self) -> Result<Sink, Failure> {
        let sink = self.file().as_fd().try_clone_to_owned().and_then(Sink::new);
        let mut sink = sink.map_err(|error| self.cannot_write(&error))?;
        if matches!(self.kind, Kind::Staged(_)) {
            sink.leave_holes();
        }
        Ok(sink)
    }

    /// Checks that there is room for the announced bytes. The room that `sparse` data need is unknown, so the free space is not
    /// checked for them.
    ///
    /// # Errors
    /// There is less room.
    pub fn check_room(&self, bytes: u64, sparse: bool) -> Result<(), Failure> {
        ahead::check_room(self.file(), bytes, sparse).map_err(|error| self.cannot_write(&error))
    }

    /// Writes all of these bytes. Waits while a pipe is full, as long as its reader never pauses for 10 s.
    ///
    /// # Errors
    /// The file rejects the bytes, or the reader of a pipe stops reading.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let doing = cannot_write(&self.name);
        match &mut self.kind {
            Kind::AsItIs(file, signals) => pipe::write(file, bytes, &doing, signals),
            Kind::Appended(Appended { file, .. }) | Kind::Staged(Staged { file, .. }) => {
                file.write_all(bytes).map_err(|error| Failure::local_io(doing, &error))
            }
        }
    }

    const fn file(&self) -> &File {
        let (Kind::AsItIs(file, _)
        | Kind::Appended(Appended { file, .. })
        | Kind::Staged(Staged { file, .. })) = &self.kind;
        file
    }

    fn cannot_write(&self, error: &io::Error) -> Failure {
        Failure::local_io(cannot_write(&self.name), error)
    }

    /// Returns "standard output", or the path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Completes the output after all data were written: syncs them to disk, and gives FILE its name. This takes as long as the
    /// disk does. Later writes change the named file directly.
    ///
    /// # Errors
    /// The disk fails. An old FILE is then unchanged, unless the text says that only the directory failed.
    pub fn commit(&mut self) -> Result<(), Failure> {
        let committed = match &mut self.kind {
            Kind::AsItIs(file, _) => put_on_disk(file),
            Kind::Appended(appended) => appended.commit(),
            Kind::Staged(staged) => staged.commit(),
        };
        committed.map_err(|error| Failure::local_io(format!("cannot complete {}", self.name), &error))
    }
}

fn cannot_write(name: &str) -> String {
    format!("cannot write to {name}")
}

/// Opens the file at `path`, or stages a new one.
fn open_path(
    path: &Path,
    old: Old,
    signals: &Signals,
    timeout: ReaderTimeout,
    doing: &str,
) -> Result<Kind, Failure> {
    let failed = |error: io::Error| Failure::local_io(doing, &error);
    let opened = match (existing(path, old).map_err(failed)?, old) {
        (Existing::Special, _) => {
            // Check before opening, which waits for the reader of a pipe.
            fs::metadata(path).and_then(|found| check_special(&found, old)).map_err(failed)?;
            let file = pipe::open(path, &mut OpenOptions::new(), doing, timeout, signals)?;
            return Ok(Kind::AsItIs(file, *signals));
        }
        (_, Old::Extended) => Appended::open(path).map(Kind::Appended),
        (Existing::Regular(..), Old::Kept) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        (Existing::Regular(target, found), Old::Replaced | Old::ReplacedIfSame) => {
            stage(&target, Some(found), old).map(Kind::Staged)
        }
        (Existing::Nothing, _) => stage(path, None, old).map(Kind::Staged),
    };
    opened.map_err(failed)
}

/// Checks that an inherited descriptor may be written at its offset.
fn check_as_it_is(file: &File, old: Old) -> io::Result<()> {
    let found = file.metadata()?;
    match old {
        Old::Kept if found.is_file() && found.len() > 0 => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        Old::Extended if found.is_file() && !fcntl_getfl(file)?.contains(OFlags::APPEND) => {
            Err(io::Error::other(
                "--append: this descriptor was not opened to append, and would be written where it stands; open it with >>",
            ))
        }
        _ => check_special(&found, old),
    }
}

/// Checks that a pipe or a device may be written.
fn check_special(found: &Metadata, old: Old) -> io::Result<()> {
    let kind = found.file_type();
    let is_foreign = ![0, geteuid().as_raw()].contains(&found.uid());
    match old {
        Old::Kept if kind.is_block_device() => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        Old::Kept if kind.is_fifo() && is_foreign => Err(io::Error::other(format!(
            "file exists: a pipe of uid {}; without --no-clobber it is written to",
            found.uid()
        ))),
        Old::Extended if kind.is_block_device() => {
            Err(io::Error::other("--append: a block device has no end to add to"))
        }
        _ => Ok(()),
    }
}

/// Syncs a regular file or block device to disk. Other files have no disk.
fn put_on_disk(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() { file.sync_all() } else { Ok(()) }
}
