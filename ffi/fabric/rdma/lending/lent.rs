//! Memory of the application that was lent for a message.

use std::sync::Arc;

use super::steps::Extent;
use crate::fabric::RegisteredMemory;

/// Memory that was lent.
pub(super) struct Lent {
    pub(super) number: u64,
    pub(super) extent: Extent,
    /// Offset of the message in the memory.
    pub(super) offset: usize,
    /// The memory, if a buffer owns it.
    pub(super) memory: Option<Arc<RegisteredMemory>>,
    /// Its registration is to be kept.
    pub(super) is_kept: bool,
    /// If it cannot be kept, it is registered for one message.
    pub(super) or_once: bool,
}

impl Lent {
    /// Returns a buffer that is lent as a whole; `is_kept`: its registration is to be kept.
    pub(super) fn of_buffer(number: u64, memory: Arc<RegisteredMemory>, is_kept: bool) -> Self {
        let extent = Extent { start: memory.as_ptr(), len: memory.len() };
        Self { number, extent, offset: 0, memory: Some(memory), is_kept, or_once: true }
    }

    /// Returns what is to be registered for a message of `bytes` bytes: all of the memory if it is kept. None if the memory is shorter.
    pub(super) fn extent_of(&self, bytes: u64) -> Option<Extent> {
        let Extent { start, len } = self.extent;
        let bytes = usize::try_from(bytes).ok()?;
        let is_inside = self.offset.checked_add(bytes).is_some_and(|end| bytes > 0 && end <= len);
        let all = self.is_kept || self.offset > 0;
        is_inside.then_some(Extent { start, len: if all { len } else { bytes } })
    }
}
