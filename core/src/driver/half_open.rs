//! Table of the half-open connections of a listener, and the choice of the one that is evicted for the next.
//!
//! In a full table the handshake with the longest silence is evicted when another peer connects, once it was silent for
//! [`EVICTION_SILENCE_NS`]. So a peer that connects and sends nothing occupies a place only until another peer needs it. A peer that
//! answers is never silent for that long, unless its host stalls. Only a step of the handshake counts as activity. A peer that has work
//! to do before the next step, such as provisioning memory, counts as active until the end of the time allowed for that.
//!
//! All times come from a clock of the caller that advances only while the caller listens, so that no peer counts as silent because
//! the caller was busy.
//!
//! ```text
//!              admit                   note_activity
//! connects --------------> in table ------------------> in table, silence begins anew
//!                             |  release: done or failed
//!                             |  admit of another peer, after the longest silence: evicted
//!                             +--------------------------> out
//! ```

use crate::nanos::Nanos;

/// Silence after which a handshake can be evicted: hundreds of round trips of any network that RDMA runs on, and several time slices on
/// a busy host.
pub const EVICTION_SILENCE_NS: u64 = 50_000_000;

/// Half-open connections, at most `N`.
#[derive(Clone, Debug)]
pub struct HalfOpenTable<T, const N: usize> {
    entries: heapless::Vec<Entry<T>, N>,
    activities: u64,
}

/// A handshake, and its last activity.
#[derive(Clone, Debug)]
struct Entry<T> {
    handshake: T,
    last_activity: Activity,
}

/// Time of an activity, and its number: the clock can stand still between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Activity {
    at: Nanos,
    number: u64,
}

impl<T, const N: usize> Default for HalfOpenTable<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> HalfOpenTable<T, N> {
    /// Makes an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: heapless::Vec::new(), activities: 0 }
    }

    /// Returns the number of handshakes in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the index of the handshake with the longest silence, of those for which `counts` returns true. `None` unless that is at
    /// least [`EVICTION_SILENCE_NS`].
    #[must_use]
    pub fn silent(&self, now: Nanos, counts: impl Fn(&T) -> bool) -> Option<usize> {
        let (index, last_activity) = self.oldest(counts)?;
        (evictable_from(last_activity) <= now).then_some(index)
    }

    /// Returns true if [`admit`](Self::admit) would succeed.
    #[must_use]
    pub fn has_room(&self, now: Nanos) -> bool {
        !self.entries.is_full() || self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Returns the time from which on a full table has room. `None` if the table is not full.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let (_, last_activity) = self.oldest_if_full()?;
        Some(evictable_from(last_activity))
    }

    /// Adds a handshake, and returns the one that was evicted for it.
    ///
    /// # Errors
    /// The handshake, if there is no room.
    pub fn admit(&mut self, handshake: T, now: Nanos) -> Result<Option<T>, T> {
        if !self.has_room(now) {
            return Err(handshake);
        }
        let evicted = self.oldest_if_full().and_then(|(index, _)| self.release(index));
        let last_activity = self.activity(now);
        match self.entries.push(Entry { handshake, last_activity }) {
            Ok(()) => Ok(evicted),
            Err(entry) => Err(entry.handshake),
        }
    }

    /// Returns the handshake at this index, below [`len`](Self::len).
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index).map(|entry| &mut entry.handshake)
    }

    /// Returns an iterator over the handshakes, by index.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.handshake)
    }

    /// Notes activity of the handshake at this index at `now`. A time in the future gives the peer until then to do its work.
    pub fn note_activity(&mut self, index: usize, now: Nanos) {
        let activity = self.activity(now);
        if let Some(entry) = self.entries.get_mut(index) {
            let at = entry.last_activity.at.max(activity.at);
            entry.last_activity = Activity { at, ..activity };
        }
    }

    /// Removes a handshake that is done or has failed. The last handshake moves to its index.
    pub fn release(&mut self, index: usize) -> Option<T> {
        (index < self.entries.len()).then(|| self.entries.swap_remove(index).handshake)
    }

    /// Returns an activity at `now`, later than all before.
    const fn activity(&mut self, now: Nanos) -> Activity {
        self.activities += 1;
        Activity { at: now, number: self.activities }
    }

    fn oldest_if_full(&self) -> Option<(usize, Nanos)> {
        self.entries.is_full().then(|| self.oldest(|_| true)).flatten()
    }

    /// Returns the index of the handshake with the longest silence, of those for which `counts` returns true, and the time of its last
    /// activity. Of several at one time, it is the first that was active.
    fn oldest(&self, counts: impl Fn(&T) -> bool) -> Option<(usize, Nanos)> {
        let all = self.entries.iter().enumerate().filter(|(_, entry)| counts(&entry.handshake));
        let oldest = all.min_by_key(|(_, entry)| entry.last_activity);
        oldest.map(|(index, entry)| (index, entry.last_activity.at))
    }
}

/// Returns the time from which on a handshake with this last activity can be evicted.
const fn evictable_from(last_activity: Nanos) -> Nanos {
    Nanos(last_activity.0.saturating_add(EVICTION_SILENCE_NS))
}
