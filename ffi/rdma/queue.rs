//! Who has a place in the send queue: work requests by their position, counted over the connection.
//!
//! A device frees places only where it tells of a completion, and a completion stands for all before it. So at least
//! every quarter of the queue asks for one, whether or not anybody else waits for it.

use super::mail::SENDS_MAX;
use heapless::Deque;
use superpipe_core::WrId;

/// The accounts of one send queue.
#[derive(Debug)]
pub(super) struct SendQueue {
    depth: u64,
    /// work requests posted, and of these completed
    posted: u64,
    completed: u64,
    since_signaled: u64,
    /// what was posted signaled and not handed on yet: position, and whose it is
    signaled: Deque<(u64, Option<WrId>), { SENDS_MAX as usize }>,
}

impl SendQueue {
    pub(super) fn new(depth: u32) -> Self {
        let depth = u64::from(depth.min(SENDS_MAX));
        Self { depth, posted: 0, completed: 0, since_signaled: 0, signaled: Deque::new() }
    }

    /// The position of the next work request.
    pub(super) fn position(&self) -> u64 {
        self.posted
    }

    /// Work requests that can be posted now.
    #[inline]
    pub(super) fn room(&self) -> u64 {
        // What was signaled keeps a place here until it is handed on, also if the device has freed its own.
        let listed = self.signaled.len() as u64;
        self.depth - (self.posted - self.completed).max(listed)
    }

    /// Takes the place of one: whether it must be signaled. There is room.
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

    /// Takes the place of one that must be signaled, for nobody: true. There is room.
    pub(super) fn take_signaled(&mut self) -> bool {
        self.since_signaled = self.depth;
        self.take(None)
    }

    /// Whether the device has told of all that was posted.
    pub(super) const fn is_idle(&self) -> bool {
        self.completed == self.posted
    }

    /// Whether the device will tell of all that was posted.
    pub(super) const fn ends_signaled(&self) -> bool {
        self.since_signaled == 0
    }

    /// The device tells that the work request at `position`, and so all before it, are done. False: it cannot be.
    #[inline]
    pub(super) fn complete(&mut self, position: u64) -> bool {
        let is_new = (self.completed..self.posted).contains(&position);
        if is_new {
            self.completed = position + 1;
        }
        is_new
    }

    /// Counts one as done that is never posted, since nobody is there any more. False: there is no place.
    pub(super) fn write_off(&mut self, wr: Option<WrId>) -> bool {
        let has_room = self.room() > 0;
        if has_room {
            self.take(wr);
            self.complete_all();
        }
        has_room
    }

    /// The device will tell of nothing more.
    pub(super) fn complete_all(&mut self) {
        self.completed = self.posted;
    }

    /// The next completion that somebody waits for.
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
    fn the_last_of_all_can_be_asked_for() {
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
    fn unsignaled_ones_are_found_out_about_in_time() {
        let mut queue = SendQueue::new(16);
        let signaled: Vec<bool> = (0..8).map(|_| queue.take(None)).collect();
        assert_eq!(signaled, [false, false, false, true, false, false, false, true]);
        assert_eq!(queue.room(), 8);
        assert!(queue.complete(7));
        assert_eq!((queue.next(), queue.room()), (None, 16));
    }

    #[test]
    fn what_is_written_off_is_done_at_once() {
        let mut queue = SendQueue::new(2);
        assert!(queue.write_off(Some(WrId(1))) && queue.write_off(Some(WrId(2))));
        assert!(!queue.write_off(Some(WrId(3))), "a place is free when the one before was handed on");
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(WrId(1)), Some(WrId(2)), None));
        assert!(queue.is_idle() && queue.write_off(None));
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn nothing_is_waited_for_once_the_device_is_silent() {
        let mut queue = SendQueue::new(8);
        (1..=8).for_each(|sequence| assert!(queue.take(Some(WrId(sequence)))));
        assert_eq!(queue.room(), 0);
        queue.complete_all();
        assert_eq!((1..=8).filter(|sequence| queue.next() == Some(WrId(*sequence))).count(), 8);
        assert_eq!(queue.room(), 8);
    }
}
