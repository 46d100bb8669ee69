//! The interfaces that a poller needs: of a connection, and of its caller.

use super::slots::Key;
use crate::driver::{Interest, Look, Seen, Tended};
use crate::nanos::Nanos;

/// Poller of a connection: the number of a set in this process, and the number by which that reports the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the set.
    pub set: u32,
    /// Number of the connection in it.
    pub number: u64,
}

/// A connection that can be polled beside others. Nothing here waits.
pub trait Pollable {
    /// Set that watches the connection, and reports that its peer has woken it or is gone: edge-triggered, so each wake-up is reported once.
    type Set: ?Sized;
    /// Reason for which a connection cannot be watched.
    type Error;

    /// Returns who polls it, as it was noted.
    fn owner(&mut self, set: &mut Self::Set) -> Option<Owner>;
    /// Has the set report it by the owner's number, and notes the owner.
    ///
    /// # Errors
    /// The set cannot watch more.
    fn watch(&mut self, set: &mut Self::Set, owner: Owner) -> Result<(), Self::Error>;
    /// Takes it out of the set. Nobody polls it from now on.
    fn forget(&mut self, set: &mut Self::Set);

    /// Returns the number of the connection, which no other one of this process has.
    fn number(&mut self, set: &mut Self::Set) -> u64;
    /// Looks for what is wanted: [`Driver::look`](crate::Driver::look).
    fn look(&mut self, set: &mut Self::Set, wanted: Interest, seen: &mut Seen) -> Look;
    /// Asks the peer or the device for a wake-up, and looks once more. Returns the nanoseconds after which to look again at the latest. `None`: there is work, and it is not asleep.
    fn arm(&mut self, set: &mut Self::Set, wanted: Interest) -> Option<u64>;
    /// Takes that request back, and the wake-ups that came.
    fn disarm(&mut self, set: &mut Self::Set);
    /// Sends a keepalive if one is due, and reads those of the peer.
    fn tend(&mut self, set: &mut Self::Set, now: Nanos) -> Tended;
    /// Checks that the peer's end exists.
    fn check_peer(&mut self, set: &mut Self::Set);
    /// Returns true while a job of the fabric goes on, whose end wakes nobody.
    fn has_jobs(&mut self, set: &mut Self::Set) -> bool;
    /// Returns true if it has to be looked at regularly while it is armed: something may come that causes no wake-up, such as an acknowledgement that is repeated, or a buffer that is dropped.
    fn needs_regular_looks(&mut self, set: &mut Self::Set) -> bool;
    /// Returns the count of the peer's activity.
    fn activity(&mut self, set: &mut Self::Set) -> u64;
    /// Returns for how long the peer may be silent, in nanoseconds.
    fn idle_timeout_ns(&mut self, set: &mut Self::Set) -> u64;
    /// Returns false if only a wake-up may bring what has arrived while it is armed: for tests, which a look at the right time would make blind.
    fn looks_while_armed(&mut self, set: &mut Self::Set) -> bool {
        let _ = set;
        true
    }
}

/// Event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// Something can be received. Level-triggered.
    Readable,
    /// Something can be sent. Level-triggered.
    Writable,
    /// The peer has shown no life for the idle timeout. Once until it does.
    Silent,
    /// The connection has ended. Once.
    Ended,
}

/// Destination of a call's reports.
pub trait Reports {
    /// Returns true if there is room for what one connection reports in a round: two reports.
    fn has_room(&self) -> bool;
    /// Takes a report.
    fn report(&mut self, key: Key, report: Report);
}
