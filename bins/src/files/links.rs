//! Symbolic links.

use std::fs;
use std::path::{Path, PathBuf};

/// Most links that are followed one after another; the limit is the kernel's.
pub const LINKS_MAX: usize = 40;

/// Returns a path, then the target of each link in turn; the last one is not a link. Only the last component of a path is read:
/// a process may use a relative path below directories that it may not search.
pub fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let follow = |step: &PathBuf| fs::read_link(step).ok().map(|to| parent(step).join(to));
    core::iter::successors(Some(path.to_owned()), follow).take(LINKS_MAX)
}

/// Returns the directory of a path, which need not exist.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
