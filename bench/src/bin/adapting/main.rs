//! Connections that choose their way of copying while data flow, beside connections that are pinned to one, under the changes that the machine
//! makes by itself. A connection that chooses is to be back at 0.9 of the right choice's rate within 50 ms of its own traffic.
//!
//! A turn is a slice of 10 ms of each connection, one after the other, with messages of one size in one direction. The distance of the cores is
//! probed before and after; a turn in which it changes is left out. The *best pinned* connection at a distance is the one whose rate has the best median
//! there, and a share is a rate over the best pinned one's in the same turn. Turns soon after a move are told apart: a connection has as many as
//! last 50 ms.

mod client;
mod contestant;
mod figures;
mod server;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::options::Cores;
use superpipe_bench::probe::Distance;
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;

use client::Client;
use figures::{Figures, Turn};

/// Time of its own traffic within which a connection is to be right again.
const BACK_MS: u64 = 50;

/// Connections that choose how to copy beside pinned ones, while the machine moves the cores
#[derive(Parser)]
#[command(name = "adapting", version)]
struct Options {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Minutes
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Milliseconds of a slice
    #[arg(long, default_value_t = 10)]
    slice_ms: u64,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "16K,64K,1M")]
    sizes: Vec<Size>,
    /// Print JSON, one object per line, instead of a table
    #[arg(long)]
    json: bool,
    /// Only show that everything works: two turns of each size
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        (options.minutes, options.slice_ms) = (0.0, 1);
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    let is_right = sizes.iter().all(|bytes| (1..=64 << 20).contains(bytes))
        && (0.0..=1440.0).contains(&options.minutes)
        && (1..=1000).contains(&options.slice_ms);
    if sizes.is_empty() || !is_right {
        return Err(Failure::Usage(
            "messages have 1 B to 64 MiB, a slice has 1 to 1000 ms, and a day is 1440 minutes".into(),
        ));
    }
    let bytes_max = sizes.iter().copied().max().unwrap_or(0);
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let map = SharedMapping::new(server::MAP_BYTES, false)?;
    let (_peer, timeout) =
        Peer::fork(options.cores, |timeout| server::serve(&map, &address, bytes_max, timeout))?;
    let slice = Duration::from_millis(options.slice_ms);
    let mut client = Client::new(&map, &address, bytes_max, slice, &timeout)?;
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let mut figures = Figures::default();
    let mut here: Option<Distance> = None;
    let mut ages = vec![0; sizes.len()];
    let mut least_turns = 2 * sizes.len();
    while Instant::now() < end || least_turns > 0 {
        least_turns = least_turns.saturating_sub(sizes.len());
        for (bytes, place) in sizes.iter().zip(0..) {
            let before = client.distance()?;
            let rates = client.slices(*bytes)?;
            let distance = client.distance()?;
            let has_moved = before != distance || here.is_some_and(|here| here != before);
            here = Some(distance);
            if has_moved {
                figures.moves += 1;
                ages.fill(0);
            }
            if before == distance {
                figures.add(Turn { bytes: *bytes, distance, age: ages[place], rates });
                ages[place] += 1;
            } else {
                figures.left_out += 1;
            }
        }
    }
    figures.print(options.json, &sizes, BACK_MS.div_ceil(options.slice_ms));
    Ok(())
}
