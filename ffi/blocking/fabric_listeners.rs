//! Listening ends of a listener: from an address to one per fabric, and the next client of either.

#[cfg(feature = "verbs")]
use core::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;

use super::half_open::PendingConnection;
#[cfg(feature = "verbs")]
use super::rdma;
use super::route::Locality;
use super::shm;
use crate::address::Address;
#[cfg(not(feature = "verbs"))]
use crate::address::NO_RDMA;
use crate::error::{Error, ErrorKind};
use crate::fabric::Shards;
#[cfg(feature = "verbs")]
use crate::fabric::rdma::Listener as RdmaListener;
use crate::fabric::shm::{BindError, Listener as ShmListener, ShmAddress, SocketError};
use crate::options::Options;
use crate::os::monotonic_ns;
use crate::os::poll::PollFd;
use crate::os::random::random_below;

/// Deadline of the lookup of a host name.
const LOOKUP_NS: u64 = 5_000_000_000;
/// Ports tried for port 0.
const TRIES: u16 = 64;
/// Begin of the dynamic ports (RFC 6335).
const DYNAMIC: u16 = 49_152;
const DYNAMIC_COUNT: u16 = u16::MAX - DYNAMIC + 1;

/// Listening ends, one per fabric.
#[derive(Debug)]
pub(crate) struct FabricListeners {
    shm: Option<ShmListener>,
    /// Only peers of our own user may connect over shared memory.
    is_private: bool,
    #[cfg(feature = "verbs")]
    rdma: Option<RdmaListener>,
    why_no_rdma: Option<String>,
    /// Resources that connections share, if a poller accepts them.
    shards: Option<Shards>,
    /// The fabric that is asked for a client first next time.
    is_rdma_turn: bool,
    address: Address,
}

impl FabricListeners {
    /// Listens.
    ///
    /// # Errors
    /// As [`Listener::bind`](crate::Listener::bind).
    pub(super) fn bind(address: &Address, options: &Options) -> Result<Self, Error> {
        options.check()?;
        let mut listener = Self {
            shm: None,
            is_private: false,
            #[cfg(feature = "verbs")]
            rdma: None,
            why_no_rdma: None,
            shards: None,
            is_rdma_turn: false,
            address: address.clone(),
        };
        match address {
            Address::Shm(path) => {
                options.check_shm(address)?;
                listener.shm = Some(ShmListener::bind(&ShmAddress::Path(path.clone()).socket_path()?)?);
            }
            Address::Rdma { host, port } => {
                options.check_rdma(address)?;
                listener.listen_by_rdma(host, *port, true, options)?;
                let port = listener.rdma_port().unwrap_or(*port);
                listener.address = Address::Rdma { host: host.clone(), port };
            }
            Address::HostPort { host, port } => {
                let reach = Locality::of(host, options, monotonic_ns() + LOOKUP_NS)?;
                if matches!(reach, Locality::SameHost) {
                    options.check_rdma(address)?;
                }
                let is_number = host.parse::<core::net::IpAddr>().is_ok();
                let everywhere = match reach {
                    Locality::OtherHost => {
                        let text = format!("cannot listen at {address}: {host} is another host");
                        return Err(Error::new(ErrorKind::Connect, text));
                    }
                    Locality::Loopback => {
                        options.check_shm(address)?;
                        None
                    }
                    Locality::SameHost if is_number => Some(&host[..]),
                    Locality::SameHost => Some(""),
                };
                listener.is_private = true;
                let port = listener.listen_at_port(everywhere, *port, options)?;
                listener.address = Address::HostPort { host: host.clone(), port };
            }
        }
        Ok(listener)
    }

    /// Listens at a port of this host, and for other hosts over RDMA if a host is named, at the same port on both fabrics. Returns the port.
    fn listen_at_port(
        &mut self,
        for_others: Option<&str>,
        wanted: u16,
        options: &Options,
    ) -> Result<u16, Error> {
        let choose = || {
            if let Some(host) = for_others {
                self.listen_by_rdma(host, wanted, options.has_rdma_device(), options)?;
            }
            Ok(match (wanted, self.rdma_port()) {
                (0, None) => DYNAMIC + u16::try_from(random_below(DYNAMIC_COUNT.into())).unwrap_or(0),
                (0, Some(port)) => port,
                (port, _) => port,
            })
        };
        let tries = if wanted == 0 { TRIES } else { 1 };
        let (listener, port) = at_free_port(tries, choose, |port| {
            Ok(ShmListener::bind(&ShmAddress::Port(port).socket_path()?))
        })?;
        self.shm = Some(listener);
        Ok(port)
    }

    /// Listens by RDMA. A host without a device is an error if RDMA `is_wanted`.
    #[cfg(feature = "verbs")]
    fn listen_by_rdma(
        &mut self,
        host: &str,
        port: u16,
        is_wanted: bool,
        options: &Options,
    ) -> Result<(), Error> {
        match rdma::listen(host, port, options)? {
            Ok(listener) => self.rdma = Some(listener),
            Err(error) if is_wanted => return Err(error),
            Err(error) => self.why_no_rdma = Some(error.to_string()),
        }
        Ok(())
    }

    #[cfg(not(feature = "verbs"))]
    fn listen_by_rdma(&mut self, _: &str, _: u16, is_wanted: bool, _: &Options) -> Result<(), Error> {
        if is_wanted {
            return Err(Error::new(ErrorKind::Connect, NO_RDMA));
        }
        self.why_no_rdma = Some(NO_RDMA.into());
        Ok(())
    }

    #[cfg(feature = "verbs")]
    fn rdma_port(&self) -> Option<u16> {
        self.rdma_addr().map(|address| address.port())
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    const fn rdma_port(&self) -> Option<u16> {
        None
    }

    /// Has connections from here on share what those of a poller share.
    pub(super) fn share(&mut self, shards: &Shards) {
        self.shards = Some(shards.clone());
    }

    /// Takes the next client of either fabric. The fabrics take turns, so that failing attempts on one do not delay the other.
    pub(super) fn try_accept(
        &mut self,
        options: Options,
        now_ns: u64,
    ) -> Result<Option<Box<dyn PendingConnection>>, Error> {
        for _ in 0..2 {
            self.is_rdma_turn = !self.is_rdma_turn;
            let newcomer = if self.is_rdma_turn {
                self.try_accept_rdma(options, now_ns)?
            } else {
                self.try_accept_shm(options, now_ns)?
            };
            if newcomer.is_some() {
                return Ok(newcomer);
            }
        }
        Ok(None)
    }

    fn try_accept_shm(
        &self,
        options: Options,
        now_ns: u64,
    ) -> Result<Option<Box<dyn PendingConnection>>, Error> {
        let Some(listener) = &self.shm else { return Ok(None) };
        match listener.accept(0) {
            Err(SocketError::TimedOut | SocketError::Interrupted) => Ok(None),
            socket => shm::open(socket?, self.is_private, options, now_ns).map(Some),
        }
    }

    #[cfg(feature = "verbs")]
    fn try_accept_rdma(
        &mut self,
        options: Options,
        now_ns: u64,
    ) -> Result<Option<Box<dyn PendingConnection>>, Error> {
        self.rdma
            .as_mut()
            .map_or(Ok(None), |listener| rdma::open(listener, options, self.shards.as_ref(), now_ns))
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with the feature")]
    const fn try_accept_rdma(
        &mut self,
        _: Options,
        _: u64,
    ) -> Result<Option<Box<dyn PendingConnection>>, Error> {
        Ok(None)
    }

    /// Returns the descriptors that become ready when a client connects, one per fabric.
    pub(super) fn interests(&self) -> heapless::Vec<PollFd<'_>, 2> {
        let mut places = heapless::Vec::new();
        places.extend(self.shm.as_ref().map(|listener| PollFd::new(listener.as_fd(), libc::POLLIN)));
        #[cfg(feature = "verbs")]
        places.extend(self.rdma.as_ref().map(RdmaListener::interest).filter(|fd| !fd.is_none()));
        places
    }

    /// Returns a text for the end of an error: RDMA addresses that other hosts cannot reach because their device is gone.
    #[cfg(feature = "verbs")]
    pub(super) fn why_unreachable(&self) -> String {
        let why = self.rdma.as_ref().and_then(RdmaListener::removed_device);
        why.map_or_else(String::new, |why| format!(": {why}"))
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(super) const fn why_unreachable(&self) -> &'static str {
        ""
    }

    /// Returns the address given to [`bind`](Self::bind), with the port in place of 0.
    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the absolute path of the socket, if it listens over shared memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        Some(self.shm.as_ref()?.path())
    }

    /// Returns the address that other hosts connect to, if it listens over RDMA; the first of several.
    #[cfg(feature = "verbs")]
    pub(crate) fn rdma_addr(&self) -> Option<SocketAddr> {
        self.rdma.as_ref()?.local_addr()
    }

    /// Returns the reason for not listening over RDMA, if the address asks for RDMA where it is available.
    pub(crate) fn rdma_unavailable(&self) -> Option<&str> {
        self.why_no_rdma.as_deref()
    }
}

/// Binds to the first free port of those chosen, `tries` at most.
fn at_free_port<T>(
    tries: u16,
    mut choose: impl FnMut() -> Result<u16, Error>,
    mut bind: impl FnMut(u16) -> Result<Result<T, BindError>, Error>,
) -> Result<(T, u16), Error> {
    let mut tried = 1;
    loop {
        let port = choose()?;
        match bind(port)? {
            Err(error) if error.is_taken() && tried < tries => tried += 1,
            bound => return Ok((bound?, port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The port that is found where these are taken, and how many were tried.
    fn found(tries: u16, taken: fn(PathBuf) -> BindError) -> (Result<u16, ErrorKind>, u16) {
        let mut tried = 0;
        let choose = || {
            tried += 1;
            Ok(tried)
        };
        let bind = |port| Ok(if port < 5 { Err(taken("/x".into())) } else { Ok(()) });
        let found = at_free_port(tries, choose, bind);
        (found.map(|((), port)| port).map_err(|error| error.kind()), tried)
    }

    #[test]
    fn a_taken_port_is_passed_over_a_bounded_number_of_times() {
        let taken: [fn(PathBuf) -> BindError; 3] =
            [BindError::InUse, BindError::NotASocket, |path| BindError::ForeignOwner { path, owner: 7 }];
        for taken in taken {
            assert_eq!(found(TRIES, taken), (Ok(5), 5));
            assert_eq!(found(5, taken), (Ok(5), 5));
            let (none, tried) = found(4, taken);
            assert!(none.is_err() && tried == 4);
        }
        assert_eq!(found(1, BindError::InUse), (Err(ErrorKind::Connect), 1));
    }

    #[test]
    fn what_no_other_port_mends_is_told_at_once() {
        let (none, tried) = found(TRIES, BindError::Locked);
        assert!(none.is_err() && tried == 1);
    }
}
