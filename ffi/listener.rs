//! Listening for connections.

#[cfg(feature = "verbs")]
use core::net::SocketAddr;
use std::path::Path;

use crate::address::Address;
use crate::blocking::Acceptor;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::options::Options;

/// Accepts connections at an address. Dropping it stops listening.
///
/// The address determines the fabric: `shm:PATH` and loopback addresses use shared memory, `verbs:HOST:PORT` uses RDMA, and HOST:PORT uses
/// both if this host has an RDMA device.
///
/// ```
/// # use core::time::Duration;
/// # use superpipe::{Connection, Error, ErrorKind, Listener, Options};
/// # fn main() -> Result<(), Error> {
/// let mut listener = Listener::bind(&"localhost:0".parse().unwrap(), Options::default())?;
/// println!("listening at {}", listener.local_addr());
/// # let address = listener.local_addr().clone();
/// # let peer = std::thread::spawn(move || Connection::connect(&address, Options::default(), Duration::from_secs(30)).map(drop));
/// let connection = listener.accept(Duration::from_secs(30))?;
/// println!("accepted {:?}", connection.peer());
/// # peer.join().unwrap()?;
/// // Nobody else connects.
/// assert_eq!(listener.accept(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::Timeout);
/// # Ok(())
/// # }
/// ```
///
/// **After fork** a child may accept from an inherited listener over shared memory, also after its parent has ended. If the parent dropped its
/// own, no one can connect any more, and the child can accept clients that connected before. The child owns what it accepts. A child
/// that drops the listener does not stop the parent from listening. RDMA listens only for the process that called `bind`.
#[derive(Debug)]
pub struct Listener {
    acceptor: Acceptor,
}

impl From<Acceptor> for Listener {
    fn from(acceptor: Acceptor) -> Self {
        Self { acceptor }
    }
}

impl Listener {
    /// Begins to listen. Replaces a socket that a dead process left behind.
    ///
    /// At a HOST:PORT of this host that is not a loopback address it also listens for other hosts if there is an RDMA device: at HOST if that
    /// is an IP address, else at every address of this host. Port 0 stands for a free port, the same on both fabrics;
    /// [`local_addr`](Self::local_addr) returns it.
    ///
    /// # Errors
    /// `Connect`: the address is in use, or cannot be used. `Auth`: it belongs to another user. `Usage`: invalid options. `Device`, `Limit`:
    /// RDMA was asked for, and this host has no device, or refuses it.
    pub fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        Ok(Self { acceptor: Acceptor::bind(address, options)? })
    }

    pub(crate) fn into_acceptor(self) -> Acceptor {
        self.acceptor
    }

    /// Waits for the next connection. An attempt that fails is returned as an error, and the next call waits for another.
    ///
    /// Up to 16 connections are made side by side, each bounded by [`Options::handshake_timeout`]. Further clients wait until one of
    /// the 16 is done, or until one makes room: the one whose peer was silent for longest, once that was 50 ms. A half-open
    /// connection that holds a share of the memory budget also makes room, by the same rule, for one that finds too little left. So does
    /// any half-open connection if this process has too few descriptors left for the next client.
    ///
    /// Connections that are not established are kept for the next call. Between calls they make no progress and their time stands still: a
    /// pause counts as 100 ms at most. It does not count after a call that accepted a connection, nor for a peer that has sent or received
    /// a message of the warm-up meanwhile.
    ///
    /// Memory is provisioned for one connection at a time, and a call can end later than its deadline by the time that takes. With a
    /// deadline of [`Duration::ZERO`](core::time::Duration::ZERO) the call is [`try_accept`](Self::try_accept).
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`; of one attempt: `Timeout`, `Auth`, `Version`, `Protocol`, `Usage`, `Limit`, `Device`, `PeerLost`.
    pub fn accept(&mut self, deadline: impl Into<Deadline>) -> Result<Connection, Error> {
        self.acceptor.accept(deadline.into()).map(Connection::from)
    }

    /// Takes the next connection if one is established, and continues those that are not, without waiting. An attempt that exceeds its
    /// [`Options::handshake_timeout`] is dropped without an error.
    ///
    /// A call ends once it has provisioned memory for at least one connection, and for more while that takes less than 1 ms in all. The next
    /// calls provision memory for the others.
    ///
    /// # Errors
    /// As [`accept`](Self::accept), but for `Timeout` and `Interrupted`.
    pub fn try_accept(&mut self) -> Result<Option<Connection>, Error> {
        Ok(self.acceptor.try_accept()?.map(Connection::from))
    }

    /// Returns the address given to [`bind`](Self::bind), with the port in place of 0. If its host is empty, peers must write a name of this
    /// host instead.
    #[must_use]
    pub const fn local_addr(&self) -> &Address {
        self.acceptor.listeners().address()
    }

    /// Returns the absolute path of the socket, if it listens over shared memory. Its permissions decide which users may connect.
    #[must_use]
    pub fn socket_path(&self) -> Option<&Path> {
        self.acceptor.listeners().path()
    }

    /// Returns the address that other hosts connect to, if it listens over RDMA; the first of several.
    #[cfg(feature = "verbs")]
    #[must_use]
    pub fn rdma_addr(&self) -> Option<SocketAddr> {
        self.acceptor.listeners().rdma_addr()
    }

    /// Returns the reason for not listening over RDMA, if the address asks for RDMA where it is available. Other hosts cannot connect
    /// then: a server for other hosts should log the reason.
    #[must_use]
    pub fn rdma_unavailable(&self) -> Option<&str> {
        self.acceptor.listeners().rdma_unavailable()
    }
}
