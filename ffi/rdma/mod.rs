//! The RDMA fabric: a reliable connection between two NICs, by verbs. wire.md 10.
//!
//! ```text
//! route     which device, and from which of its addresses
//! connect   the active side: resolve, greet (rdma_cm's private data), make the QP ready
//! listener  the passive side; place, the addresses that it listens at
//! handshake HELLO, WELCOME, GRANT, READY by SENDs, which core's driver decides about
//! wire      the QP and its CQ: made ready, posted to, polled, ended; queue, who has a place in it; mail, the receives that
//!           are posted ahead
//! memory    what is registered: what the peer writes, the image of what we write
//! fabric    core's Fabric on all of that; port, the API's Port; sleep, what is said for it; doze, how one end sleeps
//! ```

mod cm;
mod connect;
mod doze;
mod error;
mod fabric;
mod greeting;
mod handshake;
mod listener;
mod mail;
mod memory;
mod patience;
mod place;
mod port;
mod queue;
mod route;
mod sleep;
mod wire;
mod wishes;
mod wrong;

pub use crate::packet::PacketError;
pub use connect::{Met, connect};
pub use error::ConnectError;
pub use fabric::{Image, Rdma, RdmaLink};
pub use listener::{Accepted, Accepting, Listener};
pub use route::{BadName, DeviceName, Route};
pub use wishes::Wishes;
pub use wrong::Wrong;
