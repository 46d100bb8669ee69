//! Keys of what a poller has, and the slots that they name.

use core::fmt;

/// Name of a connection or listener of a [`Poller`](super::Poller). It names nothing once that was removed, and nothing in another poller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) poller: u32,
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}/{}.{})", self.poller, self.slot, self.generation)
    }
}

/// Slots, each with the generation of what is in it. Memory for all is allocated when they are made.
pub(super) struct Slots<T> {
    poller: u32,
    slots: Vec<Slot<T>>,
    /// Free slots; the one that was freed last is taken first, so that few connections use few slots.
    free: Vec<u32>,
    /// Slots that were used so far: no others are looked at.
    used: u32,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) fn new(poller: u32, capacity: u32) -> Self {
        let slots = (0..capacity).map(|_| Slot { generation: 0, value: None }).collect();
        Self { poller, slots, free: (0..capacity).rev().collect(), used: 0 }
    }

    /// Takes a free slot. Gives the value back if there is none.
    pub(super) fn insert(&mut self, value: T) -> Result<Key, T> {
        let Some(number) = self.free.pop() else { return Err(value) };
        match self.slots.get_mut(number as usize) {
            Some(slot) => {
                slot.value = Some(value);
                self.used = self.used.max(number + 1);
                Ok(Key { poller: self.poller, slot: number, generation: slot.generation })
            }
            None => Err(value),
        }
    }

    /// Frees the slot of a key, and returns what was in it. The key is stale from now on. A slot whose generations are used up stays empty.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slot_mut(key)?;
        let value = slot.value.take()?;
        match slot.generation.checked_add(1) {
            Some(next) => {
                slot.generation = next;
                self.free.push(key.slot);
            }
            None => slot.value = None,
        }
        Some(value)
    }

    /// Returns the count of slots that were used so far.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot as usize)?;
        let is_current = key.poller == self.poller && key.generation == slot.generation;
        slot.value.as_ref().filter(|_| is_current)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slot_mut(key)?.value.as_mut()
    }

    /// Returns the key that names a slot now, if something is in it.
    pub(super) fn key_at(&self, number: u32) -> Option<Key> {
        let slot = self.slots.get(number as usize).filter(|slot| slot.value.is_some())?;
        Some(Key { poller: self.poller, slot: number, generation: slot.generation })
    }

    fn slot_mut(&mut self, key: Key) -> Option<&mut Slot<T>> {
        let poller = self.poller;
        let slot = self.slots.get_mut(key.slot as usize)?;
        (key.poller == poller && key.generation == slot.generation).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_stale_once_its_slot_was_freed() {
        let mut slots = Slots::new(1, 2);
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
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_not_used_again() {
        let mut slots = Slots::new(1, 1);
        slots.slots[0].generation = u32::MAX;
        let last = slots.insert(7).unwrap();
        assert_eq!(slots.remove(last), Some(7));
        assert!(slots.get(last).is_none() && slots.insert(8) == Err(8));
        assert_eq!(slots.key_at(0), None);
    }
}
