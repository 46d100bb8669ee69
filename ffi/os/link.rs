//! Gives a name to a file that has none.

use super::error::{OsError, last_errno, retry};
use core::ffi::CStr;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Links an open file, such as one of O_TMPFILE, to `path`, where nothing may be.
///
/// # Errors
/// EEXIST where something is, ENOENT where /proc is not mounted, else the system's refusal.
pub fn link_open_file(file: BorrowedFd<'_>, path: &Path) -> Result<(), OsError> {
    let doing = || format!("cannot make {}", path.display());
    let Ok(to) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(OsError::new(libc::EINVAL, doing()));
    };
    let Ok(from) = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())) else {
        return Err(OsError::new(libc::EINVAL, doing()));
    };
    match link(&from, &to) {
        Ok(()) => Ok(()),
        Err(errno) => Err(OsError::new(errno, doing())),
    }
}

/// std's own hard_link does not follow links, and /proc/self/fd holds links.
fn link(from: &CStr, to: &CStr) -> Result<(), i32> {
    const FOLLOW: i32 = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both are strings that end in NUL and outlive the call.
    let linked =
        retry(|| unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), FOLLOW) });
    if linked == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;

    #[test]
    fn a_nameless_file_gets_a_name_that_nothing_has() {
        let dir = std::env::temp_dir().join(format!("superpipe-link-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(&dir);
        if let Ok(mut file) = opened {
            file.write_all(b"whole").unwrap();
            link_open_file(file.as_fd(), &dir.join("name")).unwrap();
            assert_eq!(fs::read(dir.join("name")).unwrap(), b"whole");
            let again = link_open_file(file.as_fd(), &dir.join("name")).unwrap_err();
            assert_eq!(again.errno(), libc::EEXIST);
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
