//! A tool's connection: waiting for a peer, the exchange of HELLOs and reports, and the meaning of errors.

pub mod attempts;
mod core_distance;
pub mod cores;
pub mod listen;
pub mod many;
pub mod peer;
pub mod session;
