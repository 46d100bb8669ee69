//! superpipe moves data between machines over RDMA, and between processes over shared memory, at the speed of the
//! wire, from the first message on, out of memory that was never registered, inside a fixed amount of pinned memory.
//!
//! This crate is the std side: everything that crosses into C, and the API that programs use. The protocol is in
//! [`superpipe_core`], whose items are re-exported here where programs meet them.
//!
//! - [`Listener`] and [`Connection`]: connect, send and receive messages, with deadlines.
//! - [`RecvBuf`] and [`Connection::recv_into_cold`]: memory that is received into for the first time.
//! - [`SendStream`] and [`RecvStream`]: `Write` and `Read`, and straight between files and blocks.
//! - [`shm`]: the shared-memory fabric. [`os`]: pinning, waiting, memory. [`copy`]: copy kernels. [`io`]: files and pipes.
//!
//! The library never prints, and every wait has a deadline.

pub mod copy;
pub mod io;
pub mod os;
pub mod port;
#[cfg(feature = "verbs")]
pub mod rdma;
pub mod shm;
pub mod span;
pub mod tuning;
#[cfg(feature = "verbs")]
pub mod verbs;

mod api;
mod budget;
mod packet;
mod sleepers;

pub use api::{
    Address, BadAddress, Connection, DEFAULT_PORT, Deadline, Description, Error, ErrorKind, Listener,
    Options, Peer, RecvBuf, RecvHalf, RecvStream, SendHalf, SendStream, StreamError, TryRecv, TrySend,
};
pub use budget::{Budget, OverBudget};
pub use os::WaitStrategy;
#[cfg(feature = "verbs")]
pub use rdma::{DeviceName, Route};
pub use superpipe_core::driver::{Drive, Receive as ReceiveOperation, Received, Send as SendOperation};
#[cfg(feature = "recorder")]
pub use superpipe_core::recorder;
pub use superpipe_core::{Arrival, Counters, Event, Incoming, Length, Protocol, Reason};
pub use tuning::Tuning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
