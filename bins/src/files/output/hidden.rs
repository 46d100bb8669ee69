//! Hidden files, named `.NAME.superpipe-PID-NANOSECONDS`, which are incomplete, and the removal of those that killed processes
//! left behind.
//!
//! The process that creates such a file locks it as long as the file is open. A file was left behind if its name has exactly this
//! form, it is a regular file of this user without another name, and no process holds its lock.

use super::directory::Directory;
use crate::files::hidden_name::{hidden_name, is_hidden_name, is_hidden_name_of, prefix};
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Most attempts to create a hidden file. An attempt fails only if another process sweeps at the same moment.
const ATTEMPTS: usize = 16;

/// Creates a hidden file for `name`, and locks it.
pub(super) fn create(directory: &Directory, name: &OsStr, mode: u32) -> io::Result<(File, OsString)> {
    for _ in 0..ATTEMPTS {
        let hidden = hidden_name(name);
        let file = directory.create(&hidden, mode)?;
        // Another process may have swept the file before it was locked.
        if lock(&file) && is_named(directory, &hidden, &file) {
            return Ok((file, hidden));
        }
    }
    Err(io::Error::other(format!("other processes removed its temporary file {ATTEMPTS} times; try again")))
}

/// Locks a file as long as it is open. Returns false if another process holds the lock. A file system without locks is no error:
/// no process sweeps there.
pub(super) fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Removes the files that killed processes left behind for `name`. Ignores errors.
pub(super) fn sweep(directory: &Directory, name: &OsStr) {
    let prefix = prefix(name);
    for entry in directory.entries().into_iter().flatten().flatten() {
        let found = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_hidden_name_of(found.as_bytes(), prefix.as_bytes()) {
            sweep_one(directory, found);
        }
    }
}

/// Removes the files that killed processes left behind for any name. Ignores errors.
pub(super) fn sweep_all(directory: &Directory) {
    for entry in directory.entries().into_iter().flatten().flatten() {
        let found = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_hidden_name(found.as_bytes()) {
            sweep_one(directory, found);
        }
    }
}

fn sweep_one(directory: &Directory, name: &OsStr) {
    let is_left = || directory.stat(name).is_ok_and(|found| found.is_some_and(is_left_behind));
    if !is_left() {
        return;
    }
    // the lock needs an open file, and the mode may permit the owner only one of reading and writing
    let opened =
        directory.open_file(name, OFlags::RDONLY).or_else(|_| directory.open_file(name, OFlags::WRONLY));
    let Ok(file) = opened else { return };
    // another file may have the name by now
    if file.try_lock().is_ok() && is_named(directory, name, &file) && is_left() {
        let _ = directory.remove(name);
    }
}

/// Returns true for a regular file of this user without another name.
fn is_left_behind(found: Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && found.st_uid == geteuid().as_raw()
        && found.st_nlink == 1
}

/// Returns true if this open file has the name.
pub(super) fn is_named(directory: &Directory, name: &OsStr, file: &File) -> bool {
    let (Ok(Some(named)), Ok(open)) = (directory.stat(name), fstat(file)) else { return false };
    (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_sweep_removes_only_files_that_were_left_behind() {
        let scratch = Scratch::new("sweep");
        let (path, directory) = (scratch.path(), &Directory::open(scratch.path()).unwrap());
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
        fs::write(path.join(".another.superpipe-6-f"), b"left behind").unwrap();
        sweep(directory, name);
        assert_eq!(scratch.names().len(), expected.len() + 1, "it is of another name");
        sweep_all(directory);
        assert_eq!(scratch.names(), expected);
    }
}
