//! Places in the send queue: work requests by their position, counted over the connection.
//!
//! A device frees places only with a completion, which stands for all work requests before it. So at least one in a quarter of
//! the queue is signaled, even if core does not wait for it.

use super::receive_pool::SENDS_MAX;
use heapless::Deque;
use superpipe_core::WrId;

/// Work requests in one send queue.
#[derive(Debug)]
pub(super) struct SendQueue {
    depth: u64,
    /// Work requests posted, and of these completed.
    posted: u64,
    completed: u64,
    since_signaled: u64,
    /// Signaled work requests whose completion core has not taken: position and core's id.
    signaled: Deque<(u64, Option<WrId>), { SENDS_MAX as usize }>,
}

impl SendQueue {
    pub(super) fn new(depth: u32) -> Self {
        let depth = u64::from(depth.min(SENDS_MAX));
        Self { depth, posted: 0, completed: 0, since_signaled: 0, signaled: Deque::new() }
    }

    /// Returns the position of the next work request.
    pub(super) fn position(&self) -> u64 {
        self.posted
    }

    /// Returns how many work requests can be posted now.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        // A signaled one keeps its place until core has taken its completion, even if the device has freed its own.
        let listed = self.signaled.len() as u64;
        self.depth - (self.posted - self.completed).max(listed)
    }

    /// Takes a place, which must be there. Returns true if the work request must be signaled.
    #[inline]
    pub(super) fn take(&mut self, wr: Option<WrId>) -> bool {
        let is_signaled = wr.is_some() || self.since_signaled + 1 >= self.depth / 4;
        if is_signaled {
            let kept = self.signaled.push_back((self.posted, wr));
            debug_assert!(kept.is_ok(), "there is room");
            self.since_signaled = 0;
        } else {
            self.since_signaled += 1;
        }
        self.posted += 1;
        is_signaled
    }

    /// Takes a place, which must be there, for a work request that must be signaled. Returns true.
    pub(super) fn take_signaled(&mut self) -> bool {
        self.since_signaled = self.depth;
        self.take(None)
    }

    /// Returns true if all that was posted is completed.
    pub(super) const fn is_idle(&self) -> bool {
        self.completed == self.posted
    }

    /// Returns true if all work requests before `position` are completed.
    pub(super) const fn has_completed(&self, position: u64) -> bool {
        self.completed >= position
    }

    /// Returns true if the last work request was signaled.
    pub(super) const fn ends_signaled(&self) -> bool {
        self.since_signaled == 0
    }

    /// Completes the work request at `position` and all before it. Returns false if it is not outstanding.
    #[inline]
    pub(super) fn complete(&mut self, position: u64) -> bool {
        let is_new = (self.completed..self.posted).contains(&position);
        if is_new {
            self.completed = position + 1;
        }
        is_new
    }

    /// Returns the position of the newest work request with this lower half.
    #[inline]
    pub(super) const fn position_of(&self, lower: u32) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower halves are compared")]
        let behind = (self.posted.wrapping_sub(1) as u32).wrapping_sub(lower);
        self.posted.wrapping_sub(1).wrapping_sub(behind as u64)
    }

    /// Completes a work request that is not posted, since the peer is gone. Returns false if there is no place.
    pub(super) fn write_off(&mut self, wr: Option<WrId>) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.take(wr);
            self.complete_all();
        }
        has_room
    }

    /// Completes all: the device will complete nothing more.
    pub(super) fn complete_all(&mut self) {
        self.completed = self.posted;
    }

    /// Takes the next completion that core waits for.
    #[inline]
    pub(super) fn next(&mut self) -> Option<WrId> {
        while let Some(&(position, wr)) = self.signaled.front()
            && position < self.completed
        {
            self.signaled.pop_front();
            if wr.is_some() {
                return wr;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_can_be_signaled() {
        let mut queue = SendQueue::new(16);
        assert!(queue.is_idle() && queue.ends_signaled());
        assert!(!queue.take(None));
        assert!(!queue.is_idle() && !queue.ends_signaled());
        let position = queue.position();
        assert!(queue.take_signaled());
        assert!(queue.ends_signaled());
        assert!(queue.complete(position) && queue.is_idle());
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn one_completion_stands_for_all_before_it() {
        let mut queue = SendQueue::new(16);
        assert!(!queue.take(None));
        assert!(queue.take(Some(WrId(7))));
        assert!(queue.take(Some(WrId(8))));
        assert_eq!((queue.room(), queue.next()), (13, None));
        assert!(queue.complete(2));
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(WrId(7)), Some(WrId(8)), None));
        assert_eq!(queue.room(), 16);
        assert!(!queue.complete(2) && !queue.complete(3), "what is done, and what was never posted");
    }

    #[test]
    fn a_quarter_of_the_queue_has_a_signaled_one() {
        let mut queue = SendQueue::new(16);
        let signaled: Vec<bool> = (0..8).map(|_| queue.take(None)).collect();
        assert_eq!(signaled, [false, false, false, true, false, false, false, true]);
        assert_eq!(queue.room(), 8);
        assert!(queue.complete(7));
        assert_eq!((queue.next(), queue.room()), (None, 16));
    }

    #[test]
    fn a_position_is_known_by_its_lower_half() {
        let mut queue = SendQueue::new(16);
        for posted in [1, 16, u64::from(u32::MAX), 1 << 32, (1 << 32) + 7, (5 << 32) - 1] {
            (queue.posted, queue.completed) = (posted, posted.saturating_sub(16));
            for position in posted.saturating_sub(16)..posted {
                assert_eq!(queue.position_of((position & 0xffff_ffff) as u32), position);
            }
            assert!(!queue.complete(queue.position_of((posted & 0xffff_ffff) as u32)), "never posted");
        }
    }

    #[test]
    fn a_write_off_completes_at_once() {
        let mut queue = SendQueue::new(2);
        assert!(queue.write_off(Some(WrId(1))) && queue.write_off(Some(WrId(2))));
        assert!(!queue.write_off(Some(WrId(3))), "a place is free once core took the completion before");
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(WrId(1)), Some(WrId(2)), None));
        assert!(queue.is_idle() && queue.write_off(None));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn complete_all_leaves_nothing_to_wait_for() {
        let mut queue = SendQueue::new(8);
        (1..=8).for_each(|sequence| assert!(queue.take(Some(WrId(sequence)))));
        assert_eq!(queue.room(), 0);
        queue.complete_all();
        assert_eq!((1..=8).filter(|sequence| queue.next() == Some(WrId(*sequence))).count(), 8);
        assert_eq!(queue.room(), 8);
    }
}
