//! Paths that name a descriptor of this process: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`, and links to them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::path::{Path, PathBuf};
use superpipe::os::stdio::was_closed_at_start;

/// Links that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The descriptor of this process that a path names.
#[must_use]
pub fn own_descriptor(path: &Path) -> Option<RawFd> {
    let process = PathBuf::from(format!("/proc/{}", std::process::id()));
    steps(path).find_map(|step| {
        let parent = fs::canonicalize(parent(&step)).ok()?;
        let is_ours = parent.starts_with(&process) && parent.ends_with("fd");
        step.file_name().filter(|_| is_ours)?.to_str()?.parse().ok()
    })
}

/// Duplicates a descriptor that this process was started with, for writing.
///
/// # Errors
/// EBADF where it is closed or read-only.
pub fn duplicate(fd: RawFd) -> io::Result<File> {
    let copy = match fd {
        0..=2 if was_closed_at_start(fd) => return Err(io::Error::from_raw_os_error(libc::EBADF)),
        1 => io::stdout().as_fd().try_clone_to_owned()?,
        2 => io::stderr().as_fd().try_clone_to_owned()?,
        fd => return OpenOptions::new().append(true).open(format!("/proc/self/fd/{fd}")),
    };
    Ok(File::from(copy))
}

fn steps(path: &Path) -> impl Iterator<Item = PathBuf> {
    let follow = |step: &PathBuf| fs::read_link(step).ok().map(|to| parent(step).join(to));
    core::iter::successors(Some(path.to_owned()), follow).take(LINKS_MAX)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn descriptors_have_many_names() {
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        let pid = std::process::id();
        for path in [format!("/dev/fd/{fd}"), format!("/proc/self/fd/{fd}"), format!("/proc/{pid}/fd/{fd}")] {
            assert_eq!(own_descriptor(Path::new(&path)), Some(fd), "{path}");
        }
        for (path, fd) in [("/dev/stdin", 0), ("/dev/stdout", 1), ("/dev/../dev/stderr", 2)] {
            assert_eq!(own_descriptor(Path::new(path)), Some(fd), "{path}");
        }
        let link = std::env::temp_dir().join(format!("superpipe-descriptor-{pid}"));
        symlink("/dev/stdout", &link).unwrap();
        assert_eq!(own_descriptor(&link), Some(1));
        fs::remove_file(&link).unwrap();
        for path in ["/dev/null", "/proc/self/fdinfo/1", "/proc/1/fd/1", "1", "", "/nowhere/fd/1", "/dev/fd"]
        {
            assert_eq!(own_descriptor(Path::new(path)), None, "{path}");
        }
    }
}
