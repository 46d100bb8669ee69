//! What rsend, rrecv and rperf are made of. A library only so that the tools share it: no promise of stability is made
//! here, and programs that want to move data use the `superpipe` crate.
//!
//! ```text
//! options ──▶ send / receive ──▶ protocol, peer      what the two tools say to each other, over one connection
//!         │        │        │
//!         │        │        └──▶ session              what every tool does with a connection
//!         │        ├──▶ tool, listen, attempts        a run from its first event to its exit code
//!         │        ├──▶ files                         what the command names, each file once
//!         │        ├──▶ output, input, preserve       where the bytes go and come from
//!         │        └──▶ meter ──▶ report, bar         what people and programs are told meanwhile
//!         └──▶ rperf ──▶ session, protocol, peer      a tool of its own: see there
//! ```
//!
//! Everything but data and results goes to standard error. A tool ends in one place, with a [`exit::Code`] and one line for the
//! outcome; remarks, and reports that were lost, have lines of their own.
#![forbid(unsafe_code)]

pub mod attempts;
pub mod bar;
pub mod command;
pub mod descriptor;
pub mod exit;
pub mod files;
pub mod generate;
pub(crate) mod help;
pub mod hidden_name;
pub mod input;
pub mod lines;
pub mod links;
pub mod listen;
pub mod meter;
pub mod options;
pub mod output;
pub mod pace;
pub mod patience;
pub mod peer;
pub mod preserve;
pub mod protocol;
pub mod quantity;
pub mod receive;
pub mod report;
pub mod rperf;
pub mod send;
pub mod session;
pub mod shell;
pub mod signals;
pub(crate) mod stderr;
pub mod stopped;
pub mod tool;
pub mod trace;
