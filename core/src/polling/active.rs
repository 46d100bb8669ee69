//! The list of slots that are looked at in each round, in no order, and whose turn it is.

/// Slots of active connections. Each connection knows its index here.
#[derive(Debug)]
pub(super) struct ActiveList<A> {
    slots: A,
    len: u32,
    /// Place that is looked at next.
    next: u32,
}

impl<A: AsRef<[u32]> + AsMut<[u32]>> ActiveList<A> {
    pub(super) const fn new(slots: A) -> Self {
        Self { slots, len: 0, next: 0 }
    }

    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn at(&self, index: u32) -> Option<u32> {
        self.slots.as_ref().get(..self.len as usize)?.get(index as usize).copied()
    }

    /// Returns the slot whose turn it is. The turn stays where it is between calls, so that a call without room for all goes on with those that the one before left out.
    #[inline]
    pub(super) fn current(&mut self) -> Option<u32> {
        if self.next >= self.len {
            self.next = 0;
        }
        self.at(self.next)
    }

    /// Has the next one take its turn.
    #[inline]
    pub(super) const fn advance(&mut self) {
        self.next += 1;
    }

    /// Has the first one take its turn.
    pub(super) const fn start_over(&mut self) {
        self.next = 0;
    }

    /// Adds a slot. Returns its index. `None`: there is no room, since a slot is here twice.
    pub(super) fn push(&mut self, slot: u32) -> Option<u32> {
        let index = self.len;
        *self.slots.as_mut().get_mut(index as usize)? = slot;
        self.len += 1;
        Some(index)
    }

    /// Removes an index. The last slot takes it, and is returned.
    pub(super) fn remove(&mut self, index: u32) -> Option<u32> {
        let last = self.at(self.len.checked_sub(1)?)?;
        self.len -= 1;
        if index == self.len {
            return None;
        }
        *self.slots.as_mut().get_mut(index as usize)? = last;
        Some(last)
    }
}
