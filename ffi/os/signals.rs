//! Signals that whoever started this process had it ignore.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;

/// Returns true if this signal is ignored: asked before it is handled, that is what was inherited, as under nohup.
#[must_use]
pub fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no action is set, and the pointer for the present one is to room for it.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: sigaction has filled it: it answered 0.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_std_ignores_is_and_what_nobody_can_ignore_is_not() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGKILL) && !is_ignored(-1) && !is_ignored(libc::SIGSEGV));
    }
}
