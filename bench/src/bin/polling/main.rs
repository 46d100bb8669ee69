//! Pollers beside blocking calls: a message and its answer of the same length, served by blocking calls, by a poller with one connection, and by a poller that has many idle connections as well. Wanted, of 8 B: at
//! most 1.15 times the time of blocking calls with one, and 1.2 times that of one alone with 1,000 idle ones, 1 MiB within 5 %. Then what both ends' pollers cost while all is idle: wanted
//! is under 0.1 % of a core, and docs/architecture/poller.md has what is missed.
//!
//! The client makes blocking calls. Ends are two processes that spin, except while all is idle, and each kind has a slice of some milliseconds in each round.

mod client;
mod idle;
mod server;

use std::process::ExitCode;

use clap::Parser;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::descriptors;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Slices;
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;

use client::Client;

/// Pollers beside blocking calls
#[derive(Parser)]
#[command(name = "polling", version)]
struct Options {
    #[command(flatten)]
    slices: Slices,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "8,1K,64K,1M")]
    sizes: Vec<Size>,
    /// Idle connections beside the active one
    #[arg(long, default_value_t = 1000)]
    idle: u32,
    /// Seconds for which all is idle
    #[arg(long, default_value_t = 10)]
    idle_s: u64,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.slices.shorten(0) {
        (options.idle, options.idle_s) = (20, 0);
    }
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    if sizes.is_empty() || sizes.iter().any(|bytes| !(1..=64 << 20).contains(bytes)) {
        return Err(Failure::Usage("messages have 1 B to 64 MiB".into()));
    }
    descriptors::allow(u64::from(options.idle) * 4)?;
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let (bytes_max, idle_s) = (sizes.iter().copied().max().unwrap_or(0), options.idle_s);
    let (_peer, _) =
        Peer::fork(options.slices.cores, |_| server::serve(&address, options.idle, bytes_max, idle_s))?;
    let mut client = Client::connect(&address, options.idle)?;
    if !options.slices.json {
        println!(
            "{:>9} {:>22} {:>32} {:>32}",
            "bytes", "blocking, us", "poller over blocking", "with idle ones over alone"
        );
    }
    for bytes in sizes {
        let row = client.measure(bytes, usize::from(options.slices.rounds), options.slices.slice_ms)?;
        if options.slices.json {
            println!("{}", row.to_json(options.idle));
        } else {
            println!("{row}");
        }
    }
    let [ours, theirs] = client.be_idle(idle_s)?;
    if options.slices.json {
        println!(
            "{}",
            serde_json::json!({"event": "idle", "connections": options.idle, "percent_of_core": [ours, theirs]})
        );
    } else {
        println!(
            "{} idle connections cost {ours:.3} % of a core at the client, and {theirs:.3} % at the server, in {idle_s} s",
            options.idle
        );
    }
    Ok(())
}
