//! A connect that a program waits for by a descriptor.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use superpipe_core::polling::NAP_MAX_NS;

use super::timed_set::{END, TimedSet};
use crate::address::Address;
use crate::blocking::{ConnectProgress, ConnectThreads, PendingConnect};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::os::monotonic_ns;
use crate::os::wakeup::Wakeup;
use crate::watched::Arming;

/// A connect under way, with a descriptor to wait for, for a program with an event loop of its own. Dropping it gives up.
///
/// Over shared memory nothing waits. By RDMA, and by a name that needs a lookup, a thread of its own makes the connection.
///
/// ```
/// # use core::time::Duration;
/// # use superpipe::{Arming, Connecting, Error, Listener, Options};
/// # fn main() -> Result<(), Error> {
/// # let mut listener = Listener::bind(&"localhost:0".parse().unwrap(), Options::default())?;
/// # let address = listener.local_addr().clone();
/// # let peer = std::thread::spawn(move || listener.accept(Duration::from_secs(30)).map(drop));
/// let mut connecting = Connecting::begin(&address, Options::default(), Duration::from_secs(30))?;
/// let connection = loop {
///     if let Some(connection) = connecting.try_finish()? {
///         break connection;
///     }
///     if connecting.arm() != Arming::Busy {
///         let mut fds = [rustix::event::PollFd::new(&connecting, rustix::event::PollFlags::IN)];
///         rustix::event::poll(&mut fds, None).unwrap();
///     }
/// };
/// # drop(connection);
/// # let _ = peer.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Connecting {
    connect: PendingConnect,
    address: Address,
    threads: ConnectThreads,
    set: TimedSet,
    is_over: bool,
    /// Some of its descriptors could not be watched.
    is_unwatched: bool,
}

impl Connecting {
    /// Begins, as [`Connection::connect`].
    ///
    /// # Errors
    /// `Usage`: the options contradict each other. `Os`: too many files are open.
    pub fn begin(address: &Address, options: Options, deadline: impl Into<Deadline>) -> Result<Self, Error> {
        let connect = PendingConnect::new(address, options, deadline.into().at_ns())?;
        let (set, wakeup) = (TimedSet::new()?, Wakeup::new()?);
        set.epoll.watch(wakeup.as_fd(), END)?;
        let threads = ConnectThreads::new(1, wakeup);
        Ok(Self { connect, address: address.clone(), threads, set, is_over: false, is_unwatched: false })
    }

    /// Continues without waiting. Returns the connection once it is made.
    ///
    /// # Errors
    /// As [`Connection::connect`]. `Usage`: the connect is over.
    pub fn try_finish(&mut self) -> Result<Option<Connection>, Error> {
        if self.is_over {
            return Err(Error::new(ErrorKind::Usage, "the connect is over: begin another one"));
        }
        match self.connect.drive(monotonic_ns(), &self.threads) {
            ConnectProgress::Pending => {
                self.watch();
                Ok(None)
            }
            ConnectProgress::Done(ready) => {
                self.is_over = true;
                Ok(Some(ready.into()))
            }
            ConnectProgress::Failed(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    /// Has the descriptor become ready when there is something to do: to be called when [`try_finish`](Self::try_finish) has returned nothing. `Busy`: call that again. After the connect is over it
    /// is always `Busy`.
    pub fn arm(&mut self) -> Arming {
        let is_ready = self.set.drain();
        let now_ns = monotonic_ns();
        let mut at_ns = self.connect.timeout_ns(now_ns);
        if is_ready || self.is_over || at_ns <= now_ns {
            return Arming::Busy;
        }
        if self.is_unwatched {
            at_ns = at_ns.min(now_ns.saturating_add(NAP_MAX_NS));
        }
        self.set.set_timer(at_ns, now_ns);
        Arming::Armed { look_again: Duration::from_nanos(at_ns.saturating_sub(now_ns)) }
    }

    fn watch(&mut self) {
        let Some(fds) = self.connect.unwatched() else { return };
        let watched = fds.iter().filter_map(|fd| fd.fd()).try_for_each(|fd| self.set.epoll.watch(fd, END));
        self.is_unwatched = watched.is_err();
        if !self.is_unwatched {
            self.connect.note_watched();
        }
    }
}

impl AsFd for Connecting {
    /// Returns a descriptor that becomes ready to read when there may be something to do. Nothing else may be done with it than to wait for it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("address", &self.address).finish_non_exhaustive()
    }
}
