//! The peer: a second process that speaks docs/wire.md by hand. It uses nothing of superpipe but its layer over rdma-core, and the
//! lines of `superpipe_testkit::wire`, which are written by hand, too; every other number is typed from the document.

mod descriptors;
mod entry;
mod floods;
mod link;
mod mail;
mod memory;
mod packets;
mod play;
pub(crate) mod process;
mod rdma;
pub(crate) mod script;
mod shm;
mod socket;
mod wire;

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// For all that a peer waits for in good faith.
const PATIENCE: Duration = Duration::from_secs(20);
/// Rounds that spin before each round yields.
const SPINS: u32 = 200;

/// A number of bytes or blocks that memory holds.
pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Makes attempts until one succeeds; a script that cannot go on ends the process.
fn wait<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    for round in 0_u32.. {
        if let Some(value) = attempt() {
            return value;
        }
        if round < SPINS {
            core::hint::spin_loop();
        } else {
            assert!(begun.elapsed() < PATIENCE, "the script waits in vain for {what}");
            thread::yield_now();
        }
    }
    unreachable!("a count of rounds that has no end")
}

#[test]
#[ignore = "the other process, which the cases start"]
fn the_other_process() {
    process::run();
}
