//! A listener that a program waits for by a descriptor.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use super::timed_set::{END, TimedSet};
use crate::address::Address;
use crate::connection::Connection;
use crate::error::Error;
use crate::listener::Listener;
use crate::os::monotonic_ns;
use crate::watched::{Arming, Listening};

/// A listener with a descriptor to wait for, for a program with an event loop of its own.
///
/// Try to accept; if nobody is there, [`arm`](Self::arm); unless that says [`Busy`](Arming::Busy), wait until the [descriptor](Self::as_fd) is ready to read; then try again.
pub struct WaitableListener {
    listening: Listening,
    set: TimedSet,
}

impl Listener {
    /// Gives it a descriptor to wait for, which costs two of the process.
    ///
    /// # Errors
    /// `Os`: too many files are open, or the system can watch no more. The listener is in the error, as it was.
    #[expect(clippy::result_large_err, reason = "the listener is no part of what failed, and goes on")]
    pub fn into_waitable(self) -> Result<WaitableListener, (Self, Error)> {
        let listening = Listening::new(self.into_acceptor());
        let set = TimedSet::new().and_then(|set| listening.watch(&set.epoll, END).map(|()| set));
        match set {
            Ok(set) => Ok(WaitableListener { listening, set }),
            Err(error) => Err((listening.into_acceptor().into(), error.into())),
        }
    }
}

impl WaitableListener {
    /// Takes the next connection if one is established, and continues those that are not, without waiting.
    ///
    /// # Errors
    /// As [`Listener::try_accept`]. The next call goes on; while this process lacks what a connection needs, such as descriptors, it tries again after 10 ms, and returns nothing before.
    pub fn try_accept(&mut self) -> Result<Option<Connection>, Error> {
        let now_ns = monotonic_ns();
        if self.listening.lacks(now_ns) {
            return Ok(None);
        }
        Ok(self.listening.accept(now_ns)?.map(Connection::from))
    }

    /// Has the descriptor become ready when a client comes, or it is time to continue those that are half-open: to be called when [`try_accept`](Self::try_accept) has found nothing. `Busy`: call that again.
    /// `Pending`: handshakes go on, or something is lacking. `Armed`: a client makes the descriptor ready, and no look is due (`Duration::MAX`).
    pub fn arm(&mut self) -> Arming {
        let is_ready = self.set.drain();
        let now_ns = monotonic_ns();
        if is_ready && !self.listening.lacks(now_ns) {
            self.listening.wake();
            return Arming::Busy;
        }
        let at_ns = self.listening.look_at_ns(now_ns);
        if at_ns <= now_ns {
            return Arming::Busy;
        }
        self.set.set_timer(at_ns, now_ns);
        match at_ns {
            u64::MAX => Arming::Armed { look_again: Duration::MAX },
            _ => Arming::Pending,
        }
    }

    /// Returns the address that it listens at: [`Listener::local_addr`].
    #[must_use]
    pub const fn local_addr(&self) -> &Address {
        self.listening.acceptor().listeners().address()
    }

    /// Returns the listener without its descriptor.
    #[must_use]
    pub fn into_listener(self) -> Listener {
        self.listening.into_acceptor().into()
    }
}

impl AsFd for WaitableListener {
    /// Returns a descriptor that becomes ready to read when there may be something to do. Nothing else may be done with it than to wait for it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl fmt::Debug for WaitableListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitableListener").field("address", self.local_addr()).finish_non_exhaustive()
    }
}
