//! Event queue in order of virtual time. Events with the same time keep the order of insertion.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

struct Scheduled<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    // The heap returns the greatest entry, which therefore is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

/// Events by time.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Scheduled<E>>,
    inserted: u64,
}

impl<E> Queue<E> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }

    pub(crate) fn push(&mut self, at_ns: u64, event: E) {
        self.inserted += 1;
        self.heap.push(Scheduled { at_ns, number: self.inserted, event });
    }

    /// Takes the next event that is due, with its time.
    pub(crate) fn pop_due(&mut self, by_ns: u64) -> Option<(u64, E)> {
        if self.heap.peek()?.at_ns > by_ns {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at_ns, entry.event))
    }

    /// Returns the time of the next event.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_ns)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    #[test]
    fn events_come_by_time_and_then_by_insertion() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (9, 'e')] {
            queue.push(at, name);
        }
        assert_eq!(queue.next_ns(), Some(3));
        let due: Vec<_> = core::iter::from_fn(|| queue.pop_due(5)).collect();
        assert_eq!(due, [(3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
        assert!(!queue.is_empty());
    }
}
