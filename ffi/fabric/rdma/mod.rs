//! The RDMA fabric: a reliable connection between two NICs, by verbs. wire.md 10.
//!
//! ```text
//! options, device        device, GID and limits that the caller asks for
//! connect               active side: resolve, exchange private data, make the QP ready, handshake
//! listener              passive side; listen_address, the addresses that it listens at
//! private_data          bytes that rdma_cm carries while connecting
//! handshake             HELLO, WELCOME, GRANT, READY by SENDs; core's driver decides
//! connection            QP and CQ of a connection: made ready, posted to, polled, ended; cm, its id
//! completions           of one connection: out of its own CQ, or out of one that it shares with others of its poller
//! send_queue            places of work requests in the send queue
//! receive_pool, signal  receives that are posted ahead, and the messages of four bytes that they take
//! memory                registered memory: ours, which the peer writes, and the image of the peer's
//! growth                landing buffers and images that come and go; image, what core names the peer's memory by
//! lending               memory of the application: lent for a message, or registered and kept
//! fabric                core's `Fabric`; host_fabric, its part of the operating system
//! sleep, sleep_state    how an end sleeps, and what both ends have agreed on for it
//! ```

mod ack_timeout;
mod cm;
mod completions;
mod connect;
mod connection;
mod deadline;
mod device;
mod error;
mod fabric;
#[cfg(test)]
mod fake_device;
mod growth;
mod handshake;
mod host_fabric;
mod image;
mod lending;
mod listen_address;
mod listener;
mod memory;
mod options;
mod private_data;
mod receive_pool;
mod send_queue;
mod signal;
mod sleep;
mod sleep_state;
mod violation;

pub use ack_timeout::AckTimeout;
pub use completions::ShardSet;
pub use connect::{Established, connect};
pub use device::{DeviceName, DeviceNameParseError, RdmaDevice};
pub use error::ConnectError;
pub use fabric::{Rdma, RdmaLink};
pub use image::Image;
pub use listener::{Accepted, Accepting, Listener};
pub use options::RdmaOptions;
pub use superpipe_core::driver::setup::PacketError;
pub use violation::Violation;
