//! Hidden names, `.NAME.superpipe-PID-NANOSECONDS`, of files that are not whole, and the removal of those that a killed process
//! left behind.
//!
//! The process that makes such a file locks it for as long as the file is open. A file is left behind if its name is exactly of this form, it
//! is a regular file of this user with no other name, and nobody holds its lock.

use super::directory::Directory;
use crate::hidden_name::{hidden_name, is_hidden_name_of, prefix};
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Names that are tried before it is given up: each costs a clash with another process that sweeps at the very moment.
const ATTEMPTS: usize = 16;

/// Makes a hidden file for `name`, and locks it.
pub(super) fn create(directory: &Directory, name: &OsStr, mode: u32) -> io::Result<(File, OsString)> {
    for _ in 0..ATTEMPTS {
        let hidden = hidden_name(name);
        let file = directory.create(&hidden, mode)?;
        // Before it was locked somebody may have swept it.
        if lock(&file) && is_named(directory, &hidden, &file) {
            return Ok((file, hidden));
        }
    }
    Err(io::Error::other(format!("other processes removed its temporary file {ATTEMPTS} times; try again")))
}

/// Locks a file for as long as it is open. Returns false if another process holds the lock. A file system without locks only
/// means that nobody sweeps there.
pub(super) fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Removes what killed processes left behind for `name`. Whatever fails is left alone.
pub(super) fn sweep(directory: &Directory, name: &OsStr) {
    let prefix = prefix(name);
    for entry in directory.entries().into_iter().flatten().flatten() {
        let found = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_hidden_name_of(found.as_bytes(), prefix.as_bytes()) {
            sweep_one(directory, found);
        }
    }
}

fn sweep_one(directory: &Directory, name: &OsStr) {
    let is_left = || directory.look(name).is_ok_and(|found| found.is_some_and(is_left_behind));
    if !is_left() {
        return;
    }
    // a lock needs it open, either way: its mode may let its owner do but one
    let opened =
        directory.open_file(name, OFlags::RDONLY).or_else(|_| directory.open_file(name, OFlags::WRONLY));
    let Ok(file) = opened else { return };
    // the name may be another file's by now
    if file.try_lock().is_ok() && is_named(directory, name, &file) && is_left() {
        let _ = directory.remove(name);
    }
}

/// A regular file of this user, with no other name.
fn is_left_behind(found: Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == geteuid().as_raw()
        && found.st_nlink == 1
}

/// Returns true if the name is the name of this open file.
pub(super) fn is_named(directory: &Directory, name: &OsStr, file: &File) -> bool {
    let (Ok(Some(named)), Ok(open)) = (directory.look(name), fstat(file)) else { return false };
    (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Scratch(PathBuf, Directory);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("superpipe-hidden-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            let directory = Directory::open(&path).unwrap();
            Self(path, directory)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_left_behind_is_swept_and_nothing_else() {
        let scratch = Scratch::new("sweep");
        let Scratch(path, directory) = &scratch;
        let name = OsStr::new("vic");
        let (living, hidden) = create(directory, name, 0o600).unwrap();
        fs::write(path.join(".vic.superpipe-1-a"), b"left behind").unwrap();
        let users = [".vic.superpipe-notes.txt", ".vic.superpipe-2-linked", "a link's target", "second name"];
        for name in users {
            fs::write(path.join(name), b"a user's").unwrap();
        }
        symlink("a link's target", path.join(".vic.superpipe-3-c")).unwrap();
        fs::hard_link(path.join("second name"), path.join(".vic.superpipe-4-d")).unwrap();
        fs::create_dir(path.join(".vic.superpipe-5-e")).unwrap();
        let mut expected = scratch.names();
        expected.retain(|name| name != ".vic.superpipe-1-a");
        sweep(directory, name);
        assert_eq!(scratch.names(), expected);
        drop(living);
        sweep(directory, name);
        expected.retain(|name| hidden != *name.as_str());
        assert_eq!(scratch.names(), expected);
    }
}
