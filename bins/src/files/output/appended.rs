//! Output that is added to the end of FILE: `--append`.
//!
//! The data go to the file that has the name when the transfer begins, since a log may be rotated while a tool waits. That file
//! must still have the name when the transfer is complete.

use super::directory::Directory;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that is written at its end.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) file: File,
    path: PathBuf,
    /// true if it may have been created here, so that its directory must be synced, too
    is_new: bool,
}

impl Appended {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let is_new = !path.exists();
        Ok(Self { file: open(path)?, path: path.to_owned(), is_new })
    }

    /// Opens or creates the file that has the name now, if that is another one.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if !self.has_name() {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }

    /// Syncs the file to disk, and checks that it still has its name.
    pub(super) fn commit(&self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.has_name() {
            return Err(io::Error::other(
                "it was renamed, removed or replaced meanwhile; the data are at the end of the original file",
            ));
        }
        if self.is_new {
            Directory::open(self.path.parent().unwrap_or(Path::new("")))?.sync(&self.file)?;
        }
        Ok(())
    }

    fn has_name(&self) -> bool {
        let (Ok(open), Ok(named)) = (self.file.metadata(), fs::metadata(&self.path)) else { return false };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
}

/// Opens or creates a file for appending.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}
