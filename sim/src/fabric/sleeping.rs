//! Sleep words of both ends (wire/shm.md 7.1), for ends that a poller drives. Nobody else sets one.

/// Sleep words, and the wake-ups that were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SleepWords {
    asleep: [bool; 2],
    /// Writes of an end leave its peer asleep.
    quiet: [bool; 2],
    woken: [bool; 2],
}

impl SleepWords {
    /// Sets the word of an end.
    pub(crate) const fn set(&mut self, side: usize, is_asleep: bool) {
        self.asleep[side] = is_asleep;
    }

    pub(super) const fn set_quiet(&mut self, side: usize, is_quiet: bool) {
        self.quiet[side] = is_quiet;
    }

    /// Loads the peer's word after writes of an end, exchanges it, and sends the wake-up.
    pub(super) const fn load(&mut self, side: usize) {
        let peer = 1 - side;
        if self.asleep[peer] && !self.quiet[side] {
            (self.asleep[peer], self.woken[peer]) = (false, true);
        }
    }

    /// Takes the wake-up that was sent to an end.
    pub(crate) const fn take_woken(&mut self, side: usize) -> bool {
        core::mem::replace(&mut self.woken[side], false)
    }
}
