//! superpipe's shipped core in virtual time.
//!
//! A [`World`](nic::World) has hosts with a CPU and a NIC each, whose costs are in a [`Profile`]. A [`SimFabric`] connects two of them
//! as core's `Fabric`. A [`Case`] holds everything that one seed decides, and [`run`] runs it under checkers. [`Faults`] lists what
//! goes wrong. A run has no clock, no thread and no address, so the seed alone decides what happens.
//!
//! `superpipe_testkit::Pair` plays the scripts and holds their oracle.
#![forbid(unsafe_code)]

mod case;
mod client;
pub mod explore;
mod fabric;
mod faults;
mod lenders;
pub mod nic;
mod panic_text;
mod picture;
mod planted;
mod run;
mod swarm;

pub use case::{Case, ClosePolicy, ConnectionPlan, Scenario};
pub use client::{Behavior, Call, CallCoverage, ExitPolicy, Program, unreachable_because};
pub use fabric::{PartialBlocks, SimFabric};
pub use faults::{Chance, EndState, Fault, FaultCoverage, Faults, GrowthCase, GrowthCoverage, GrowthStep};
pub use lenders::LenderPlan;
pub use nic::{CopyStep, MemoryUse, Profile, Trace, TraceEntry, TraceEvent};
pub use picture::TooManyHosts;
pub use run::{Outcome, RunFailure, RunOptions, run};
pub use swarm::{StopCondition, Swarm};
