//! Many connections in one thread.
//!
//! ```text
//! call        rounds, looks at what is ready and due, waits    events     what is reported
//! accepting   listeners                                        connecting connects under way
//! entry       what is in a slot                                options
//! addresses   where it listens
//! ```
//!
//! Core decides ([`superpipe_core::polling`]): whose turn it is, who sleeps, what is due. Here are descriptors, the clock, and sleep.

mod accepting;
mod addresses;
mod call;
mod connecting;
mod entry;
mod events;
mod options;

use core::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use superpipe_core::driver::Interest;
use superpipe_core::polling::{Arm, Key, Naps, PollerClock, Rounds, Slot};

use crate::blocking::ConnectThreads;
use crate::connection::Connection;
use crate::error::{Error, ErrorKind};
use crate::fabric::Shards;
use crate::metrics::PollerReport;
use crate::os::OsError;
use crate::os::epoll::Epoll;
use crate::os::monotonic_ns;
use crate::os::timer::Timer;
use crate::os::wakeup::Wakeup;
use crate::watched::{Arming, next_set};
use entry::Entry;
pub use events::{PollEvent, PollEvents};
pub use options::PollerOptions;

/// Maximum number of connections and listeners of one poller.
const SLOTS_MAX: u32 = 1 << 16;
/// Maximum number of connects that threads make at a time.
const THREADS_MAX: u32 = 16;

/// Drives many connections and listeners, of any fabric, in one thread.
///
/// [`poll`](Self::poll) reports what can be done, and the calls of each [connection](Self::connection) do it. A call costs what is active: connections on which nothing happens wait for a wake-up
/// from their peers. Connections take turns, and none is reported more than once per call for the same thing.
///
/// ```
/// # use core::time::Duration;
/// # use std::collections::HashMap;
/// # use superpipe::{Connection, Drive, Error, Options, PollEvent, PollEvents, Poller, PollerOptions, RecvOperation, TrySend};
/// # fn main() -> Result<(), Error> {
/// let mut poller = Poller::new(PollerOptions::default())?;
/// let listener = poller.listen(&"localhost:0".parse().unwrap(), Options::default())?;
/// # let address = poller.local_addr(listener).unwrap().clone();
/// # let client = std::thread::spawn(move || -> Result<(), Error> {
/// #     let mut connection = Connection::connect(&address, Options::default(), Duration::from_secs(30))?;
/// #     connection.send(7, &[b"hello"], Duration::from_secs(30))?;
/// #     let mut answer = [0; 64];
/// #     let received = connection.recv_into(&mut [&mut answer], Duration::from_secs(30))?;
/// #     assert_eq!(&answer[..received.bytes], b"hello");
/// #     Ok(())
/// # });
/// let mut events = PollEvents::with_capacity(64);
/// let mut clients = HashMap::new();
/// # let mut has_ended = false;
/// # while !has_ended {
/// // in a loop:
/// poller.poll(&mut events, Duration::from_secs(1))?;
/// for event in &events {
///     match event {
///         PollEvent::Accepted { connection: key, .. } => {
///             clients.insert(key, (RecvOperation::new(), vec![0; 64 << 10]));
///         }
///         PollEvent::Readable { connection: key } => {
///             let Some(connection) = poller.connection(key) else { continue };
///             let Some((receive, message)) = clients.get_mut(&key) else { continue };
///             let is_served = match connection.drive_recv(receive, &mut [&mut *message]) {
///                 Ok(Drive::Done(received)) => {
///                     *receive = RecvOperation::new();
///                     let sent = connection.try_send(received.tag, &[&message[..received.bytes]]);
///                     matches!(sent, Ok(TrySend::Sent)) // or keep the answer, and ask for Writable
///                 }
///                 Ok(Drive::Moved | Drive::Idle) => true, // a part of a message is here
///                 Err(_) => false,
///             };
///             if !is_served {
///                 drop(poller.remove(key));
///             }
///         }
///         PollEvent::Ended { connection: key } | PollEvent::Silent { connection: key } => {
///             clients.remove(&key);
///             drop(poller.remove(key));
/// #           has_ended = true;
///         }
///         _ => {}
///     }
/// }
/// # }
/// # client.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
///
/// [`poll`](Self::poll) allocates nothing, except for connections that are being made. Dropping a poller drops its connections one after the other. **After fork** it belongs to the process that made it; the child may only drop it.
pub struct Poller {
    options: PollerOptions,
    rounds: EntryRounds,
    clock: PollerClock,
    counts: Counts,
    epoll: Epoll,
    /// Makes the set ready when something is due, for a program that waits for that.
    timer: Timer,
    /// Calls of `arm` in a row that found nothing to do, and a connection that cannot be armed.
    naps: Naps,
    threads: ConnectThreads,
    /// Resources that its connections share.
    shards: Shards,
    metrics: PollerReport,
}

/// Memory for all is allocated when they are made.
type EntryRounds = Rounds<Entry, Vec<Slot<Entry>>, Vec<u32>, Vec<u64>>;

/// Places that are taken.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    connections: u32,
    listeners: u32,
}

impl Poller {
    /// Makes a poller without connections.
    ///
    /// # Errors
    /// `Usage`: no place for a connection, or more than 65,536 for connections and listeners. `Os`, `Limit`: too many files are open.
    pub fn new(options: PollerOptions) -> Result<Self, Error> {
        let slots = options.connections_max.saturating_add(options.listeners_max);
        let refuse = |why| Err(Error::new(ErrorKind::Usage, why));
        if options.connections_max == 0 {
            return refuse("a poller without a place for a connection; set connections_max".to_owned());
        }
        if slots > SLOTS_MAX {
            return refuse(format!(
                "a poller has places for {SLOTS_MAX} connections and listeners at most, and not {slots}; lower connections_max"
            ));
        }
        let (epoll, timer, wakeup) = (Epoll::new()?, Timer::new()?, Wakeup::new()?);
        epoll.watch(wakeup.as_fd(), call::WAKEUP)?;
        epoll.watch(timer.as_fd(), call::TIMER)?;
        let poller = next_set();
        let shards = Shards::new(poller, &wakeup);
        let capacity = slots as usize;
        let empty = (0..slots).map(|_| Slot::default()).collect();
        let quiet_ns = u64::try_from(options.quiet_after.as_nanos()).unwrap_or(u64::MAX);
        let mut made = Self {
            options,
            rounds: Rounds::new(poller, quiet_ns, (empty, vec![0; capacity], vec![0; capacity])),
            clock: PollerClock::new(monotonic_ns()),
            counts: Counts::default(),
            epoll,
            timer,
            naps: Naps::default(),
            threads: ConnectThreads::new(THREADS_MAX, wakeup).sharing(shards.clone()),
            shards,
            metrics: PollerReport::new(u64::from(poller) + 1),
        };
        made.copy_counts();
        Ok(made)
    }

    /// Takes a connection in that was made elsewhere.
    ///
    /// # Errors
    /// `Limit`, `Os`: there is no place for it, or the system can watch no more descriptors. The connection is in the error.
    #[cfg_attr(
        feature = "verbs",
        expect(clippy::result_large_err, reason = "the connection is no part of what failed, and goes on")
    )]
    pub fn adopt(&mut self, connection: Connection) -> Result<Key, (Connection, Error)> {
        if !self.has_place() {
            return Err((connection, full("connections", self.options.connections_max)));
        }
        match self.rounds.insert(Entry::of_connection(connection, self.clock.now_ns())) {
            Ok(key) => {
                self.counts.connections += 1;
                match self.establish(key) {
                    Ok(()) => Ok(key),
                    Err(error) => match self.remove(key) {
                        Some(connection) => Err((connection, error.into())),
                        None => unreachable!("it was put there above"),
                    },
                }
            }
            Err(Entry::Member(_, polled)) => {
                Err((polled.0, full("connections", self.options.connections_max)))
            }
            Err(_) => unreachable!("it is a member"),
        }
    }

    /// Returns a connection, for its calls. A call that waits makes all other connections wait: use tries and operations. Another connection may be put in its place, and is driven from then on. `None`: the
    /// key is stale, or names no connection that is made.
    ///
    /// A connection that waits for a wake-up is polled again until it is quiet, which costs a few system calls.
    #[inline]
    pub fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        let now_ns = self.clock.now_ns();
        Some(&mut self.rounds.touch(key, &mut self.epoll, now_ns)?.0)
    }

    /// Sets what is reported of a connection from now on. Returns false if the key is stale, or names no connection that is made.
    pub fn set_interest(&mut self, key: Key, interest: Interest) -> bool {
        self.rounds.set_interest(key, interest, &mut self.epoll, self.clock.now_ns())
    }

    /// Takes the error of a connect that failed, and frees its place. The key is stale from now on. `None`: it has not failed, or the key is stale.
    pub fn take_error(&mut self, key: Key) -> Option<Error> {
        self.rounds.get(key).filter(|entry| matches!(entry, Entry::Failed(_)))?;
        match self.take_out(key) {
            Some(Entry::Failed(error)) => Some(error),
            _ => None,
        }
    }

    /// Takes the error of the newest client of a listener that did not become a connection, which [`PollEvent::AcceptFailed`] reported: its text says why. A call of [`poll`](Self::poll) reports one such client of
    /// a listener at most, so each report has its own error until the next call. `None`: it was taken, or the key is stale, or names no listener.
    pub fn take_accept_error(&mut self, listener: Key) -> Option<Error> {
        match self.rounds.get_mut(listener)? {
            Entry::Listening(listening) => listening.take_error(),
            _ => None,
        }
    }

    /// Removes what a key names, and returns the connection if it is one that is made. Dropping that closes it; over RDMA the drop waits as [`Options::linger`](crate::Options::linger) says, and all other connections wait meanwhile. A listener stops listening, and a connect is given up. The key is stale from
    /// now on.
    pub fn remove(&mut self, key: Key) -> Option<Connection> {
        match self.take_out(key)? {
            Entry::Member(mut member, mut polled) => {
                member.release(&mut polled, &mut self.epoll);
                Some(polled.0)
            }
            Entry::Listening(_) | Entry::Connecting(_) | Entry::Failed(_) => None,
        }
    }

    /// Returns the count of connections, those that are being made or have failed included.
    #[must_use]
    pub const fn connection_count(&self) -> usize {
        self.counts.connections as usize
    }

    /// Has all connections without work wait for a wake-up, so that the [descriptor](Self::as_fd) becomes ready when one has some, or something is due: for a program with an event loop.
    ///
    /// To be called after a [`poll`](Self::poll) that did not wait and reported nothing. Unless it returns [`Arming::Busy`], the program waits until the descriptor is ready, and then polls. Between the two calls nothing
    /// is lost: what comes meanwhile makes the descriptor ready. A program that takes a [connection](Self::connection) after it, connects or listens, calls `poll` and `arm` again before it waits.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use std::os::fd::AsFd;
    /// # use superpipe::{Arming, Error, Options, PollEvents, Poller, PollerOptions};
    /// # fn main() -> Result<(), Error> {
    /// # let mut poller = Poller::new(PollerOptions::default())?;
    /// # poller.listen(&"localhost:0".parse().unwrap(), Options::default())?;
    /// let mut events = PollEvents::with_capacity(64);
    /// poller.poll(&mut events, Duration::ZERO)?;
    /// if events.is_empty() && poller.arm() != Arming::Busy {
    ///     // epoll_wait, ppoll, or an event loop: until poller.as_fd() is ready to read.
    ///     # let _ = poller.as_fd();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn arm(&mut self) -> Arming {
        let now_ns = monotonic_ns();
        self.clock.note(now_ns);
        // What the descriptor has told makes it ready once. A program that waits for changes of it would not hear of it again.
        if self.take_ready() {
            return Arming::Busy;
        }
        let mut arm = self.rounds.arm(&mut self.epoll, now_ns, &mut self.naps);
        if self.arm_shards() {
            self.naps.reset();
            arm = Arm::Busy;
        }
        if let Arm::Pending { at_ns } | Arm::Armed { at_ns } = arm {
            self.timer.set(at_ns, now_ns);
        }
        Arming::of(arm, now_ns)
    }

    const fn has_place(&self) -> bool {
        self.counts.connections < self.options.connections_max
    }

    fn insert(&mut self, entry: Entry) -> Result<Key, Error> {
        let places = self.options.connections_max;
        self.rounds.insert(entry).map_err(|_| full("connections", places))
    }

    /// Begins to look at a connection that was put into its slot.
    ///
    /// # Errors
    /// The system can watch no more.
    fn establish(&mut self, key: Key) -> Result<(), OsError> {
        self.shards.watch(&self.epoll, call::SHARDS)?;
        self.rounds.establish(key, &mut self.epoll, self.clock.now_ns())
    }

    /// Takes an entry out.
    fn take_out(&mut self, key: Key) -> Option<Entry> {
        let entry = self.rounds.remove(key)?;
        match &entry {
            Entry::Listening(_) => self.counts.listeners -= 1,
            Entry::Connecting(_) | Entry::Failed(_) | Entry::Member(..) => {
                self.counts.connections -= 1;
                self.place_is_free();
            }
        }
        Some(entry)
    }
}

fn full(of: &str, places: u32) -> Error {
    let text =
        format!("the poller has {places} {of}, and no place for one more: set PollerOptions::{of}_max");
    Error::new(ErrorKind::Limit, text)
}

impl AsFd for Poller {
    /// Returns a descriptor that becomes ready to read when a peer wakes an armed connection, a client connects, or something is due. See [`Poller::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("counts", &self.counts)
            .field("active", &self.rounds.active_count())
            .finish_non_exhaustive()
    }
}
