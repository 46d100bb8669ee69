//! Connections in a runtime: what is sent arrives, and what a dropped future leaves.

mod attack;
mod cancelling;
mod connecting;
mod messages;
mod streams;
mod support;
