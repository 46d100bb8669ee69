//! An open directory, and operations on the names in it.
//!
//! It is opened once, before any file is created in it. If the directory is renamed meanwhile, all files are created in the
//! renamed directory, and none in another one that takes its name.

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, Stat, fsync, linkat, openat, renameat, renameat_with,
    statat, syncfs, unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory {
    /// the directory opened with O_PATH, which needs no permission to read it
    path_only: OwnedFd,
    /// the directory opened for reading, which fsync needs; None if that is not permitted, as in a drop box of mode 0300
    readable: Option<OwnedFd>,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path_only = openat(CWD, path, flags | OFlags::PATH, Mode::empty())?;
        let readable = openat(&path_only, ".", flags | OFlags::RDONLY, Mode::empty()).ok();
        Ok(Self { path_only, readable })
    }

    /// Returns the status of the file with this name, links not followed; None if there is none.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.path_only, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file with this name, links not followed, without blocking.
    pub(super) fn open_file(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.path_only, name, flags, Mode::empty())?.into())
    }

    /// Creates a file without a name, which vanishes with its last descriptor.
    pub(super) fn create_nameless(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(openat(&self.path_only, ".", flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Creates a file. Fails if the name is taken.
    pub(super) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.path_only, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Gives a file, which may be without a name, this name. Fails if the name is taken.
    pub(super) fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, from, &self.path_only, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.path_only, from, &self.path_only, to)?)
    }

    /// Renames a file. Fails if the new name is taken.
    pub(super) fn rename_to_free(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match renameat_with(&self.path_only, from, &self.path_only, to, RenameFlags::NOREPLACE) {
            // the file system does not support the flag
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&self.path_only, from, &self.path_only, to, AtFlags::empty())?;
                self.remove(from)
            }
            renamed => Ok(renamed?),
        }
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.path_only, name, AtFlags::empty())?)
    }

    /// Lists the directory, if it is readable.
    pub(super) fn entries(&self) -> Option<Dir> {
        Dir::read_from(self.readable.as_ref()?).ok()
    }

    /// Syncs the names to disk. A directory that is not readable cannot be synced by itself; instead, this syncs the file system
    /// of `file`, which is in the directory.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        let synced = self.readable.as_ref().map_or_else(|| syncfs(file), fsync);
        match synced {
            // the file system does not support this
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.path_only.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs;

    #[test]
    fn names_stay_in_a_directory_that_is_renamed() {
        let root = Scratch::new("directory");
        fs::create_dir(root.join("old")).unwrap();
        let directory = Directory::open(&root.join("old")).unwrap();
        fs::rename(root.join("old"), root.join("new")).unwrap();
        fs::create_dir(root.join("old")).unwrap();
        let [one, two, three] = ["one", "two", "three"].map(OsStr::new);
        let file = directory.create(one, 0o600).unwrap();
        assert_eq!(directory.create(one, 0o600).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        directory.link(&file, two).unwrap();
        assert_eq!(directory.rename_to_free(one, two).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        directory.remove(two).unwrap();
        directory.rename_to_free(one, three).unwrap();
        directory.rename(three, two).unwrap();
        directory.sync(&file).unwrap();
        assert!(directory.stat(two).unwrap().is_some() && directory.stat(one).unwrap().is_none());
        let names: Vec<_> =
            directory.entries().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        assert!(names.contains(&c"two".to_owned()) && !names.contains(&c"one".to_owned()));
        assert!(root.join("new/two").exists() && !root.join("old/two").exists());
    }
}
