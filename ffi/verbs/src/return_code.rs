//! Return codes of verbs, and the errors made of them.

use super::error::Error;
use super::remedy::{is_limit, remedy};
use crate::verb_error::{VerbError, last_errno};
use core::ffi::c_int;
use core::fmt::Display;
use core::ptr::NonNull;

/// Returns the errno of a failure. Verbs return 0 for success, an errno (verbs(7)), a negative one (the library of siw), or -1 with
/// errno set (rdma_cm(7)).
pub(super) fn errno_of(answer: c_int) -> Result<(), c_int> {
    match answer {
        0 => Ok(()),
        -1 => Err(Some(last_errno()).filter(|&errno| errno != 0).unwrap_or(libc::EIO)),
        errno => Err(errno.saturating_abs()),
    }
}

/// Converts a return code. The error names the verb, its task, the text of the errno and the remedy.
pub(super) fn done<D: Display>(
    answer: c_int,
    verb: &'static str,
    doing: impl FnOnce() -> D,
) -> Result<(), Error> {
    errno_of(answer).map_err(|errno| failed(errno, verb, doing()))
}

/// Converts the result of a verb that makes an object: null is a failure with errno set.
pub(super) fn made<T, D: Display>(
    object: *mut T,
    verb: &'static str,
    doing: impl FnOnce() -> D,
) -> Result<NonNull<T>, Error> {
    let errno = last_errno();
    NonNull::new(object).ok_or_else(|| failed(errno, verb, doing()))
}

/// Makes the error of `verb`, whose task was `doing` ("register 64 MiB").
pub(super) fn failed(errno: c_int, verb: &'static str, doing: impl Display) -> Error {
    let error = VerbError::new(errno, format!("cannot {doing} ({verb})"));
    let error = match remedy(verb, errno) {
        Some(remedy) => error.with_remedy(remedy),
        None => error,
    };
    if is_limit(verb, errno) { Error::Limit(error) } else { Error::Verb(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    fn set_errno(errno: c_int) {
        // SAFETY: errno is the calling thread's own word.
        unsafe { *libc::__errno_location() = errno };
    }

    #[test]
    fn every_code_but_zero_is_an_error() {
        set_errno(libc::ENODEV);
        assert_eq!(errno_of(0), Ok(()));
        assert_eq!(errno_of(libc::ENOMEM), Err(libc::ENOMEM));
        assert_eq!(errno_of(-libc::EINVAL), Err(libc::EINVAL), "siw's sign");
        assert_eq!(errno_of(-1), Err(libc::ENODEV), "rdma_cm's way");
        assert_eq!(errno_of(c_int::MIN), Err(c_int::MAX));
        set_errno(0);
        assert_eq!(errno_of(-1), Err(libc::EIO), "never a failure by the name of success");
    }

    #[test]
    fn failures_name_the_verb_and_the_cause() {
        let error = done(-libc::EBUSY, "ibv_destroy_cq", || "destroy a CQ").unwrap_err();
        assert_eq!(error.to_string(), "cannot destroy a CQ (ibv_destroy_cq): device or resource busy");
        set_errno(libc::ENOSPC);
        let error = made(ptr::null_mut::<u8>(), "ibv_alloc_pd", || "make a PD").unwrap_err();
        assert_eq!(error.to_string(), "cannot make a PD (ibv_alloc_pd): no space left on device");
    }
}
