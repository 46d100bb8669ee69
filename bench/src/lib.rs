//! What the raw limits and the benchmarks share: two processes, each pinned to its core, around one mapping.
//!
//! Nothing here but [`pair`], [`meeting`] and [`side_by_side`] uses superpipe: the limits are what the machine gives to a program without any
//! protocol, and superpipe is measured against them by `rperf`, a tool like any other. Lengths are bytes, times are
//! nanoseconds unless a name says otherwise.
//!
//! A measurement is made of *visits*. In one visit to a configuration the two processes check the contents,
//! warm up, and then time many short slices of messages; a round visits every configuration once, so that
//! whatever else the machine does meanwhile falls on all of them alike.

pub mod best;
pub mod clock;
pub mod failure;
pub mod kernels;
pub mod mailbox;
pub mod map;
pub mod meeting;
pub mod options;
pub mod pair;
pub mod pattern;
pub mod pin;
pub mod process;
pub mod report;
pub mod side_by_side;
pub mod size;
pub mod slices;
pub mod spin;
pub mod stats;
