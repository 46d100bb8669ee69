//! Set-up of a connection by the peer, on either fabric.

use super::link::Link;
use super::packets::{Fabric, Layout, PACKET_BYTES};
use super::script::{Carry, Step};

/// Connections that are being made, and the carrier of their packets.
pub(super) trait Entry {
    /// The fabric.
    fn fabric(&self) -> Fabric;

    /// Connects. Earlier connections stay open.
    fn connect(&mut self);

    /// Accepts a connection, waiting for one.
    fn accept(&mut self);

    /// Accepts one, and closes it.
    fn accept_and_close(&mut self);

    /// Sends bytes and what `carry` names. Ignores a failure: if the other end has gone, its own result tells why.
    fn send(&mut self, bytes: &[u8], carry: Carry, layout: Option<Layout>);

    /// Receives a packet, waiting for it.
    fn receive(&mut self, layout: Option<Layout>) -> [u8; PACKET_BYTES];

    /// Sends a wake-up.
    fn wake(&mut self);

    /// Closes all connections.
    fn close(&mut self);

    /// The connection that both ends agreed on.
    fn link(&mut self) -> Box<dyn Link>;

    /// A step that only this fabric has.
    fn own_step(&mut self, step: Step);
}
