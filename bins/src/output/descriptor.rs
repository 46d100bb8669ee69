//! Paths that name an open descriptor: `/dev/stdout`, `/dev/fd/N`, `/proc/self/fd/N`.
//!
//! Such a path resolves to the file behind the descriptor. A tool that opened or replaced that file would lose the offset
//! and the flags of the descriptor (`rrecv /dev/stdout >> log` would destroy `log`), so it writes to the descriptor itself.

use rustix::fs::{OFlags, fcntl_getfl};
use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use superpipe::os::stdio;

/// Links that are followed one after another: the kernel's limit.
const LINKS_MAX: usize = 40;

/// An entry of a process's table of descriptors.
struct Entry {
    fd: RawFd,
    /// `/proc/PID` of the process
    process: PathBuf,
}

/// Returns the descriptor of this process that `path` names, links followed: through `/dev/stdin`, `/dev/stdout`,
/// `/dev/stderr`, `/dev/fd`, `/proc/self/fd`, `/proc/PID/fd` or a link to one of them. None for every other path.
#[must_use]
pub fn own_descriptor(path: &Path) -> Option<RawFd> {
    let entry = entry(path)?;
    (entry.process == this_process()?).then_some(entry.fd)
}

/// Duplicates a descriptor that this process was started with, for writing: with its offset, its O_APPEND and the rest of
/// its flags.
///
/// # Errors
/// EBADF where it is closed, read-only, or one that this process opened itself.
pub fn duplicate(fd: RawFd) -> io::Result<File> {
    let copy = stdio::duplicate(fd)?;
    if fcntl_getfl(&copy)? & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(File::from(copy))
}

/// Returns true if `path` names a descriptor of another process, whose offset cannot be shared.
pub(super) fn is_foreign(path: &Path) -> bool {
    entry(path).is_some_and(|entry| Some(entry.process) != this_process())
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
        let place = directory.join(path.file_name()?);
        let target = fs::read_link(&place).ok()?;
        let fd = place.file_name()?.to_str().and_then(|name| name.parse().ok());
        if let (Some(process), Some(fd)) = (process_of(&directory), fd) {
            return Some(Entry { fd, process });
        }
        path = directory.join(target);
    }
    None
}

/// `/proc/PID`, of `/proc/PID/fd` and of `/proc/PID/task/TID/fd`.
fn process_of(directory: &Path) -> Option<PathBuf> {
    let proc = this_process()?.parent()?.to_owned();
    let parts: Vec<_> = directory.strip_prefix(&proc).ok()?.iter().collect();
    match parts.as_slice() {
        [pid, end] if *end == "fd" => Some(proc.join(pid)),
        [pid, task, _, end] if *task == "task" && *end == "fd" => Some(proc.join(pid)),
        _ => None,
    }
}

/// `/proc/PID` of this process.
fn this_process() -> Option<PathBuf> {
    fs::canonicalize("/proc/self").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_of_descriptors_are_known_by_where_they_lead() {
        let file = File::open("/dev/null").unwrap();
        let (fd, pid) = (file.as_raw_fd(), std::process::id());
        let dir = std::env::temp_dir().join(format!("superpipe-descriptor-{pid}"));
        fs::create_dir_all(&dir).unwrap();
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
            (format!("{}/link", dir.display()), fd),
            (format!("{}/again", dir.display()), fd),
            (format!("{}/self/fd/{fd}", dir.display()), fd),
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
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_descriptor_that_was_handed_over_is_written_where_it_stands() {
        let path = std::env::temp_dir().join(format!("superpipe-duplicate-{}", std::process::id()));
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        let refused = |file: &File| duplicate(file.as_raw_fd()).unwrap_err().raw_os_error();
        // as this process opens its own
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
        fs::remove_file(&path).unwrap();
    }
}
