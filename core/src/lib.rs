//! The protocol core of superpipe: it moves bytes between two ends over any [`Fabric`].
//!
//! Core uses no operating system, clock, allocator or unsafe code. Time, memory and the wire come through one trait,
//! [`Fabric`]. Everything is driven from outside, and nothing waits. An [`Endpoint`] is one end of a connection: a sending and a
//! receiving half, a mailbox for control messages, and the acknowledgements that free blocks. A [`Driver`] adds timers and
//! operations, and is what users call.
//!
//! | module | contents |
//! |---|---|
//! | `wire` | the wire format: lines, layout, headers, control messages, acknowledgements, notifications |
//! | `atomics` | words that both ends share, with their memory orderings: flags and lines, the sleep word, a sequence lock |
//! | `send`, `receive` | the two halves of an endpoint |
//! | [`budget`] | memory of all connections of a process: minimums, loans, fair shares |
//! | `memory` | landing buffers that grow and shrink: epochs, jobs, the two halves of growth |
//! | `zero_copy` | registrations of the application's memory |
//! | `exposing` | memory of the application that the peer maps |
//! | `endpoint` | one end: both halves, mailbox, acknowledgements, notifications |
//! | `fabric` | the trait that a fabric implements |
//! | [`driver`] | operations, waits, keepalives, handshake |
//! | [`polling`] | many connections in one thread: turns, sleeps, keys |
//! | [`plan`] | the cost model of the papers: what each protocol takes |
//!
//! The protocol is numbered in `docs/wire.md`, which the code cites; how the parts fit is in
//! `docs/architecture.md`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(test)]
extern crate std;

// Both define a macro for the modules that follow.
#[cfg(not(superpipe_planted))]
#[macro_use]
mod planted;
#[cfg(superpipe_planted)]
#[macro_use]
pub mod planted;
#[macro_use]
mod recording;

mod atomics;
pub mod budget;
mod config;
mod copying;
pub mod driver;
mod endpoint;
mod error;
mod exposing;
mod fabric;
mod job;
mod job_time;
mod memory;
mod nanos;
pub mod plan;
mod planning;
pub mod polling;
mod protocol;
mod receive;
pub mod recorder;
mod send;
mod slices;
mod state;
mod wire;
mod zero_copy;

pub use atomics::{sequence_lock, sleep_word, word};
pub use config::{Config, ConfigError, FirstChunk, Origin, small_layout};
pub use copying::{CopyKernel, KernelSet, SIZE_CLASSES, WindowReason, size_class_bytes};
pub use driver::Driver;
pub use endpoint::{
    Attachment, Counters, Endpoint, Event, Incoming, REMOTE_WRITE_BYTES_MAX, RefusedLoan, RefusedReserve,
};
pub use error::{Closed, Failure, ProtocolError, Reason, RefusedSend, WcError};
pub use exposing::{EXPOSED_MAX, ExposedState};
pub use fabric::{Caps, Completion, Fabric, SqFull, WrId};
pub use job::{
    Buffer, Busy, Exposed, Finished, Job, JobFailed, JobOutcome, JobResult, RecvMemory, Registration,
    SendMemory, Ticket,
};
pub use memory::{GrowthDelay, GrowthTerms};
pub use nanos::Nanos;
pub use planning::{Planned, Planning};
pub use protocol::Protocol;
pub use receive::{End, LOANS_MAX, Loan, Pulled, Readable, Run, TryRecv};
pub use send::{Reservation, ReservedMessage, Schedule, TransferId};
pub use slices::bytes_of;
pub use state::{GrowthState, Leaving, Phase, Providing, Receiving, Requesting, Sending, State};
pub use wire::arrival::Arrival;
pub use wire::grant::{DestinationClaim, PeerAccess, RemoteClaim};
pub use wire::header::{Header, INLINE_BYTES_MAX, Length, TWO_LINES_BYTES_MAX};
pub use wire::layout::{
    BadLayout, CONTROL_PAGE_BYTES, FlagPlace, LINE_STRIDE_BYTES, Landing, Layout, control_page,
};
pub use wire::line::{LINE_BYTES, Line};
pub use wire::notification::{NOTIFICATIONS_MIN, Notification};
