//! The limit of open files.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Raises the limit of open files, so that there is room for so many beside those of the program.
///
/// # Errors
/// [`Failure::Os`] if the hard limit is lower.
pub fn allow(count: u64) -> Result<(), Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = count + 1024;
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .map_err(|errno| Failure::Os("raise the limit of open files", io::Error::from(errno)))
}
