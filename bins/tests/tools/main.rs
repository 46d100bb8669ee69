//! The tools as they ship, two processes each time. What a test starts, it ends; what it makes is in a directory of its own.
//!
//! No test asserts how fast anything is. A wait has a bound, ten times and more of what it takes, only so that a hang is
//! a failure; where `--help` promises a time (a lost peer is noticed within 5 s), that is the bound.
#![forbid(unsafe_code)]

mod ahead;
mod attacks;
mod attempts;
mod attributes;
mod codes;
mod descriptors;
mod directories;
mod endings;
mod events;
mod fabrics;
mod files;
mod hostile;
mod hostile_attacks;
mod kills;
mod leftovers;
mod manual;
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
mod strangers;
mod support;
mod terminals;
mod traces;
