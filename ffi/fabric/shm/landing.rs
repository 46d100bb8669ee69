//! Landing buffers in mapped memory.

use core::ptr::NonNull;

use superpipe_core::{CONTROL_PAGE_BYTES, Landing, Layout, control_page};

use crate::fabric::Span;
use crate::os::Mapping;

/// Returns the landing buffer behind the control page of a segment that was made to hold it.
pub(super) fn landing(segment: &Mapping, layout: Layout) -> Landing<Span> {
    let room = segment.len().checked_sub(CONTROL_PAGE_BYTES as usize);
    assert!(room.is_some_and(|room| layout.bytes() as usize <= room), "the segment was made to hold this");
    // SAFETY: the assertion keeps the offset inside the mapping.
    let start = unsafe { segment.as_ptr().add(CONTROL_PAGE_BYTES as usize) };
    // SAFETY: 1. The assertion keeps the bytes inside the mapping, which the link holds for as long as its spans are used.
    // 2. A mapping gives out no reference.
    let memory = unsafe { Span::new(start, layout.bytes()) };
    Landing { memory, layout }
}

/// Returns the base in a control page. wire.md 2.1.
pub(super) fn base_in(page: Span) -> Landing<Span> {
    let layout = control_page::BASE_LAYOUT;
    let start = page.at(control_page::BASE, layout.bytes() as usize);
    // SAFETY: `at` has checked that it is inside the page, whose span is valid for as long as this one is used.
    let memory = unsafe { Span::new(NonNull::new_unchecked(start), layout.bytes()) };
    Landing { memory, layout }
}
