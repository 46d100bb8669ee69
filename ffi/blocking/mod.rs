//! The blocking shells over core's driver: connecting, accepting, and everything that moves bytes.
//!
//! ```text
//! connecting, fabric_listeners   from an address to a fabric (route); shm, rdma: the handshake on each; pending_connect, connect_thread: beside others
//! accepting                      the half-open connections of a listener
//! sending, receiving, cold       messages            send_stream, recv_stream   streams; streaming, driven_stream: by calls that never wait
//! registered                     messages out of registered buffers, and into them; lending, memory of the caller
//! trusted                        messages into memory that the peer may write
//! loans, building                messages that are read in place, and built in place
//! waiting, descriptor_waiting    the loops around core's driver
//! dispatch                       from Connection's enum to the fabric that a connection has
//! polled                         looks at a connection that a poller drives beside others
//! host_driver                    core's driver with its fabric and a clock
//! access                         the trait by which calls reach it
//! exclusive, half                the access of one owner, and of two halves behind a lock
//! ```

use core::fmt;
use std::sync::Arc;
use std::thread;

use superpipe_core::driver::setup::Negotiated;
use superpipe_core::plan::{Explanation, Memory};
use superpipe_core::{Attachment, CopyKernel, Counters, Endpoint, Event, Origin, Planned, Reason};
use superpipe_core::{Fabric, Nanos};

use crate::budget::BudgetShare;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::fabric::HostFabric;
use crate::metrics::Subject;
use crate::options::Options;
use crate::os::WaitStrategy;
use access::DriverAccess;
use host_driver::HostDriver;
use keepalive_thread::KeepaliveThread;
use waiting::Waiting;

pub(crate) mod dispatch;

mod accepting;
mod access;
mod building;
mod cold;
mod connect_thread;
mod connecting;
mod descriptor_waiting;
mod driven_stream;
mod exclusive;
mod fabric_listeners;
mod half;
mod half_open;
mod host_driver;
mod io_vectors;
mod keepalive_thread;
mod lending;
mod listener_clock;
mod loans;
mod new_connection;
mod pending_connect;
pub(crate) mod polled;
#[cfg(feature = "verbs")]
mod rdma;
mod receiving;
mod recv_stream;
mod registered;
mod retry;
mod route;
mod send_stream;
mod sending;
mod shm;
mod streaming;
#[cfg(test)]
mod tests;
mod trusted;
mod waiting;
mod warm_up;

pub(crate) use accepting::Acceptor;
pub(crate) use connect_thread::ConnectThreads;
pub(crate) use connecting::connect;
use dispatch::AnyConnection;
pub(crate) use exclusive::Exclusive;
pub(crate) use half::Half;
pub(crate) use new_connection::ReadyConnection;
pub(crate) use pending_connect::{ConnectProgress, PendingConnect};
pub(crate) use recv_stream::BlockingRecvStream;
pub(crate) use send_stream::BlockingSendStream;
use warm_up::WarmingUp;

/// One end of a connection, or a half of it, over a fabric that the compiler knows.
pub(crate) struct Blocking<A: DriverAccess> {
    /// `None` while it is lent to the keepalive thread.
    access: Option<A>,
    keepalive: KeepaliveThread<A>,
}

impl<F: HostFabric> Blocking<Exclusive<F>> {
    /// Makes an end of an attachment to the peer's memory.
    ///
    /// # Errors
    /// `Usage`: the fabric cannot do what was negotiated.
    pub(crate) fn new(
        fabric: F,
        attachment: Attachment<F>,
        negotiated: &Negotiated,
        budget: Arc<BudgetShare>,
        options: Options,
    ) -> Result<Self, Error> {
        let endpoint = Endpoint::new(&fabric, attachment, negotiated.config, Origin::default())
            .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        Ok(Exclusive::new(HostDriver::new(endpoint, fabric, options), budget).into())
    }

    /// Sets for how long the peer lets this end be silent. `None`: it did not tell.
    fn set_peer_idle_timeout(&mut self, timeout: Option<Nanos>) {
        if let Some(timeout) = timeout {
            self.access().driver.set_peer_idle_timeout(timeout);
        }
    }

    /// Splits the connection into two halves.
    pub(crate) fn split(self) -> [Blocking<Half<F>>; 2] {
        Half::split(self.into_access()).map(Into::into)
    }
}

impl<F: HostFabric> Blocking<Half<F>> {
    /// Joins the two halves.
    ///
    /// # Errors
    /// The halves are not of one connection.
    pub(crate) fn reunite(self, other: Self) -> Result<Blocking<Exclusive<F>>, [Self; 2]> {
        let reunited = self.into_access().reunite(other.into_access());
        reunited.map(Into::into).map_err(|halves| halves.map(Into::into))
    }
}

impl<A: DriverAccess> From<A> for Blocking<A> {
    fn from(access: A) -> Self {
        Self { access: Some(access), keepalive: KeepaliveThread::new() }
    }
}

impl<A: DriverAccess> Blocking<A> {
    /// Counts bytes that were moved without a wait, and yields once they are many and the other half runs on the same core.
    #[inline]
    fn yield_after_moving(&mut self, bytes: usize) {
        if self.access().count_moved(bytes) {
            thread::yield_now();
        }
    }

    /// Looks at the driver.
    fn inspect<R>(&self, work: impl FnOnce(&HostDriver<A::Fabric>) -> R) -> R {
        match &self.access {
            Some(access) => access.inspect(work),
            None => unreachable!("it is lent only inside `keep_alive_while`, which borrows the connection"),
        }
    }

    /// Returns the access to the driver.
    #[inline]
    fn access(&mut self) -> &mut A {
        match &mut self.access {
            Some(access) => access,
            None => unreachable!("it is lent only inside `keep_alive_while`, which borrows the connection"),
        }
    }

    fn into_access(self) -> A {
        match self.access {
            Some(access) => access,
            None => unreachable!("it is lent only inside `keep_alive_while`, which borrows the connection"),
        }
    }

    /// Returns true in the process that made it.
    fn is_ours(&self) -> bool {
        self.access.as_ref().is_some_and(A::is_ours)
    }

    /// Waits until the peer has acknowledged everything that was sent.
    pub(crate) fn flush(&mut self, deadline: Deadline) -> Result<(), Error> {
        if deadline.is_poll() {
            return self.poll_flush();
        }
        self.access().wait(deadline, |driver, _| driver.endpoint_mut().poll_delivered().then_some(()).into())
    }

    /// [`flush`](Self::flush) of one round.
    fn poll_flush(&mut self) -> Result<(), Error> {
        let Some(mut held) = self.access().try_hold() else { return Err(Error::deadline()) };
        let host = &mut *held;
        if host.driver.endpoint_mut().poll_delivered() {
            return Ok(());
        }
        let has_moved = host.progress();
        if host.driver.endpoint_mut().poll_delivered() {
            return Ok(());
        }
        if !has_moved {
            host.check_ended()?;
        }
        Err(Error::deadline())
    }

    /// Runs `work` while a helper thread sends keepalives.
    pub(crate) fn keep_alive_while<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.keepalive.lend(&mut self.access, work)
    }

    /// Makes one round of progress, unless the other half holds the driver. Returns true if anything was done.
    pub(crate) fn progress(&mut self) -> bool {
        self.access().try_hold().is_some_and(|mut host| host.progress())
    }

    /// Takes the oldest event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.access().hold().driver.poll_event()
    }

    /// Sets the protocol of transfers that start from now on.
    #[cfg(feature = "internals")]
    pub(crate) fn set_protocol(&mut self, protocol: superpipe_core::Protocol) {
        self.access().hold().driver.set_protocol(protocol);
    }

    /// Sets the kernels of copies.
    pub(crate) fn pin_copies(&mut self, copy_in: Option<CopyKernel>, copy_out: Option<CopyKernel>) {
        self.access().hold().driver.endpoint_mut().pin_copies(copy_in, copy_out);
    }

    /// Sets the window of this end's sending direction.
    pub(crate) fn set_window(&mut self, bytes: Option<u32>) {
        self.access().hold().driver.set_window(bytes);
    }

    /// Sets the wait strategy from now on.
    pub(crate) fn set_wait(&mut self, wait: WaitStrategy) {
        self.access().hold().set_wait(wait);
    }

    /// Returns the counters of the connection.
    pub(crate) fn counters(&mut self) -> Counters {
        self.access().hold().counters()
    }

    /// Shows the connection to those who read this process's metrics.
    fn begin_report(&mut self, subject: impl FnOnce(u64, u64) -> Subject) {
        self.access().hold().begin_report(subject);
    }

    /// Closes the connection, without waiting for the peer's application.
    pub(crate) fn close(&mut self, reason: Reason, deadline: Deadline) -> Result<(), Error> {
        self.access().close(reason, deadline)
    }

    /// Begins to plan messages, with a planner that has observed nothing: now, or when the first one comes that can be planned.
    pub(crate) fn plan_messages(&mut self, is_later: bool) {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.plan(driver.endpoint(), is_later);
    }

    /// Explains how the next message of this length and memory would go.
    pub(crate) fn explain(&mut self, bytes: u64, memory: Memory) -> Option<Explanation> {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.planning(driver.endpoint().link()).map(|planning| planning.explain(bytes, memory))
    }

    /// Returns the message that was observed last.
    pub(crate) fn last_planned(&mut self) -> Option<Planned> {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.planning(driver.endpoint().link()).and_then(|planning| planning.last())
    }

    /// Begins to record events, with an empty recorder, or stops and forgets what was recorded.
    #[cfg(feature = "recorder")]
    pub(crate) fn record(&mut self, on: bool) {
        self.access().hold().fabric.record(on);
    }

    /// Takes the oldest record.
    #[cfg(feature = "recorder")]
    pub(crate) fn take_record(&mut self) -> Option<superpipe_core::recorder::Record> {
        let HostDriver { driver, fabric, .. } = &mut *self.access().hold();
        fabric.recorder(driver.endpoint().link())?.take()
    }
}

impl<A: DriverAccess> fmt::Debug for Blocking<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.access.fmt(f)
    }
}
