//! Finding the page of a process: `/proc/PID/fd` has a link with the memfd's name.
//!
//! So nothing is left behind that could be stale, whatever ends a process, and permissions are those of /proc: the same user, or root. A child of fork has its
//! parent's descriptor, and is told from it by the pid in the page and the pid namespace of that.

use core::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::shape::NAME;
use crate::error::{Error, ErrorKind};

/// Returns the paths by which the pages that a process has open can be opened.
pub(super) fn pages_of(pid: u32) -> Result<Vec<PathBuf>, Error> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| unreadable(pid, &error))?;
    let name = [b"/memfd:", NAME.to_bytes(), b" (deleted)"].concat();
    let is_page =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target.as_os_str().as_bytes() == name);
    Ok(links.flatten().map(|link| link.path()).filter(is_page).collect())
}

/// Returns the number of a process in its own pid namespace.
pub(super) fn own_number(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    number_of(&status).or(Some(u64::from(pid)))
}

/// Returns the pid namespace of a process, by its number or as "self", in which [`own_number`] is its number. `None`: it cannot be read.
pub(super) fn pid_namespace(process: impl fmt::Display) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/pid")).ok().map(|found| found.ino())
}

/// Reads the last number of the line NSpid, which kernels before 4.1 do not have.
fn number_of(status: &str) -> Option<u64> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

fn unreadable(pid: u32, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::Connect, format!("there is no process {pid}")),
        io::ErrorKind::PermissionDenied => Error::new(
            ErrorKind::Auth,
            format!(
                "process {pid} cannot be read: it belongs to another user; look as that user, or as root"
            ),
        ),
        _ => Error::new(ErrorKind::Os, format!("cannot read /proc/{pid}/fd: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_the_innermost_namespace_is_the_last_one() {
        assert_eq!(number_of("Name:\tx\nPid:\t7\nNSpid:\t7\n"), Some(7));
        assert_eq!(number_of("NSpid:\t700\t12\t1\nNSpgid:\t9\n"), Some(1));
        assert_eq!(number_of("Name:\tx\nPid:\t7\n"), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = pages_of(u32::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert_eq!(error.to_string(), "there is no process 4294967295");
    }
}
