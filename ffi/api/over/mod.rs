//! A connection over one fabric, which is known to the compiler: everything that moves bytes.
//!
//! [`Connection`](crate::Connection) is one of these, whichever the peer was met by, and hands every call on.

use core::fmt;
use std::thread;

#[cfg(feature = "recorder")]
use superpipe_core::Fabric;
use superpipe_core::{Attachment, Counters, Endpoint, Event, Origin, Protocol, Reason};

use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use crate::budget::Budget;
use crate::os::WaitStrategy;
use crate::port::Port;
use crate::tuning::Settled;
use access::Access;
use blocking::Lender;
use transport::Transport;
use waiting::Waiting;

mod access;
mod blocking;
mod cold;
mod half;
mod pause;
mod receiving;
mod recv_stream;
mod send_stream;
mod sending;
mod spans;
#[cfg(test)]
mod tests;
mod transport;
mod waiting;
mod warming;
mod whole;

pub(super) use half::Half;
pub(super) use recv_stream::RecvOver;
pub(super) use send_stream::SendOver;
pub(super) use warming::Warming;
pub(super) use whole::Whole;

/// One end of a connection, or a half of it, over a fabric that the compiler knows.
pub(super) struct Over<A: Access> {
    /// Away while it is lent.
    access: Option<A>,
    lender: Lender<A>,
}

impl<P: Port> Over<Whole<P>> {
    /// An end that is attached to its peer's.
    ///
    /// # Errors
    /// `Usage`: the fabric cannot do what was settled.
    pub(super) fn new(
        port: P,
        attachment: Attachment<P>,
        settled: &Settled,
        budget: Budget,
        options: Options,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::new(&port, attachment, settled.config, Origin::default())
            .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        Ok(Whole::new(Transport::new(endpoint, port, options), budget).into())
    }

    /// Splits it into two halves.
    pub(super) fn split(self) -> [Over<Half<P>>; 2] {
        Half::split(self.into_access()).map(Into::into)
    }
}

impl<P: Port> Over<Half<P>> {
    /// Puts the two halves together again.
    ///
    /// # Errors
    /// They are not of one connection.
    pub(super) fn reunite(self, other: Self) -> Result<Over<Whole<P>>, [Self; 2]> {
        let reunited = self.into_access().reunite(other.into_access());
        reunited.map(Into::into).map_err(|halves| halves.map(Into::into))
    }
}

impl<A: Access> From<A> for Over<A> {
    fn from(access: A) -> Self {
        Self { access: Some(access), lender: Lender::new() }
    }
}

impl<A: Access> Over<A> {
    /// Counts bytes that were moved without a wait, and yields once they are many and the other half runs on the same core.
    #[inline]
    fn after_moving(&mut self, bytes: usize) {
        if self.transport().count_moved(bytes) {
            thread::yield_now();
        }
    }

    /// The way to the transport.
    #[inline]
    fn transport(&mut self) -> &mut A {
        match &mut self.access {
            Some(access) => access,
            None => unreachable!("it is lent only inside `blocking`, which borrows the connection"),
        }
    }

    fn into_access(self) -> A {
        match self.access {
            Some(access) => access,
            None => unreachable!("it is lent only inside `blocking`, which borrows the connection"),
        }
    }

    /// Returns true in the process that made it.
    fn is_ours(&self) -> bool {
        self.access.as_ref().is_some_and(A::is_ours)
    }

    /// Waits until the peer has taken out all that was sent, and said so.
    pub(super) fn flush(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.transport().wait(deadline, |driver, _| driver.endpoint_mut().delivered().then_some(()).into())
    }

    /// Runs `work` while a helper thread shows the peer that this end lives.
    pub(super) fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.lender.lend(&mut self.access, work)
    }

    /// One round of progress, unless the other half makes one. Returns true if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        self.transport().try_hold().is_some_and(|mut transport| transport.progress())
    }

    /// Takes the oldest event out.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.transport().hold().driver.poll_event()
    }

    /// Sets the protocol of the transfers started from now on.
    pub(super) fn set_protocol(&mut self, protocol: Protocol) {
        self.transport().hold().driver.set_protocol(protocol);
    }

    /// Sets how to wait from now on.
    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.transport().hold().set_wait(wait);
    }

    /// Counters of this connection.
    pub(super) fn counters(&mut self) -> Counters {
        self.transport().hold().driver.counters()
    }

    /// Says good-bye, as far as that goes without waiting for the peer's application.
    pub(super) fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        self.transport().close(reason, deadline)
    }

    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded.
    #[cfg(feature = "recorder")]
    pub(super) fn record(&mut self, on: bool) {
        self.transport().hold().port.record(on);
    }

    /// Takes the oldest record out.
    #[cfg(feature = "recorder")]
    pub(super) fn take_record(&mut self) -> Option<superpipe_core::recorder::Record> {
        let Transport { driver, port, .. } = &mut *self.transport().hold();
        port.recorder(driver.endpoint().link())?.take()
    }
}

impl<A: Access> fmt::Debug for Over<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.access.fmt(f)
    }
}
