//! Many connections in one thread.
//!
//! ```text
//! key         slots and their generations               options
//! round       looks at what is active or woken          events   what is reported, and asked for
//! due         looks at what is due
//! ```

mod due;
mod events;
mod key;
mod options;
mod round;

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use crate::address::Address;
use crate::blocking::{ConnectThreads, PendingConnect};
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::interest::Interest;
use crate::listener::Listener;
use crate::metrics::PollerReport;
use crate::options::Options;
use crate::os::epoll::Epoll;
use crate::os::monotonic_ns;
use crate::os::timer::Timer;
use crate::os::wakeup::Wakeup;
use crate::watched::{Arming, Listening, Member, State, nap_ns, next_set};
pub use events::{PollEvent, PollEvents};
pub use key::Key;
use key::Slots;
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
/// # use superpipe::{Connection, Error, Length, Options, PollEvent, PollEvents, Poller, PollerOptions, Reason, TryRecv, TrySend};
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
/// let mut message = vec![0; 64 << 10];
/// # let mut has_ended = false;
/// # while !has_ended {
/// // in a loop:
/// poller.poll(&mut events, Duration::from_secs(1))?;
/// for event in &events {
///     match event {
///         PollEvent::Readable { connection: key } => {
///             let Some(connection) = poller.connection(key) else { continue };
///             match connection.try_recv(&mut [&mut message]) {
///                 Ok(TryRecv::Received(received)) => {
///                     let sent = connection.try_send(received.tag, &[&message[..received.bytes]]);
///                     if !matches!(sent, Ok(TrySend::Sent)) {
///                         drop(poller.remove(key)); // or keep the answer, and ask for Writable
///                     }
///                 }
///                 Ok(TryRecv::Nothing) => {}
///                 // The rest of a short one is on its way.
///                 Ok(TryRecv::Incomplete(incoming)) if matches!(incoming.length, Length::Exact(..=65_536)) => {}
///                 // Longer ones would be received by a RecvOperation.
///                 Ok(TryRecv::TooSmall(_) | TryRecv::Incomplete(_)) => _ = connection.reject(Reason(1)),
///                 Err(_) => drop(poller.remove(key)),
///             }
///         }
///         PollEvent::Ended { connection: key } | PollEvent::Silent { connection: key } => {
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
    /// Number of the poller in this process.
    poller: u32,
    entries: Slots<Entry>,
    /// Keys of the active connections, in no order.
    active: Vec<Key>,
    /// The one that is looked at next.
    next: usize,
    /// For each slot, when to look at what is in it, whatever happens.
    due: Vec<u64>,
    /// No later than the earliest of these.
    earliest_ns: u64,
    /// Armed connections are looked at now and then.
    looks_at_armed: bool,
    /// The slot whose time is looked at first.
    next_due: usize,
    clock: Clock,
    quiet_ns: u64,
    counts: Counts,
    epoll: Epoll,
    /// Makes the set ready when something is due, for a program that waits for that.
    timer: Timer,
    /// Requests to be armed in a row that found nothing to do, and connections that nobody wakes.
    naps: u32,
    threads: ConnectThreads,
    report: PollerReport,
}

/// Times of the last look at the clock and at what the kernel reports.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Time of the last look at the clock, and whether that was in this call.
    now_ns: u64,
    is_fresh: bool,
    /// Time of the last look at what the kernel reports.
    ready_ns: u64,
    /// Looks at connections since the last look at the clock.
    looks: u32,
    /// Rounds, and calls.
    rounds: u32,
    calls: u32,
}

/// Places that are taken.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    connections: u32,
    listeners: u32,
    /// Connections among them that wait for a wake-up.
    armed: u32,
}

/// Occupant of a slot.
#[expect(
    clippy::large_enum_variant,
    reason = "most are members, and a box would be one more line to load in each look"
)]
enum Entry {
    Listening(Box<Listening>),
    Connecting(Box<PendingConnect>),
    Failed(Error),
    Member(Member),
}

impl Poller {
    /// Makes a poller without connections.
    ///
    /// # Errors
    /// `Usage`: no place for a connection, or too many. `Os`, `Limit`: too many files are open.
    pub fn new(options: PollerOptions) -> Result<Self, Error> {
        let slots = options.connections_max.saturating_add(options.listeners_max);
        if options.connections_max == 0 || slots > SLOTS_MAX {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("a poller has 1 to {SLOTS_MAX} connections and listeners, and not {slots}"),
            ));
        }
        let (epoll, timer, wakeup) = (Epoll::new()?, Timer::new()?, Wakeup::new()?);
        epoll.watch(wakeup.as_fd(), round::WAKEUP)?;
        epoll.watch(timer.as_fd(), round::TIMER)?;
        let poller = next_set();
        let capacity = slots as usize;
        let mut made = Self {
            options,
            poller,
            entries: Slots::new(poller, slots),
            active: Vec::with_capacity(capacity),
            next: 0,
            due: vec![u64::MAX; capacity],
            earliest_ns: u64::MAX,
            looks_at_armed: true,
            next_due: 0,
            clock: Clock { now_ns: monotonic_ns(), ..Clock::default() },
            quiet_ns: u64::try_from(options.quiet_after.as_nanos()).unwrap_or(u64::MAX),
            counts: Counts::default(),
            epoll,
            timer,
            naps: 0,
            threads: ConnectThreads::new(THREADS_MAX, wakeup),
            report: PollerReport::new(u64::from(poller) + 1),
        };
        made.copy_counts();
        Ok(made)
    }

    /// Begins to listen, as [`Listener::bind`](crate::Listener::bind). Its connections are reported by [`PollEvent::Accepted`]. A name of another host may take seconds to be looked up.
    ///
    /// # Errors
    /// Those of [`Listener::bind`](crate::Listener::bind). `Limit`: there is no place for a listener. `Os`: the system can watch no more descriptors.
    pub fn listen(&mut self, address: &Address, options: Options) -> Result<Key, Error> {
        if self.counts.listeners == self.options.listeners_max {
            return Err(full("listeners", self.options.listeners_max));
        }
        self.adopt_listener(Listener::bind(address, options)?)
    }

    /// Takes a listener in that was made elsewhere. Its connections are reported by [`PollEvent::Accepted`].
    ///
    /// # Errors
    /// `Limit`: there is no place for a listener. `Os`: the system can watch no more descriptors. The listener is dropped.
    pub fn adopt_listener(&mut self, listener: Listener) -> Result<Key, Error> {
        if self.counts.listeners == self.options.listeners_max {
            return Err(full("listeners", self.options.listeners_max));
        }
        let listening = Listening::new(listener.into_acceptor());
        let key = self.insert(Entry::Listening(Box::new(listening)))?;
        self.counts.listeners += 1;
        if let Some(Entry::Listening(listening)) = self.entries.get(key)
            && let Err(error) = listening.watch(&self.epoll, number(key))
        {
            self.remove(key);
            return Err(error.into());
        }
        self.set_due(key, 0);
        Ok(key)
    }

    /// Begins to connect, as [`Connection::connect`], without waiting. [`PollEvent::Connected`] or [`PollEvent::ConnectFailed`] reports the result, a second after the deadline at the latest.
    ///
    /// Over shared memory nothing waits here. By RDMA, and by a name that needs a lookup, a thread of its own makes the connection; there are 16 at a time, and further connects wait for their turn. The
    /// interrupt flag of `options` ends a connect.
    ///
    /// # Errors
    /// `Usage`: the options contradict each other. `Limit`: there is no place for a connection. Errors of the address are reported by [`PollEvent::ConnectFailed`].
    pub fn connect(
        &mut self,
        address: &Address,
        options: Options,
        deadline: impl Into<Deadline>,
    ) -> Result<Key, Error> {
        if !self.has_place() {
            return Err(full("connections", self.options.connections_max));
        }
        let connect = PendingConnect::new(address, options, deadline.into().at_ns())?;
        let key = self.insert(Entry::Connecting(Box::new(connect)))?;
        self.counts.connections += 1;
        self.set_due(key, 0);
        Ok(key)
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
        match self.entries.insert(Entry::Member(Member::new(connection, (self.poller, 0), self.clock.now_ns)))
        {
            Ok(key) => {
                self.counts.connections += 1;
                match self.establish(key) {
                    Ok(()) => Ok(key),
                    Err(error) => match self.remove(key) {
                        Some(connection) => Err((connection, error)),
                        None => unreachable!("it was put there above"),
                    },
                }
            }
            Err(Entry::Member(member)) => {
                Err((member.into_connection(), full("connections", self.options.connections_max)))
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
        let Some(Entry::Member(member)) = self.entries.get(key) else { return None };
        // One that has ended is looked at once more: the program may put another one here.
        if !matches!(member.state, State::Active(_)) {
            self.activate(key);
        }
        match self.entries.get_mut(key) {
            Some(Entry::Member(member)) => Some(member.touch()),
            _ => None,
        }
    }

    /// Sets what is reported of a connection from now on. Returns false if the key is stale, or names no connection that is made.
    pub fn set_interest(&mut self, key: Key, interest: Interest) -> bool {
        let Some(Entry::Member(member)) = self.entries.get_mut(key) else { return false };
        let has_more = interest.readable && !member.interest.readable || interest.writable;
        member.interest = interest;
        if has_more && member.state == State::Armed {
            self.activate(key);
        }
        true
    }

    /// Takes the error of a connect that failed, and frees its place. The key is stale from now on. `None`: it has not failed, or the key is stale.
    pub fn take_error(&mut self, key: Key) -> Option<Error> {
        self.entries.get(key).filter(|entry| matches!(entry, Entry::Failed(_)))?;
        match self.take_out(key) {
            Some(Entry::Failed(error)) => Some(error),
            _ => None,
        }
    }

    /// Takes the error of the newest client of a listener that did not become a connection, which [`PollEvent::AcceptFailed`] reported: its text says why. `None`: it was taken, or the key is stale, or
    /// names no listener.
    pub fn take_accept_error(&mut self, listener: Key) -> Option<Error> {
        match self.entries.get_mut(listener)? {
            Entry::Listening(listening) => listening.take_error(),
            _ => None,
        }
    }

    /// Removes what a key names, and returns the connection if it is one that is made. Dropping that closes it; over RDMA the drop waits until what was sent has left this end, for
    /// [`Options::linger`] at most, and all other connections wait meanwhile. A listener stops listening, and a connect is given up. The key is stale from
    /// now on.
    pub fn remove(&mut self, key: Key) -> Option<Connection> {
        match self.take_out(key)? {
            Entry::Member(mut member) => {
                member.release(&self.epoll);
                Some(member.into_connection())
            }
            Entry::Listening(_) | Entry::Connecting(_) | Entry::Failed(_) => None,
        }
    }

    /// Returns the address of a listener, with the port in place of 0. `None`: the key is stale, or names no listener.
    #[must_use]
    pub fn local_addr(&self, listener: Key) -> Option<&Address> {
        match self.entries.get(listener)? {
            Entry::Listening(listening) => Some(listening.acceptor().listeners().address()),
            _ => None,
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
    /// is lost: what comes meanwhile makes the descriptor ready.
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
        self.clock.now_ns = now_ns;
        self.arm_all();
        let is_armed = self.active.is_empty();
        self.naps = if is_armed { 0 } else { self.naps.saturating_add(1) };
        let nap_ns = if is_armed { u64::MAX } else { now_ns.saturating_add(nap_ns(self.naps)) };
        let at_ns = self.earliest_ns.min(nap_ns);
        // The first time something may just have come.
        if at_ns <= now_ns || self.naps == 1 {
            return Arming::Busy;
        }
        self.timer.set(at_ns, now_ns);
        match is_armed {
            true => Arming::Armed { look_again: Duration::from_nanos(at_ns - now_ns) },
            false => Arming::Pending,
        }
    }

    /// Sets whether armed connections are looked at now and then, for tests: without that only a wake-up brings what has arrived.
    #[cfg(feature = "internals")]
    pub const fn look_at_armed(&mut self, looks: bool) {
        self.looks_at_armed = looks;
    }

    const fn has_place(&self) -> bool {
        self.counts.connections < self.options.connections_max
    }

    fn insert(&mut self, entry: Entry) -> Result<Key, Error> {
        let places = self.options.connections_max;
        self.entries.insert(entry).map_err(|_| full("connections", places))
    }

    /// Takes an entry out, and out of every list.
    fn take_out(&mut self, key: Key) -> Option<Entry> {
        if let Some(Entry::Member(Member { state: State::Active(place), .. })) = self.entries.get(key) {
            let place = *place;
            self.deactivate(place);
        }
        let entry = self.entries.remove(key)?;
        if matches!(entry, Entry::Member(Member { state: State::Armed, .. })) {
            self.counts.armed -= 1;
        }
        if let Some(due) = self.due.get_mut(key.slot as usize) {
            *due = u64::MAX;
        }
        match &entry {
            Entry::Listening(_) => self.counts.listeners -= 1,
            Entry::Connecting(_) | Entry::Failed(_) | Entry::Member(_) => {
                self.counts.connections -= 1;
                self.place_is_free();
            }
        }
        Some(entry)
    }
}

/// Number of a key in the set of descriptors.
fn number(key: Key) -> u64 {
    u64::from(key.generation) << 32 | u64::from(key.slot)
}

fn full(of: &str, places: u32) -> Error {
    let text =
        format!("the poller has {places} {of}, and no place for one more: set PollerOptions::{of}_max");
    Error::new(ErrorKind::Limit, text)
}

impl AsFd for Poller {
    /// Returns a descriptor that becomes ready to read when a peer wakes a connection that is not polled, or a client connects. See [`Poller::arm`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("counts", &self.counts)
            .field("active", &self.active.len())
            .finish_non_exhaustive()
    }
}
