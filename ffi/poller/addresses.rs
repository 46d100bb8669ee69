//! Addresses at which a poller listens, and why not at others.

#[cfg(feature = "verbs")]
use core::net::SocketAddr;

use superpipe_core::polling::Key;

use super::Poller;
use super::entry::Entry;
use crate::address::Address;

impl Poller {
    /// Returns the address of a listener, with the port in place of 0. `None`: the key is stale, or names no listener.
    #[must_use]
    pub fn local_addr(&self, listener: Key) -> Option<&Address> {
        match self.rounds.get(listener)? {
            Entry::Listening(listening) => Some(listening.acceptor().listeners().address()),
            _ => None,
        }
    }

    /// Returns the address that other hosts connect to, if a listener listens over RDMA; the first of several. `None`: it does not, or the key is stale, or names no listener.
    #[cfg(feature = "verbs")]
    #[must_use]
    pub fn rdma_addr(&self, listener: Key) -> Option<SocketAddr> {
        match self.rounds.get(listener)? {
            Entry::Listening(listening) => listening.acceptor().listeners().rdma_addr(),
            _ => None,
        }
    }

    /// Returns the reason for a listener not listening over RDMA, if its address asks for RDMA where it is available. Other hosts cannot connect then: a server for other hosts should log the reason.
    /// `None`: it does, or was not asked to, or the key is stale, or names no listener.
    #[must_use]
    pub fn rdma_unavailable(&self, listener: Key) -> Option<&str> {
        match self.rounds.get(listener)? {
            Entry::Listening(listening) => listening.acceptor().listeners().rdma_unavailable(),
            _ => None,
        }
    }
}
