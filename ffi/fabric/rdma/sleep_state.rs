//! Signals that both ends have exchanged about sleeping, for arrival modes without notifications. wire.md 10.4.
//!
//! ```text
//! this end's sleep          request                SLEEP-OK
//!                   AWAKE ----------> REQUESTED --------------> GRANTED
//!                     ^                 |          WAKE            |
//!                     +-----------------+--------------------------+
//!
//! the peer's sleep  SLEEP: SLEEP-OK is due, and WAKE behind the next write
//! ```
//!
//! A signal stays due until it was sent, since the send queue may be full.

use super::signal::Signal;

/// State of this end's sleep, and the signals due to the peer's.
#[derive(Debug, Default)]
pub(super) struct SleepState {
    own: OwnSleep,
    is_sleep_due: bool,
    is_sleep_ok_due: bool,
    peer_sleeps: bool,
    is_quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OwnSleep {
    #[default]
    Awake,
    Requested,
    /// The peer will send WAKE behind its next write.
    Granted,
}

impl SleepState {
    /// Requests that the peer wake this end: SLEEP is due, unless it was sent and not answered.
    pub(super) fn request(&mut self) {
        if self.own == OwnSleep::Awake {
            self.own = OwnSleep::Requested;
            self.is_sleep_due = true;
        }
    }

    /// Returns true if the peer will wake this end.
    pub(super) fn is_granted(&self) -> bool {
        self.own == OwnSleep::Granted
    }

    /// Handles a signal of the peer; a notification changes nothing.
    pub(super) fn handle_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Sleep => (self.peer_sleeps, self.is_sleep_ok_due) = (true, true),
            Signal::SleepOk if self.own == OwnSleep::Requested => self.own = OwnSleep::Granted,
            Signal::Wake => self.own = OwnSleep::Awake,
            // A SLEEP-OK that is late: this end was woken meanwhile.
            Signal::SleepOk | Signal::Notification(_) => {}
        }
    }

    /// Returns true if a signal is due that waits for no write.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.is_sleep_ok_due | self.is_sleep_due
    }

    /// Returns the next signal that is due.
    pub(super) const fn due(&self) -> Option<Signal> {
        match (self.is_sleep_ok_due, self.is_sleep_due) {
            (true, _) => Some(Signal::SleepOk),
            (false, true) => Some(Signal::Sleep),
            (false, false) => None,
        }
    }

    /// Notes that the signal of [`due`](Self::due) was sent.
    pub(super) const fn sent_due(&mut self) {
        if self.is_sleep_ok_due {
            self.is_sleep_ok_due = false;
        } else {
            self.is_sleep_due = false;
        }
    }

    /// Returns true if WAKE must follow the next write.
    #[inline]
    pub(super) const fn owes_wake(&self) -> bool {
        self.peer_sleeps && !self.is_quiet
    }

    /// Sets that the next writes need no WAKE. It stays due for later ones.
    pub(super) const fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Notes that WAKE was sent, once for each SLEEP.
    #[inline]
    pub(super) const fn sent_wake(&mut self) {
        self.peer_sleeps = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all that is due.
    fn send(sleep: &mut SleepState) -> Vec<Signal> {
        core::iter::from_fn(|| {
            let signal = sleep.due()?;
            sleep.sent_due();
            Some(signal)
        })
        .collect()
    }

    #[test]
    fn a_sleep_is_requested_once_granted_and_ended_by_wake() {
        let mut sleep = SleepState::default();
        for _ in 0..3 {
            assert!(!sleep.is_due());
            sleep.request();
            assert!(sleep.is_due() && !sleep.is_granted());
            assert_eq!(send(&mut sleep), [Signal::Sleep]);
            sleep.request();
            assert_eq!(send(&mut sleep), [], "at most one SLEEP is not answered");
            sleep.handle_signal(Signal::SleepOk);
            assert!(sleep.is_granted());
            sleep.request();
            assert_eq!(send(&mut sleep), []);
            sleep.handle_signal(Signal::Wake);
            assert!(!sleep.is_granted());
        }
    }

    #[test]
    fn a_due_signal_stays_due_until_it_is_sent() {
        let mut sleep = SleepState::default();
        sleep.request();
        sleep.handle_signal(Signal::Sleep);
        for _ in 0..3 {
            assert_eq!(sleep.due(), Some(Signal::SleepOk), "the send queue was full");
            assert!(sleep.is_due());
        }
        assert_eq!(send(&mut sleep), [Signal::SleepOk, Signal::Sleep], "the peer's first");
        assert!(!sleep.is_due());
    }

    #[test]
    fn each_sleep_of_the_peer_is_owed_one_wake() {
        let mut sleep = SleepState::default();
        assert!(!sleep.owes_wake());
        for _ in 0..2 {
            sleep.handle_signal(Signal::Sleep);
            assert_eq!(send(&mut sleep), [Signal::SleepOk]);
            assert!(sleep.owes_wake(), "the answer is no write");
            sleep.set_quiet(true);
            assert!(!sleep.owes_wake());
            sleep.set_quiet(false);
            assert!(sleep.owes_wake(), "behind a write that is worth it");
            sleep.sent_wake();
            assert!(!sleep.owes_wake());
        }
    }

    #[test]
    fn a_late_sleep_ok_grants_nothing() {
        let mut sleep = SleepState::default();
        sleep.handle_signal(Signal::SleepOk);
        assert!(!sleep.is_granted(), "never asked");
        sleep.request();
        sleep.handle_signal(Signal::Wake);
        sleep.handle_signal(Signal::SleepOk);
        assert!(!sleep.is_granted(), "woken before the answer came");
        sleep.handle_signal(Signal::Notification(7));
        assert!(!sleep.is_granted() && !sleep.owes_wake());
    }
}
