//! Buffers that messages were sent out of lately.

use std::sync::{Arc, Weak};

use heapless::Deque;

use super::RegisteredMemory;

/// Buffers that are remembered: most programs send out of fewer in turn.
const MOST: usize = 16;

/// The buffers of the newest messages that found none of them registered, the newest last.
#[derive(Default)]
pub(super) struct RecentBuffers(Deque<Weak<RegisteredMemory>, MOST>);

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
        let kept = self.0.push_back(memory);
        debug_assert!(kept.is_ok(), "there is room");
        is_again
    }
}
