//! Scratch directories, child processes with bounded waits, reproducible data, and facts about the system.

mod data;
mod peer;
mod process;
mod program;
mod scratch;
mod system;

pub(crate) use data::{Noise, feed, verify};
pub(crate) use peer::{beside_silent, in_time, rsend_hello, send_a_part};
pub(crate) use process::{BOUND, Ended, Tool, wait_for};
pub(crate) use program::program;
pub(crate) use scratch::Scratch;
pub(crate) use system::{
    Mounted, NOBODY, full_pipe, is_root, mkfifo, open_to_write, option, some_core, with_files,
};
