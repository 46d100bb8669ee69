//! What rsend reads.

use crate::exit::Failure;
use crate::options::is_dash;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use superpipe::io::Source;
use superpipe::os::stdio::was_closed_at_start;

/// An open source, and what to call it.
#[derive(Debug)]
pub struct Input {
    /// where the bytes come from
    pub source: Source,
    /// "standard input", or the path
    pub name: String,
}

impl Input {
    /// Opens FILE, or takes standard input.
    ///
    /// # Errors
    /// When it cannot be read, or is a directory.
    pub fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let path = file.filter(|path| !is_dash(path));
        let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
        let source = match path {
            Some(path) => Source::open(path),
            None => standard(),
        };
        let source = source.map_err(|error| Failure::local_io(format!("cannot read {name}"), &error))?;
        Ok(Self { source, name })
    }
}

fn standard() -> io::Result<Source> {
    if was_closed_at_start(0) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Source::new(io::stdin().as_fd().try_clone_to_owned()?)
}
