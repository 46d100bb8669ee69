//! What the two ends have said to each other about sleeping, where no write is told of by itself. wire.md 10.4.
//!
//! ```text
//! this end's sleep            ask                  SLEEP-OK
//!                   AWAKE ----------> ASKED ------------------> GRANTED
//!                     ^                 |          WAKE            |
//!                     +-----------------+--------------------------+
//!
//! the peer's        SLEEP: it is owed SLEEP-OK, and WAKE behind the next write
//! ```
//!
//! What is due stays due until it was said: the send queue may be full.

use super::mail::Word;

/// How far this end is with falling asleep, and what it owes to the peer's sleep.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    own: Own,
    owes_sleep: bool,
    owes_ok: bool,
    peer_sleeps: bool,
    is_quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Own {
    #[default]
    Awake,
    Asked,
    /// The peer will say WAKE with its next write.
    Granted,
}

impl Sleep {
    /// This end wants to sleep: SLEEP is due, unless it was said already.
    pub(super) fn ask(&mut self) {
        if self.own == Own::Awake {
            self.own = Own::Asked;
            self.owes_sleep = true;
        }
    }

    /// Whether the peer wakes this end.
    pub(super) fn is_granted(&self) -> bool {
        self.own == Own::Granted
    }

    /// What the peer says of sleeping; a notice says nothing of it.
    pub(super) fn hear(&mut self, word: Word) {
        match word {
            Word::Sleep => (self.peer_sleeps, self.owes_ok) = (true, true),
            Word::SleepOk if self.own == Own::Asked => self.own = Own::Granted,
            Word::Wake => self.own = Own::Awake,
            // A late answer.
            Word::SleepOk | Word::Notice(_) => {}
        }
    }

    /// Whether anything is to be said without a write.
    #[inline]
    pub(super) const fn is_due(&self) -> bool {
        self.owes_ok | self.owes_sleep
    }

    /// What is to be said next.
    pub(super) const fn due(&self) -> Option<Word> {
        match (self.owes_ok, self.owes_sleep) {
            (true, _) => Some(Word::SleepOk),
            (false, true) => Some(Word::Sleep),
            (false, false) => None,
        }
    }

    /// What [`due`](Self::due) gave was said.
    pub(super) const fn said_due(&mut self) {
        if self.owes_ok {
            self.owes_ok = false;
        } else {
            self.owes_sleep = false;
        }
    }

    /// Whether WAKE is to go behind the next write.
    #[inline]
    pub(super) const fn owes_wake(&self) -> bool {
        self.peer_sleeps && !self.is_quiet
    }

    /// Whether the next writes are not worth a WAKE. It stays owed.
    pub(super) const fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// WAKE goes out: once for each SLEEP.
    #[inline]
    pub(super) const fn said_wake(&mut self) {
        self.peer_sleeps = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says all that is due.
    fn say(sleep: &mut Sleep) -> Vec<Word> {
        core::iter::from_fn(|| {
            let word = sleep.due()?;
            sleep.said_due();
            Some(word)
        })
        .collect()
    }

    #[test]
    fn a_sleep_is_asked_for_once_granted_and_ended_by_wake() {
        let mut sleep = Sleep::default();
        for _ in 0..3 {
            assert!(!sleep.is_due());
            sleep.ask();
            assert!(sleep.is_due() && !sleep.is_granted());
            assert_eq!(say(&mut sleep), [Word::Sleep]);
            sleep.ask();
            assert_eq!(say(&mut sleep), [], "at most one SLEEP is not answered");
            sleep.hear(Word::SleepOk);
            assert!(sleep.is_granted());
            sleep.ask();
            assert_eq!(say(&mut sleep), []);
            sleep.hear(Word::Wake);
            assert!(!sleep.is_granted());
        }
    }

    #[test]
    fn what_is_due_stays_due_until_it_was_said() {
        let mut sleep = Sleep::default();
        sleep.ask();
        sleep.hear(Word::Sleep);
        for _ in 0..3 {
            assert_eq!(sleep.due(), Some(Word::SleepOk), "nobody had a place for it");
            assert!(sleep.is_due());
        }
        assert_eq!(say(&mut sleep), [Word::SleepOk, Word::Sleep], "the peer's first");
        assert!(!sleep.is_due());
    }

    #[test]
    fn each_sleep_of_the_peer_is_owed_one_wake() {
        let mut sleep = Sleep::default();
        assert!(!sleep.owes_wake());
        for _ in 0..2 {
            sleep.hear(Word::Sleep);
            assert_eq!(say(&mut sleep), [Word::SleepOk]);
            assert!(sleep.owes_wake(), "the answer is no write");
            sleep.set_quiet(true);
            assert!(!sleep.owes_wake());
            sleep.set_quiet(false);
            assert!(sleep.owes_wake(), "behind a write that is worth it");
            sleep.said_wake();
            assert!(!sleep.owes_wake());
        }
    }

    #[test]
    fn a_late_answer_grants_nothing_to_whoever_is_awake() {
        let mut sleep = Sleep::default();
        sleep.hear(Word::SleepOk);
        assert!(!sleep.is_granted(), "never asked");
        sleep.ask();
        sleep.hear(Word::Wake);
        sleep.hear(Word::SleepOk);
        assert!(!sleep.is_granted(), "woken before the answer came");
        sleep.hear(Word::Notice(7));
        assert!(!sleep.is_granted() && !sleep.owes_wake());
    }
}
