//! The shared-memory fabric, between two processes of one host: sockets, segments, sleep.
//!
//! The peer may be hostile: descriptors are checked before they are mapped, packets before they are read, and memory that
//! both ends map is never behind a reference.

pub mod address;
pub mod exposed;
pub mod fabric;
pub mod handshake;
mod landing;
pub mod listener;
pub mod liveness;
pub mod segment;
pub mod segments;
pub mod sleep;
pub mod socket;
pub mod sparse;

mod ancillary;
pub(crate) mod descriptor_passing;
mod exposing;
#[cfg(test)]
mod foreign;
mod growing;
mod offering;
mod own_buffers;
mod own_trusted;
mod prefetch;
mod receive_queue;
mod refusals;
mod registering;
#[cfg(test)]
pub(crate) mod scratch;
mod sent_buffers;
mod socket_error;
mod turns;
mod unix_address;

pub(crate) use address::other_socket_hint;
pub use address::{AddressError, ShmAddress};
pub use ancillary::SentFd;
pub use listener::{BindError, Listener};
pub use liveness::Liveness;
pub use segment::{Segment, SegmentError};
pub use segments::Segments;
pub use sleep::{SleepOutcome, Sleeper, wake_if_asleep};
pub use socket::{PeerCred, Received, Socket};
pub use socket_error::{ConnectError, SocketError};
pub use unix_address::PathError;
