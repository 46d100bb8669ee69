//! Shared memory between two processes of one host: where they meet, what they hand over, how one sleeps.
//!
//! Everything that arrives here comes from a peer that may be hostile: descriptors are checked before they are mapped,
//! packets before they are read, and memory that both ends map is never behind a reference.

pub mod address;
pub mod doze;
pub mod fabric;
pub mod handshake;
pub mod listener;
pub mod liveness;
pub mod segment;
pub mod socket;

mod ancillary;
mod queue;
pub(crate) mod rights;
#[cfg(test)]
pub(crate) mod scratch;
mod socket_error;
mod sun;

pub(crate) use address::elsewhere;
pub use address::{AddressError, ShmAddress};
pub use ancillary::SentFd;
pub use doze::{Doze, Slept, wake_if_asleep};
pub use listener::{BindError, Listener};
pub use liveness::{Life, Liveness};
pub use segment::{Segment, SegmentError};
pub use socket::{PeerCred, Received, Socket};
pub use socket_error::{ConnectError, SocketError};
pub use sun::PathError;
