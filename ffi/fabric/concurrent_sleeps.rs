//! Sleeps of one end that overlap: those of the two halves of a connection that was split.
//!
//! ```text
//!                  begin              begin                  end: leaves it          end: the last one takes it out
//! none asleep ------------> one ------------> two asleep ------------------> one ------------------------------> none
//!                                    the peer wakes this end: every poll returns
//! ```
//!
//! A wake-up is level-triggered: it stays until the last sleeper has seen it, so it reaches all of them.

/// Count of the sleeps of one end.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentSleeps {
    asleep: u32,
    /// one of them has seen a wake-up, which is still there for the others
    is_woken: bool,
}

impl ConcurrentSleeps {
    pub(crate) const fn new() -> Self {
        Self { asleep: 0, is_woken: false }
    }

    /// Returns true if another sleep is about to end: a sleep that began now would end at once.
    pub(crate) const fn is_ending(&self) -> bool {
        self.is_woken
    }

    /// Returns true if there is no sleep.
    pub(crate) const fn is_empty(&self) -> bool {
        self.asleep == 0
    }

    /// Begins a sleep.
    pub(crate) const fn begin(&mut self) {
        self.asleep += 1;
    }

    /// Ends a sleep that has seen a wake-up, or has not. Returns true if the wake-up is to be taken out: this was the last sleep,
    /// and one of them has seen it.
    pub(crate) const fn end(&mut self, is_woken: bool) -> bool {
        self.asleep -= 1;
        self.is_woken |= is_woken;
        let takes_out = self.asleep == 0 && self.is_woken;
        if self.asleep == 0 {
            self.is_woken = false;
        }
        takes_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asleep(count: u32) -> ConcurrentSleeps {
        let mut sleeps = ConcurrentSleeps::new();
        (0..count).for_each(|_| sleeps.begin());
        sleeps
    }

    #[test]
    fn the_last_one_takes_out_a_wake_up_that_any_has_seen() {
        for woken in 0..8_u32 {
            let mut sleeps = asleep(3);
            let taken: Vec<bool> = (0..3).map(|sleep| sleeps.end(woken >> sleep & 1 == 1)).collect();
            assert_eq!(taken, [false, false, woken != 0], "{woken:b}");
            assert!(sleeps.is_empty() && !sleeps.is_ending());
        }
    }

    #[test]
    fn none_begins_while_another_is_being_woken() {
        let mut sleeps = asleep(2);
        assert!(!sleeps.is_ending());
        assert!(!sleeps.end(true));
        assert!(sleeps.is_ending() && !sleeps.is_empty());
        assert!(sleeps.end(false));
        assert!(!sleeps.is_ending());
    }

    #[test]
    fn one_that_was_not_woken_leaves_the_others_asleep() {
        let mut sleeps = asleep(2);
        assert!(!sleeps.end(false));
        assert!(!sleeps.is_ending() && !sleeps.is_empty());
        sleeps.begin();
        assert!(!sleeps.end(false) && !sleeps.end(false));
        assert!(sleeps.is_empty());
    }
}
