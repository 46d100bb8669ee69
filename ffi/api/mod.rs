//! The std API: connections with deadlines, waiting and ownership around the core's endpoint.

mod address;
mod attempt;
mod bind;
mod by_shm;
#[cfg(feature = "verbs")]
mod by_verbs;
mod connecting;
mod connection;
mod deadline;
mod error;
mod hand_on;
mod listener;
mod listener_clock;
mod opening;
mod options;
mod outcome;
mod over;
mod pauses;
mod peer;
mod recv_buf;
mod split;
mod stream_error;
mod streams;
#[cfg(test)]
mod traps;
#[cfg(feature = "verbs")]
mod verbs_errors;
mod way;

pub use address::{Address, BadAddress, DEFAULT_PORT};
pub use connection::{Connection, Description};
pub use deadline::Deadline;
pub use error::{Error, ErrorKind};
pub use listener::Listener;
pub use options::Options;
pub use outcome::{TryRecv, TrySend};
pub use peer::Peer;
pub use recv_buf::RecvBuf;
pub use split::{RecvHalf, SendHalf};
pub use stream_error::StreamError;
pub use streams::{RecvStream, SendStream};
