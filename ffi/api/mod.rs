//! The std API: connections with deadlines, waiting and ownership around the core's endpoint.

mod address;
mod bind;
mod by_shm;
#[cfg(feature = "verbs")]
mod by_verbs;
mod connection;
mod deadline;
mod error;
mod hand_on;
mod listener;
mod opening;
mod options;
mod over;
mod pauses;
mod peer;
mod recv_buf;
mod split;
mod streams;
#[cfg(test)]
mod traps;
#[cfg(feature = "verbs")]
mod verbs_errors;
mod way;

pub use address::{Address, BadAddress, DEFAULT_PORT};
pub use connection::{Connection, Description, TryRecv, TrySend};
pub use deadline::Deadline;
pub use error::{Error, ErrorKind};
pub use listener::Listener;
pub use options::Options;
pub use peer::Peer;
pub use recv_buf::RecvBuf;
pub use split::{RecvHalf, SendHalf};
pub use streams::{RecvStream, SendStream, StreamError};
