//! Output of rrecv, and the reports of rperf.
//!
//! A FILE appears complete or not at all: see `staged`. Pipes and devices are opened and written directly. Standard output, and
//! a descriptor that a path names, are written at their offset: see `descriptor`.

mod acl;
mod appended;
mod directory;
mod hidden;
mod kept;
pub(crate) mod pipe;
mod preflight;
mod properties;
mod staged;

use crate::exit::{Code, Failure};
use crate::files::descriptor::{duplicate, is_dash, own_descriptor};
use crate::files::preserve::Attributes;
use crate::signals::Signals;
use appended::Appended;
use core::time::Duration;
use directory::Directory;
pub use kept::KeptFiles;
use pipe::ReaderTimeout;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::geteuid;
use staged::{Existing, Staged, existing, stage, stage_in};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use superpipe::io::Sink;

const STDOUT: RawFd = 1;
const STDERR: RawFd = 2;

/// Policy for a FILE that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// The new file replaces it once it is complete.
    #[default]
    Replace,
    /// The new file replaces it likewise, if it is the file that existed at the start. One that appeared meanwhile stays.
    ReplaceIfSame,
    /// It stays, and the output fails.
    Fail,
    /// All data are appended to it as they are written.
    Append,
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
    Direct(File, Signals),
    Appended(Appended),
    Staged(Staged),
}

impl Output {
    /// Opens the file of a report, or takes standard output. Waits for the reader of a FIFO, for 10 s or until a signal arrives.
    ///
    /// # Errors
    /// The file cannot be written, or a signal arrived.
    pub fn open(file: Option<&Path>, signals: &Signals) -> Result<Self, Failure> {
        Self::open_at(file, IfExists::ReplaceIfSame, signals, ReaderTimeout::REPORT)
    }

    /// Opens FILE, or takes standard output, by the policy `if_exists` for a file that exists. Waits for the reader of a FIFO, for
    /// `accept_timeout` or until a signal arrives.
    ///
    /// # Errors
    /// The file cannot be written, the policy forbids it, or a signal arrived.
    pub fn open_with(
        file: Option<&Path>,
        if_exists: IfExists,
        signals: &Signals,
        accept_timeout: Duration,
    ) -> Result<Self, Failure> {
        Self::open_at(file, if_exists, signals, ReaderTimeout::to_accept(accept_timeout))
    }

    /// Takes standard error.
    ///
    /// # Errors
    /// Standard error was closed when this process began, or cannot be written.
    pub fn stderr(signals: &Signals) -> Result<Self, Failure> {
        Self::standard(STDERR, "standard error".to_owned(), IfExists::Replace, signals)
    }

    fn open_at(
        file: Option<&Path>,
        if_exists: IfExists,
        signals: &Signals,
        timeout: ReaderTimeout,
    ) -> Result<Self, Failure> {
        let Some(path) = file.filter(|path| !is_dash(path)) else {
            return Self::standard(STDOUT, "standard output".to_owned(), if_exists, signals);
        };
        let name = path.display().to_string();
        match own_descriptor(path) {
            Some(fd) => Self::standard(fd, name, if_exists, signals),
            None => {
                let kind = open_path(path, if_exists, signals, timeout, &cannot_write(&name))?;
                Ok(Self { name, kind, is_named: true })
            }
        }
    }

    /// Takes a descriptor that this process was started with.
    fn standard(fd: RawFd, name: String, if_exists: IfExists, signals: &Signals) -> Result<Self, Failure> {
        let file = duplicate(fd).and_then(|file| check_descriptor(&file, if_exists).map(|()| file));
        let file = file.map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
        Ok(Self { name, kind: Kind::Direct(file, *signals), is_named: true })
    }

    /// Opens a file in a directory; [`Output::preserve`] names it.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn open_in(directory: &Path, if_exists: IfExists) -> Result<Self, Failure> {
        let name = directory.display().to_string();
        let staged =
            stage_in(directory, if_exists).map_err(|error| Failure::local_io(cannot_write(&name), &error))?;
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
            let text =
                format!("cannot write to {}: is a directory, and the sender sent no file name", self.name);
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
            Kind::Direct(..) | Kind::Staged(_) => Ok(()),
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
        preflight::check_room(self.file(), bytes, sparse).map_err(|error| self.cannot_write(&error))
    }

    /// Writes all of these bytes. Waits while a pipe is full, as long as its reader never pauses for 10 s.
    ///
    /// # Errors
    /// The file rejects the bytes, or the reader of a pipe stops reading.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let doing = cannot_write(&self.name);
        match &mut self.kind {
            Kind::Direct(file, signals) => pipe::write(file, bytes, &doing, signals),
            Kind::Appended(Appended { file, .. }) | Kind::Staged(Staged { file, .. }) => {
                file.write_all(bytes).map_err(|error| Failure::local_io(doing, &error))
            }
        }
    }

    const fn file(&self) -> &File {
        let (Kind::Direct(file, _)
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
        self.commit_if(&|| true)
    }

    /// Completes the output as [`commit`](Self::commit) does, and asks `may_name` once FILE is on disk, before it gets its name.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit); or it may not get its name, and does not.
    pub fn commit_if(&mut self, may_name: &dyn Fn() -> bool) -> Result<(), Failure> {
        let committed = match &mut self.kind {
            Kind::Direct(file, _) => sync_to_disk(file),
            Kind::Appended(appended) => appended.commit(),
            Kind::Staged(staged) => staged.commit(may_name),
        };
        committed.map_err(|error| Failure::local_io(format!("cannot complete {}", self.name), &error))
    }
}

/// Removes the hidden name of an incomplete file whose owner cannot do so in time.
#[derive(Debug)]
pub struct Removal {
    directory: Arc<Directory>,
    hidden: OsString,
}

impl Removal {
    /// Removes it. The file must not get its name any more.
    pub fn remove(&self) {
        let _ = self.directory.remove(&self.hidden);
    }
}

impl Output {
    /// Returns the removal of a file that has a hidden name: on a file system where files cannot be without one.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        match &self.kind {
            Kind::Staged(staged) => staged.removal(),
            Kind::Direct(..) | Kind::Appended(_) => None,
        }
    }
}

fn cannot_write(name: &str) -> String {
    format!("cannot write to {name}")
}

/// Opens the file at `path`, or stages a new one.
fn open_path(
    path: &Path,
    if_exists: IfExists,
    signals: &Signals,
    timeout: ReaderTimeout,
    doing: &str,
) -> Result<Kind, Failure> {
    let failed = |error: io::Error| Failure::local_io(doing, &error);
    let opened = match (existing(path, if_exists).map_err(failed)?, if_exists) {
        (Existing::Special, _) => {
            // Check before opening, which waits for the reader of a pipe.
            fs::metadata(path).and_then(|found| check_special(&found, if_exists)).map_err(failed)?;
            let file = pipe::open(path, &mut OpenOptions::new(), doing, timeout, signals)?;
            return Ok(Kind::Direct(file, *signals));
        }
        (_, IfExists::Append) => Appended::open(path).map(Kind::Appended),
        (Existing::Regular(..), IfExists::Fail) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        (Existing::Regular(target, found), IfExists::Replace | IfExists::ReplaceIfSame) => {
            stage(&target, Some(found), if_exists).map(Kind::Staged)
        }
        (Existing::Nothing, _) => stage(path, None, if_exists).map(Kind::Staged),
    };
    opened.map_err(failed)
}

/// Checks that an inherited descriptor may be written at its offset.
fn check_descriptor(file: &File, if_exists: IfExists) -> io::Result<()> {
    let found = file.metadata()?;
    match if_exists {
        IfExists::Fail if found.is_file() && found.len() > 0 => {
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        }
        IfExists::Append if found.is_file() && !fcntl_getfl(file)?.contains(OFlags::APPEND) => {
            Err(io::Error::other("--append: this descriptor was not opened for appending; open it with >>"))
        }
        _ => check_special(&found, if_exists),
    }
}

/// Checks that a pipe or a device may be written.
fn check_special(found: &Metadata, if_exists: IfExists) -> io::Result<()> {
    let kind = found.file_type();
    let is_foreign = ![0, geteuid().as_raw()].contains(&found.uid());
    match if_exists {
        IfExists::Fail if kind.is_block_device() => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        IfExists::Fail if kind.is_fifo() && is_foreign => Err(io::Error::other(format!(
            "file exists: it is a pipe of uid {}; omit --no-clobber to write to it",
            found.uid()
        ))),
        IfExists::Append if kind.is_block_device() => {
            Err(io::Error::other("--append: a block device cannot be appended to"))
        }
        _ => Ok(()),
    }
}

/// Syncs a regular file or block device to disk. Other files have no disk.
fn sync_to_disk(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() { file.sync_all() } else { Ok(()) }
}
