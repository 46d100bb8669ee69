//! The std API: connections with deadlines, waiting and ownership around the core's endpoint.

mod address;
mod blocking;
mod budget;
mod cold;
mod connection;
mod deadline;
mod error;
mod listener;
mod options;
#[cfg(feature = "recorder")]
mod recording;
mod recv_buf;
mod streams;
mod transport;
mod warming;

pub use address::{Address, BadAddress, DEFAULT_PORT};
pub use budget::Budget;
pub use connection::{Connection, Description, Received};
pub use deadline::Deadline;
pub use error::{Error, ErrorKind};
pub use listener::Listener;
pub use options::Options;
pub use recv_buf::RecvBuf;
pub use streams::{RecvStream, SendStream, StreamError};
