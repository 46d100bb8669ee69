//! Files that one process stores in a directory, by names that others choose: `rrecv --keep`.

use super::directory::Directory;
use super::{IfExists, Kind, Output, cannot_write, hidden, staged};
use crate::exit::Failure;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open directory in which files are stored. It stays the same one if its path is given to another directory.
#[derive(Debug)]
pub struct KeptFiles {
    directory: Arc<Directory>,
    path: PathBuf,
    if_exists: IfExists,
}

impl KeptFiles {
    /// Opens the directory, checks that files can be made in it, and removes the incomplete files that killed processes left behind.
    ///
    /// # Errors
    /// It is no directory, or no file can be made in it.
    pub fn open(path: &Path, if_exists: IfExists) -> Result<Self, Failure> {
        let opened = Directory::open(path).and_then(|directory| {
            let directory = Arc::new(directory);
            hidden::sweep_all(&directory);
            staged::check_writable(&directory)?;
            Ok(directory)
        });
        let directory =
            opened.map_err(|error| Failure::local_io(cannot_write(&path.display().to_string()), &error))?;
        Ok(Self { directory, path: path.to_owned(), if_exists })
    }

    /// Returns the path of the file with this name, for texts.
    #[must_use]
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Begins a file, which gets this [plain](crate::files::name::is_plain) name once it is complete.
    ///
    /// # Errors
    /// The name is taken, and is not to be overwritten or cannot be; or no file can be made.
    pub fn create(&self, name: &OsStr) -> Result<Output, Failure> {
        let path = self.path_of(name).display().to_string();
        let staged = staged::stage_named(&self.directory, name, self.if_exists)
            .map_err(|error| Failure::local_io(cannot_write(&path), &error))?;
        Ok(Output { name: path, kind: Kind::Staged(staged), is_named: true })
    }
}
