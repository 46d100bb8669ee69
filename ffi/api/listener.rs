//! Waiting for connections.

use std::path::Path;

use super::address::Address;
use super::by_shm;
use super::connection::Connection;
use super::deadline::Deadline;
use super::error::{Error, ErrorKind};
use super::options::Options;
use crate::shm;
use crate::shm::SocketError;

/// A place where others can connect. Dropped, the place is gone.
#[derive(Debug)]
pub struct Listener {
    socket: shm::Listener,
    address: Address,
    options: Options,
}

impl Listener {
    /// Listens. A socket that a dead process left behind is replaced.
    ///
    /// # Errors
    /// `Connect`: the address is in use, or cannot be. `Auth`: it is another user's. `Usage`: wishes that cannot be.
    pub fn bind(address: &Address, options: Options) -> Result<Self, Error> {
        options.tuning.validate().map_err(|text| Error::new(ErrorKind::Usage, text))?;
        let shm = address.shm().map_err(|error| Error::new(ErrorKind::Connect, error.to_string()))?;
        let socket = shm::Listener::bind(&shm.socket_path()?)?;
        Ok(Self { socket, address: address.clone(), options })
    }

    /// Waits for the next connection. One that goes wrong is an error, and the next call waits for another. Handshakes
    /// come one after the other, each bounded by [`Options::handshake_timeout`].
    ///
    /// # Errors
    /// `Timeout`, `Interrupted`; of one attempt: `Auth`, `Version`, `Protocol`, `Usage`, `Limit`, `PeerLost`.
    pub fn accept(&mut self, deadline: impl Into<Deadline>) -> Result<Connection, Error> {
        let deadline_ns = deadline.into().at_ns();
        loop {
            match self.socket.accept(deadline_ns) {
                Err(SocketError::Interrupted) if !self.options.is_interrupted() => {}
                Err(SocketError::TimedOut) => {
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!("nobody connected to {}", self.address),
                    ));
                }
                socket => {
                    let is_private = self.address.is_private();
                    if let Some(connection) = by_shm::accept(socket?, is_private, self.options)? {
                        return Ok(connection);
                    }
                }
            }
        }
    }

    /// The socket in the file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.socket.path()
    }
}
