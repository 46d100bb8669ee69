//! Counts what each thread allocates.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each forwards to the system's allocator under the same contract"
)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

struct Counting;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations of the calling thread.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(ptr, layout, bytes) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        unsafe { System.dealloc(ptr, layout) }
    }
}
