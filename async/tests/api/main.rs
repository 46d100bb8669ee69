//! Connections in a runtime: what is sent arrives, and what a dropped future leaves.

mod cancelling;
mod connecting;
mod messages;
mod streams;
mod support;
mod waking;
