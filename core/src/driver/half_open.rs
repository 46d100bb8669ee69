//! Table of the handshakes that a listener makes side by side, and the choice of the one that makes room for the next.
//!
//! A peer that connects and says nothing occupies one place of the table, and only until another peer needs it: in a full table
//! the handshake that was silent for longest makes room, once it was silent for [`PATIENCE_NS`]. A peer that answers is never
//! silent for so long, unless its host stalls. A peer is *heard of* when its handshake makes a step, and by nothing else that
//! it sends. A peer that has work to do before the next step, such as making memory, counts as heard of at the end of the time
//! allowed for that.
//!
//! All times come from the caller's clock of silence. It advances only while the caller listens, so that no peer is taken for
//! silent because the caller was busy.
//!
//! ```text
//!              room                      admit
//! connects --> free  ------------------> in the table --heard--> silent for nothing again
//!          --> after the longest silence,    |
//!              which makes room              +--release--> through, failed, or made room
//!          --> at this time
//! ```

use crate::nanos::Nanos;

/// Silence after which a handshake makes room: hundreds of round trips of any network that RDMA runs on, and several turns of the
/// scheduler on a busy host.
pub const PATIENCE_NS: u64 = 50_000_000;

/// Handshakes that are not through, `N` at most.
#[derive(Clone, Debug)]
pub struct HalfOpen<T, const N: usize> {
    entries: heapless::Vec<Entry<T>, N>,
}

/// A handshake, and when its peer was heard of last.
#[derive(Clone, Debug)]
struct Entry<T> {
    handshake: T,
    heard_at: Nanos,
}

impl<T, const N: usize> Default for HalfOpen<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> HalfOpen<T, N> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: heapless::Vec::new() }
    }

    /// Count of handshakes in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Index of the handshake that was silent for longest, of those for which `counts` returns true. `None` unless it was silent for
    /// [`PATIENCE_NS`].
    #[must_use]
    pub fn silent(&self, now: Nanos, counts: impl Fn(&T) -> bool) -> Option<usize> {
        let (index, heard_at) = self.oldest(counts)?;
        (patience_ends(heard_at) <= now).then_some(index)
    }

    /// Returns true if [`admit`](Self::admit) would.
    #[must_use]
    pub fn has_room(&self, now: Nanos) -> bool {
        !self.entries.is_full() || self.poll_timeout().is_some_and(|at| at <= now)
    }

    /// Time from which on a full table has room. `None` if the table is not full.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let (_, heard_at) = self.oldest_if_full()?;
        Some(patience_ends(heard_at))
    }

    /// Takes a handshake in, and returns the one that made room for it.
    ///
    /// # Errors
    /// The handshake, where there is no room.
    pub fn admit(&mut self, handshake: T, now: Nanos) -> Result<Option<T>, T> {
        if !self.has_room(now) {
            return Err(handshake);
        }
        let evicted = self.oldest_if_full().and_then(|(index, _)| self.release(index));
        match self.entries.push(Entry { handshake, heard_at: now }) {
            Ok(()) => Ok(evicted),
            Err(entry) => Err(entry.handshake),
        }
    }

    /// The handshake at this index, below [`len`](Self::len).
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index).map(|entry| &mut entry.handshake)
    }

    /// All of them, by index.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.handshake)
    }

    /// Notes that the peer of the handshake at this index was heard of at `now`. A time in the future gives the peer until then to do
    /// its work.
    pub fn heard(&mut self, index: usize, now: Nanos) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.heard_at = entry.heard_at.max(now);
        }
    }

    /// Takes a handshake out that is done or has failed. The last handshake moves to its index.
    pub fn release(&mut self, index: usize) -> Option<T> {
        (index < self.entries.len()).then(|| self.entries.swap_remove(index).handshake)
    }

    fn oldest_if_full(&self) -> Option<(usize, Nanos)> {
        self.entries.is_full().then(|| self.oldest(|_| true)).flatten()
    }

    /// Index of the one that was silent for longest, of those for which `counts` returns true, and when its peer was heard of. The first
    /// of several.
    fn oldest(&self, counts: impl Fn(&T) -> bool) -> Option<(usize, Nanos)> {
        let all = self.entries.iter().enumerate().filter(|(_, entry)| counts(&entry.handshake));
        all.map(|(index, entry)| (index, entry.heard_at)).min_by_key(|(_, heard_at)| *heard_at)
    }
}

/// Time from which on a peer that was heard of then makes room.
const fn patience_ends(heard_at: Nanos) -> Nanos {
    Nanos(heard_at.0.saturating_add(PATIENCE_NS))
}
