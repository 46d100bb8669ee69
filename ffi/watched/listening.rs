//! A listener that accepts beside everything else: of a poller, or one alone that a program waits for.

use crate::blocking::{Acceptor, ReadyConnection};
use crate::error::{Error, ErrorKind};
use crate::os::OsError;
use crate::os::epoll::Epoll;

/// Half of the time from a look at half-open connections that found nothing to the next: their messages make no descriptor ready. It doubles with each.
const PAUSE_NS: u64 = 20_000;
/// Longest such time: a client that says nothing costs at most a hundredth of a core.
const PAUSE_MAX_NS: u64 = 1_000_000;
/// First and longest time between two tries while this process or host lacks what a connection needs: descriptors, a device.
const LACK_NS: u64 = 10_000_000;
const LACK_MAX_NS: u64 = 1_000_000_000;

/// Tries while something is lacking. Each pause is twice as long as the one before; a try for which a client is the reason leaves it as it is.
struct Retries {
    pause_ns: u64,
    /// Time of the next try.
    at_ns: u64,
}

impl Retries {
    const NEW: Self = Self { pause_ns: LACK_NS, at_ns: 0 };

    /// Returns when to try again, after a try at this time.
    fn next_ns(&mut self, now_ns: u64) -> u64 {
        if now_ns >= self.at_ns {
            self.at_ns = now_ns.saturating_add(self.pause_ns);
            self.pause_ns = (2 * self.pause_ns).min(LACK_MAX_NS);
        }
        self.at_ns
    }
}

/// A listener.
pub(crate) struct Listening {
    acceptor: Acceptor,
    pause_ns: u64,
    retries: Retries,
    /// Time until which nothing is tried, since an attempt failed for lack of something.
    lacks_until_ns: u64,
    /// Error of the newest client that did not become a connection.
    failed: Option<Error>,
    /// Time of the next look at the latest.
    pub(crate) due_ns: u64,
}

impl Listening {
    pub(crate) const fn new(acceptor: Acceptor) -> Self {
        Self {
            acceptor,
            pause_ns: PAUSE_NS,
            retries: Retries::NEW,
            lacks_until_ns: 0,
            failed: None,
            due_ns: 0,
        }
    }

    pub(crate) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    pub(crate) fn into_acceptor(self) -> Acceptor {
        self.acceptor
    }

    /// Begins to watch for clients.
    ///
    /// # Errors
    /// The system cannot watch more.
    pub(crate) fn watch(&self, epoll: &Epoll, number: u64) -> Result<(), OsError> {
        self.acceptor.interests().iter().filter_map(|fd| fd.fd()).try_for_each(|fd| epoll.watch(fd, number))
    }

    /// Takes the next connection if one is made, and sets when to look again.
    ///
    /// # Errors
    /// Of one attempt.
    pub(crate) fn accept(&mut self, now_ns: u64) -> Result<Option<ReadyConnection>, Error> {
        let accepted = self.acceptor.try_accept();
        let lacks = accepted.as_ref().is_err_and(|error| {
            matches!(error.kind(), ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device)
                && !error.is_refusal()
        });
        // What a client does can make the device fail an attempt, too, so this pause does not grow.
        self.lacks_until_ns = if lacks { now_ns.saturating_add(LACK_NS) } else { 0 };
        if lacks {
            // A peer that fails so often holds up no other one that has begun.
            let most_ns = if self.acceptor.has_begun() { now_ns.saturating_add(LACK_NS) } else { u64::MAX };
            self.due_ns = self.retries.next_ns(now_ns).min(most_ns).max(self.lacks_until_ns);
            return accepted;
        }
        let has_moved = !matches!(accepted, Ok(None));
        let is_busy = has_moved || self.acceptor.has_more() || self.acceptor.is_busy();
        if matches!(accepted, Ok(Some(_))) {
            self.retries = Retries::NEW;
        }
        self.pause_ns = if has_moved { PAUSE_NS } else { (2 * self.pause_ns).min(PAUSE_MAX_NS) };
        self.due_ns = if has_moved || self.acceptor.has_more() {
            now_ns
        } else if is_busy {
            now_ns.saturating_add(self.pause_ns)
        } else {
            self.pause_ns = PAUSE_NS;
            u64::MAX
        };
        // Clients of other devices, and of this host, go on.
        if self.acceptor.lacks_device() {
            self.due_ns = self.due_ns.min(self.retries.next_ns(now_ns));
        }
        accepted
    }

    /// Returns when a listener is to be looked at that is not woken by clients: in a pause for lack of something at its end, since nothing is tried before.
    pub(crate) fn look_at_ns(&self, now_ns: u64) -> u64 {
        if self.lacks(now_ns) { self.lacks_until_ns } else { self.due_ns }
    }

    /// Returns true while nothing is tried, since something was lacking a moment ago.
    pub(crate) const fn lacks(&self, now_ns: u64) -> bool {
        now_ns < self.lacks_until_ns
    }

    /// Begins a pause, as after an attempt that failed for lack of something. What was due before is not tried in it.
    #[cfg(test)]
    pub(crate) const fn lack_until(&mut self, until_ns: u64) {
        (self.lacks_until_ns, self.due_ns) = (until_ns, until_ns / 2);
    }

    /// Keeps the error of a client that did not become a connection.
    pub(crate) fn keep_error(&mut self, error: Error) {
        self.failed = Some(error);
    }

    /// Takes that error.
    pub(crate) const fn take_error(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Notes that a client came.
    pub(crate) const fn wake(&mut self) {
        self.pause_ns = PAUSE_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_do_not_make_the_pause_longer() {
        let (mut retries, mut alone) = (Retries::NEW, Retries::NEW);
        let mut at_ns = 0;
        for _ in 0..12 {
            let next_ns = alone.next_ns(at_ns);
            for client_ns in (at_ns..next_ns).step_by(1_000_000) {
                assert_eq!(retries.next_ns(client_ns), next_ns);
            }
            at_ns = next_ns;
        }
        assert_eq!(at_ns, (10 + 20 + 40 + 80 + 160 + 320 + 640 + 5 * 1000) * 1_000_000);
    }
}
