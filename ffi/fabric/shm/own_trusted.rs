//! Trusted buffers of this end that the peer may write, or is to.
//!
//! A table entry keeps the memory, also of a buffer that its owner has dropped: the peer may write it for a message, and core copies out of
//! it, until the buffer was withdrawn and is not offered. Until then the entry is leaving.

use std::sync::Arc;

use superpipe_core::{EXPOSED_MAX, Exposed};

use super::refusals::Refusals;
use crate::budget::Charge;
use crate::fabric::TrustedMemory;

/// Most buffers that are not leaving. The others of the eight places are for those that messages are sent out of.
const BUFFERS_MAX: usize = EXPOSED_MAX / 2;

/// The buffers.
#[derive(Default)]
pub(super) struct OwnTrusted {
    entries: heapless::Vec<OwnTrustedBuf, EXPOSED_MAX>,
    /// Offers that were made, or tried.
    uses: u64,
    last_id: u64,
}

/// A buffer of this end.
pub(super) struct OwnTrustedBuf {
    /// Name for core. A buffer that is exposed again gets another.
    pub(super) id: u64,
    pub(super) memory: Arc<TrustedMemory>,
    /// Core's handle; none if core had no place.
    pub(super) exposed: Option<Exposed>,
    /// Bytes of the budget, once the peer has its descriptor.
    pub(super) charge: Option<Charge>,
    is_leaving: bool,
    last_use: u64,
    refusals: Refusals,
}

impl OwnTrusted {
    /// Returns name and handle of the buffer with this memory.
    pub(super) fn of(&self, memory: &Arc<TrustedMemory>) -> Option<(u64, Option<Exposed>)> {
        let is_it = |entry: &&OwnTrustedBuf| !entry.is_leaving && Arc::ptr_eq(&entry.memory, memory);
        self.entries.iter().find(is_it).map(|entry| (entry.id, entry.exposed))
    }

    /// Returns the buffer with this name.
    pub(super) fn named(&mut self, id: u64) -> Option<&mut OwnTrustedBuf> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Counts a use of a buffer.
    pub(super) fn count_use(&mut self, id: u64) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(entry) = self.named(id) {
            entry.last_use = uses;
        }
    }

    /// Enters a buffer, and returns its name. Returns `None` if there are too many.
    pub(super) fn enter(&mut self, memory: &Arc<TrustedMemory>) -> Option<u64> {
        // One that was dropped while it is offered has its place still.
        if self.entries.len() >= BUFFERS_MAX {
            return None;
        }
        let id = self.next_id();
        let entry = OwnTrustedBuf {
            id,
            memory: Arc::clone(memory),
            exposed: None,
            charge: None,
            is_leaving: false,
            last_use: self.uses,
            refusals: Refusals::default(),
        };
        self.entries.push(entry).ok().map(|()| id)
    }

    /// Returns a new name for a buffer that is exposed again.
    pub(super) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Marks a buffer as leaving, and returns its handle. It stays until [`remove_left`](Self::remove_left).
    pub(super) fn leave(&mut self, id: u64) -> Option<Exposed> {
        let entry = self.named(id)?;
        entry.is_leaving = true;
        entry.exposed
    }

    /// Removes the buffers that are leaving, except those whose memory is in use.
    pub(super) fn remove_left(&mut self, is_in_use: impl Fn(Exposed) -> bool) {
        self.entries.retain(|entry| !entry.is_leaving || entry.exposed.is_some_and(&is_in_use));
    }

    /// Returns the name of a buffer whose owner has dropped it.
    pub(super) fn dropped(&self) -> Option<u64> {
        self.staying().find(|entry| entry.memory.is_dropped()).map(|entry| entry.id)
    }

    /// Returns true if it has no buffers.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of buffers that have a place, also of those that leave it once they are not offered.
    pub(super) fn exposed_count(&self) -> usize {
        self.entries.iter().filter(|entry| entry.exposed.is_some()).count()
    }

    /// Returns the buffers that count against the budget.
    pub(super) fn charged(&self) -> heapless::Vec<(u64, Exposed), EXPOSED_MAX> {
        let charged = self.staying().filter(|entry| entry.charge.is_some());
        charged.filter_map(|entry| Some((entry.id, entry.exposed?))).collect()
    }

    /// Returns the name of the buffer that was used least recently, of those for which `may_go` is true.
    pub(super) fn oldest(&self, may_go: impl Fn(Exposed) -> bool) -> Option<u64> {
        let may_go = |entry: &&OwnTrustedBuf| entry.exposed.is_none_or(&may_go);
        self.staying().filter(may_go).min_by_key(|entry| entry.last_use).map(|entry| entry.id)
    }

    /// Returns true if a refused buffer is due to be exposed again.
    pub(super) fn is_retry_due(&mut self, id: u64) -> bool {
        let uses = self.uses;
        self.named(id).is_some_and(|entry| entry.refusals.is_retry_due(uses))
    }

    fn staying(&self) -> impl Iterator<Item = &OwnTrustedBuf> {
        self.entries.iter().filter(|entry| !entry.is_leaving)
    }
}
