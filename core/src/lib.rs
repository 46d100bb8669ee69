//! The protocol core of superpipe: what moves bytes between two ends over any [`Fabric`], and nothing else.
//!
//! It knows no operating system, no clock, no allocator and no unsafe code. Time, memory and the wire come
//! through one trait, [`Fabric`]; everything is driven from outside, and nothing waits. An [`Endpoint`] is one
//! end of one connection: sending and receiving halves, a mailbox for control messages, and the
//! acknowledgements that let memory be used again.
//!
//! The protocol is numbered in `docs/wire.md`, which the code cites; how the parts fit is in
//! `docs/architecture.md`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(test)]
extern crate std;

mod ack;
mod arrival;
mod config;
mod control;
mod counters;
pub mod driver;
mod endpoint;
mod error;
mod fabric;
mod header;
mod inline;
mod layout;
mod line;
mod mailbox;
mod nanos;
mod notice;
#[cfg(not(superpipe_planted))]
mod planted;
#[cfg(superpipe_planted)]
pub mod planted;
mod receive;
pub mod recorder;
mod recording;
mod schedule;
mod send;
mod sequence;
mod slices;
mod state;
pub mod word;

pub use arrival::Arrival;
pub use config::{Config, ConfigError, Origin, Protocol};
pub use counters::Counters;
pub use driver::Driver;
pub use endpoint::{Attachment, Endpoint, Event, Incoming};
pub use error::{Closed, Failure, ProtocolError, Reason, RefusedSend, RefusedStart, WcError};
pub use fabric::{Caps, Completion, CopyHint, Fabric, Notice, SqFull, WrId};
pub use header::{Header, INLINE_BYTES_MAX, Length};
pub use layout::{BadLayout, FlagPlace, LINE_STRIDE_BYTES, Landing, Layout, SEAT_BYTES, seat};
pub use line::{LINE_BYTES, Line};
pub use nanos::Nanos;
pub use notice::NOTICES_MIN;
pub use receive::{End, Pulled, Readable, Run, TryRecv};
pub use schedule::Schedule;
pub use send::{Reservation, TransferId};
pub use state::{Phase, Receiving, Sending, State};
