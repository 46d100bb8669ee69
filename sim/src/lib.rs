//! superpipe's core, as it ships, in virtual time.
//!
//! A [`World`](nic::World) is hosts with a CPU and a NIC each, whose costs are a [`Profile`]; a [`Sim`] is a connection
//! between two of them, as core's `Fabric`; a [`Case`] is what one seed stands for, and [`run`] plays it under checkers.
//! Nothing but the seed decides what happens: no clock, no thread, no address. What goes wrong is in [`Faults`].
//!
//! What is sent, how it is taken out and what must come out is `superpipe_testkit::Pair`.
#![forbid(unsafe_code)]

mod calls;
mod case;
mod client;
mod column;
pub mod explore;
mod fabric;
mod faults;
mod flags;
mod liar;
pub mod nic;
mod picture;
mod profile;
mod queue;
mod run;
mod scenario;
mod swarm;
mod tally;
mod torn;
mod turned;

pub use calls::{Call, Calls, unreachable_because};
pub use case::{Case, Closing, Plan};
pub use client::{Ending, Manner, Program};
pub use column::Column;
pub use fabric::Sim;
pub use faults::{Chance, Fault, Faults};
pub use nic::{Entry, Trace, Use, What};
pub use picture::TooManyHosts;
pub use profile::{CopyStep, Profile};
pub use run::{Failure, Look, Outcome, run};
pub use scenario::Scenario;
pub use swarm::{Swarm, Until};
pub use tally::Tally;
pub use torn::Torn;
