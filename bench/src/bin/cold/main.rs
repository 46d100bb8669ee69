//! What it costs to receive into memory that was never written: superpipe's streams of messages between two pinned
//! processes, each message into memory of its own, by kind of memory.
//!
//! The sender's buffer is resident and always the same. The receiver makes the memory before it takes the time, and gives it
//! back afterwards: timed is what a program waits for its message, from the call to its return. Contents are compared
//! before anything is timed.

mod memory;
mod options;
mod receiver;
mod sender;

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use superpipe::{Connection, Options as ConnectionOptions, WaitStrategy};
use superpipe_bench::failure::Failure;
use superpipe_bench::meeting::{DEADLINE, Place, fail};
use superpipe_bench::process::Peer;
use superpipe_bench::report::gb_per_s;
use superpipe_bench::size::format_bytes;
use superpipe_bench::stats::Summary;

use memory::Kind;
use options::Options;
use receiver::Receiver;

fn main() -> ExitCode {
    Failure::report(measure(&Options::parse()))
}

fn measure(options: &Options) -> Result<(), Failure> {
    let (budget_ns, bytes_max) = (options.budget_ns()?, options.bytes_max());
    let place = Place::new()?;
    let address = place.address();
    let with = ConnectionOptions {
        wait: WaitStrategy::Spin,
        idle_timeout: DEADLINE,
        ..ConnectionOptions::default()
    };
    let (_peer, _) = Peer::fork(options.cores, |_| sender::serve(&address, with, bytes_max))?;
    let connection = Connection::connect(&address, with, DEADLINE).map_err(fail)?;
    // Both ends are connected: from here on nothing in the file system is left to be cleaned up.
    drop(place);
    let mut receiver = Receiver::new(connection);
    for round in 1..=options.rounds {
        for size in &options.sizes {
            for &kind in &options.memory {
                print(options.json, round, kind, size.0, &receiver.visit(kind, size.0, budget_ns)?);
            }
        }
    }
    receiver.close()
}

fn print(as_json: bool, round: u64, kind: Kind, bytes: usize, summary: &Summary) {
    let (memory, gb_per_s) = (kind.name(), gb_per_s(bytes, summary));
    if !as_json {
        println!(
            "round {round}  {:>5}  {memory:<16} min {:>9.1}  p50 {:>9.1}  p99 {:>9.1}  max {:>9.1} us  {gb_per_s:>6.2} GB/s",
            format_bytes(bytes),
            summary.min_us,
            summary.p50_us,
            summary.p99_us,
            summary.max_us,
        );
        return;
    }
    let object = json!({
        "event": "result", "program": "cold", "test": "receive", "round": round, "bytes": bytes, "memory": memory,
        "min_us": summary.min_us, "p50_us": summary.p50_us, "avg_us": summary.avg_us,
        "p99_us": summary.p99_us, "p999_us": summary.p999_us, "max_us": summary.max_us,
        "gb_per_s": gb_per_s, "samples": summary.samples,
    });
    println!("{object}");
}
