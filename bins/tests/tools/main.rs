//! Tests of the tools as they ship, as two processes. A test ends what it starts, and keeps its files in a directory of its own.
//!
//! No test asserts a speed. Every wait has a bound of at least ten times its usual length, so that a hang is a failure. If
//! `--help` promises a time (a lost peer is noticed within 5 s), that is the bound.
#![forbid(unsafe_code)]

mod ahead;
mod appending;
mod attempts;
mod attributes;
mod codes;
mod cores;
mod descriptors;
mod directories;
mod endings;
mod events;
mod fabrics;
mod files;
mod hostile;
mod keeping;
mod kills;
mod leftovers;
mod manual;
mod memory_nodes;
mod names;
mod old_files;
mod pipes;
mod preserve;
mod refusals;
mod reports;
mod rperf;
mod shared;
mod signals;
mod sizes;
mod sources;
mod sparse;
mod standard_error;
mod strangers;
mod superpipeline;
mod support;
mod terminals;
mod top;
mod traces;
