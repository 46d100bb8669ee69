//! Buffers that messages were sent out of lately.

use std::sync::{Arc, Weak};

use heapless::Deque;

use super::RegisteredMemory;

/// Buffers that are remembered: most programs send out of fewer in turn.
const BUFFERS_MAX: usize = 16;

/// Buffers of recent messages that were not registered, the newest last. A weak reference keeps the address from another buffer, so that addresses tell them apart.
#[derive(Default)]
pub(super) struct RecentBuffers(Deque<Weak<RegisteredMemory>, BUFFERS_MAX>);

impl RecentBuffers {
    /// Notes a message. Returns true if one out of the same buffer is remembered.
    pub(super) fn note(&mut self, memory: &Arc<RegisteredMemory>) -> bool {
        let memory = Arc::downgrade(memory);
        let before = self.0.len();
        self.0.retain(|known| !known.ptr_eq(&memory));
        let is_again = self.0.len() < before;
        if self.0.is_full() {
            self.0.pop_front();
        }
        let pushed = self.0.push_back(memory);
        debug_assert!(pushed.is_ok(), "there is room");
        is_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::MemoryPlacement;

    #[test]
    fn sixteen_buffers_are_remembered_the_newest_longest() {
        let buffers: Vec<_> = (0..18)
            .map(|_| Arc::new(RegisteredMemory::new(4096, MemoryPlacement::default()).unwrap()))
            .collect();
        let mut recent = RecentBuffers::default();
        assert!(buffers[..16].iter().all(|buffer| !recent.note(buffer)));
        assert!(buffers[..16].iter().all(|buffer| recent.note(buffer)), "fifteen others came in between");
        assert!(recent.note(&buffers[0]), "it is the newest now");
        assert!(!recent.note(&buffers[16]), "in the place of the oldest, 1");
        assert!(recent.note(&buffers[0]) && !recent.note(&buffers[1]));
        assert!(buffers.iter().all(|buffer| Arc::strong_count(buffer) == 1), "nothing else has the memory");
    }
}
