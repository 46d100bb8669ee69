//! A connection over one fabric, which is known to the compiler: everything that moves bytes.
//!
//! [`Connection`](crate::Connection) is one of these, whichever the peer was met by, and hands every call on.

use core::fmt;

use superpipe_core::{Attachment, Counters, Endpoint, Event, Origin, Protocol, Reason};

use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use crate::budget::Budget;
use crate::os::WaitStrategy;
use crate::os::owner::Owner;
use crate::port::Port;
use crate::tuning::Settled;
use blocking::Lender;
use transport::Transport;

mod blocking;
mod cold;
mod receiving;
mod recv_stream;
mod send_stream;
mod sending;
mod spans;
#[cfg(test)]
mod tests;
mod transport;
mod warming;

pub(super) use recv_stream::RecvOver;
pub(super) use send_stream::SendOver;
pub(super) use warming::Warming;

/// One end of a connection over the fabric `P`.
pub(super) struct Over<P: Port> {
    /// Away while it is lent.
    transport: Option<Box<Transport<P>>>,
    lender: Lender<P>,
    _budget: Budget,
    owner: Owner,
}

impl<P: Port> Over<P> {
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
        Ok(Self {
            transport: Some(Box::new(Transport::new(endpoint, port, options))),
            lender: Lender::new(),
            _budget: budget,
            owner: Owner::current(),
        })
    }

    #[inline]
    fn transport(&mut self) -> &mut Transport<P> {
        match &mut self.transport {
            Some(transport) => transport,
            None => unreachable!("it is lent only inside `blocking`, which borrows the connection"),
        }
    }

    /// Waits until the peer has taken out all that was sent, and said so.
    pub(super) fn flush(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.transport().wait(deadline, |driver, _| driver.endpoint_mut().delivered().then_some(()).into())
    }

    /// Runs `work` while a helper thread shows the peer that this end lives.
    pub(super) fn blocking<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.lender.lend(&mut self.transport, work)
    }

    /// One round of progress. Returns true if anything was done.
    pub(super) fn progress(&mut self) -> bool {
        self.transport().progress()
    }

    /// What happened without being asked for.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.transport().driver.poll_event()
    }

    /// Sets the protocol of the transfers started from now on.
    pub(super) fn set_protocol(&mut self, protocol: Protocol) {
        self.transport().driver.set_protocol(protocol);
    }

    /// Sets how to wait from now on.
    pub(super) fn set_wait(&mut self, wait: WaitStrategy) {
        self.transport().set_wait(wait);
    }

    /// What was done so far.
    pub(super) fn counters(&mut self) -> Counters {
        self.transport().driver.counters()
    }

    /// Says good-bye, as far as that goes without waiting for the peer's application.
    pub(super) fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        self.transport().close(reason, deadline)
    }

    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded.
    #[cfg(feature = "recorder")]
    pub(super) fn record(&mut self, on: bool) {
        self.transport().port.record(on);
    }

    /// Takes the oldest record out.
    #[cfg(feature = "recorder")]
    pub(super) fn take_record(&mut self) -> Option<superpipe_core::recorder::Record> {
        let Transport { driver, port, .. } = self.transport();
        port.recorder(driver.endpoint().link())?.take()
    }
}

impl<P: Port> Over<P> {
    /// Returns true in the process that made it. The memory is not there in a child of fork.
    fn is_ours(&self) -> bool {
        self.owner.is_current()
    }
}

impl<P: Port> Drop for Over<P> {
    fn drop(&mut self) {
        if !self.is_ours() {
            // A child of fork has descriptors of it, and nothing else.
            if !P::DROPS_IN_CHILD {
                core::mem::forget(self.transport.take());
            }
            return;
        }
        // A close that failed has waited already.
        if let Some(transport) = &mut self.transport
            && !transport.driver.is_closing()
        {
            let linger = transport.options.linger;
            // Nobody is left to be told that the peer could not be.
            let _ = transport.close(Reason::DONE, linger.into());
        }
    }
}

impl<P: Port> fmt::Debug for Over<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(P::NAME).finish_non_exhaustive()
    }
}
