//! Symbolic links.

use std::fs;
use std::path::{Path, PathBuf};

/// Links that are followed one after another, as many as the kernel follows.
pub const LINKS_MAX: usize = 40;

/// Returns a path, then what each of its links leads to, the last of which is no link. Nothing above the last name is looked at:
/// a process may use a relative path below directories that it may not search.
pub fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let follow = |step: &PathBuf| fs::read_link(step).ok().map(|to| parent(step).join(to));
    core::iter::successors(Some(path.to_owned()), follow).take(LINKS_MAX)
}

/// Returns the directory of a path that is perhaps not there.
#[must_use]
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
