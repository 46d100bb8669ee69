//! Slots for what a poller has, and the keys that name what is in them.

use core::fmt;
use core::marker::PhantomData;

/// End of the list of free slots.
const NONE: u32 = u32::MAX;

/// Name of a connection or listener of a poller. It names nothing once that was removed, and nothing in another poller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    poller: u32,
    slot: u32,
    generation: u32,
}

impl Key {
    /// Returns the number of its slot.
    pub(super) const fn slot(self) -> u32 {
        self.slot
    }

    /// Returns its number in a set.
    pub(super) const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}/{}.{})", self.poller, self.slot, self.generation)
    }
}

/// A slot. One that is made has nothing in it.
#[derive(Clone, Debug)]
pub struct Slot<T> {
    generation: u32,
    /// The next free slot, while this one is free.
    next_free: u32,
    value: Option<T>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { generation: 0, next_free: NONE, value: None }
    }
}

/// Slots, each with the generation of what is in it.
#[derive(Debug)]
pub(super) struct Slots<T, S> {
    poller: u32,
    slots: S,
    /// The slot that was freed last, which is taken first, so that few connections use few slots.
    free: u32,
    /// Slots that were used so far: no others are looked at.
    used: u32,
    of: PhantomData<T>,
}

impl<T, S: AsRef<[Slot<T>]> + AsMut<[Slot<T>]>> Slots<T, S> {
    /// Makes slots of memory in which nothing was put yet. `poller`: number of the poller in this process.
    pub(super) const fn new(poller: u32, slots: S) -> Self {
        Self { poller, slots, free: NONE, used: 0, of: PhantomData }
    }

    /// Takes a free slot.
    ///
    /// # Errors
    /// There is none. The value is in the error.
    pub(super) fn insert(&mut self, value: T) -> Result<Key, T> {
        let number = if self.free == NONE { self.used } else { self.free };
        let Some(slot) = self.slots.as_mut().get_mut(number as usize) else { return Err(value) };
        slot.value = Some(value);
        if self.free == NONE {
            self.used += 1;
        } else {
            self.free = slot.next_free;
        }
        Ok(Key { poller: self.poller, slot: number, generation: slot.generation })
    }

    /// Frees the slot of a key, and returns what was in it. The key is stale from now on. A slot whose generations are used up stays empty.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(key)?;
        let value = slot.value.take()?;
        if let Some(next) = slot.generation.checked_add(1) {
            (slot.generation, slot.next_free) = (next, free);
            self.free = key.slot;
        }
        Some(value)
    }

    /// Returns the count of slots that were used so far.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// Returns what a key names.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.as_ref().get(key.slot as usize)?;
        planted!(StaleKeyTaken => return slot.value.as_ref());
        let is_current = key.poller == self.poller && key.generation == slot.generation;
        slot.value.as_ref().filter(|_| is_current)
    }

    /// Returns what a key names.
    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slot_mut(key)?.value.as_mut()
    }

    /// Returns the key that names a slot now, if something is in it.
    pub(super) fn key_at(&self, number: u32) -> Option<Key> {
        let slot = self.slots.as_ref().get(number as usize).filter(|slot| slot.value.is_some())?;
        Some(Key { poller: self.poller, slot: number, generation: slot.generation })
    }

    /// Returns what is in a slot now, and its key.
    #[inline]
    pub(super) fn at_mut(&mut self, number: u32) -> Option<(Key, &mut T)> {
        let poller = self.poller;
        let slot = self.slots.as_mut().get_mut(number as usize)?;
        let key = Key { poller, slot: number, generation: slot.generation };
        Some((key, slot.value.as_mut()?))
    }

    /// Returns the key of a number that a set reports. `None`: it is stale.
    pub(super) fn key_of(&self, number: u64) -> Option<Key> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is the slot")]
        let key = self.key_at(number as u32)?;
        planted!(StaleKeyTaken => return Some(key));
        (key.number() == number).then_some(key)
    }

    fn slot_mut(&mut self, key: Key) -> Option<&mut Slot<T>> {
        let poller = self.poller;
        let slot = self.slots.as_mut().get_mut(key.slot as usize)?;
        planted!(StaleKeyTaken => return Some(slot));
        (key.poller == poller && key.generation == slot.generation).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_stale_once_its_slot_was_freed() {
        let mut slots = Slots::new(1, [(); 2].map(|()| Slot::default()));
        let first = slots.insert('a').unwrap();
        let second = slots.insert('b').unwrap();
        assert_eq!(slots.insert('c'), Err('c'));
        assert_eq!(slots.remove(first), Some('a'));
        assert!(slots.get(first).is_none() && slots.get_mut(first).is_none());
        assert_eq!(slots.remove(first), None);
        let third = slots.insert('c').unwrap();
        assert_eq!((third.slot, third.generation), (first.slot, 1));
        assert_eq!((slots.get(first), slots.get(third), slots.get(second)), (None, Some(&'c'), Some(&'b')));
        assert_eq!(slots.key_at(third.slot), Some(third));
        let elsewhere = Key { poller: 2, ..third };
        assert!(slots.get(elsewhere).is_none() && slots.remove(elsewhere).is_none());
        let [number, stale] = [third, first].map(Key::number);
        assert_eq!((slots.key_of(number), slots.key_of(stale)), (Some(third), None));
    }

    #[test]
    fn the_slot_that_was_freed_last_is_taken_first() {
        let mut slots = Slots::new(1, [(); 4].map(|()| Slot::default()));
        let keys = [0, 1, 2].map(|value| slots.insert(value).unwrap());
        slots.remove(keys[0]);
        slots.remove(keys[2]);
        let taken = [(); 3].map(|()| slots.insert(9).unwrap().slot);
        assert_eq!((taken, slots.used()), ([2, 0, 3], 4));
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_not_used_again() {
        let mut slots = Slots::new(1, [Slot { generation: u32::MAX, ..Slot::default() }]);
        let last = slots.insert(7).unwrap();
        assert_eq!(slots.remove(last), Some(7));
        assert!(slots.get(last).is_none() && slots.insert(8) == Err(8));
        assert_eq!(slots.key_at(0), None);
    }
}
