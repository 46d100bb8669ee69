//! How a peer meets this end, on either fabric.

use super::link::Link;
use super::packets::{Fabric, Layout, PACKET_BYTES};
use super::script::{Carry, Step};

/// Connections, until they stand, and what carries packets.
pub(super) trait Entry {
    /// What it is over.
    fn fabric(&self) -> Fabric;

    /// Connects. What was connected before stays.
    fn connect(&mut self);

    /// Accepts a connection, waiting for one.
    fn accept(&mut self);

    /// Accepts one, and closes it.
    fn accept_and_close(&mut self);

    /// Sends bytes, and what goes with them. Where the other end has gone, its result tells.
    fn send(&mut self, bytes: &[u8], carry: Carry, layout: Option<Layout>);

    /// Receives a packet, waiting for it.
    fn receive(&mut self, layout: Option<Layout>) -> [u8; PACKET_BYTES];

    /// Sends what wakes who sleeps.
    fn wake(&mut self);

    /// Closes all connections.
    fn close(&mut self);

    /// The connection that both ends agreed on.
    fn link(&mut self) -> Box<dyn Link>;

    /// A step that only this fabric has.
    fn own_step(&mut self, step: Step);
}
