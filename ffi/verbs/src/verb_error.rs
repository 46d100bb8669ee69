//! A call that failed, in one line: `cannot register 64 MiB (ibv_reg_mr): cannot allocate memory; raise RLIMIT_MEMLOCK ..`.

use core::ffi::c_int;
use core::{error, fmt};
use std::borrow::Cow;
use std::io;

/// Error of a call into a library or the kernel: its task, its errno, and the remedy if one is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbError {
    doing: Cow<'static, str>,
    errno: c_int,
    remedy: Option<Cow<'static, str>>,
}

impl VerbError {
    /// Makes the error of an errno and a task: "cannot map 64 MiB".
    pub fn new(errno: c_int, doing: impl Into<Cow<'static, str>>) -> Self {
        Self { doing: doing.into(), errno, remedy: None }
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Returns the error number.
    #[must_use]
    pub const fn errno(&self) -> c_int {
        self.errno
    }
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, Words(self.errno))?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl error::Error for VerbError {}

impl From<VerbError> for io::Error {
    fn from(error: VerbError) -> Self {
        Self::new(Self::from_raw_os_error(error.errno).kind(), error)
    }
}

/// The system's words for an errno, which begin with a small letter: they stand in the middle of a sentence.
struct Words(c_int);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let words = text.split(" (os error").next().unwrap_or_default();
        let mut letters = words.chars();
        match letters.next() {
            Some(first) => write!(f, "{}{}", first.to_ascii_lowercase(), letters.as_str()),
            None => write!(f, "error {}", self.0),
        }
    }
}

/// Returns the calling thread's `errno`, which the next call may change.
pub(crate) fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_task_cause_and_remedy() {
        let bare = VerbError::new(libc::ENOMEM, "cannot map 64 MiB");
        assert_eq!(bare.to_string(), "cannot map 64 MiB: cannot allocate memory");
        let helped = bare.with_remedy("raise RLIMIT_AS");
        assert_eq!(helped.to_string(), "cannot map 64 MiB: cannot allocate memory; raise RLIMIT_AS");
        assert_eq!(io::Error::from(helped).kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn unknown_numbers_keep_their_number() {
        assert!(VerbError::new(54_321, "cannot").to_string().contains("54321"));
    }
}
