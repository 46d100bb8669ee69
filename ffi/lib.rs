//! superpipe moves messages and streams between two programs: over shared memory on one host, over RDMA between hosts. It copies data
//! out of ordinary, unregistered memory through a small buffer, and overlaps the copies of both ends, so that a transfer runs at the
//! speed of memory from the first message on.
//!
//! - [`Listener`] and [`Connection`]: connect, send and receive messages. [`Options`] sets waiting, timeouts and buffer sizes.
//! - [`SendOperation`], [`RecvOperation`], [`OutgoingStream`], [`IncomingStream`]: longer messages and streams, driven by a loop of the program's own.
//! - [`Poller`]: many connections and listeners in one thread.
//! - [`WaitableConnection`], [`WaitableListener`], [`Connecting`]: each with a descriptor, for an event loop of the program's own.
//! - [`SendStream`] and [`RecvStream`]: streams of unknown length, `Write` and `Read`, and directly between files and blocks.
//! - [`SendHalf`] and [`RecvHalf`]: the two directions of a connection for two threads.
//! - [`Loan`] and [`Reserved`]: messages that are read, and built, in place.
//! - [`RegisteredBuf`]: memory that messages leave and enter without a copy through blocks.
//! - [`TrustedBuf`]: memory that a trusted peer writes, so that both ends copy a part of a message at once.
//! - [`RecvBuf`] and [`Connection::recv_into_cold`]: memory that is received into for the first time.
//! - [`io`]: files and pipes as the source or sink of a stream.
//! - [`Tuning`]: proposals for protocol, sizes, and when memory is provisioned ([`LandingMode`]).
//! - [`Budget`]: limits of the memory of all connections of the process.
//! - [`metrics`]: counters of all connections, for other processes to read.
//!
//! The protocol is in [`superpipe_core`]; its items are re-exported here where programs meet them. Every wait has a deadline. The library
//! prints nothing, unless it must end the process: if a device does not give up memory that its owner gets back.

pub mod io;
pub mod metrics;

#[cfg(feature = "internals")]
pub mod copy;
#[cfg(feature = "internals")]
pub mod fabric;
#[cfg(feature = "internals")]
pub mod os;

#[cfg(not(feature = "internals"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "some of it is only for `internals`")]
mod copy;
#[cfg(not(feature = "internals"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "some of it is only for `internals`")]
mod fabric;
#[cfg(not(feature = "internals"))]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "some of it is only for `internals`")]
mod os;

mod address;
mod blocking;
#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "some of it is only for `internals`")
)]
mod budget;
mod connection;
mod deadline;
mod description;
mod error;
mod listener;
mod loan;
mod options;
mod outcome;
mod poller;
mod recv_buf;
mod registered_buf;
mod reserved;
mod spans;
mod split;
mod stream;
mod trace;
mod trusted_buf;
mod waitable;
mod watched;

pub use address::{Address, AddressParseError, DEFAULT_PORT};
pub use budget::{Budget, BudgetUse};
#[cfg(feature = "internals")]
pub use budget::{BudgetShare, MemoryKind, Refused};
pub use connection::Connection;
pub use deadline::Deadline;
pub use description::{Description, Peer};
pub use error::{Error, ErrorKind, StreamError};
pub use fabric::Registered;
#[cfg(feature = "verbs")]
pub use fabric::rdma::{AckTimeout, DeviceName, DeviceNameParseError, RdmaDevice};
pub use fabric::shm::PeerCred;
pub use listener::Listener;
pub use loan::Loan;
pub use options::{Options, PeerTrust};
pub use os::{MemoryNode, MemoryNodeParseError, MemoryPlacement, WaitStrategy};
pub use outcome::{TryRecv, TryRecvLoan, TryReserve, TrySend};
pub use poller::{PollEvent, PollEvents, Poller, PollerOptions};
pub use recv_buf::RecvBuf;
pub use registered_buf::RegisteredBuf;
pub use reserved::Reserved;
pub use spans::{
    LoanSpan, LoanSpans, MessageSpan, MessageSpans, Reading, ReservedSpan, ReservedSpans, Writing,
};
pub use split::{RecvHalf, SendHalf};
pub use stream::{RecvStream, SendStream};
#[cfg(feature = "internals")]
pub use superpipe_core::driver::setup;
pub use superpipe_core::driver::setup::{LandingMode, Tuning};
pub use superpipe_core::driver::{
    Drive, IncomingStream, Interest, OutgoingStream, Received, RecvOperation, SendOperation, StreamRead,
    WaitStrategyParseError,
};
pub use superpipe_core::plan;
pub use superpipe_core::polling::Key;
#[cfg(feature = "recorder")]
pub use superpipe_core::recorder;
pub use superpipe_core::{
    Arrival, CopyKernel, Counters, Event, FirstChunk, Incoming, LOANS_MAX, Length, Planned, Protocol, Reason,
    SIZE_CLASSES, WindowReason, size_class_bytes,
};
pub use trusted_buf::TrustedBuf;
pub use waitable::{Connecting, WaitableConnection, WaitableListener};
pub use watched::Arming;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
struct Guide;
