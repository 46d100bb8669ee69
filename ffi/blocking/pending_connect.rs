//! A connect that goes on beside others, without waiting.
//!
//! ```text
//!                       attempt fails, another may succeed
//!             +--------------------------------------------+
//!             v                                            |
//! due at a time ------ shared memory ------> half-open ----+--> connected, or failed
//!             \------- everything else ----> thread -----------^
//! ```
//!
//! Names of other hosts need a lookup, and librdmacm makes a connection of iWARP in a call that waits. So all but shared memory goes by the calls that wait, in a thread that ends by the
//! deadline. It gives up when the connect is dropped.

use core::mem;

use super::connect_thread::{ConnectThread, ConnectThreads};
use super::dispatch::{AnyConnection, dispatch};
use super::half_open::{OpenProgress, PendingConnection};
use super::new_connection::ReadyConnection;
use super::retry::{Backoff, ConnectFailure, FLAG_NS, may_pass};
use super::route::Route;
use super::shm;
use crate::address::Address;
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::os::poll::PollFd;
use crate::trace;

/// A connect under way.
pub(crate) struct PendingConnect {
    address: Address,
    options: Options,
    deadline_ns: u64,
    stage: Stage,
    /// Error of the last attempt.
    cause: Option<Error>,
    backoff: Option<Backoff>,
    /// It needs no thread.
    is_immediate: bool,
    /// The descriptors of the half-open connection are watched.
    is_watched: bool,
}

/// Time that a thread has beyond the deadline, to end what it has begun.
const SLACK_NS: u64 = 1_000_000_000;

enum Stage {
    /// The next attempt begins at this time.
    Due(u64),
    HalfOpen(Box<dyn PendingConnection>),
    /// A thread makes it.
    Thread(ConnectThread),
}

/// State of a connect.
#[cfg_attr(
    feature = "verbs",
    expect(clippy::large_enum_variant, reason = "it is returned once, and moved into the connection")
)]
pub(crate) enum ConnectProgress {
    /// Drive it again when its time has come, or the wake-up was made.
    Pending,
    Done(ReadyConnection),
    Failed(Error),
}

impl PendingConnect {
    /// Begins. The first attempt is made by the first [`drive`](Self::drive).
    ///
    /// # Errors
    /// `Usage`: the options contradict each other.
    pub(crate) fn new(address: &Address, options: Options, deadline_ns: u64) -> Result<Self, Error> {
        options.check()?;
        let stage = Stage::Due(0);
        let is_immediate = Route::is_immediate(address);
        if is_immediate {
            trace::connecting(address);
        }
        Ok(Self {
            address: address.clone(),
            options,
            deadline_ns,
            stage,
            cause: None,
            backoff: None,
            is_immediate,
            is_watched: false,
        })
    }

    /// Returns true if a thread makes it.
    pub(crate) const fn needs_thread(&self) -> bool {
        !self.is_immediate
    }

    /// Returns the descriptors that become ready when there is work, unless they are watched already.
    pub(crate) fn unwatched(&self) -> Option<[PollFd<'_>; 2]> {
        match &self.stage {
            Stage::HalfOpen(half_open) if !self.is_watched => Some(half_open.interests()),
            Stage::HalfOpen(_) | Stage::Due(_) | Stage::Thread(_) => None,
        }
    }

    /// Notes that the descriptors are watched.
    pub(crate) const fn note_watched(&mut self) {
        self.is_watched = true;
    }

    /// Returns the time at which to drive it at the latest.
    pub(crate) fn timeout_ns(&self, now_ns: u64) -> u64 {
        let stage_ns = match &self.stage {
            // Woken when a thread ends.
            Stage::Due(_) if !self.is_immediate => self.deadline_ns,
            Stage::Due(at_ns) => (*at_ns).min(self.deadline_ns),
            Stage::HalfOpen(half_open) => half_open.timeout_ns().min(self.deadline_ns),
            Stage::Thread(_) => self.deadline_ns.saturating_add(SLACK_NS),
        };
        let has_flag = self.options.interrupt.is_some();
        if has_flag { stage_ns.min(now_ns.saturating_add(FLAG_NS)) } else { stage_ns }
    }

    /// Continues as far as possible without waiting.
    pub(crate) fn drive(&mut self, now_ns: u64, threads: &ConnectThreads) -> ConnectProgress {
        let progress = self.continue_until(now_ns, threads);
        // What a thread makes reports itself.
        if let (ConnectProgress::Failed(error), true) = (&progress, self.is_immediate) {
            trace::refused(&self.address, error);
        }
        progress
    }

    fn continue_until(&mut self, now_ns: u64, threads: &ConnectThreads) -> ConnectProgress {
        if self.options.is_interrupted() {
            return ConnectProgress::Failed(Error::interrupted());
        }
        match &mut self.stage {
            Stage::Due(at_ns) if *at_ns > now_ns && now_ns < self.deadline_ns => ConnectProgress::Pending,
            Stage::Due(_) => self.begin(now_ns, threads),
            Stage::HalfOpen(half_open) => match half_open.drive(now_ns, true) {
                OpenProgress::Pending if now_ns >= self.deadline_ns => {
                    self.failed(late(&self.address), false, now_ns)
                }
                OpenProgress::Pending => ConnectProgress::Pending,
                OpenProgress::Done(connection) => ConnectProgress::Done(connection),
                OpenProgress::PeerGone => self.failed(Error::lost(), true, now_ns),
                OpenProgress::Failed(error) => {
                    let is_transient = may_pass(&error);
                    self.failed(error, is_transient, now_ns)
                }
            },
            Stage::Thread(thread) => match thread.poll() {
                Some(Some(Ok(mut connection))) => {
                    // It had that of its thread.
                    let interrupt = self.options.interrupt;
                    dispatch!(AnyConnection, &mut connection.inner, inner => inner.set_interrupt(interrupt));
                    ConnectProgress::Done(connection)
                }
                Some(Some(Err(error))) => ConnectProgress::Failed(error),
                None if now_ns < self.deadline_ns.saturating_add(SLACK_NS) => ConnectProgress::Pending,
                None | Some(None) => ConnectProgress::Failed(late(&self.address)),
            },
        }
    }

    fn begin(&mut self, now_ns: u64, threads: &ConnectThreads) -> ConnectProgress {
        if !self.is_immediate {
            return match threads.has_room() {
                true => self.begin_thread(threads),
                false if now_ns >= self.deadline_ns => ConnectProgress::Failed(late(&self.address)),
                false => ConnectProgress::Pending,
            };
        }
        let route = match Route::to(&self.address, &self.options, self.deadline_ns) {
            Ok(route) => route,
            Err(error) => return ConnectProgress::Failed(error),
        };
        let Route::Shm { address, is_private } = &route else {
            return ConnectProgress::Failed(Error::new(
                ErrorKind::Connect,
                format!("{} was an address of this host, and is not any more", self.address),
            ));
        };
        self.backoff.get_or_insert_with(|| Backoff::of(&route));
        match shm::begin_connect(address, *is_private, self.options, self.deadline_ns) {
            Ok(half_open) => {
                self.stage = Stage::HalfOpen(half_open);
                self.is_watched = false;
                self.continue_until(now_ns, threads)
            }
            Err(ConnectFailure { error, is_transient }) => {
                let error =
                    if error.kind() == ErrorKind::Connect { error.and(route.elsewhere()) } else { error };
                self.failed(error, is_transient, now_ns)
            }
        }
    }

    fn begin_thread(&mut self, threads: &ConnectThreads) -> ConnectProgress {
        match threads.begin(&self.address, self.options, self.deadline_ns) {
            Ok(thread) => {
                self.stage = Stage::Thread(thread);
                ConnectProgress::Pending
            }
            Err(error) => ConnectProgress::Failed(Error::new(
                ErrorKind::Limit,
                format!(
                    "cannot start a thread to connect: {error}; allow more threads, or connect fewer at a time"
                ),
            )),
        }
    }

    /// Ends an attempt. The next one is made after a pause, if it may succeed and there is time.
    fn failed(&mut self, error: Error, is_transient: bool, now_ns: u64) -> ConnectProgress {
        // An attempt that the deadline cut short says less than the one before it.
        let is_cut = error.kind() == ErrorKind::Timeout;
        let cause = self.cause.take();
        if is_transient && now_ns < self.deadline_ns {
            let pause = self.backoff.as_mut().map_or(0, |backoff| backoff.next(self.deadline_ns).as_nanos());
            let pause_ns = u64::try_from(pause).unwrap_or(u64::MAX);
            let ended = mem::replace(&mut self.stage, Stage::Due(now_ns.saturating_add(pause_ns)));
            drop(ended);
            self.cause = Some(error);
            return ConnectProgress::Pending;
        }
        ConnectProgress::Failed(cause.filter(|_| is_cut).unwrap_or(error))
    }
}

fn late(address: &Address) -> Error {
    Error::new(ErrorKind::Timeout, format!("no connection to {address} was made in time"))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::thread;

    use super::*;
    use crate::blocking::Acceptor;
    use crate::os::monotonic_ns;
    use crate::os::wakeup::Wakeup;

    /// Connects by a thread, as for another host. Returns the flag that the waits of the connection check.
    #[test]
    fn a_connection_made_by_a_thread_has_the_callers_flag() {
        static FLAG: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
        let path = std::env::temp_dir().join(format!("superpipe-pending-{}.sock", std::process::id()));
        let address = Address::Shm(path);
        let mut acceptor = Acceptor::bind(&address, Options::default()).unwrap();
        let deadline_ns = monotonic_ns() + 60_000_000_000;
        let threads = ConnectThreads::new(1, Wakeup::new().unwrap());
        for interrupt in [None, Some(&FLAG)] {
            let options = Options { interrupt, ..Options::default() };
            let mut connect = PendingConnect::new(&address, options, deadline_ns).unwrap();
            connect.is_immediate = false;
            let connection = thread::scope(|scope| {
                scope.spawn(|| acceptor.accept(Duration::from_secs(60).into()).unwrap());
                loop {
                    match connect.drive(monotonic_ns(), &threads) {
                        ConnectProgress::Pending => thread::sleep(Duration::from_millis(1)),
                        ConnectProgress::Done(connection) => break connection,
                        ConnectProgress::Failed(error) => panic!("{error}"),
                    }
                }
            });
            let mut inner = connection.inner;
            let flag = dispatch!(AnyConnection, &mut inner, inner => inner.interrupt());
            assert_eq!(flag.map(core::ptr::from_ref), interrupt.map(core::ptr::from_ref));
        }
        // What is given up ends before its deadline, and leaves its place.
        let nobody = Address::Shm(std::env::temp_dir().join("superpipe-pending-nobody.sock"));
        let mut connect = PendingConnect::new(&nobody, Options::default(), deadline_ns).unwrap();
        connect.is_immediate = false;
        assert!(matches!(connect.drive(monotonic_ns(), &threads), ConnectProgress::Pending));
        let is_full = !threads.has_room();
        drop(connect);
        while !threads.has_room() {
            assert!(monotonic_ns() < deadline_ns);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(is_full);
    }
}
