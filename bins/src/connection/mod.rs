//! A tool's connection: waiting for a peer, the exchange of HELLOs and reports, and the meaning of errors.

pub mod attempts;
pub mod listen;
pub mod peer;
pub mod session;
