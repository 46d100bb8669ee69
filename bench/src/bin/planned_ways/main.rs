//! Messages whose way is planned, beside each protocol that they could have had, on a real fabric. Wanted, and reported: the way that the planner has
//! chosen takes at most 10 % more than the best one, and after 100 messages its prediction is within 25 % of what messages take.
//!
//! A sample is a message and its answer of 8 bytes, as the client sees it: until the send has returned and the answer is here. Ends are two
//! processes. In a round each connection has a slice of some milliseconds, one after the other.

mod cell;
mod client;
mod memory;
mod server;
mod ways;

use std::process::ExitCode;

use clap::Parser;
use superpipe::Address;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Cores;
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;

use cell::{EXCESS_MAX, PREDICTION_OFF_MAX};
use client::Client;
use memory::MemoryKind;
use ways::contestants;

/// Planned messages beside each protocol that they could have had
#[derive(Parser)]
#[command(name = "planned_ways", version)]
struct Options {
    /// Address at which the two processes meet: verbs:HOST:PORT, or shm:PATH [default: shared memory in a private directory]
    address: Option<Address>,
    /// The two cores, the measuring process's first
    #[arg(long, default_value = "0,1", value_name = "A,B")]
    cores: Cores,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "1K,16K,256K,1M,4M")]
    sizes: Vec<Size>,
    /// Rounds, in which each connection has a slice
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Milliseconds of a slice
    #[arg(long, default_value_t = 5)]
    slice_ms: u64,
    /// Only show that everything works: one round of one message, after those that teach the planner
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.quick {
        (options.rounds, options.slice_ms) = (1, 0);
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    if sizes.is_empty() || sizes.iter().any(|bytes| !(1..=64 << 20).contains(bytes)) || options.rounds == 0 {
        return Err(Failure::Usage("messages have 1 B to 64 MiB, and there is at least one round".into()));
    }
    let directory = SocketDirectory::new()?;
    let address = options.address.clone().unwrap_or_else(|| directory.address());
    let contestants = contestants(&address);
    let bytes_max = sizes.iter().copied().max().unwrap_or(0);
    let (_peer, _) = Peer::fork(options.cores, |_| server::serve(&address, &contestants, bytes_max))?;
    let mut client = Client::connect(&address, &contestants)?;
    println!("{}", cell::HEADER);
    let (mut cells, mut late, mut off) = (0, 0, 0);
    for bytes in sizes {
        for memory in MemoryKind::ALL {
            let cell = client.cell(bytes, memory, options.rounds, options.slice_ms)?;
            cells += 1;
            late += usize::from(cell.exceeds_best());
            off += usize::from(cell.is_mispredicted());
            println!("{cell}");
        }
    }
    client.end()?;
    println!(
        "{cells} cells: in {late} the chosen way, or planned messages, take over {:.0} % more than the best way; in {off} the prediction is \
         off by more than {:.0} %",
        EXCESS_MAX * 100.0,
        PREDICTION_OFF_MAX * 100.0,
    );
    Ok(())
}
