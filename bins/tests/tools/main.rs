//! The tools as they ship, two processes each time. What a test starts, it ends; what it makes is in a directory of its own.
//!
//! No test asserts how fast anything is. A wait has a bound, ten times and more of what it takes, only so that a hang is
//! a failure; where the manual promises a time (a lost peer is noticed within 5 s), that is the bound.
#![forbid(unsafe_code)]

mod attempts;
mod codes;
mod endings;
mod events;
mod fabrics;
mod files;
mod hostile;
mod kills;
mod pipes;
mod refusals;
mod rperf;
mod signals;
mod sizes;
mod sources;
mod strangers;
mod support;
mod traces;
