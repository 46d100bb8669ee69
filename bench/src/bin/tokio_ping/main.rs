//! A message and its answer of the same length between two programs that use tokio, each with a runtime of one thread: superpipe, armed each time and with the bounded spin, beside the runtime's `UnixStream` and `TcpStream`. Wanted: with the
//! spin ahead of both at 8 B, 64 KiB and 1 MiB.
//!
//! Ends are two processes on a core each. All kinds have their connections open at once, and a slice of some milliseconds in each round. Every message is checked.

mod end;
mod server;

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use superpipe_bench::connection::SocketDirectory;
use superpipe_bench::failure::Failure;
use superpipe_bench::options::Slices;
use superpipe_bench::process::Peer;
use superpipe_bench::size::Size;
use superpipe_bench::stats::{Spread, median};

use end::{End, HEADER_BYTES, Kind};

/// Message and answer by tokio: superpipe beside UnixStream and TcpStream.
#[derive(Parser)]
#[command(name = "tokio_ping", version, mut_arg("slice_ms", |arg| arg.default_value("30")))]
struct Options {
    #[command(flatten)]
    slices: Slices,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "8,64K,1M")]
    sizes: Vec<Size>,
    /// Microseconds for which a future of the kind that spins tries before it waits
    #[arg(long, default_value_t = 100)]
    spin_us: u64,
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    options.slices.shorten(0);
    Failure::report(run(&options))
}

fn run(options: &Options) -> Result<(), Failure> {
    let sizes: Vec<usize> = options.sizes.iter().map(|size| size.0).collect();
    let is_valid = |bytes: &usize| (HEADER_BYTES..=64 << 20).contains(bytes);
    if sizes.is_empty() || !sizes.iter().all(is_valid) {
        return Err(Failure::Usage("messages have 8 B to 64 MiB".into()));
    }
    let directory = SocketDirectory::new()?;
    let (address, spin) = (directory.address(), Duration::from_micros(options.spin_us));
    let (_peer, _) = Peer::fork(options.slices.cores, |_| server::serve(&address, spin))?;
    let runtime = runtime()?;
    let mut ends = runtime.block_on(end::connect(&address, spin))?;
    if !options.slices.json {
        let names = Kind::ALL.map(Kind::name).map(|name| format!("{name:>24}"));
        println!("{:>9} {}   (us; ratios to superpipe with spin)", "bytes", names.join(" "));
    }
    for bytes in sizes {
        let times = runtime.block_on(measure(&mut ends, bytes, options))?;
        report(options, bytes, &times);
    }
    Ok(())
}

/// Makes a runtime of one thread.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Os("make a runtime", error))
}

/// Returns the microseconds of each kind in each round.
async fn measure(ends: &mut [End], bytes: usize, options: &Options) -> Result<Vec<Vec<f64>>, Failure> {
    let mut times = vec![Vec::new(); ends.len()];
    let mut counts = Vec::new();
    for end in &mut *ends {
        let took_us = slice(end, bytes, 20).await?;
        let fit = options.slices.slice_ms as f64 * 1000.0 / took_us.max(0.001);
        #[expect(clippy::cast_possible_truncation, reason = "a count that is clamped")]
        counts.push((fit as usize).clamp(1, 100_000));
    }
    for round in 0..=usize::from(options.slices.rounds) {
        for turn in 0..ends.len() {
            let at = (turn + round) % ends.len();
            let took_us = slice(&mut ends[at], bytes, counts[at]).await?;
            // The first round warms up.
            if round > 0 {
                times[at].push(took_us);
            }
        }
    }
    Ok(times)
}

/// Sends so many messages, each answered before the next. Returns the microseconds of one.
async fn slice(end: &mut End, bytes: usize, count: usize) -> Result<f64, Failure> {
    let mut message: Vec<u8> = (0..bytes).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
    message[..HEADER_BYTES].copy_from_slice(&(bytes as u64).to_le_bytes());
    end.announce(bytes).await?;
    let (mut room, mut times) = (vec![0; bytes], Vec::with_capacity(10));
    // Tenths, so that a pause of the machine spoils only one.
    for part in 0..10 {
        let part = count * (part + 1) / 10 - count * part / 10;
        let begin = Instant::now();
        for _ in 0..part {
            end.send(&message).await?;
            end.receive(&mut room).await?;
        }
        if part > 0 {
            times.push(begin.elapsed().as_secs_f64() * 1e6 / part as f64);
        }
    }
    if room != message {
        return Err(Failure::Integrity("the answer is another message".into()));
    }
    Ok(median(&times))
}

fn report(options: &Options, bytes: usize, times: &[Vec<f64>]) {
    let spin = &times[Kind::Spin as usize];
    let over_spin =
        |one: &[f64]| Spread::new(&one.iter().zip(spin).map(|(one, spin)| one / spin).collect::<Vec<_>>());
    if options.slices.json {
        let kinds: serde_json::Map<_, _> = Kind::ALL
            .iter()
            .zip(times)
            .map(|(kind, times)| {
                let value = serde_json::json!({"us": Spread::new(times).to_json(), "over_spin": over_spin(times).to_json()});
                (kind.name().to_owned(), value)
            })
            .collect();
        println!(
            "{}",
            serde_json::json!({"event": "median", "kind": "tokio_ping", "bytes": bytes, "kinds": kinds})
        );
        return;
    }
    let us: Vec<String> = times.iter().map(|times| format!("{:>24}", Spread::new(times).to_text())).collect();
    println!("{bytes:>9} {}", us.join(" "));
    let ratios: Vec<String> =
        times.iter().map(|times| format!("{:>24}", over_spin(times).to_text())).collect();
    println!("{:>9} {}", "", ratios.join(" "));
}
