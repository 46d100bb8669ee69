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
mod distance;
pub mod explore;
mod fabric;
mod faults;
mod lenders;
mod measured;
mod memory_nodes;
pub mod nic;
mod panic_text;
mod paper;
mod picture;
mod planned;
mod planted;
mod polled;
mod run;
mod swarm;

pub use case::{Case, ClosePolicy, ConnectionPlan, Scenario};
pub use client::{Behavior, Call, CallCoverage, ExitPolicy, Program, unreachable_because};
pub use distance::{check_kernel_outliers, check_kernels, check_window_outliers, check_windows};
pub use fabric::{PartialBlocks, SimFabric};
pub use faults::{Chance, EndState, Fault, FaultCoverage, Faults, GrowthCase, GrowthCoverage, GrowthStep};
pub use lenders::LenderPlan;
pub use memory_nodes::check_memory_nodes;
pub use nic::{
    CopyStep, CrossingCosts, DISTANCES_MAX, Distance, Distances, MemoryNodes, MemoryUse, NodeOf, Paging,
    Profile, Trace, TraceEntry, TraceEvent,
};
pub use paper::{
    Figure, FigureName, Row, Runs as FigureRuns, choice_table, paper_rows, table as paper_table,
};
pub use picture::TooManyHosts;
pub use planned::{ChangedPhase, PlannedCell, check_changes, check_planner};
pub use polled::{IdleCosts, PollCase, PollCoverage, PolledState, idle_costs, polled_seed};
pub use run::{Outcome, RunFailure, RunOptions, run};
pub use swarm::{StopCondition, Swarm};
