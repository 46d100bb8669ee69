//! Shared parts of the raw limits and the benchmarks: two processes, each pinned to its core, around one mapping.
//!
//! Only [`connection`] uses a superpipe connection. The limits are the rates that the machine gives a program without any
//! protocol; `rperf` measures superpipe against them. Lengths are bytes, times are nanoseconds unless a name says otherwise.
//!
//! A measurement consists of *visits*. In one visit to a configuration the two processes check the contents (`limit_blocks` at the first one), warm up, and
//! then time many short slices of messages. A round visits every configuration once, so that other load on the machine
//! falls on all of them alike.

pub mod best;
pub mod channel;
pub mod connection;
pub mod descriptors;
pub mod failure;
pub mod kernels;
pub mod map;
pub mod options;
pub mod pattern;
pub mod probe;
pub mod process;
pub mod report;
pub mod resident;
pub mod ring;
pub mod size;
pub mod slices;
pub mod spin;
pub mod stats;
pub mod work;
