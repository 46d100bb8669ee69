//! Round trips between the two ends of a connection in one thread. `check-hot-path.sh` counts their instructions. The
//! program prints nothing, and compares the contents of each message.

use std::process::ExitCode;

use clap::Parser;
use superpipe::{Connection, Error, Options as ConnectionOptions, WaitStrategy};
use superpipe_bench::connection::connect_pair;
use superpipe_bench::connection::{DEADLINE, fail};
use superpipe_bench::failure::Failure;
use superpipe_bench::map;
use superpipe_bench::pattern;
use superpipe_bench::size::Size;

/// Round trips in one thread, for counting instructions
#[derive(Parser)]
#[command(name = "hot_path", version)]
struct Options {
    /// Bytes of a message, at most those of a landing buffer
    #[arg(long, default_value = "8")]
    bytes: Size,
    /// Round trips
    #[arg(long, default_value_t = 1000)]
    round_trips: u64,
}

fn main() -> ExitCode {
    Failure::report(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), Failure> {
    let with = ConnectionOptions { wait: WaitStrategy::Spin, ..ConnectionOptions::default() };
    let mut ends = connect_pair(with)?;
    let bytes = options.bytes.0;
    let (mut from, mut to) = (map::resident(bytes, false)?, map::resident(bytes, false)?);
    let (from, to) = (&mut from[..bytes], &mut to[..bytes]);
    pattern::fill(1, from);
    for _ in 0..options.round_trips {
        let [a, b] = &mut ends;
        send_hot(a, from).map_err(fail)?;
        recv_hot(b, to).map_err(fail)?;
        send_hot(b, to).map_err(fail)?;
        recv_hot(a, from).map_err(fail)?;
    }
    match pattern::find_wrong_byte(1, from) {
        Some(at) => Err(Failure::Integrity(format!("byte {at} after {} round trips", options.round_trips))),
        None => Ok(()),
    }
}

#[inline(never)]
fn send_hot(end: &mut Connection, message: &[u8]) -> Result<(), Error> {
    end.send(7, &[message], DEADLINE)
}

#[inline(never)]
fn recv_hot(end: &mut Connection, message: &mut [u8]) -> Result<(), Error> {
    end.recv_into(&mut [message], DEADLINE).map(|_| ())
}
