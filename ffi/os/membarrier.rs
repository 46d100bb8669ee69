//! The half of a fence that the rare side pays for both (membarrier(2)).
//!
//! The frequent side orders its store before its load with a compiler fence only; the rare side issues a barrier that
//! runs on every core that executes a registered process. Both processes must have registered before the rare side
//! relies on it. Containers may refuse the call by seccomp: then it is unavailable, which is an answer and no error.

use core::ffi::c_int;
use std::sync::OnceLock;

const ISSUE: c_int = libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED;
const REGISTER: c_int = libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;

/// Makes this process one that others' [`issue`] reaches. Whether that worked; asked of the kernel once a process.
pub fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        let both = ISSUE | REGISTER;
        let supported = call(libc::MEMBARRIER_CMD_QUERY);
        supported > 0 && supported & both == both && call(REGISTER) == 0
    })
}

/// A full memory barrier on this thread and on every running thread of every registered process. False where the
/// kernel refuses: then no barrier was made.
pub fn issue() -> bool {
    #[cfg(test)]
    issued::tell();
    call(ISSUE) == 0
}

fn call(command: c_int) -> c_int {
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    c_int::try_from(answer).unwrap_or(-1)
}

/// Tells a test when a barrier is issued: that one runs where it must cannot be seen by what it does, since a store and a load
/// change places only now and then, and on some virtual machines they were seen to do so over a membarrier.
#[cfg(test)]
pub(crate) mod issued {
    use core::cell::RefCell;

    std::thread_local! {
        static HOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }

    /// `hook` is called just before each barrier that this thread issues.
    pub(crate) fn hook(hook: impl FnMut() + 'static) {
        HOOK.set(Some(Box::new(hook)));
    }

    pub(super) fn tell() {
        HOOK.with_borrow_mut(|hook| hook.iter_mut().for_each(|hook| hook()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_registers_can_be_issued() {
        if register() {
            assert!(issue());
            assert!(register());
        } else {
            println!("no membarrier here");
        }
        assert_eq!(call(-1), -1);
    }
}
