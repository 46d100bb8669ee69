//! Waiting for connections.

#[cfg(feature = "verbs")]
use core::net::SocketAddr;
use core::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;

use superpipe_core::Nanos;
use superpipe_core::driver::HalfOpen;

use super::address::Address;
use super::by_shm;
#[cfg(feature = "verbs")]
use super::by_verbs;
use super::connection::Connection;
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::listener_clock::{Clock, LISTENED_MAX_NS};
use super::opening::{Open, Opened};
use super::options::Options;
use crate::budget::Budget;
use crate::os::clock::until;
use crate::os::descriptors::{lack_of_descriptors, limit};
use crate::os::monotonic_ns;
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, poll, poll_now};
#[cfg(feature = "verbs")]
use crate::rdma;
use crate::shm;
use crate::shm::SocketError;

/// Descriptors that a connection over either fabric opens until it is made, and the libraries beside it for a moment.
const DESCRIPTORS: usize = 8;
/// The longest that a wait goes on without a look at the interrupt flag.
const SLICE_NS: u64 = 100_000_000;
/// Connections that are made side by side. Each has 1 MiB of the budget by default, and over RDMA a QP.
const HALF_OPEN_MAX: usize = 16;
/// Time that a turn may take although its deadline has passed when it begins, and that each turn of a `try_accept` may take. What
/// has begun then, such as memory for one connection, is finished.
const TURN_NS: u64 = 1_000_000;
/// Most turns of one `try_accept`: a few looks for each of the messages that warm a connection up.
const TRY_TURNS_MAX: u32 = 1024;

/// A place where others can connect. Dropped, the place is gone.
///
/// At `shm:PATH`, and at a loopback address, that is shared memory; at `verbs:HOST:PORT` RDMA; at HOST:PORT both, where this
/// host has an RDMA device.
///
/// **After fork** a child may accept from an inherited listener over shared memory, also after its parent has ended. Where the
/// parent dropped its own, the place is gone, and the child can accept whoever connected before. What it accepts is the
/// child's. A child that drops it does not take the place away. RDMA listens only for the process that bound.
#[derive(Debug)]
pub struct Listener {
    pub(super) shm: Option<shm::Listener>,
    pub(super) is_private: bool,
    #[cfg(feature = "verbs")]
    pub(super) verbs: Option<rdma::Listener>,
    pub(super) why_no_verbs: Option<String>,
    /// Whose turn it is to be looked at first.
    pub(super) is_verbs_turn: bool,
    pub(super) address: Address,
    pub(super) options: Options,
    half_open: HalfOpen<Box<dyn Open>, HALF_OPEN_MAX>,
    /// Index of the one that is driven next.
    next: usize,
    clock: Clock,
    /// Bytes of the budget that half-open connections have taken so far.
    taken_bytes: u64,
    /// No client is accepted before half-open connections give descriptors back.
    lacks_descriptors: bool,
    owner: Owner,
}

impl Listener {
    /// One that listens nowhere.
    pub(super) fn deaf(address: Address, options: Options) -> Self {
        Self {
            shm: None,
            is_private: false,
            #[cfg(feature = "verbs")]
            verbs: None,
            why_no_verbs: None,
            is_verbs_turn: false,
            address,
            options,
            half_open: HalfOpen::new(),
            next: 0,
            clock: Clock::new(),
            taken_bytes: 0,
            lacks_descriptors: false,
            owner: Owner::current(),
        }
    }

    /// Waits for the next connection. An attempt that fails is returned as an error, and the next call waits for another.
    ///
    /// Up to 16 connections are made side by side, each bounded by [`Options::handshake_timeout`]. Further clients wait until one of
    /// the 16 is done, or until one makes room: the one whose peer was silent for longest, once that was 50 ms. A half-open
    /// connection that holds a share of the memory budget also makes room, by the same rule, for one that finds too little left. So does
    /// any half-open connection if this process has too few descriptors left for the next client.
    ///
    /// Connections that are not done are kept for the next call. Between calls nothing is done for them, and their time stands
    /// still: a pause counts as 100 ms at most. It does not count at all after a call that accepted a connection, nor for a peer
    /// that has sent or taken a message of the warm-up meanwhile.
    ///
    /// Memory is provisioned for one connection at a time, and a call can end later than its deadline by the time that takes. With a
    /// deadline of [`Duration::ZERO`](core::time::Duration::ZERO) it is [`try_accept`](Self::try_accept).
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`; of one attempt: `Timeout`, `Auth`, `Version`, `Protocol`, `Usage`, `Limit`, `Device`, `PeerLost`.
    pub fn accept(&mut self, deadline: impl Into<Deadline>) -> Result<Connection, Error> {
        let deadline = deadline.into();
        if deadline.is_poll() {
            return self.try_accept()?.ok_or_else(|| self.nobody_connected());
        }
        let deadline_ns = deadline.at_ns();
        self.clock.begin();
        let accepted = self.accept_until(deadline_ns);
        self.clock.pause(accepted.is_err());
        accepted
    }

    /// Takes the next connection if one is done, and goes on with those that are not, without waiting. An attempt that has used up
    /// its [`Options::handshake_timeout`] is dropped, without an error.
    ///
    /// A call ends once it has provisioned memory: for as many connections as that takes 1 ms, at least for one. Others that want
    /// memory are served by the next calls.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), but for `Timeout` and `Interrupted`.
    pub fn try_accept(&mut self) -> Result<Option<Connection>, Error> {
        self.clock.begin();
        let accepted = self.try_turns();
        self.clock.pause(!matches!(accepted, Ok(Some(_))));
        accepted
    }

    /// Makes turns while a peer may answer at once, [`TRY_TURNS_MAX`] at most, and none after one that took memory or all of its
    /// time.
    fn try_turns(&mut self) -> Result<Option<Connection>, Error> {
        for _ in 0..TRY_TURNS_MAX {
            let (taken_bytes, end_ns) = (self.taken_bytes, monotonic_ns().saturating_add(TURN_NS));
            let turn = self.turn(0, 0);
            let is_last = self.taken_bytes != taken_bytes || until(end_ns) == 0;
            match turn {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Ok(None) if is_last => break,
                Ok(None) => {
                    let now_ns = self.clock.now_ns();
                    if !self.half_open.iter().any(|opening| opening.timeout_ns() <= now_ns) {
                        break;
                    }
                }
                over => return over,
            }
        }
        Ok(None)
    }

    fn accept_until(&mut self, deadline_ns: u64) -> Result<Connection, Error> {
        let mut wait_ns = 0;
        loop {
            if let Some(connection) = self.turn(wait_ns, deadline_ns)? {
                return Ok(connection);
            }
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            let left_ns = until(deadline_ns);
            if left_ns == 0 {
                return Err(self.nobody_connected());
            }
            wait_ns = left_ns.min(SLICE_NS);
        }
    }

    fn nobody_connected(&self) -> Error {
        Error::new(ErrorKind::Timeout, format!("nobody connected to {}{}", self.address, self.why_deaf()))
    }

    /// Text behind an error: RDMA addresses that other hosts cannot reach because their device is gone.
    #[cfg(feature = "verbs")]
    fn why_deaf(&self) -> String {
        let why = self.verbs.as_ref().and_then(rdma::Listener::why_deaf);
        why.map_or_else(String::new, |why| format!(": {why}"))
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    const fn why_deaf(&self) -> &'static str {
        ""
    }

    /// Waits until there is something to do, `wait_ns` at most, and does it. Work that is left at the deadline is done by the next
    /// turn.
    fn turn(&mut self, wait_ns: u64, deadline_ns: u64) -> Result<Option<Connection>, Error> {
        self.disown();
        let mut ready = self.wait(wait_ns)?;
        self.clock.look(monotonic_ns());
        let end_ns = deadline_ns.max(monotonic_ns().saturating_add(TURN_NS));
        // Half-open connections come before new ones, so that a flood of new ones delays none of them for ever.
        for _ in 0..self.half_open.len() {
            if self.next >= self.half_open.len() {
                self.next = 0;
            }
            let is_ready = ready.get(self.next).is_some_and(|is_ready| *is_ready);
            if !is_ready && !self.is_due(self.next) {
                self.next += 1;
                continue;
            }
            match self.drive(self.next, is_ready) {
                Opened::Pending => self.next += 1,
                over => {
                    if self.next < ready.len() {
                        ready.swap_remove(self.next);
                    }
                    if let Some(connection) = connection(over)? {
                        return Ok(Some(connection));
                    }
                }
            }
            if until(end_ns) == 0 {
                return Ok(None);
            }
        }
        if let Some(connection) = self.make_room(end_ns)? {
            return Ok(Some(connection));
        }
        if self.lacks_descriptors {
            self.lacks_descriptors = !self.has_descriptors();
        }
        for _ in 0..HALF_OPEN_MAX {
            if self.lacks_descriptors || !self.half_open.has_room(self.clock.listened()) || until(end_ns) == 0
            {
                break;
            }
            let newcomer = match self.newcomer(self.clock.now_ns()) {
                Ok(Some(newcomer)) => newcomer,
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::Limit && !self.has_descriptors() => {
                    self.lacks_descriptors = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            // The handshake that makes room is dropped without a word to its peer.
            if self.half_open.admit(newcomer, self.clock.listened()).is_ok()
                && let Some(connection) = connection(self.drive(self.half_open.len() - 1, false))?
            {
                return Ok(Some(connection));
            }
            self.lacks_descriptors = !self.has_descriptors();
        }
        Ok(None)
    }

    /// Makes room in the budget for the first handshake that lacks it: drops others that hold a share, the longest silence first.
    /// Refuses that handshake if all shares together are too few. Goes on with the next until `end_ns`.
    fn make_room(&mut self, end_ns: u64) -> Result<Option<Connection>, Error> {
        for _ in 0..HALF_OPEN_MAX {
            let lacking = self.half_open.iter().map(|opening| opening.lacks()).enumerate();
            let Some((index, bytes)) = lacking.filter_map(|(index, bytes)| Some((index, bytes?))).next()
            else {
                break;
            };
            let left_bytes = Budget::left_bytes();
            if left_bytes < bytes {
                let shares: u64 = self.half_open.iter().map(|opening| opening.share_bytes()).sum();
                if left_bytes + shares < bytes {
                    self.half_open.get_mut(index).into_iter().for_each(|opening| opening.refuse());
                } else {
                    let silent =
                        self.half_open.silent(self.clock.listened(), |opening| opening.share_bytes() > 0);
                    let Some(silent) = silent else { break };
                    drop(self.half_open.release(silent));
                    continue;
                }
            }
            if let Some(connection) = connection(self.drive(index, false))? {
                return Ok(Some(connection));
            }
            if until(end_ns) == 0 {
                break;
            }
        }
        Ok(None)
    }

    /// Returns true if this process can open the descriptors of another connection, or no half-open connection holds any. Where a
    /// client waits for them, those that were silent for longest are dropped first, without a word to their peers.
    fn has_descriptors(&mut self) -> bool {
        while !self.half_open.is_empty() && lack_of_descriptors(DESCRIPTORS).is_some() {
            let silent = self.half_open.silent(self.clock.listened(), |_| true);
            let Some(silent) = silent.filter(|_| poll_now(&mut self.places())) else { return false };
            drop(self.half_open.release(silent));
        }
        true
    }

    /// Where clients ask, one place a fabric.
    fn places(&self) -> heapless::Vec<PollFd<'_>, 2> {
        let mut places = heapless::Vec::new();
        places.extend(self.shm.as_ref().map(|listener| PollFd::new(listener.as_fd(), libc::POLLIN)));
        #[cfg(feature = "verbs")]
        places.extend(self.verbs.as_ref().map(rdma::Listener::interest).filter(|fd| !fd.is_none()));
        places
    }

    /// Returns true if the time has come to drive this half-open connection, whatever its peer does.
    fn is_due(&mut self, index: usize) -> bool {
        let now_ns = self.clock.now_ns();
        self.half_open.get_mut(index).is_some_and(|opening| opening.timeout_ns() <= now_ns)
    }

    /// Goes on with one that is half open; it is taken out once it is over.
    fn drive(&mut self, index: usize, is_ready: bool) -> Opened {
        let now_ns = self.clock.now_ns();
        let Some(opening) = self.half_open.get_mut(index) else { return Opened::Nobody };
        let (steps, share_bytes) = (opening.steps(), opening.share_bytes());
        let opened = opening.drive(now_ns, is_ready);
        self.taken_bytes += opening.share_bytes().saturating_sub(share_bytes);
        // A peer whose handshake lacks memory waits for this end, and is not silent.
        let is_heard = opening.steps() != steps || opening.lacks().is_some();
        let work_ns = opening.work_ns();
        match opened {
            Opened::Pending if is_heard => {
                let Nanos(listened_ns) = self.clock.listened();
                self.half_open.heard(index, Nanos(listened_ns.saturating_add(work_ns)));
            }
            Opened::Pending => {}
            Opened::Done(_) | Opened::Nobody | Opened::Failed(_) => drop(self.half_open.release(index)),
        }
        opened
    }

    /// Takes the next client that has asked, of either fabric. The fabrics take turns, so that failing attempts on one do not keep the
    /// other from being looked at.
    fn newcomer(&mut self, now_ns: u64) -> Result<Option<Box<dyn Open>>, Error> {
        for _ in 0..2 {
            self.is_verbs_turn = !self.is_verbs_turn;
            let newcomer = if self.is_verbs_turn { self.try_verbs(now_ns)? } else { self.try_shm(now_ns)? };
            if newcomer.is_some() {
                return Ok(newcomer);
            }
        }
        Ok(None)
    }

    fn try_shm(&self, now_ns: u64) -> Result<Option<Box<dyn Open>>, Error> {
        let Some(listener) = &self.shm else { return Ok(None) };
        match listener.accept(0) {
            Err(SocketError::TimedOut | SocketError::Interrupted) => Ok(None),
            socket => by_shm::open(socket?, self.is_private, self.options, now_ns).map(Some),
        }
    }

    #[cfg(feature = "verbs")]
    fn try_verbs(&mut self, now_ns: u64) -> Result<Option<Box<dyn Open>>, Error> {
        self.verbs.as_mut().map_or(Ok(None), |listener| by_verbs::open(listener, self.options, now_ns))
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    const fn try_verbs(&mut self, _: u64) -> Result<Option<Box<dyn Open>>, Error> {
        Ok(None)
    }

    /// Waits until a client may have asked, a peer may have sent something, or a time has come. Returns, for each half-open
    /// connection, true if one of its descriptors is ready.
    fn wait(&self, wait_ns: u64) -> Result<heapless::Vec<bool, HALF_OPEN_MAX>, Error> {
        let now_ns = self.clock.now_ns();
        let mut fds = heapless::Vec::<PollFd<'_>, { 2 + 2 * HALF_OPEN_MAX }>::new();
        // There are as many places as descriptors: the kernel takes no more places than the limit of open files is.
        let mut due_ns = u64::MAX;
        if self.half_open.has_room(self.clock.listened()) && !self.lacks_descriptors {
            fds.extend(self.places());
        } else if self.lacks_descriptors || self.half_open.poll_timeout().is_some() {
            due_ns = now_ns.saturating_add(LISTENED_MAX_NS);
        }
        let mut ranges = heapless::Vec::<Range<usize>, HALF_OPEN_MAX>::new();
        for opening in self.half_open.iter() {
            let begin = fds.len();
            fds.extend(opening.interests().into_iter().filter(|fd| !fd.is_none()));
            let _ = ranges.push(begin..fds.len());
            due_ns = due_ns.min(opening.timeout_ns());
        }
        // A limit that was lowered later may be less. Those beyond it are looked at now and then.
        let count =
            limit().map_or(fds.len(), |limit| fds.len().min(usize::try_from(limit).unwrap_or(usize::MAX)));
        if count < fds.len() {
            due_ns = due_ns.min(now_ns.saturating_add(LISTENED_MAX_NS));
        }
        poll(&mut fds[..count], wait_ns.min(due_ns.saturating_sub(now_ns)))?;
        let is_ready = |range: Range<usize>| range.end > count || fds[range].iter().any(PollFd::is_ready);
        Ok(ranges.into_iter().map(is_ready).collect())
    }

    /// Drops the half-open connections in a child of fork: they are the parent's.
    fn disown(&mut self) {
        if !self.owner.is_current() {
            while self.half_open.release(0).is_some() {}
            self.owner = Owner::current();
        }
    }

    /// The address that it was told to listen at, with the port that it got in place of 0. Others put a name of this host where the
    /// host is empty.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The socket in the file system, as an absolute path, where it listens by shared memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        Some(self.shm.as_ref()?.path())
    }

    /// The address that other hosts connect to, where it listens by RDMA: the first, where there are several.
    #[cfg(feature = "verbs")]
    #[must_use]
    pub fn verbs_address(&self) -> Option<SocketAddr> {
        self.verbs.as_ref()?.local_addr()
    }

    /// Reason why it does not listen by RDMA, though its address asks for that where it is possible.
    #[must_use]
    pub fn why_no_verbs(&self) -> Option<&str> {
        self.why_no_verbs.as_deref()
    }
}

/// Returns the connection if it is made.
fn connection(opened: Opened) -> Result<Option<Connection>, Error> {
    match opened {
        Opened::Done(connection) => Ok(Some(connection)),
        Opened::Pending | Opened::Nobody => Ok(None),
        Opened::Failed(error) => Err(error),
    }
}
