//! Paths that name a descriptor of this process: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`, and links to them.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// Links that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The descriptor of this process that a path names.
#[must_use]
pub fn number(path: &Path) -> Option<RawFd> {
    let process = PathBuf::from(format!("/proc/{}", std::process::id()));
    steps(path).find_map(|step| {
        let parent = fs::canonicalize(parent(&step)).ok()?;
        let is_ours = parent.starts_with(&process) && parent.ends_with("fd");
        step.file_name().filter(|_| is_ours)?.to_str()?.parse().ok()
    })
}

/// A path, then what each of its links leads to.
pub(crate) fn steps(path: &Path) -> impl Iterator<Item = PathBuf> {
    let follow = |step: &PathBuf| fs::read_link(step).ok().map(|to| parent(step).join(to));
    core::iter::successors(Some(path.to_owned()), follow).take(LINKS_MAX)
}

/// The directory of a path that is perhaps not there.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn descriptors_have_many_names() {
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        let pid = std::process::id();
        for path in [format!("/dev/fd/{fd}"), format!("/proc/self/fd/{fd}"), format!("/proc/{pid}/fd/{fd}")] {
            assert_eq!(number(Path::new(&path)), Some(fd), "{path}");
        }
        for (path, fd) in [("/dev/stdin", 0), ("/dev/stdout", 1), ("/dev/../dev/stderr", 2)] {
            assert_eq!(number(Path::new(path)), Some(fd), "{path}");
        }
        let link = std::env::temp_dir().join(format!("superpipe-descriptor-{pid}"));
        symlink("/dev/stdout", &link).unwrap();
        assert_eq!(number(&link), Some(1));
        fs::remove_file(&link).unwrap();
        for path in ["/dev/null", "/proc/self/fdinfo/1", "/proc/1/fd/1", "1", "", "/nowhere/fd/1", "/dev/fd"]
        {
            assert_eq!(number(Path::new(path)), None, "{path}");
        }
    }
}
