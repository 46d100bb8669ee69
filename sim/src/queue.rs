//! What is to happen, in order of virtual time; what is due at the same time happens in the order of insertion.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

struct Entry<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    // The heap gives the greatest: the earliest is that.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

/// Events by time.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    inserted: u64,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    pub(crate) fn push(&mut self, at_ns: u64, event: E) {
        self.inserted += 1;
        self.heap.push(Entry { at_ns, number: self.inserted, event });
    }

    /// The next event that is due by then, and when it happens.
    pub(crate) fn pop_due(&mut self, by_ns: u64) -> Option<(u64, E)> {
        if self.heap.peek()?.at_ns > by_ns {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at_ns, entry.event))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    #[test]
    fn earlier_comes_first_and_then_what_was_inserted_first() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (9, 'e')] {
            queue.push(at, name);
        }
        let due: Vec<_> = core::iter::from_fn(|| queue.pop_due(5)).collect();
        assert_eq!(due, [(3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
        assert!(!queue.is_empty());
    }
}
