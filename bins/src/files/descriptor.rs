//! Paths that name an open descriptor: `/dev/stdout`, `/dev/fd/N`, `/proc/self/fd/N`.
//!
//! Such a path resolves to the file behind the descriptor. A tool that opened or replaced that file would lose the offset
//! and the flags of the descriptor (`rrecv /dev/stdout >> log` would destroy `log`), so it writes to the descriptor itself.

use crate::files::links::LINKS_MAX;
use crate::os::inherited;
use rustix::fs::{OFlags, PROC_SUPER_MAGIC, fcntl_getfl, statfs};
use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The path of a standard stream.
pub const DASH: &str = "-";

/// Returns true if a path stands for a standard stream.
#[must_use]
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == DASH
}

/// An entry of a process's table of descriptors.
struct Entry {
    fd: RawFd,
    /// true if it is an entry of this process
    is_own: bool,
}

/// Returns the descriptor of this process that `path` names, links followed: through `/dev/stdin`, `/dev/stdout`,
/// `/dev/stderr`, `/dev/fd`, `/proc/self/fd`, `/proc/PID/fd` or a link to one of them. None for every other path.
#[must_use]
pub fn own_descriptor(path: &Path) -> Option<RawFd> {
    entry(path).filter(|entry| entry.is_own).map(|entry| entry.fd)
}

/// Duplicates a descriptor that this process was started with, for writing: with its offset, its O_APPEND and the rest of
/// its flags.
///
/// # Errors
/// EBADF if it is closed or read-only, or if this process opened it itself.
pub fn duplicate(fd: RawFd) -> io::Result<File> {
    let copy = inherited::duplicate(fd)?;
    if fcntl_getfl(&copy)? & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(File::from(copy))
}

/// Returns true if `path` names a descriptor of another process, whose offset cannot be shared.
pub fn is_foreign(path: &Path) -> bool {
    entry(path).is_some_and(|entry| !entry.is_own)
}

/// Follows the links of `path` up to an entry of a table of descriptors. The entry is a link as well, which is not followed.
fn entry(path: &Path) -> Option<Entry> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return None;
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
        let entry = directory.join(path.file_name()?);
        let target = fs::read_link(&entry).ok()?;
        let fd = entry.file_name()?.to_str().and_then(|name| name.parse().ok());
        if let Some(fd) = fd.filter(|_| is_proc(&directory)) {
            let is_own = is_own_table(&directory).unwrap_or_else(|| is_same(&entry, fd));
            return Some(Entry { fd, is_own });
        }
        path = directory.join(target);
    }
    None
}

/// Returns true for a directory of a procfs, wherever it is mounted.
fn is_proc(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// Returns true if a table is that of this process: `PID/fd` or `PID/task/TID/fd` in a procfs whose `self` is `PID`. Returns None
/// if the path does not show this, as under a bind mount.
fn is_own_table(directory: &Path) -> Option<bool> {
    let thread = directory.parent().filter(|_| directory.ends_with("fd"))?;
    let task = thread.parent()?;
    let process = if task.ends_with("task") { task.parent()? } else { thread };
    let own = fs::canonicalize(process.parent()?.join("self")).ok()?;
    Some(own == process)
}

/// Returns true if this process's descriptor of that number is the same file as the entry.
fn is_same(entry: &Path, fd: RawFd) -> bool {
    let (Ok(named), Ok(own)) =
        (fs::metadata(entry), inherited::duplicate(fd).and_then(|own| File::from(own).metadata()))
    else {
        return false;
    };
    (named.dev(), named.ino()) == (own.dev(), own.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_of_descriptors_are_recognized_by_their_target() {
        let file = File::open("/dev/null").unwrap();
        let (fd, pid) = (file.as_raw_fd(), std::process::id());
        let dir = Scratch::new("descriptor");
        symlink(format!("/dev/fd/{fd}"), dir.join("link")).unwrap();
        symlink("link", dir.join("again")).unwrap();
        symlink("/proc/self", dir.join("self")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        fs::write(dir.join("7"), b"x").unwrap();
        let named = |path: String| own_descriptor(Path::new(&path));
        for (path, expected) in [
            ("/dev/stdin".to_owned(), 0),
            ("/dev/stdout".to_owned(), 1),
            ("/dev/stderr".to_owned(), 2),
            (format!("/dev/fd/{fd}"), fd),
            (format!("/proc/self/fd/{fd}"), fd),
            (format!("/proc/thread-self/fd/{fd}"), fd),
            (format!("/proc/{pid}/fd/{fd}"), fd),
            (format!("/proc/self/../{pid}/./fd/{fd}"), fd),
            (format!("{}/link", dir.path().display()), fd),
            (format!("{}/again", dir.path().display()), fd),
            (format!("{}/self/fd/{fd}", dir.path().display()), fd),
        ] {
            assert_eq!(named(path.clone()), Some(expected), "{path}");
            assert!(!is_foreign(Path::new(&path)), "{path}");
        }
        for path in ["/dev/null", "/dev/fd/99999", "/dev/fd/+1", "/dev/fd/", "", "/", "..", "/proc/self/exe"]
        {
            assert_eq!(named(path.to_owned()), None, "{path}");
        }
        for name in ["loop", "7", "none"] {
            assert_eq!(own_descriptor(&dir.join(name)), None, "{name}");
        }
        assert_eq!(named(format!("/dev/fd/{fd}/")), None);
    }

    #[test]
    fn an_inherited_descriptor_is_written_at_its_offset() {
        let scratch = Scratch::new("duplicate");
        let path = scratch.join("file");
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        let refused = |file: &File| duplicate(file.as_raw_fd()).unwrap_err().raw_os_error();
        // close-on-exec marks a descriptor that this process opened itself
        assert_eq!(refused(&file), Some(libc::EBADF));
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        duplicate(file.as_raw_fd()).unwrap().write_all(b"ab").unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), fs::read(&path).unwrap().as_slice()), ("6789", &b"0123ab6789"[..]));
        let read_only = File::open(&path).unwrap();
        fcntl_setfd(&read_only, FdFlags::empty()).unwrap();
        assert_eq!(refused(&read_only), Some(libc::EBADF));
        assert_eq!(duplicate(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
