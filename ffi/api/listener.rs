//! Waiting for connections.

#[cfg(feature = "verbs")]
use core::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;

use super::address::Address;
use super::by_shm;
#[cfg(feature = "verbs")]
use super::by_verbs;
use super::connection::Connection;
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use crate::os::clock::until;
use crate::os::poll::{PollFd, poll};
#[cfg(feature = "verbs")]
use crate::rdma;
use crate::shm;
use crate::shm::SocketError;

/// The longest that a wait goes on without a look at the interrupt flag.
const SLICE_NS: u64 = 100_000_000;

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
}

impl Listener {
    /// One that listens nowhere.
    pub(super) const fn deaf(address: Address, options: Options) -> Self {
        Self {
            shm: None,
            is_private: false,
            #[cfg(feature = "verbs")]
            verbs: None,
            why_no_verbs: None,
            is_verbs_turn: false,
            address,
            options,
        }
    }

    /// Waits for the next connection. One that goes wrong is an error, and the next call waits for another. Handshakes
    /// come one after the other, each bounded by [`Options::handshake_timeout`].
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`; of one attempt: `Auth`, `Version`, `Protocol`, `Usage`, `Limit`, `Device`, `PeerLost`.
    pub fn accept(&mut self, deadline: impl Into<Deadline>) -> Result<Connection, Error> {
        let deadline_ns = deadline.into().at_ns();
        loop {
            if let Some(connection) = self.try_accept()? {
                return Ok(connection);
            }
            if self.options.is_interrupted() {
                return Err(Error::interrupted());
            }
            let left_ns = until(deadline_ns);
            if left_ns == 0 {
                let text = format!("nobody connected to {}{}", self.address, self.why_deaf());
                return Err(Error::new(ErrorKind::Timeout, text));
            }
            self.wait(left_ns.min(SLICE_NS))?;
        }
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

    /// Takes a connection that is there.
    fn try_accept(&mut self) -> Result<Option<Connection>, Error> {
        // Neither fabric keeps the other from being looked at, not even by connections that go wrong.
        for _ in 0..2 {
            self.is_verbs_turn = !self.is_verbs_turn;
            let accepted = if self.is_verbs_turn { self.try_verbs()? } else { self.try_shm()? };
            if accepted.is_some() {
                return Ok(accepted);
            }
        }
        Ok(None)
    }

    fn try_shm(&mut self) -> Result<Option<Connection>, Error> {
        let Some(listener) = &self.shm else { return Ok(None) };
        match listener.accept(0) {
            Err(SocketError::TimedOut | SocketError::Interrupted) => Ok(None),
            socket => by_shm::accept(socket?, self.is_private, self.options),
        }
    }

    #[cfg(feature = "verbs")]
    fn try_verbs(&mut self) -> Result<Option<Connection>, Error> {
        self.verbs.as_mut().map_or(Ok(None), |listener| by_verbs::accept(listener, self.options))
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    const fn try_verbs(&mut self) -> Result<Option<Connection>, Error> {
        Ok(None)
    }

    /// Waits until somebody may be there.
    fn wait(&self, timeout_ns: u64) -> Result<(), Error> {
        let mut fds = [PollFd::none(); 2];
        if let Some(listener) = &self.shm {
            fds[0] = PollFd::new(listener.as_fd(), libc::POLLIN);
        }
        #[cfg(feature = "verbs")]
        if let Some(listener) = &self.verbs {
            fds[1] = PollFd::new(listener.as_fd(), libc::POLLIN);
        }
        poll(&mut fds, timeout_ns)?;
        Ok(())
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

    /// Why it does not listen by RDMA, where it would have, had it been possible.
    #[must_use]
    pub fn why_no_verbs(&self) -> Option<&str> {
        self.why_no_verbs.as_deref()
    }
}
