//! A file that gets its name only when it is complete.
//!
//! It begins without a name in the same directory (O_TMPFILE), and so vanishes with the process, however that ends. Once it is on
//! disk, it is linked to its name, or, if that is taken, to a hidden name, which is then renamed to the real one. On a file system
//! without O_TMPFILE it is a hidden file from the start, and every failure removes it. If SIGKILL leaves a hidden file, the next
//! output to the same FILE removes it: see `hidden`.
//!
//! The properties of a file that it replaces are read when all data have arrived: see `properties`. A file that appeared or changed
//! meanwhile is treated as if it had been so from the start. If it is not a regular file, or not writable, it stays, and the
//! output fails.

use super::acl;
use super::directory::Directory;
use super::hidden;
use super::preflight::check_replaceable;
use super::properties::{FileId, FileProperties};
use super::{IfExists, Removal};
use crate::files::descriptor::is_foreign;
use crate::files::hidden_name::{hidden_name, is_hidden_name};
use crate::files::links::links;
use crate::files::preserve::Attributes;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, fremovexattr, futimens};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mode of a file that will replace another, until it is complete: no other user may read the replacement of a private file.
const PRIVATE_MODE: u32 = 0o600;

/// Name that the hidden name repeats until the sender has sent the real one.
const UNNAMED: &str = "file";

/// A file that does not have its name yet. Dropping it before [`Staged::commit`] removes it.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) file: File,
    directory: Arc<Directory>,
    /// its name in that directory, once it is complete
    name: OsString,
    /// its hidden name, if it has one
    hidden: Option<OsString>,
    /// properties of the file that it will replace, as last seen
    old: Option<FileProperties>,
    /// true if it has those properties
    conforms: bool,
    /// true if it may replace a file
    may_replace: bool,
    /// the only file that it may replace; None for any file
    only: Option<FileId>,
    /// mode and times of the sender's file, with --preserve
    preserved: Option<(Mode, Timestamps)>,
}

/// Kind of the file at a path, links followed.
pub(super) enum Existing {
    Nothing,
    /// path of the file itself, after any links, and its identity
    Regular(PathBuf, FileId),
    /// a pipe, a device or a socket
    Special,
}

impl Staged {
    /// Completes the file. Asks `may_name` before it gets its name.
    pub(super) fn commit(&mut self, may_name: &dyn Fn() -> bool) -> io::Result<()> {
        // a hole at the end does not extend the file by itself
        let end = self.file.stream_position()?;
        self.file.set_len(end)?;
        self.conform()?;
        self.keep_attributes()?;
        self.file.sync_all()?;
        // The old file may have changed while the disk was written.
        self.conform_again()?;
        if !may_name() {
            return Err(io::Error::other("it was given up before it had its name"));
        }
        if !self.take_free_name()? {
            self.conform_again()?;
            self.replace()?;
        }
        self.hidden = None;
        self.directory.sync(&self.file).map_err(|error| {
            io::Error::other(format!("it has its name, but its directory cannot be synced to disk: {error}"))
        })
    }

    /// Returns the removal of its hidden name, if it has one.
    pub(super) fn removal(&self) -> Option<Removal> {
        let hidden = self.hidden.clone()?;
        Some(Removal { directory: Arc::clone(&self.directory), hidden })
    }

    /// Gives the file the properties of the one that has its name now, or, if there is none any more, of the one last seen.
    /// Returns true if that changed anything.
    ///
    /// # Errors
    /// The name does not belong to a regular file, or belongs to one that must stay or became read-only.
    fn conform(&mut self) -> io::Result<bool> {
        if !self.may_replace {
            return Ok(false);
        }
        let found = FileProperties::read(&self.directory, &self.name)?;
        if self.only.is_some_and(|only| found.as_ref().is_some_and(|found| found.id() != only)) {
            return Err(io::Error::other("its name now belongs to another file, which was not replaced"));
        }
        if found.is_some() && found != self.old {
            may_write(self.directory.open_file(&self.name, OFlags::WRONLY))?;
            (self.old, self.conforms) = (found, false);
        }
        match &self.old {
            Some(old) if !self.conforms => old.apply_to(&self.file)?,
            _ => return Ok(false),
        }
        self.conforms = true;
        Ok(true)
    }

    /// Calls [`Self::conform`] once more, and syncs a change to disk.
    fn conform_again(&mut self) -> io::Result<()> {
        if self.conform()? {
            self.keep_attributes()?;
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// Sets the name of a file that [`stage_in`] created.
    ///
    /// # Errors
    /// The name belongs to a file that cannot or must not be replaced.
    pub(super) fn set_name(&mut self, name: &OsStr) -> io::Result<()> {
        self.take_name(name)?;
        hidden::sweep(&self.directory, name);
        Ok(())
    }

    /// Does the same, and leaves it to another one to sweep.
    fn take_name(&mut self, name: &OsStr) -> io::Result<()> {
        let old = FileProperties::read(&self.directory, name)?;
        if let Some(old) = &old {
            if !self.may_replace {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            may_write(self.directory.open_file(name, OFlags::WRONLY))?;
            check_replaceable(&self.directory, name, old.uid())?;
            fchmod(&self.file, Mode::from_raw_mode(PRIVATE_MODE))?;
        }
        (self.name, self.old) = (name.to_owned(), old);
        Ok(())
    }

    /// Sets the mode and modification time that the file gets at the end.
    pub(super) fn preserve(&mut self, attributes: &Attributes) {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification =
            Timespec { tv_sec: attributes.seconds, tv_nsec: attributes.nanoseconds.into() };
        let mode = Mode::from_raw_mode(attributes.mode);
        self.preserved = Some((mode, Timestamps { last_access, last_modification }));
    }

    fn keep_attributes(&self) -> io::Result<()> {
        if let Some((mode, times)) = &self.preserved {
            // An access list of the old file does not apply to the sender's mode.
            let _ = fremovexattr(&self.file, acl::ATTRIBUTE);
            fchmod(&self.file, *mode)?;
            futimens(&self.file, times)?;
        }
        Ok(())
    }

    /// Takes the name if it is free. Returns false if `replace` must take it, which is permitted then.
    fn take_free_name(&self) -> io::Result<bool> {
        let taken = match &self.hidden {
            None => self.directory.link(&self.file, &self.name),
            Some(hidden) if !self.may_replace => self.directory.rename_to_free(hidden, &self.name),
            Some(_) => return Ok(false),
        };
        match taken {
            Err(error) if self.may_replace && error.kind() == ErrorKind::AlreadyExists => Ok(false),
            taken => taken.map(|()| true),
        }
    }

    /// Takes the name, even if another file has it.
    fn replace(&mut self) -> io::Result<()> {
        let hidden = match &self.hidden {
            Some(hidden) if hidden::is_named(&self.directory, hidden, &self.file) => hidden,
            Some(hidden) => {
                let text = format!("its temporary file {} was replaced meanwhile", hidden.display());
                return Err(io::Error::other(text));
            }
            None => {
                let hidden = hidden_name(&self.name);
                // lock it before it has a name, so that no other process sweeps it
                hidden::lock(&self.file);
                self.directory.link(&self.file, &hidden)?;
                &*self.hidden.insert(hidden)
            }
        };
        self.directory.rename(hidden, &self.name)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = self.directory.remove(hidden);
        }
    }
}

/// Inspects the file at `path`, and checks that it may be written or replaced.
pub(super) fn existing(path: &Path, if_exists: IfExists) -> io::Result<Existing> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // The user asked neither to replace a dangling link, nor to create a file at its target.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
            return Err(io::Error::other(
                "it is a symbolic link without a target; remove it, or name the file itself",
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Existing::Nothing),
        Err(error) => return Err(error),
    };
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !found.is_file() {
        return Ok(Existing::Special);
    }
    if is_foreign(path) {
        return Err(io::Error::other("it is a descriptor of another process; name the file itself"));
    }
    // A rename needs no permission to write to the old file, but a read-only file is meant to stay as it is.
    let opened = OpenOptions::new()
        .write(true)
        .append(if_exists == IfExists::Append)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    may_write(opened)?;
    // read again, because opening a file on an overlay may have replaced it by a copy
    let found = fs::metadata(path)?;
    let target = links(path).last().unwrap_or_else(|| path.to_owned());
    Ok(Existing::Regular(target, FileId { device: found.dev(), inode: found.ino() }))
}

/// Checks that a file could be opened for writing. A program that runs may be replaced nevertheless, and so may a file on which
/// another process holds a lease.
fn may_write(opened: io::Result<File>) -> io::Result<()> {
    match opened {
        Err(error) if ![libc::ETXTBSY, libc::EWOULDBLOCK].map(Some).contains(&error.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Opens the directory of `target`, and creates the file that will be `target`.
pub(super) fn stage(target: &Path, replaced: Option<FileId>, if_exists: IfExists) -> io::Result<Staged> {
    let name = target.file_name().filter(|_| !target.as_os_str().as_encoded_bytes().ends_with(b"/"));
    let name = name.ok_or_else(|| io::Error::from_raw_os_error(libc::EISDIR))?;
    if is_hidden_name(name.as_bytes()) {
        return Err(io::Error::other(
            "this form of name is reserved for incomplete files, which are removed; choose another",
        ));
    }
    let directory = Directory::open(target.parent().unwrap_or(Path::new("")))?;
    let old = FileProperties::read(&directory, name)?;
    if old.as_ref().map(FileProperties::id) != replaced {
        return Err(io::Error::other("another process replaced it at this moment; try again"));
    }
    if let Some(old) = &old {
        check_replaceable(&directory, name, old.uid())?;
    }
    hidden::sweep(&directory, name);
    create(Arc::new(directory), name, old, if_exists)
}

/// Creates a file that will have this name in an open directory.
pub(super) fn stage_named(
    directory: &Arc<Directory>,
    name: &OsStr,
    if_exists: IfExists,
) -> io::Result<Staged> {
    let mut staged = create(Arc::clone(directory), name, None, if_exists)?;
    staged.take_name(name)?;
    Ok(staged)
}

/// Checks that files can be created in a directory.
pub(super) fn check_writable(directory: &Arc<Directory>) -> io::Result<()> {
    create(Arc::clone(directory), OsStr::new(UNNAMED), None, IfExists::Fail).map(drop)
}

/// Creates a file in a directory; [`Staged::set_name`] sets its name.
pub(super) fn stage_in(directory: &Path, if_exists: IfExists) -> io::Result<Staged> {
    let (directory, name) = (Directory::open(directory)?, OsStr::new(UNNAMED));
    hidden::sweep(&directory, name);
    create(Arc::new(directory), name, None, if_exists)
}

fn create(
    directory: Arc<Directory>,
    name: &OsStr,
    old: Option<FileProperties>,
    if_exists: IfExists,
) -> io::Result<Staged> {
    let mode = if old.is_some() { PRIVATE_MODE } else { 0o666 };
    let (file, hidden) = match directory.create_nameless(mode) {
        Ok(file) if Path::new("/proc/self/fd").exists() => (file, None),
        Err(error) if !is_unsupported(&error) => return Err(error),
        _ => {
            let (file, hidden) = hidden::create(&directory, name, mode)?;
            (file, Some(hidden))
        }
    };
    let name = name.to_owned();
    let only = old.as_ref().map(FileProperties::id).filter(|_| if_exists == IfExists::ReplaceIfSame);
    let may_replace = if_exists == IfExists::Replace || only.is_some();
    Ok(Staged { file, directory, name, hidden, old, conforms: false, may_replace, only, preserved: None })
}

/// Returns true if the error means that the file system or the kernel has no O_TMPFILE.
fn is_unsupported(error: &io::Error) -> bool {
    let errors = [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT, libc::EINVAL];
    error.raw_os_error().is_some_and(|errno| errors.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open(path: &Path) -> Result<Staged, String> {
        match existing(path, IfExists::Replace).and_then(|found| match found {
            Existing::Nothing => stage(path, None, IfExists::Replace),
            Existing::Regular(target, replaced) => stage(&target, Some(replaced), IfExists::Replace),
            Existing::Special => Err(io::Error::other("odd")),
        }) {
            Ok(staged) => Ok(staged),
            Err(error) => Err(crate::exit::explain("cannot write", &error)),
        }
    }

    #[test]
    fn a_new_file_has_no_name_until_it_is_complete() {
        let dir = Scratch::new("output-new");
        let mut staged = open(&dir.join("out")).unwrap();
        staged.file.write_all(b"whole").unwrap();
        assert!(!dir.join("out").exists());
        staged.commit(&|| true).unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"whole");
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn the_commit_replaces_the_old_file_and_keeps_its_mode() {
        let dir = Scratch::new("output-old");
        fs::write(dir.join("out"), b"old").unwrap();
        fs::set_permissions(dir.join("out"), Permissions::from_mode(0o640)).unwrap();
        drop(open(&dir.join("out")).unwrap());
        assert_eq!(
            (fs::read(dir.join("out")).unwrap(), dir.names()),
            (b"old".to_vec(), vec!["out".to_owned()])
        );
        let mut staged = open(&dir.join("out")).unwrap();
        staged.file.write_all(b"new").unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"old");
        staged.commit(&|| true).unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"new");
        assert_eq!(fs::metadata(dir.join("out")).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn a_failure_removes_a_hidden_file_and_a_sweep_a_dead_one() {
        let dir = Scratch::new("output-hidden");
        let hide = |staged: &mut Staged| {
            let (file, hidden) = hidden::create(&staged.directory, &staged.name, 0o600).unwrap();
            (staged.file, staged.hidden) = (file, Some(hidden));
        };
        let mut living = open(&dir.join("out")).unwrap();
        hide(&mut living);
        fs::write(dir.join(".out.superpipe-1-a"), b"left").unwrap();
        assert_eq!(dir.names().len(), 2);
        let mut next = open(&dir.join("out")).unwrap();
        assert_eq!(dir.names().len(), 1, "the dead one is gone, the living one stays");
        hide(&mut next);
        next.file.write_all(b"next").unwrap();
        next.commit(&|| true).unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"next");
        drop(living);
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn links_are_followed_and_unusable_paths_are_rejected() {
        let dir = Scratch::new("output-links");
        fs::write(dir.join("real"), b"old").unwrap();
        symlink("real", dir.join("link")).unwrap();
        let mut staged = open(&dir.join("link")).unwrap();
        staged.file.write_all(b"new").unwrap();
        staged.commit(&|| true).unwrap();
        assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real")).unwrap(), b"new");
        symlink("nowhere", dir.join("dangling")).unwrap();
        assert!(open(&dir.join("dangling")).unwrap_err().contains("without a target"));
        assert!(open(dir.path()).unwrap_err().contains("is a directory"));
        assert!(open(&dir.join("missing/out")).unwrap_err().contains("no such file or directory"));
        assert!(open(Path::new("new-directory/")).unwrap_err().contains("is a directory"));
        assert_eq!(open(Path::new("/dev/null")).unwrap_err(), "cannot write: odd");
    }

    #[test]
    fn long_names_fit() {
        let dir = Scratch::new("output-long");
        let name = "ü".repeat(127);
        fs::write(dir.join(&name), b"old").unwrap();
        let mut staged = open(&dir.join(&name)).unwrap();
        staged.commit(&|| true).unwrap();
        assert_eq!(dir.names(), [name]);
    }
}
