//! The process that made an object, distinguished from its children by fork.
//!
//! Not by its pid: a child in another pid namespace may have its parent's, and pids are reused. A page that the kernel wipes in
//! every child (MADV_WIPEONFORK) holds a number of the process; a process counts on from its parent's. If there can
//! be no such page (before Linux 4.14), the pid is the number.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The word that is zero in every child; null before the first use.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// Its address stands for a word that cannot be mapped.
static NO_WORD: AtomicU32 = AtomicU32::new(0);
/// The last number that was assigned, here or in a process that this one descends from.
static LAST: AtomicU32 = AtomicU32::new(0);

/// A process, by its number. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// Returns this process.
    pub(crate) fn current() -> Self {
        let word = word();
        if ptr::eq(word, &raw const NO_WORD) {
            return Self(std::process::id());
        }
        // SAFETY: it points to a mapping of ours that is never unmapped, aligned, and used atomically only.
        let word = unsafe { &*word };
        match word.load(Ordering::Relaxed) {
            0 => {
                let fresh = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
                // Another thread may have been faster.
                let given = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
                Self(given.err().unwrap_or(fresh))
            }
            number => Self(number),
        }
    }

    /// Returns false in a child that fork made of it.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Returns the number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

fn word() -> *const AtomicU32 {
    let found = WORD.load(Ordering::Acquire);
    if !found.is_null() {
        return found;
    }
    let made = map_wiped().unwrap_or((&raw const NO_WORD).cast_mut());
    match WORD.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            if !ptr::eq(made, &raw const NO_WORD) {
                // SAFETY: `map_wiped` mapped this page, and the failed exchange published another one: no other code has its address.
                unsafe { libc::munmap(made.cast(), super::page::page_bytes()) };
            }
            other
        }
    }
}

/// Maps a page of zeros, here and in every child.
fn map_wiped() -> Option<*mut AtomicU32> {
    let len = super::page::page_bytes();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let page = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range was just mapped; the advice concerns children only.
    if unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: the range was just mapped, and no other code has its address.
        unsafe { libc::munmap(page, len) };
        return None;
    }
    Some(page.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_child_is_its_parent_nor_its_parents_parent() {
        let own = Owner::current();
        let fork = |work: &dyn Fn() -> bool| {
            // SAFETY: the child makes system calls only, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: _exit ends the child and runs nothing of the program's.
                unsafe { libc::_exit(i32::from(!work())) }
            }
            let mut status = -1;
            // SAFETY: the pointer is to a local.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        };
        let is_well = fork(&|| {
            let childs = Owner::current();
            let grandchild = || !own.is_current() && !childs.is_current() && Owner::current().is_current();
            !own.is_current() && childs.is_current() && fork(&grandchild)
        });
        assert!(is_well && own.is_current());
    }
}
