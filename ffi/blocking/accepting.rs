//! Accepting: makes the connections of a listener side by side, in turns that never wait for one of them alone.

use core::ops::Range;

use superpipe_core::Nanos;
use superpipe_core::driver::HalfOpenTable;

use super::fabric_listeners::FabricListeners;
use super::half_open::{OpenProgress, PendingConnection};
use super::listener_clock::{LISTENED_MAX_NS, ListenerClock};
use super::new_connection::ReadyConnection;
use crate::address::Address;
use crate::budget::{Budget, MemoryKind};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::Shards;
use crate::options::Options;
use crate::os::clock::until;
use crate::os::descriptors::{lack_of_descriptors, limit};
use crate::os::monotonic_ns;
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, poll, poll_now};
use crate::trace;

/// Descriptors that a connection over either fabric opens until it is made, and the libraries beside it for a moment.
const DESCRIPTORS: usize = 8;
/// Longest wait between two checks of the interrupt flag, after which a user's interrupt takes effect.
const SLICE_NS: u64 = 100_000_000;
/// Connections that are made side by side. Each has 1 MiB of the budget by default, and over RDMA a QP. With more, strangers that only
/// connect could hold more memory; with fewer, they would evict each other sooner.
const HALF_OPEN_MAX: usize = 16;
/// Time that a turn may take if its deadline has passed when it begins, and that all turns of a `try_accept` may take. Work that has begun by
/// then, such as provisioning memory for one connection, is finished.
const TURN_NS: u64 = 1_000_000;
/// Most turns of one `try_accept`: a few polls for each message of the warm-up.
const TRY_TURNS_MAX: u32 = 1024;

/// A listener's half-open connections, and the listening ends from which new ones come.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listeners: FabricListeners,
    options: Options,
    half_open: HalfOpenTable<Box<dyn PendingConnection>, HALF_OPEN_MAX>,
    /// Index of the one that is driven next.
    next: usize,
    clock: ListenerClock,
    /// Bytes of the budget that half-open connections have taken so far.
    taken_bytes: u64,
    /// No client is accepted before half-open connections give descriptors back.
    lacks_descriptors: bool,
    /// The time of the last `try_accept` was over before its work was.
    has_more: bool,
    owner: Owner,
}

impl Acceptor {
    /// Listens.
    ///
    /// # Errors
    /// As [`Listener::bind`](crate::Listener::bind).
    pub(crate) fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        let listeners = FabricListeners::bind(address, &options)?;
        trace::listening(listeners.address());
        Ok(Self {
            listeners,
            options,
            half_open: HalfOpenTable::new(),
            next: 0,
            clock: ListenerClock::new(),
            taken_bytes: 0,
            lacks_descriptors: false,
            has_more: false,
            owner: Owner::current(),
        })
    }

    /// Returns the listening ends.
    pub(crate) const fn listeners(&self) -> &FabricListeners {
        &self.listeners
    }

    /// Has connections from here on share what those of a poller share.
    pub(crate) fn share(&mut self, shards: &Shards) {
        self.listeners.share(shards);
    }

    /// Returns the descriptors that become ready when a client connects.
    pub(crate) fn interests(&self) -> heapless::Vec<PollFd<'_>, 2> {
        self.listeners.interests()
    }

    /// Returns true if the device that it listens on was removed: each [`try_accept`](Self::try_accept) looks whether it is back.
    pub(crate) fn lacks_device(&self) -> bool {
        !self.listeners.why_unreachable().is_empty()
    }

    /// Returns true if the last [`try_accept`](Self::try_accept) ended for lack of time: there may be more to do at once.
    pub(crate) const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns true if a client has begun, and is not a connection yet.
    pub(crate) fn has_begun(&self) -> bool {
        !self.half_open.is_empty()
    }

    /// Returns true if [`try_accept`](Self::try_accept) has something to do at once or soon, without a descriptor of [`interests`](Self::interests) that becomes ready: half-open connections,
    /// or clients that have not been accepted.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_begun() || self.lacks_descriptors || poll_now(&mut self.interests())
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// As [`Listener::accept`](crate::Listener::accept).
    pub(crate) fn accept(&mut self, deadline: Deadline) -> Result<ReadyConnection, Error> {
        if deadline.is_poll() {
            return self.try_accept()?.ok_or_else(|| self.nobody_connected());
        }
        let deadline_ns = deadline.at_ns();
        self.clock.begin();
        let accepted = self.accept_until(deadline_ns).inspect_err(|error| self.note_refused(error));
        self.clock.pause(accepted.is_err());
        accepted
    }

    /// Takes the next connection if one is done, without waiting.
    ///
    /// # Errors
    /// As [`Listener::try_accept`](crate::Listener::try_accept).
    pub(crate) fn try_accept(&mut self) -> Result<Option<ReadyConnection>, Error> {
        self.clock.begin();
        let accepted = self.try_turns().inspect_err(|error| self.note_refused(error));
        self.clock.pause(!matches!(accepted, Ok(Some(_))));
        accepted
    }

    /// Reports an attempt that failed. Nobody who came is no attempt.
    fn note_refused(&self, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Interrupted) {
            trace::refused(self.listeners.address(), error);
        }
    }

    /// Makes turns while a peer may answer at once, [`TRY_TURNS_MAX`] at most, and none after one that took memory, or once the time is over:
    /// peers could answer just in time for ever.
    fn try_turns(&mut self) -> Result<Option<ReadyConnection>, Error> {
        let end_ns = monotonic_ns().saturating_add(TURN_NS);
        self.has_more = false;
        for _ in 0..TRY_TURNS_MAX {
            let taken_bytes = self.taken_bytes;
            let turn = self.turn(0, (end_ns, 0));
            self.has_more = self.taken_bytes != taken_bytes || until(end_ns) == 0;
            match turn {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Ok(None) if self.has_more => break,
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

    fn accept_until(&mut self, deadline_ns: u64) -> Result<ReadyConnection, Error> {
        let mut wait_ns = 0;
        loop {
            if let Some(connection) = self.turn(wait_ns, (deadline_ns, TURN_NS))? {
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
        Error::new(
            ErrorKind::Timeout,
            format!("nobody connected to {}{}", self.listeners.address(), self.listeners.why_unreachable()),
        )
    }

    /// Waits until there is something to do, `wait_ns` at most, and does it, until the deadline or for `least_ns`. Work that is left then is
    /// done by the next turn.
    fn turn(
        &mut self,
        wait_ns: u64,
        (deadline_ns, least_ns): (u64, u64),
    ) -> Result<Option<ReadyConnection>, Error> {
        self.disown();
        let mut ready = self.wait(wait_ns)?;
        self.clock.note_poll(monotonic_ns());
        let end_ns = deadline_ns.max(monotonic_ns().saturating_add(least_ns));
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
                OpenProgress::Pending => self.next += 1,
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
        for kind in MemoryKind::ALL {
            if let Some(connection) = self.make_room(kind, end_ns)? {
                return Ok(Some(connection));
            }
        }
        if self.lacks_descriptors {
            self.lacks_descriptors = !self.has_descriptors();
        }
        for _ in 0..HALF_OPEN_MAX {
            if self.lacks_descriptors || !self.half_open.has_room(self.clock.listened()) || until(end_ns) == 0
            {
                break;
            }
            let newcomer = match self.listeners.try_accept(self.options, self.clock.now_ns()) {
                Ok(Some(newcomer)) => {
                    trace::client(self.listeners.address());
                    newcomer
                }
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::Limit && !self.has_descriptors() => {
                    self.lacks_descriptors = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            // The handshake that makes room is dropped without a packet to its peer.
            if self.half_open.admit(newcomer, self.clock.listened()).is_ok()
                && let Some(connection) = connection(self.drive(self.half_open.len() - 1, false))?
            {
                return Ok(Some(connection));
            }
            self.lacks_descriptors = !self.has_descriptors();
        }
        Ok(None)
    }

    /// Makes room in the budget for the first handshake that lacks memory of this kind: drops others that hold a share of that kind, the
    /// longest silence first. Waits if connections were asked to give so much back, and have time left for it. Refuses that handshake if all
    /// of that together is too small. Continues with the next handshake until `end_ns`.
    fn make_room(&mut self, kind: MemoryKind, end_ns: u64) -> Result<Option<ReadyConnection>, Error> {
        for _ in 0..HALF_OPEN_MAX {
            let lacking = self.half_open.iter().enumerate().find_map(|(index, opening)| {
                let bytes = opening.lacks().filter(|_| opening.memory_kind() == kind)?;
                Some((index, bytes))
            });
            let Some((index, bytes)) = lacking else { break };
            let left_bytes = Budget::left_bytes(kind);
            if left_bytes < bytes {
                let coming_bytes = Budget::coming_bytes(kind);
                if left_bytes.saturating_add(coming_bytes) >= bytes {
                    break;
                }
                let share_bytes = |opening: &dyn PendingConnection| {
                    if opening.memory_kind() == kind { opening.share_bytes() } else { 0 }
                };
                let shares: u64 = self.half_open.iter().map(|opening| share_bytes(&**opening)).sum();
                if left_bytes.saturating_add(coming_bytes).saturating_add(shares) < bytes {
                    self.half_open.get_mut(index).into_iter().for_each(|opening| opening.refuse());
                } else {
                    let silent =
                        self.half_open.silent(self.clock.listened(), |opening| share_bytes(&**opening) > 0);
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
    /// client waits for them, those that were silent for longest are dropped first, without a packet to their peers.
    fn has_descriptors(&mut self) -> bool {
        while !self.half_open.is_empty() && lack_of_descriptors(DESCRIPTORS).is_some() {
            let silent = self.half_open.silent(self.clock.listened(), |_| true);
            let Some(silent) = silent.filter(|_| poll_now(&mut self.listeners.interests())) else {
                return false;
            };
            drop(self.half_open.release(silent));
        }
        true
    }

    /// Returns true if the time has come to drive this half-open connection, whatever its peer does.
    fn is_due(&mut self, index: usize) -> bool {
        let now_ns = self.clock.now_ns();
        self.half_open.get_mut(index).is_some_and(|opening| opening.timeout_ns() <= now_ns)
    }

    /// Drives a half-open connection, and takes it out of the table once it is over.
    fn drive(&mut self, index: usize, is_ready: bool) -> OpenProgress {
        let now_ns = self.clock.now_ns();
        let Some(opening) = self.half_open.get_mut(index) else { return OpenProgress::PeerGone };
        let (steps, share_bytes) = (opening.steps(), opening.share_bytes());
        let opened = opening.drive(now_ns, is_ready);
        let taken_bytes = opening.share_bytes().saturating_sub(share_bytes);
        self.taken_bytes += taken_bytes;
        // A peer whose handshake lacks memory waits for this end, and is not silent. Once this end has it, the peer provisions its own.
        let has_activity = opening.steps() != steps || opening.lacks().is_some() || taken_bytes > 0;
        let work_ns = opening.work_ns();
        match opened {
            OpenProgress::Pending if has_activity => {
                let Nanos(listened_ns) = self.clock.listened();
                self.half_open.note_activity(index, Nanos(listened_ns.saturating_add(work_ns)));
            }
            OpenProgress::Pending => {}
            OpenProgress::Done(_) | OpenProgress::PeerGone | OpenProgress::Failed(_) => {
                drop(self.half_open.release(index))
            }
        }
        opened
    }

    /// Waits until a client may have connected, a peer may have sent something, or a timeout is due. Returns, for each half-open
    /// connection, true if one of its descriptors is ready.
    fn wait(&self, wait_ns: u64) -> Result<heapless::Vec<bool, HALF_OPEN_MAX>, Error> {
        let now_ns = self.clock.now_ns();
        let mut fds = heapless::Vec::<PollFd<'_>, { 2 + 2 * HALF_OPEN_MAX }>::new();
        // The kernel polls at most as many descriptors as the limit of open files.
        let mut due_ns = u64::MAX;
        if self.half_open.has_room(self.clock.listened()) && !self.lacks_descriptors {
            fds.extend(self.listeners.interests());
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
        // A limit that was lowered meanwhile may be less. The connections beyond it are driven at intervals instead.
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
}

/// Returns the connection if it is made.
fn connection(opened: OpenProgress) -> Result<Option<ReadyConnection>, Error> {
    match opened {
        OpenProgress::Done(connection) => Ok(Some(connection)),
        OpenProgress::Pending | OpenProgress::PeerGone => Ok(None),
        OpenProgress::Failed(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
