//! The allocator that counts, and when it may.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::alloc::System;
use std::time::Instant;
use std::{fs, io, thread};

use crate::DEADLINE;

struct Counting;

/// Allocations are counted while this is true.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// Allocations that were counted.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn count() {
    if COUNTS.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc_zeroed` asks for.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `realloc` asks for.
        unsafe { System.realloc(ptr, layout, bytes) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps what `dealloc` asks for.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations of all threads while `work` runs, and its result. All other threads have begun then.
pub(crate) fn counted<R>(work: impl FnOnce() -> R) -> (u64, R) {
    counted_after(|| {}, work)
}

/// The same, where `begin` comes before the count, and lets other threads begin theirs.
pub(crate) fn counted_after<R>(begin: impl FnOnce(), work: impl FnOnce() -> R) -> (u64, R) {
    await_begun_threads();
    begin();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let result = work();
    COUNTS.store(false, Ordering::Relaxed);
    (ALLOCATIONS.load(Ordering::Relaxed) - before, result)
}

/// Waits until all other threads of the process have begun, and wait for something. It comes before each count, since std itself
/// allocates in each new thread before the first code of that thread: it copies the thread's name for its handler of stack overflows.
/// A registration and a close make such threads ("superpipe-jobs", "superpipe-close"), and on a busy machine they begin so late that a
/// count which has begun meanwhile finds that copy. What any thread allocates during a count is counted.
fn await_begun_threads() {
    let end = Instant::now() + DEADLINE;
    loop {
        let found = other_threads();
        // Twice the same, so that no thread has run meanwhile.
        if let Ok(found) = &found
            && found.iter().all(|status| status.iter().any(|line| line.starts_with("State:\tS")))
            && other_threads().is_ok_and(|again| again == *found)
        {
            return;
        }
        assert!(Instant::now() < end, "a thread never rests: {found:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number, the state and the count of waits of each thread but this one. Fails if a thread ends meanwhile.
fn other_threads() -> io::Result<Vec<Vec<String>>> {
    let own = fs::read_link("/proc/thread-self")?;
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?;
        if Some(&*thread.file_name()) == own.file_name() {
            continue;
        }
        let status = fs::read_to_string(thread.path().join("status"))?;
        let is_asked = |line: &&str| {
            ["Pid:", "State:", "voluntary_ctxt_switches:"].iter().any(|name| line.starts_with(name))
        };
        found.push(status.lines().filter(is_asked).map(str::to_owned).collect());
    }
    Ok(found)
}
