//! A file that does not have its name yet.
//!
//! It is a file without a name in the same directory (O_TMPFILE), which vanishes with the process however that ends; once
//! it is on disk it is linked to its name, or, where that is taken, to a hidden one that is then renamed over it. File
//! systems without O_TMPFILE get a hidden file from the start, which every failure removes; what a SIGKILL leaves of either
//! the next output to the same FILE removes: see `hidden`.
//!
//! A file that it replaces is looked at when all is there: see `kept`. One that appeared or changed meanwhile counts as if it had
//! been there, and been so, from the start; where it is no regular file, or may not be written to, it stays, and the
//! output fails.

use super::Old;
use super::acl;
use super::ahead::check_replaceable;
use super::directory::Directory;
use super::hidden;
use super::kept::{FileId, Kept};
use crate::descriptor::is_foreign;
use crate::hidden_name::{hidden_name, is_hidden_name};
use crate::links::links;
use crate::preserve::Attributes;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, fremovexattr, futimens};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Mode of a file that will replace another, until it is whole: nobody else may read what replaces a private file.
const PRIVATE_MODE: u32 = 0o600;

/// Name that a file has, in its hidden name, until the sender has told it.
const UNNAMED: &str = "file";

/// A file that does not have its name yet. Dropped before [`Staged::commit`], it leaves nothing.
#[derive(Debug)]
pub(super) struct Staged {
    pub(super) file: File,
    directory: Directory,
    /// in that directory
    name: OsString,
    /// the hidden name that it has, if any
    hidden: Option<OsString>,
    /// what it will replace, as far as is known
    old: Option<Kept>,
    /// whether it was made like that
    conforms: bool,
    /// whether it may replace anything
    may_replace: bool,
    /// the only file that it may replace, where that is not any
    only: Option<FileId>,
    /// what it has from the sender, with --preserve
    preserved: Option<(Mode, Timestamps)>,
}

/// What is at a path, links followed.
pub(super) enum Existing {
    Nothing,
    /// the file itself, after any links, and which it is
    Regular(PathBuf, FileId),
    /// a pipe, a device or a socket
    Odd,
}

impl Staged {
    pub(super) fn commit(&mut self) -> io::Result<()> {
        // a hole at the end gives no length by itself
        let end = self.file.stream_position()?;
        self.file.set_len(end)?;
        self.conform()?;
        self.keep_attributes()?;
        self.file.sync_all()?;
        // The old file may have changed while the disk was written.
        self.conform_again()?;
        if !self.take_free_name()? {
            self.conform_again()?;
            self.replace()?;
        }
        self.hidden = None;
        self.directory.sync(&self.file).map_err(|error| {
            io::Error::other(format!("it has its name, but its directory cannot be put on disk: {error}"))
        })
    }

    /// Makes the file like the one that has its name now. One that has none any more counts as it was last seen. Returns
    /// whether that changed anything.
    ///
    /// # Errors
    /// The name belongs to something else than a regular file, or to a file that became read-only.
    fn conform(&mut self) -> io::Result<bool> {
        if !self.may_replace {
            return Ok(false);
        }
        let found = Kept::of(&self.directory, &self.name)?;
        if self.only.is_some_and(|only| found.as_ref().is_some_and(|found| found.id() != only)) {
            return Err(io::Error::other("its name belongs to another file now, which is left alone"));
        }
        if found.is_some() && found != self.old {
            may_write(self.directory.open_file(&self.name, OFlags::WRONLY))?;
            (self.old, self.conforms) = (found, false);
        }
        match &self.old {
            Some(old) if !self.conforms => old.give_to(&self.file)?,
            _ => return Ok(false),
        }
        self.conforms = true;
        Ok(true)
    }

    /// Does so once more, and puts on disk what that changed.
    fn conform_again(&mut self) -> io::Result<()> {
        if self.conform()? {
            self.keep_attributes()?;
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// Names a file that [`stage_in`] made.
    ///
    /// # Errors
    /// The name belongs to what cannot be replaced, or is not to be.
    pub(super) fn set_name(&mut self, name: &OsStr) -> io::Result<()> {
        let old = Kept::of(&self.directory, name)?;
        if let Some(old) = &old {
            if !self.may_replace {
                return Err(io::Error::from_raw_os_error(libc::EEXIST));
            }
            may_write(self.directory.open_file(name, OFlags::WRONLY))?;
            check_replaceable(&self.directory, name, old.uid())?;
            fchmod(&self.file, Mode::from_raw_mode(PRIVATE_MODE))?;
        }
        hidden::sweep(&self.directory, name);
        (self.name, self.old) = (name.to_owned(), old);
        Ok(())
    }

    /// Gives the file this mode and modification time in the end.
    pub(super) fn preserve(&mut self, attributes: &Attributes) {
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let last_modification =
            Timespec { tv_sec: attributes.seconds, tv_nsec: attributes.nanoseconds.into() };
        let mode = Mode::from_raw_mode(attributes.mode);
        self.preserved = Some((mode, Timestamps { last_access, last_modification }));
    }

    fn keep_attributes(&self) -> io::Result<()> {
        if let Some((mode, times)) = &self.preserved {
            // The access list of an old file is not that of the sender's.
            let _ = fremovexattr(&self.file, acl::ATTRIBUTE);
            fchmod(&self.file, *mode)?;
            futimens(&self.file, times)?;
        }
        Ok(())
    }

    /// Takes the name if it is free. Returns false if another file has it, which may be replaced.
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

    /// Takes the name, whichever file has it.
    fn replace(&mut self) -> io::Result<()> {
        let hidden = match &self.hidden {
            Some(hidden) if hidden::is_named(&self.directory, hidden, &self.file) => hidden,
            Some(hidden) => {
                let text = format!("its temporary file {} was replaced meanwhile", hidden.display());
                return Err(io::Error::other(text));
            }
            None => {
                let hidden = hidden_name(&self.name);
                // locked before it has a name: who sweeps finds it in use
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

/// Looks at what `path` names, and checks that the user means it to be written to.
pub(super) fn existing(path: &Path, will: Old) -> io::Result<Existing> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        // a link that leads nowhere would be replaced by a file, or a file made wherever it points: neither was asked for
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
            return Err(io::Error::other(
                "it is a link that leads nowhere; remove it, or name the file itself",
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Existing::Nothing),
        Err(error) => return Err(error),
    };
    if found.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !found.is_file() {
        return Ok(Existing::Odd);
    }
    if is_foreign(path) {
        return Err(io::Error::other("it is a descriptor of another process; name the file itself"));
    }
    // Replacing needs no right to write to the old file, but whoever took that right away meant something by it.
    let opened = OpenOptions::new()
        .write(true)
        .append(will == Old::Extended)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    may_write(opened)?;
    // looked at anew: on an overlay, opening may have made another file of it
    let found = fs::metadata(path)?;
    let target = links(path).last().unwrap_or_else(|| path.to_owned());
    Ok(Existing::Regular(target, FileId { device: found.dev(), inode: found.ino() }))
}

/// Fails if a file could not be opened for writing. A program that runs may be replaced all the same, and so may a file of which
/// another process holds a lease.
fn may_write(opened: io::Result<File>) -> io::Result<()> {
    match opened {
        Err(error) if ![libc::ETXTBSY, libc::EWOULDBLOCK].map(Some).contains(&error.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Makes a file that will be `target`, whose directory is opened first.
pub(super) fn stage(target: &Path, replaced: Option<FileId>, will: Old) -> io::Result<Staged> {
    let name = target.file_name().filter(|_| !target.as_os_str().as_encoded_bytes().ends_with(b"/"));
    let name = name.ok_or_else(|| io::Error::from_raw_os_error(libc::EISDIR))?;
    if is_hidden_name(name.as_bytes()) {
        return Err(io::Error::other(
            "such names are for files that are not whole, and are removed; choose another",
        ));
    }
    let directory = Directory::open(target.parent().unwrap_or(Path::new("")))?;
    let old = Kept::of(&directory, name)?;
    if old.as_ref().map(Kept::id) != replaced {
        return Err(io::Error::other("it became another file at this moment; try again"));
    }
    if let Some(old) = &old {
        check_replaceable(&directory, name, old.uid())?;
    }
    hidden::sweep(&directory, name);
    make(directory, name, old, will)
}

/// Makes a file in a directory, under a name that [`Staged::set_name`] gives.
pub(super) fn stage_in(directory: &Path, will: Old) -> io::Result<Staged> {
    let (directory, name) = (Directory::open(directory)?, OsStr::new(UNNAMED));
    hidden::sweep(&directory, name);
    make(directory, name, None, will)
}

fn make(directory: Directory, name: &OsStr, old: Option<Kept>, will: Old) -> io::Result<Staged> {
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
    let only = old.as_ref().map(Kept::id).filter(|_| will == Old::ReplacedIfSame);
    let may_replace = will == Old::Replaced || only.is_some();
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
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("superpipe-output-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn names(&self) -> Vec<String> {
            let names =
                fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn open(path: &Path) -> Result<Staged, String> {
        match existing(path, Old::Replaced).and_then(|found| match found {
            Existing::Nothing => stage(path, None, Old::Replaced),
            Existing::Regular(target, replaced) => stage(&target, Some(replaced), Old::Replaced),
            Existing::Odd => Err(io::Error::other("odd")),
        }) {
            Ok(staged) => Ok(staged),
            Err(error) => Err(crate::exit::explain("cannot write", &error)),
        }
    }

    #[test]
    fn a_new_file_has_no_name_until_it_is_whole() {
        let dir = Dir::new("new");
        let mut staged = open(&dir.join("out")).unwrap();
        staged.file.write_all(b"whole").unwrap();
        assert!(!dir.join("out").exists());
        staged.commit().unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"whole");
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn an_old_file_stays_until_then_and_gives_its_mode() {
        let dir = Dir::new("old");
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
        staged.commit().unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"new");
        assert_eq!(fs::metadata(dir.join("out")).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn a_hidden_file_is_removed_by_whoever_fails_and_swept_after_whoever_was_killed() {
        let dir = Dir::new("hidden");
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
        next.commit().unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), b"next");
        drop(living);
        assert_eq!(dir.names(), ["out"]);
    }

    #[test]
    fn links_are_followed_and_what_cannot_be_is_refused() {
        let dir = Dir::new("links");
        fs::write(dir.join("real"), b"old").unwrap();
        symlink("real", dir.join("link")).unwrap();
        let mut staged = open(&dir.join("link")).unwrap();
        staged.file.write_all(b"new").unwrap();
        staged.commit().unwrap();
        assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read(dir.join("real")).unwrap(), b"new");
        symlink("nowhere", dir.join("dangling")).unwrap();
        assert!(open(&dir.join("dangling")).unwrap_err().contains("leads nowhere"));
        assert!(open(&dir.0).unwrap_err().contains("is a directory"));
        assert!(open(&dir.join("missing/out")).unwrap_err().contains("no such file or directory"));
        assert!(open(Path::new("new-directory/")).unwrap_err().contains("is a directory"));
        assert_eq!(open(Path::new("/dev/null")).unwrap_err(), "cannot write: odd");
    }

    #[test]
    fn long_names_fit() {
        let dir = Dir::new("long");
        let name = "ü".repeat(127);
        fs::write(dir.join(&name), b"old").unwrap();
        let mut staged = open(&dir.join(&name)).unwrap();
        staged.commit().unwrap();
        assert_eq!(dir.names(), [name]);
    }
}
