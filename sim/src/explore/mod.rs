//! Exploration of every interleaving of a few steps: two shipped endpoints over a fabric without time, each state once.
//!
//! A [`Case`] is a small connection: rings of two folds, a few transfers, and what their applications may do. A state holds both endpoints,
//! the visible and the written bytes of the memories, the writes on their way with their invisible pieces, the completions, and the progress
//! of both applications. The search tries every possible step from each state. It checks in each that bytes arrive exactly once and in
//! order, that ends write only blocks that they own, that no end reports a violation, and that the wanted end is reachable without any
//! optional step.

mod cases;
mod fabric;
mod fingerprint;
mod graph;
mod search;
mod state;
mod step;

pub use cases::{
    AckOrder, Case, ClosePolicy, Exposing, Growing, Lending, Offering, ReceiveMethod, SendMethod, Transfer,
    cases,
};
pub use search::{Explored, Violation, explore};
