//! The cost of waiting: latency, CPU use and wake-up of each wait strategy, with the two ends on two cores and on one.
//!
//! Two processes over superpipe, each pinned. **Latency** is half of a round trip, back to back. **Wake-up** is one way:
//! the receiver has waited for a pause, and then gets a message; the time from just before the message is sent to just
//! after it is received, by the monotonic clock that all processes share. On two cores the sender spins during the pause;
//! on one it sleeps, since the receiver could not run otherwise. CPU use is that of each process's thread over the time of
//! the measurement, in percent of a core.

mod client;
mod options;
mod print;
mod server;

use std::process::ExitCode;

use clap::Parser;
use superpipe::{Connection, Options as ConnectionOptions, WaitStrategy};
use superpipe_bench::connection::{DEADLINE, SocketDirectory, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::process::Peer;

use client::Client;
use options::{Options, Placement};
use print::Output;

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let visit_ns = options.visit_ns()?;
    for round in 1..=options.common.rounds {
        for &placement in &options.placement {
            for &wait in &options.wait {
                visit(options, round, placement, wait, visit_ns)?;
            }
        }
    }
    Ok(())
}

/// Makes a connection, and measures everything over it.
fn visit(
    options: &Options,
    round: u64,
    placement: Placement,
    wait: WaitStrategy,
    visit_ns: u64,
) -> Result<(), Failure> {
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let with = ConnectionOptions { wait, idle_timeout: DEADLINE, ..ConnectionOptions::default() };
    let bytes_max = options.bytes_max();
    let cores = placement.cores(options.common.cores);
    let (_peer, _) = Peer::fork(cores, |_| server::serve(&address, with, bytes_max))?;
    let connection = Connection::connect(&address, with, DEADLINE).map_err(fail)?;
    let mut client = Client::new(connection, placement, bytes_max)?;
    let output = Output { json: options.common.json, round, placement, wait };
    for size in &options.sizes {
        output.latency(size.0, &client.latency(size.0, visit_ns)?);
    }
    for &pause_us in &options.pauses_us {
        output.wake_up(pause_us, &client.wake_up(pause_us, visit_ns)?);
    }
    client.close()
}
