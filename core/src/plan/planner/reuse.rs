//! How often buffers of a class are sent again: the share of hits of a cache that registers every miss.
//!
//! Registering a buffer that is kept costs more now, and less each time that it is sent again. If a part u of messages is sent out of buffers that were sent before, a
//! registration serves 1 / (1 - u) messages on the average: a miss and u / (1 - u) hits. Registering takes R + u / (1 - u) K for them, where R is the time of a miss and K that
//! of a hit; copying takes S / (1 - u). So it is worth it if (1 - u) R + u K < S, and the left side is the time "on the average of hits and misses" of Denis, section 2.
//!
//! u does not depend on what is chosen if the sender remembers buffers that it did not register. If it does not, a buffer that was copied looks new when it comes again. u is then
//! the share of hits only, too small while misses are copied, and the trials of registering correct it: each buffer that a trial registers makes hits.

/// Share before anything is known, and the messages that it counts for.
const START: f32 = 0.5;
const START_COUNT: u8 = 2;

/// Messages of the two averages. The long one has a standard deviation of 0.045 at a share of a half.
const SHORT: u8 = 8;
const LONG: u8 = 64;

/// A change: so many equal messages in a row, and so large a difference of the averages. At a share of a half chance makes one in 8,192 messages, at others fewer.
const RUN: u8 = 12;
const DIFFERENCE_MAX: f32 = 0.3;

/// The share of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reuse {
    short: f32,
    long: f32,
    /// Messages in the long average.
    count: u8,
    /// Equal messages in a row, and what they were.
    run: u8,
    was_again: bool,
}

impl Reuse {
    pub(super) const NEW: Self =
        Self { short: START, long: START, count: START_COUNT, run: 0, was_again: false };

    /// Returns u, 0 to 1.
    pub(super) const fn share(&self) -> f32 {
        self.long
    }

    /// Counts a message out of memory that is or may be kept.
    pub(super) fn note(&mut self, is_again: bool) {
        let value = if is_again { 1.0 } else { 0.0 };
        self.run = if is_again == self.was_again { self.run.saturating_add(1) } else { 1 };
        self.was_again = is_again;
        self.count = (self.count + 1).min(LONG);
        let follow = |average: f32, messages: u8| average + (value - average) / f32::from(messages);
        self.short = follow(self.short, self.count.min(SHORT));
        self.long = follow(self.long, self.count);
        if self.run >= RUN && (self.short - self.long).abs() > DIFFERENCE_MAX {
            self.long = self.short;
            self.count = SHORT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reuse: Reuse, count: u32, every: u32) -> Reuse {
        (0..count).fold(reuse, |mut reuse, index| {
            reuse.note(every > 0 && index % every > 0);
            reuse
        })
    }

    #[test]
    fn the_share_is_that_of_hits() {
        assert!((after(Reuse::NEW, 400, 2).share() - 0.5).abs() < 0.02);
        assert!((after(Reuse::NEW, 1000, 100).share() - 0.99).abs() < 0.02);
        assert!(after(Reuse::NEW, 200, 0).share() < 0.02);
    }

    #[test]
    fn a_change_is_followed_within_32_messages() {
        let none = after(Reuse::NEW, 500, 0);
        assert!(after(none, 32, 1000).share() > 0.85, "{:?}", after(none, 32, 1000));
        let all = after(Reuse::NEW, 500, 1000);
        assert!(after(all, 32, 0).share() < 0.15, "{:?}", after(all, 32, 0));
        let some = after(Reuse::NEW, 32, 4);
        assert!(after(some, 32, 0).share() < 0.1, "{:?}", after(some, 32, 0));
    }

    #[test]
    fn a_few_misses_among_hits_change_little() {
        let all = after(Reuse::NEW, 500, 1000);
        assert!(after(all, 3, 0).share() > 0.9);
    }
}
