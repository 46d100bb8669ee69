//! How two ends of a benchmark meet over superpipe: at a socket in a directory that nobody else can enter.

use core::time::Duration;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::{env, io};

use superpipe::{Address, Error, ErrorKind};

use crate::failure::Failure;

/// Ends every wait for a message: the other end answers at once, or not at all.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A private directory; dropped, it is gone. A forked process must not drop its copy.
pub struct Place(PathBuf);

impl Place {
    /// A new directory among the temporary ones.
    ///
    /// # Errors
    /// [`Failure::Os`] where none can be made.
    pub fn new() -> Result<Self, Failure> {
        let fail = |error| Failure::Os("make a private directory", error);
        let template = env::temp_dir().join("superpipe-bench-XXXXXX");
        let template =
            CString::new(template.as_os_str().as_bytes()).map_err(|e| fail(io::Error::other(e)))?;
        let template = template.into_raw();
        // SAFETY: `template` is a NUL-terminated string of ours that ends in XXXXXX, which mkdtemp may write.
        let made = !unsafe { libc::mkdtemp(template) }.is_null();
        let error = io::Error::last_os_error();
        // SAFETY: the pointer came from `into_raw` above, and mkdtemp leaves the length as it was.
        let name = unsafe { CString::from_raw(template) };
        if !made {
            return Err(fail(error));
        }
        Ok(Self(OsString::from_vec(name.into_bytes()).into()))
    }

    /// The socket in it.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Shm(self.0.join("socket"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whatever is left is empty, or the system's to clean: nobody can be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What superpipe's error means for a measurement.
#[cold]
#[must_use]
pub fn fail(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Timeout => Failure::Timeout(DEADLINE.as_secs()),
        ErrorKind::PeerLost | ErrorKind::Closed(_) => Failure::PeerLost,
        ErrorKind::Usage => Failure::Usage(error.to_string()),
        _ => Failure::Os("move a message", io::Error::other(error)),
    }
}
