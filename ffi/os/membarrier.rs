//! Asymmetric fences: the rare side pays for both (membarrier(2)).
//!
//! The frequent side orders its store before its load with a compiler fence only. The rare side issues a barrier that
//! runs on every core that executes a registered process. Both processes must have registered before the rare side
//! relies on it. A container may refuse the call by seccomp: then it is unavailable, which is no error.

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use std::sync::OnceLock;

/// Registers this process for barriers that others [`issue`], once per process. Returns true if that worked.
pub fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        let both = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
        membarrier_query().contains(both) && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
    })
}

/// Issues a full memory barrier on this thread and on every running thread of every registered process. Returns false if the
/// kernel refuses: then no barrier was made.
pub fn issue() -> bool {
    #[cfg(test)]
    issued::report();
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Reports each barrier to a test. Its effect cannot be tested: a store and a load are reordered only now and then, and on some
/// virtual machines they were seen to be reordered across a membarrier.
#[cfg(test)]
pub(crate) mod issued {
    use core::cell::RefCell;

    std::thread_local! {
        static HOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }

    /// Sets a function that is called just before each barrier that this thread issues.
    pub(crate) fn hook(hook: impl FnMut() + 'static) {
        HOOK.set(Some(Box::new(hook)));
    }

    pub(super) fn report() {
        HOOK.with_borrow_mut(|hook| hook.iter_mut().for_each(|hook| hook()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_process_can_issue_barriers() {
        if register() {
            assert!(issue());
            assert!(register());
        } else {
            println!("no membarrier here");
        }
    }
}
