//! Registered buffers of this end that the peer maps, or is to map: at most one per place.
//!
//! A table entry keeps no memory: a buffer that its owner drops is withdrawn at the next call or tick. The peer has a mapping of its own.

use std::sync::{Arc, Weak};

use superpipe_core::{EXPOSED_MAX, Exposed};

use super::refusals::Refusals;
use crate::budget::Charge;
use crate::fabric::RegisteredMemory;

/// Wishes ([`OwnBuffers::wishes`]) since its last use after which a buffer may lose its place, unless `register` asks for it. With fewer, nine
/// buffers in turn would map one and unmap another for each message.
const WISHES_KEPT: u64 = 2 * EXPOSED_MAX as u64;
/// The same for a buffer whose last try has sent nothing. It is longer, since a try can send a long message only out of a buffer that kept its
/// place until its turn came again.
const AWAITED_WISHES_KEPT: u64 = 1024;
/// Number of tries out of buffers without a place of which the last takes that of a buffer in use.
const TRIES_WITHOUT_PLACE: u32 = 64;

/// Buffers that may lose their place to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayGo {
    /// Those that were neither used nor entered lately.
    Old,
    /// Those, and any that no try waits for.
    OldOrUnawaited,
    /// Any.
    All,
}

/// The buffers of this end.
#[derive(Default)]
pub(super) struct OwnBuffers {
    entries: heapless::Vec<OwnBuffer, EXPOSED_MAX>,
    /// Messages that were sent out of any of them, and of others.
    uses: u64,
    /// Those messages, and whatever else wants a place: tries that have sent nothing, and offers.
    wishes: u64,
    /// Messages among them that the peer copies straight out of a buffer.
    hits: u64,
    /// Tries that have found their buffer without a place, since the last one that took a place for that.
    tries_without_place: u32,
    last_id: u64,
}

/// A buffer of this end.
pub(super) struct OwnBuffer {
    /// Name for core. A buffer that is exposed again gets another.
    pub(super) id: u64,
    memory: Weak<RegisteredMemory>,
    /// Core's handle; none if core had no place.
    pub(super) exposed: Option<Exposed>,
    /// Bytes of the budget, once the peer has its descriptor.
    pub(super) charge: Option<Charge>,
    /// Count of wishes at the last message out of it, or when it was entered.
    last_use: u64,
    /// The last try has sent nothing, since the peer has not mapped it.
    is_awaited: bool,
    refusals: Refusals,
}

impl OwnBuffers {
    /// Counts a message that was sent out of this memory. If it `is_hit`, the peer copies it straight out of the buffer.
    pub(super) fn count_message(&mut self, memory: &Arc<RegisteredMemory>, is_hit: bool) {
        self.uses += 1;
        self.hits += u64::from(is_hit);
        self.count_wish();
        let wishes = self.wishes;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.is_of(memory)) {
            (entry.last_use, entry.is_awaited) = (wishes, false);
        }
    }

    /// Counts a try that has sent nothing, for want of a place or since the peer has not mapped this memory yet. Returns true if so many had no
    /// place that this one is to take that of a buffer in use.
    pub(super) fn count_try(&mut self, memory: &Arc<RegisteredMemory>) -> bool {
        self.count_wish();
        let found = self.entries.iter_mut().find(|entry| entry.is_of(memory));
        if let Some(entry) = found
            && entry.exposed.is_some()
        {
            entry.is_awaited = true;
            return false;
        }
        self.tries_without_place = (self.tries_without_place + 1) % TRIES_WITHOUT_PLACE;
        self.tries_without_place == 0
    }

    /// Notes that a try has made a place for this memory, and waits for it. The buffer keeps it as one that was entered now.
    pub(super) fn await_place(&mut self, memory: &Arc<RegisteredMemory>) {
        let wishes = self.wishes;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.is_of(memory)) {
            (entry.last_use, entry.is_awaited) = (wishes, true);
        }
    }

    /// Returns true if so many free places are kept for buffers that tries wait for, and this is none of them.
    pub(super) fn are_kept_from(&self, id: u64, free_places: usize) -> bool {
        let waits = |entry: &&OwnBuffer| {
            entry.is_awaited && entry.exposed.is_none() && self.wishes - entry.last_use < AWAITED_WISHES_KEPT
        };
        let waiting = || self.entries.iter().filter(waits);
        free_places <= waiting().count() && waiting().all(|entry| entry.id != id)
    }

    /// Counts a wish: a message, a try that has sent nothing, or an offer that finds no place.
    pub(super) const fn count_wish(&mut self) {
        self.wishes += 1;
    }

    /// Returns the messages that the peer copies straight out of a buffer, and the others.
    pub(super) const fn counts(&self) -> [u64; 2] {
        [self.hits, self.uses - self.hits]
    }

    /// Returns the buffer with this memory.
    pub(super) fn of(&self, memory: &Arc<RegisteredMemory>) -> Option<&OwnBuffer> {
        self.entries.iter().find(|entry| entry.is_of(memory))
    }

    /// Returns the buffer with this name.
    pub(super) fn named(&mut self, id: u64) -> Option<&mut OwnBuffer> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Enters a buffer, and returns its name.
    ///
    /// # Errors
    /// The table is full.
    pub(super) fn enter(&mut self, memory: &Arc<RegisteredMemory>) -> Result<u64, Full> {
        let id = self.next_id();
        let entry = OwnBuffer {
            id,
            memory: Arc::downgrade(memory),
            exposed: None,
            charge: None,
            last_use: self.wishes,
            is_awaited: false,
            refusals: Refusals::default(),
        };
        self.entries.push(entry).map(|()| id).map_err(|_| Full)
    }

    /// Returns a new name for a buffer that is exposed again.
    pub(super) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Removes a buffer.
    pub(super) fn remove(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Returns the name of a buffer whose owner has dropped it.
    pub(super) fn dropped(&self) -> Option<(u64, Option<Exposed>)> {
        let found = self.entries.iter().find(|entry| entry.memory.strong_count() == 0);
        found.map(|entry| (entry.id, entry.exposed))
    }

    /// Returns true if it has no buffers.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of buffers that have a place.
    pub(super) fn exposed_count(&self) -> usize {
        self.entries.iter().filter(|entry| entry.exposed.is_some()).count()
    }

    /// Returns the buffers that count against the budget.
    pub(super) fn charged(&self) -> heapless::Vec<(u64, Exposed), EXPOSED_MAX> {
        let charged = self.entries.iter().filter(|entry| entry.charge.is_some());
        charged.filter_map(|entry| Some((entry.id, entry.exposed?))).collect()
    }

    /// Returns the buffer that was used, or entered, least recently, of those that `may_go` and for which `is_free` is true.
    pub(super) fn oldest(
        &self,
        may_go: MayGo,
        is_free: impl Fn(Option<Exposed>) -> bool,
    ) -> Option<(u64, Option<Exposed>)> {
        let is_old = |entry: &&OwnBuffer| {
            let kept = match may_go {
                MayGo::All => 0,
                _ if entry.is_awaited => AWAITED_WISHES_KEPT,
                MayGo::OldOrUnawaited => 0,
                MayGo::Old => WISHES_KEPT,
            };
            self.wishes - entry.last_use >= kept
        };
        let old = self.entries.iter().filter(is_old).filter(|entry| is_free(entry.exposed));
        old.min_by_key(|entry| entry.last_use).map(|entry| (entry.id, entry.exposed))
    }

    /// Returns true if a refused buffer is due to be exposed again.
    pub(super) fn is_retry_due(&mut self, id: u64) -> bool {
        let wishes = self.wishes;
        self.named(id).is_some_and(|entry| entry.refusals.is_retry_due(wishes))
    }
}

impl OwnBuffer {
    fn is_of(&self, memory: &Arc<RegisteredMemory>) -> bool {
        core::ptr::eq(self.memory.as_ptr(), Arc::as_ptr(memory))
    }

    /// Returns the memory, unless its owner has dropped it.
    pub(super) fn memory(&self) -> Option<Arc<RegisteredMemory>> {
        self.memory.upgrade()
    }
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;
