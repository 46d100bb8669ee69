//! Failures of system calls, in one line: `cannot map 64 MiB: cannot allocate memory; raise RLIMIT_AS`.
//!
//! The text has three parts: what was tried (with the values that matter), the system's text for the errno, and
//! the remedy if there is one. Nothing here allocates unless the text is built at run time.

extern crate alloc;

use alloc::borrow::Cow;
use core::ffi::{CStr, c_char, c_int};
use core::{error, fmt};
use rustix::io::Errno;
use std::io;

/// A system call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsError {
    doing: Cow<'static, str>,
    errno: c_int,
    remedy: Option<Cow<'static, str>>,
}

impl OsError {
    /// Returns the calling thread's `errno`, as the failure of `doing` ("cannot map 64 MiB").
    pub fn last(doing: impl Into<Cow<'static, str>>) -> Self {
        Self::new(last_errno(), doing)
    }

    /// Returns `errno`, as the failure of `doing`.
    pub fn new(errno: c_int, doing: impl Into<Cow<'static, str>>) -> Self {
        Self { doing: doing.into(), errno, remedy: None }
    }

    /// Returns `errno` of a call of rustix, as the failure of `doing`.
    pub fn of(errno: Errno, doing: impl Into<Cow<'static, str>>) -> Self {
        Self::new(errno.raw_os_error(), doing)
    }

    /// Adds a remedy for the reader; replaces an earlier one.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Returns the error number.
    #[must_use]
    pub fn errno(&self) -> c_int {
        self.errno
    }

    /// Returns true if a limit of this process or machine is reached.
    #[must_use]
    pub const fn is_limit(&self) -> bool {
        matches!(
            self.errno,
            libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC | libc::EDQUOT | libc::EFBIG
        )
    }

    /// Returns the standard library's class of this error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        io::Error::from_raw_os_error(self.errno).kind()
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.doing)?;
        write_errno(f, self.errno)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl error::Error for OsError {}

impl From<OsError> for io::Error {
    fn from(error: OsError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// Returns the calling thread's `errno`, which the next libc call may change.
#[must_use]
pub fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Repeats a call of libc until it does not fail with EINTR. For calls that never wait long, or that no deadline bounds.
pub(crate) fn retry<T: PartialEq + From<i8>>(mut call: impl FnMut() -> T) -> T {
    loop {
        let result = call();
        if result != T::from(-1) || last_errno() != libc::EINTR {
            return result;
        }
    }
}

/// Writes the system's text, its first letter in lower case, since it stands in the middle of a sentence.
fn write_errno(f: &mut fmt::Formatter<'_>, errno: c_int) -> fmt::Result {
    let mut buffer: [c_char; 128] = [0; 128];
    // SAFETY: the buffer is ours, writable, and its length is given; the call ends its text with a NUL.
    let failed = unsafe { libc::strerror_r(errno, buffer.as_mut_ptr(), buffer.len()) } != 0;
    // SAFETY: the last byte is NUL whatever strerror_r did: it was zeroed, and is never written but with NUL.
    let text = unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().unwrap_or("");
    let mut letters = text.chars();
    match (failed, letters.next()) {
        (false, Some(first)) => write!(f, "{}{}", first.to_ascii_lowercase(), letters.as_str()),
        _ => write!(f, "error {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_attempt_reason_and_remedy() {
        let bare = OsError::new(libc::ENOMEM, "cannot map 64 MiB");
        assert_eq!(bare.to_string(), "cannot map 64 MiB: cannot allocate memory");
        let helped = bare.with_remedy("raise RLIMIT_AS");
        assert_eq!(helped.to_string(), "cannot map 64 MiB: cannot allocate memory; raise RLIMIT_AS");
        assert_eq!(helped.errno(), libc::ENOMEM);
        assert_eq!(helped.kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn last_takes_the_errno_of_the_previous_call() {
        // SAFETY: closing a descriptor number that is never open touches nothing.
        assert_eq!(unsafe { libc::close(-1) }, -1);
        let error = OsError::last("cannot close");
        assert_eq!(error.errno(), libc::EBADF);
        assert_eq!(io::Error::from(error).to_string(), "cannot close: bad file descriptor");
    }

    #[test]
    fn unknown_numbers_keep_their_number() {
        assert!(OsError::new(54_321, "cannot").to_string().contains("54321"));
    }

    #[test]
    fn retry_repeats_only_after_a_signal() {
        let mut calls = 0;
        let answer: i32 = retry(|| {
            calls += 1;
            // SAFETY: errno is the calling thread's own word.
            unsafe { *libc::__errno_location() = if calls < 3 { libc::EINTR } else { libc::EIO } };
            -1
        });
        assert_eq!((answer, calls), (-1, 3));
    }
}
