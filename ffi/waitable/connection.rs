//! A connection that a program waits for by a descriptor.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use superpipe_core::driver::{Interest, WaitFailed};
use superpipe_core::polling::{Arm, Owner, Pollable, Single};

use super::timed_set::{END, TimedSet};
use crate::connection::Connection;
use crate::error::Error;
use crate::os::monotonic_ns;
use crate::watched::{Arming, Polled, next_set};

/// A connection with a descriptor to wait for, for a program with an event loop of its own.
///
/// Try; if there is nothing, [`arm`](Self::arm); unless that says [`Busy`](Arming::Busy), wait until the [descriptor](Self::as_fd) is ready to read; then try again. What comes between a try and the wait makes the
/// descriptor ready. `arm` also sends the keepalives, so it is to be called after each wait.
///
/// ```
/// # use core::time::Duration;
/// # use std::os::fd::AsFd;
/// # use superpipe::{Arming, Connection, Error, Interest, Listener, Options, TryRecv};
/// # fn main() -> Result<(), Error> {
/// # let mut listener = Listener::bind(&"localhost:0".parse().unwrap(), Options::default())?;
/// # let address = listener.local_addr().clone();
/// # let peer = std::thread::spawn(move || -> Result<(), Error> {
/// #     let mut connection = listener.accept(Duration::from_secs(30))?;
/// #     std::thread::sleep(Duration::from_millis(20));
/// #     connection.send(7, &[b"hello"], Duration::from_secs(30))?;
/// #     connection.flush(Duration::from_secs(30))
/// # });
/// let connection = Connection::connect(&address, Options::default(), Duration::from_secs(30))?;
/// let mut waitable = connection.into_waitable().map_err(|(_, error)| error)?;
/// let mut message = [0; 64];
/// let received = loop {
///     if let TryRecv::Received(received) = waitable.connection_for_tries().try_recv(&mut [&mut message])? {
///         break received;
///     }
///     if waitable.arm(Interest::default()) != Arming::Busy {
///         // epoll_wait, ppoll, or an event loop: until the descriptor is ready to read.
///         let mut fds = [rustix::event::PollFd::new(&waitable, rustix::event::PollFlags::IN)];
///         rustix::event::poll(&mut fds, None).unwrap();
///     }
/// };
/// assert_eq!(&message[..received.bytes], b"hello");
/// # drop(waitable);
/// # peer.join().unwrap()
/// # }
/// ```
pub struct WaitableConnection {
    polled: Polled,
    single: Single,
    set: TimedSet,
}

impl Connection {
    /// Gives it a descriptor to wait for, which costs two of the process.
    ///
    /// # Errors
    /// `Os`: too many files are open, or the system can watch no more. The connection is in the error, as it was.
    #[cfg_attr(
        feature = "verbs",
        expect(clippy::result_large_err, reason = "the connection is no part of what failed, and goes on")
    )]
    pub fn into_waitable(self) -> Result<WaitableConnection, (Self, Error)> {
        let set = match TimedSet::new() {
            Ok(set) => set,
            Err(error) => return Err((self, error.into())),
        };
        let (mut set, mut polled) = (set, Polled(self));
        let owner = Owner { set: next_set(), number: END };
        match Single::new(owner, &mut polled, &mut set.epoll, monotonic_ns()) {
            Ok(single) => Ok(WaitableConnection { polled, single, set }),
            Err(error) => Err((polled.0, error.into())),
        }
    }
}

impl WaitableConnection {
    /// Returns the connection, for any call, also one that waits. Its peer does not wake it from now on, until the next [`arm`](Self::arm). Another connection may be put in its place.
    pub fn connection(&mut self) -> &mut Connection {
        let member = self.single.member();
        if member.is_armed() {
            member.activate(&mut self.polled, &mut self.set.epoll, monotonic_ns());
        }
        member.touch();
        &mut self.polled.0
    }

    /// Returns the connection for calls that never wait: tries, operations, streams by tries. If it is armed, it stays so, and calls that find nothing cost no system call. A call that waits would find no rest, and no other connection may
    /// be put in its place: for these there is [`connection`](Self::connection).
    pub const fn connection_for_tries(&mut self) -> &mut Connection {
        self.single.member().touch();
        &mut self.polled.0
    }

    /// Asks for a wake-up once something can be done of what `interest` names, or the connection has ended, and looks once more. Sends a keepalive if one is due.
    ///
    /// To be called when tries have found nothing, and after each wait. [`Busy`](Arming::Busy) may also mean that nothing is there: then the next call after a try says so.
    #[inline]
    pub fn arm(&mut self, interest: Interest) -> Arming {
        self.arm_within(interest, Duration::MAX)
    }

    /// The same, and has the descriptor be ready after `at_most`: for a program that waits for an acknowledgement ([`Connection::flush`]), which may come without a wake-up.
    pub fn arm_within(&mut self, interest: Interest, at_most: Duration) -> Arming {
        let was_ready = self.set.drain();
        let now_ns = monotonic_ns();
        let most_ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        let wish = (interest, was_ready);
        let arm = self.single.arm(&mut self.polled, &mut self.set.epoll, wish, (now_ns, most_ns));
        if let Arm::Pending { at_ns } | Arm::Armed { at_ns } = arm {
            self.set.set_timer(at_ns, now_ns);
        }
        Arming::of(arm, now_ns)
    }

    /// Checks that the peer has shown life within the [idle timeout](crate::Options::idle_timeout), which is counted by calls of [`arm`](Self::arm). The first of these that finds it silent returns
    /// [`Busy`](Arming::Busy).
    ///
    /// # Errors
    /// `Timeout`: it is silent. The connection can still be used.
    pub fn check_silence(&mut self) -> Result<(), Error> {
        let Self { polled, single, set } = self;
        match single.member().is_silent(polled, &mut set.epoll) {
            false => Ok(()),
            true => Err(Error::late(WaitFailed::Silent(polled.idle_timeout_ns(&mut set.epoll)))),
        }
    }

    /// Acknowledges what was taken, unless more is there. Otherwise acknowledgements go out when a quarter of the landing buffer was taken, by the next [`arm`](Self::arm), or after some tries that found nothing: for a
    /// program that took something and may not call anything of this connection for long. The peer may wait for them ([`Connection::flush`]).
    pub fn settle(&mut self) {
        self.polled.settle();
    }

    /// Returns a count that changes with everything that arrives from the peer: data that is taken, acknowledgements, keepalives. For a program of which several parts wait for one connection.
    #[must_use]
    pub fn activity(&mut self) -> u64 {
        self.polled.activity(&mut self.set.epoll)
    }

    /// Returns the connection without its descriptor.
    #[must_use]
    pub fn into_connection(self) -> Connection {
        let Self { mut polled, mut single, mut set } = self;
        single.member().release(&mut polled, &mut set.epoll);
        polled.0
    }
}

impl AsFd for WaitableConnection {
    /// Returns a descriptor that becomes ready to read when there may be something to do. Nothing else may be done with it than to wait for it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl fmt::Debug for WaitableConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitableConnection").field("state", &self.single).finish_non_exhaustive()
    }
}
