//! The first message after idleness, by shared memory: on a connection whose landing buffers were granted while connecting, on one
//! that begins with a page and grows beside the message (hidden), and on one that provisions first and then transfers (plain).
//!
//! A visit connects, leaves the connection idle for a moment, and sends a message, which the other process answers with 8 bytes. The time
//! from just before the message to just after the answer counts. A second message of the same size follows on the same connection.
//!
//! - **first**: the first message of each kind.
//! - **T_hidden**, **T_plain**: the first message on demand, and that of the provision protocol, by the same build.
//! - **T_transfer**: the second message of the plain connection, whose landing buffers are there.
//! - **T_provision**: the jobs of both ends of the plain connection until the first message was answered.
//! - **T_slab**: the same of a message that needs only the first slab.
//!
//! A round visits all sizes and kinds in turn, and forms all ratios. The distance of the cores is probed before and after each round; a round
//! that it changed in is run again, and left out if it changes once more. Rounds near and far are never mixed.

mod figures;
mod server;
mod visit;

use core::time::Duration;
use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::channel::Channel;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::map::SharedMapping;
use superpipe_bench::options::Cores;
use superpipe_bench::probe::{self, Distance};
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;
use superpipe_bench::spin::Timeout;

use figures::{Figures, Measured};
use visit::{Kind, Visitor};

/// A message that needs the first slab of 64 KiB and no more.
const SLAB_MESSAGE_BYTES: usize = 32 << 10;
/// Runs of a round whose cores move.
const ATTEMPTS: u32 = 3;

/// First messages after idleness over shared memory: on demand against landing at connect, and hidden against plain provisioning
#[derive(Parser)]
#[command(name = "first_message", version)]
struct Options {
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Rounds: each measures everything
    #[arg(long, default_value_t = 9)]
    rounds: u64,
    /// Visits per size and kind in a round, of which the median counts
    #[arg(long, default_value_t = 11)]
    visits: usize,
    /// Milliseconds without a message after connecting
    #[arg(long, default_value_t = 5)]
    idle_ms: u64,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "8,64,1K,2K,4K,16K,64K,256K,1M")]
    sizes: Vec<Size>,
    /// Print JSON, one object per line, instead of a table
    #[arg(long)]
    json: bool,
    /// Only show that everything works: one round of one visit, and few sizes
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        (options.rounds, options.visits, options.idle_ms) = (1, 1, 1);
        options.sizes = vec![Size(64), Size(1 << 20)];
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    let bytes_max = sizes.iter().copied().max().unwrap_or(0).max(SLAB_MESSAGE_BYTES);
    if options.visits == 0 || sizes.iter().any(|bytes| !(1..=1 << 30).contains(bytes)) {
        return Err(Failure::Usage("at least one visit, of messages of 1 to 1 GiB".into()));
    }
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let map = SharedMapping::new(server::MAP_BYTES, false)?;
    let (_peer, timeout) =
        Peer::fork(options.cores, |timeout| server::serve(&map, &address, bytes_max, timeout))?;
    let idle = Duration::from_millis(options.idle_ms);
    let mut visitor = Visitor::new(Channel::new(&map), &address, bytes_max, idle, &timeout)?;
    let mut figures = Figures::default();
    let mut number = 0;
    for _ in 0..options.rounds {
        for _ in 0..ATTEMPTS {
            let before = distance(&mut visitor, &map, &mut number, &timeout)?;
            let measured = round(&mut visitor, &sizes, options.visits)?;
            if distance(&mut visitor, &map, &mut number, &timeout)? == before {
                figures.add(before, measured);
                break;
            }
        }
    }
    figures.print(options.json, options.rounds);
    Ok(())
}

fn distance(
    visitor: &mut Visitor<'_>,
    map: &SharedMapping,
    number: &mut u64,
    timeout: &Timeout,
) -> Result<Distance, Failure> {
    visitor.ask_probe();
    let distance = probe::measure(map, probe::BEHIND_CHANNEL, number, timeout)?;
    visitor.end_probe()?;
    Ok(distance)
}

/// Measures all sizes and kinds, interleaved.
fn round(visitor: &mut Visitor<'_>, sizes: &[usize], visits: usize) -> Result<Vec<Measured>, Failure> {
    let mut all: Vec<_> = sizes.iter().map(|bytes| (*bytes, Kind::ALL.map(|_| Vec::new()))).collect();
    let mut slabs = Vec::new();
    for _ in 0..visits {
        slabs.push(visitor.visit(Kind::Plain, SLAB_MESSAGE_BYTES)?);
        for (bytes, kinds) in &mut all {
            for (kind, visits) in Kind::ALL.into_iter().zip(kinds) {
                visits.push(visitor.visit(kind, *bytes)?);
            }
        }
    }
    let slab_us = visit::median_us(&slabs, |visit| visit.jobs_ns);
    Ok(all.into_iter().map(|(bytes, kinds)| Measured::new(bytes, kinds.each_ref(), slab_us)).collect())
}
