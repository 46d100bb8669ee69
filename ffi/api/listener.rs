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
use super::way::Reach;
use crate::os::clock::until;
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, poll};
#[cfg(feature = "verbs")]
use crate::rdma;
use crate::shm;
use crate::shm::{ShmAddress, SocketError};

/// The longest that a wait goes on without a look at the interrupt flag.
const SLICE_NS: u64 = 100_000_000;
/// For the lookup of a name of this host.
const LOOKUP_NS: u64 = 5_000_000_000;

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
    shm: Option<shm::Listener>,
    is_private: bool,
    #[cfg(feature = "verbs")]
    verbs: Option<rdma::Listener>,
    why_no_verbs: Option<String>,
    /// Whose turn it is to be looked at first.
    is_verbs_turn: bool,
    address: Address,
    options: Options,
}

impl Listener {
    /// Listens. A socket that a dead process left behind is replaced.
    ///
    /// At a HOST:PORT of this host that is no loopback address it listens for other hosts as well, if there is an RDMA
    /// device: at HOST where that is a number, else at every address of this host.
    ///
    /// # Errors
    /// `Connect`: the address is in use, or cannot be. `Auth`: it is another user's. `Usage`: wishes that cannot be. `Device`,
    /// `Limit`: RDMA was asked for, and this host has none, or refuses it.
    pub fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        options.check()?;
        let mut listener = Self {
            shm: None,
            is_private: false,
            #[cfg(feature = "verbs")]
            verbs: None,
            why_no_verbs: None,
            is_verbs_turn: false,
            address: address.clone(),
            options,
        };
        match address {
            Address::Shm(path) => {
                options.check_shm(address)?;
                listener.listen_by_shm(&ShmAddress::Path(path.clone()))?;
            }
            Address::Verbs { host, port } => listener.listen_by_verbs(host, *port, true)?,
            Address::Port { host, port } => {
                let reach = Reach::of(host, &options, monotonic_ns() + LOOKUP_NS)?;
                let mut port = *port;
                match reach {
                    Reach::Far => {
                        let text = format!("cannot listen at {address}: {host} is another host");
                        return Err(Error::new(ErrorKind::Connect, text));
                    }
                    Reach::Loopback => options.check_shm(address)?,
                    Reach::Here => {
                        let is_number = host.parse::<core::net::IpAddr>().is_ok();
                        let host = if is_number { host } else { "" };
                        listener.listen_by_verbs(host, port, options.has_route())?;
                        // One port on both fabrics, also where the kernel chose it.
                        port = listener.verbs_port().unwrap_or(port);
                    }
                }
                listener.is_private = true;
                listener.listen_by_shm(&ShmAddress::Port(port))?;
            }
        }
        Ok(listener)
    }

    fn listen_by_shm(&mut self, address: &ShmAddress) -> Result<(), Error> {
        self.shm = Some(shm::Listener::bind(&address.socket_path()?)?);
        Ok(())
    }

    /// Where it `is_wanted`, a host without a device is an error.
    #[cfg(feature = "verbs")]
    fn listen_by_verbs(&mut self, host: &str, port: u16, is_wanted: bool) -> Result<(), Error> {
        match by_verbs::listen(host, port, &self.options)? {
            Ok(listener) => self.verbs = Some(listener),
            Err(error) if is_wanted => return Err(error),
            Err(error) => self.why_no_verbs = Some(error.to_string()),
        }
        Ok(())
    }

    #[cfg(not(feature = "verbs"))]
    fn listen_by_verbs(&mut self, _: &str, _: u16, is_wanted: bool) -> Result<(), Error> {
        if is_wanted {
            return Err(Error::new(ErrorKind::Connect, super::address::NO_VERBS));
        }
        self.why_no_verbs = Some(super::address::NO_VERBS.into());
        Ok(())
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

    #[cfg(feature = "verbs")]
    fn verbs_port(&self) -> Option<u16> {
        self.verbs_address().map(|address| address.port())
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    const fn verbs_port(&self) -> Option<u16> {
        None
    }

    /// Why it does not listen by RDMA, where it would have, had it been possible.
    #[must_use]
    pub fn why_no_verbs(&self) -> Option<&str> {
        self.why_no_verbs.as_deref()
    }
}
