//! Every interleaving of a few steps: two shipped endpoints over a fabric without time, each state once.
//!
//! A [`Case`] is a small connection: rings of two folds, one or two transfers, and what their applications may do. A state
//! is both endpoints, the memories with what is visible of them and what was written there, the writes under way with what
//! is still invisible of each, the completions that wait, and what both applications have done. From each, everything that
//! may happen next is tried. Checked in each: bytes that came out, exactly once and in order; who owns which block; that no
//! end sees a violation; and that the wanted end can be reached from it, without any step that might as well never happen.

mod case;
mod cases;
mod flow;
mod graph;
mod memory;
mod net;
mod part;
mod receiving;
mod search;
mod sending;
mod state;
mod step;
mod write;

pub use case::{Acks, Case, Closing, How, Take, Transfer};
pub use cases::cases;
pub use search::{Explored, Wrong, explore};
