//! Sleeps of one end that go on at the same time: those of the two halves of a connection that was split.
//!
//! ```text
//!                  begin              begin                  end: leaves it          end: the last one takes it out
//! none asleep ------------> one ------------> two asleep ------------------> one ------------------------------> none
//!                                    the peer wakes this end: every poll returns
//! ```
//!
//! What wakes is level-triggered: it is left where it is until the last sleeper has seen it, so it reaches all of them.

/// Sleepers of one end.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    asleep: u32,
    /// One of them has seen what wakes, which is still there for the others.
    is_told: bool,
}

impl Sleepers {
    pub(crate) const fn new() -> Self {
        Self { asleep: 0, is_told: false }
    }

    /// Returns true if another sleeper is about to wake: a sleep that began now would end at once.
    pub(crate) const fn is_ending(&self) -> bool {
        self.is_told
    }

    /// Returns true if nobody sleeps.
    pub(crate) const fn is_empty(&self) -> bool {
        self.asleep == 0
    }

    /// A sleep begins.
    pub(crate) const fn begin(&mut self) {
        self.asleep += 1;
    }

    /// A sleep ends that was told of what wakes, or not. Returns true if what wakes is to be taken out: nobody sleeps any more,
    /// and it was told of.
    pub(crate) const fn end(&mut self, is_told: bool) -> bool {
        self.asleep -= 1;
        self.is_told |= is_told;
        let takes_out = self.asleep == 0 && self.is_told;
        if self.asleep == 0 {
            self.is_told = false;
        }
        takes_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asleep(count: u32) -> Sleepers {
        let mut sleepers = Sleepers::new();
        (0..count).for_each(|_| sleepers.begin());
        sleepers
    }

    #[test]
    fn the_last_one_takes_out_what_any_was_told_of() {
        for told in 0..8_u32 {
            let mut sleepers = asleep(3);
            let taken: Vec<bool> = (0..3).map(|sleep| sleepers.end(told >> sleep & 1 == 1)).collect();
            assert_eq!(taken, [false, false, told != 0], "{told:b}");
            assert!(sleepers.is_empty() && !sleepers.is_ending());
        }
    }

    #[test]
    fn none_begins_while_another_has_yet_to_see_what_wakes() {
        let mut sleepers = asleep(2);
        assert!(!sleepers.is_ending());
        assert!(!sleepers.end(true));
        assert!(sleepers.is_ending() && !sleepers.is_empty());
        assert!(sleepers.end(false));
        assert!(!sleepers.is_ending());
    }

    #[test]
    fn one_that_was_not_woken_leaves_the_others_asleep() {
        let mut sleepers = asleep(2);
        assert!(!sleepers.end(false));
        assert!(!sleepers.is_ending() && !sleepers.is_empty());
        sleepers.begin();
        assert!(!sleepers.end(false) && !sleepers.end(false));
        assert!(sleepers.is_empty());
    }
}
