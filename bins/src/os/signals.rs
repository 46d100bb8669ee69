//! Signal actions that this process inherited.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;

/// Returns true if this signal is ignored. Before a handler is installed, the action is the inherited one, such as nohup's.
#[must_use]
pub fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call sets no action, and `action` has room for the current one.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: sigaction returned 0, so it has initialized `action`.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_ignores_sigpipe_and_nobody_can_ignore_sigkill() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGKILL) && !is_ignored(-1) && !is_ignored(libc::SIGSEGV));
    }
}
