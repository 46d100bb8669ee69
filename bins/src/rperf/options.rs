//! The command line of rperf. `--help`, the man page and the completions are made from the doc comments of this file.

use super::messages::Memory;
use super::runs::TIME_MAX_NS;
use super::sizes::Sizes;
use crate::command_line::command::Optional;
use crate::command_line::help::after_help;
use crate::command_line::options::{Common, Listening, Wait, address};
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::distinct::NamedFile;
use crate::quantity;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use core::time::Duration;
use serde::Serialize;
use std::path::PathBuf;
use superpipe::Address;

const EXAMPLES: &str = "\
Examples:
  rperf serve --core 1                 one end: it needs no other options
  rperf localhost --core 0             half round trips, 8 B to 1 MiB
  rperf localhost --core 0 --test stream --sizes 4K..64M*1.05
                                       bytes per second, in steps of 5 %
  rperf localhost --core 0 --sizes 4M,64M --fresh
                                       into memory that was never used
  rperf localhost --json=- --csv=figures.csv --plot=figures.svg
  rperf --distance                     how far apart the cores of this host are
  rperf node2 --core auto              by RDMA, on a core near the device, to
                                       `rperf serve --listen :7471 --core auto`

Measurement:
  For each size, both tests begin with one round trip, whose contents both
  ends compare byte by byte; t_first is half of its time. A warm-up follows,
  then the messages of the other columns. Times are in microseconds; a GB is
  10^9 bytes.

  latency  The client sends a message and receives one of the same size,
           repeatedly. Each time is half a round trip, less the cost of one
           clock reading, which is measured at the start. GB/s is the size
           divided by the median.
  stream   The client sends one message after the other. Each time is that
           from the completion of one message at the server to the completion
           of the next; the first message only starts the clock. GB/s is the
           sum of the bytes divided by the sum of the times.

  A clock reading costs about as much as a message of 8 bytes. If messages
  follow each other within 2 us, rperf times them in two ways in turn: a batch
  of 64 messages between two readings (fewer if --iterations is small) gives
  minimum, median (t_typical) and average; then the same number of messages
  with a reading after each gives the percentiles and the maximum. In a stream
  of such messages, each percentile includes one reading, and GB/s is that of
  the batches.

  cpu% and peer% are the CPU time of each end's thread, in percent of the time
  from the allocation of its buffers to its last message. Both times include
  waiting, the 1 to 64 messages before the timed ones, and the preparation and
  comparison of --fresh and --verify.

  Without --fresh each end uses one buffer to send from and one to receive
  into, page-aligned and resident. With --fresh or --verify each message has
  its own buffer, and its preparation, comparison and release are not timed:
  the server signals before each round trip that it is ready. A stream is then
  sent in windows of 64 MiB (at least 2 and at most 1024 messages), whose first
  message starts the clock. --fresh affects only the destination: the sender
  has always written the data that it sends.

  With --registered or --protocol register-cached each end sends out of registered buffers,
  which are registered before anything is timed. Over shared memory the other
  end copies messages of 4 KiB and more straight out of them: one copy instead
  of two. A stream is then sent out of two buffers in turn. The client writes each
  message anew, once the server has received the one before in that buffer,
  and this is timed. --json has the share that was copied once. An end with
  --trust-peer receives into a buffer that the other end may write: then both
  ends copy a half of each message at once. A stream rarely gets that, since
  the buffer must be offered before the message is sent.

Recording:
  For --trace and --picture both ends record a few more messages of the last
  size, after the measurement. --trace contains the events of both ends or, if
  the run fails, the last events of the client; therefore the client also
  records while it measures, which costs about 20 ns per event. --picture
  alone does not affect the measurement. Each end uses the clock of its host.";

/// Measure the latency and throughput of messages between two processes
///
/// One process runs `rperf serve`, the other `rperf ADDR`, which sends all settings to the server. Both use the library as any
/// program does: one connection, and one thread at each end. Contents are compared before anything is timed.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "rperf",
    version,
    override_usage = "rperf [OPTIONS] ADDR\n       rperf serve [OPTIONS]",
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_value_name = "serve",
    subcommand_help_heading = "Server",
    after_help = after_help(EXAMPLES)
)]
pub struct Perf {
    /// `rperf serve`.
    #[command(subcommand)]
    pub part: Option<Part>,

    /// Options of the client.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum Part {
    /// Serve a client, which sends all other settings
    Serve(Serve),
}

/// Options of the server.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Serve many clients, at once and one after another, also after a failure. Not with --trace, which covers one client
    #[arg(long, conflicts_with = "trace")]
    pub keep: bool,

    /// Have at most this many connections, those of one client counted one by one; further ones wait [default: 2048]. While all places are
    /// taken, a client that has done nothing for 5 s loses its place. Each takes up to 1M of memory and two descriptors (ulimit -n)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32768))]
    pub connections_max: Option<u32>,

    /// Address and timeout of the listener.
    #[command(flatten)]
    pub listening: Listening,

    /// Options of all tools.
    #[command(flatten)]
    pub common: Common,
}

/// Options of the client.
#[derive(Debug, Clone, Args)]
pub struct ClientOptions {
    /// Address of the server: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        value_name = "ADDR",
        required_unless_present_any = ["generate", "distance"],
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub address: Option<Address>,

    /// Test to run [default: latency; stream with --bidirectional]
    #[arg(long, value_enum, value_name = "TEST")]
    pub test: Option<Test>,

    /// Message sizes, 0 to 1G, as a list of sizes and ranges: 64..1M doubles each size, 4K..64M*1.05 multiplies by a factor,
    /// 4K..64K+4K adds bytes
    #[arg(long, value_name = "LIST", default_value = "8..1M")]
    pub sizes: Sizes,

    /// Timed messages of each size [default: as many as fit 0.3 s, from 16 to 1000000; fewer, but at least 3, if 16 take more than
    /// 2 s]. Short messages are timed in batches: N is then rounded down to a multiple of 16 from 160 on, and of 128 from 1280 on
    #[arg(long, value_name = "N", value_parser = |text: &str| quantity::count(text, 1..=super::SAMPLES_MAX))]
    pub iterations: Option<u64>,

    /// Time for the timed messages of each size, instead of a number of iterations
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,

    /// Spread the messages over N connections, all at once, from one thread at each end: round trips, with one message under way per connection,
    /// or streams. Each size takes 1 s, or --time, or --iterations messages over all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub connections: Option<u32>,

    /// Have M further connections be idle meanwhile
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(0..=16383))]
    pub idle: Option<u32>,

    /// Have both ends send streams at once, over each connection
    #[arg(long)]
    pub bidirectional: bool,

    /// Messages of each size that warm up [default: as many as take 20 ms]. In any case another 1 to 64 messages, as many as fit
    /// 1 ms, come directly before the timed ones
    #[arg(long, value_name = "N", value_parser = |text: &str| quantity::count(text, 0..=1 << 32))]
    pub warmup: Option<u64>,

    /// Receive each message into memory that was never used before, at both ends: buffers that superpipe allocates (without a
    /// KIND), ordinary pages as from malloc, or ordinary pages that superpipe is told are new
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "superpipe")]
    pub fresh: Option<FreshMemory>,

    /// Open a new connection for each size, so that t_first is the time of its first message; or open N connections, one after
    /// the other, so that t_first is the median of their first messages
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub reconnect: Option<u32>,

    /// Send out of registered buffers at both ends, as --protocol register-cached always does. --protocol auto can have them, too; another
    /// protocol cannot
    #[arg(long)]
    pub registered: bool,

    /// Compare the contents of every message, also of the timed ones; the comparison itself is not timed
    #[arg(long)]
    pub verify: bool,

    /// Wait strategy of both ends [default: spin if both are pinned, and to different cores; else yield]
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<Wait>,

    /// Retry for this time until a server accepts, then fail with the last error
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub connect_timeout: Duration,

    /// Probe how far apart the cores of this host are, by the time of 8 bytes from one to the other, and print near (below 55 ns: one cache
    /// cluster), apart or far (from 150 ns on). Every two cores that this process may use, or with --core N that one and each other. Needs
    /// no server, and measures nothing else. Takes a millisecond per pair, in which nothing else should run on both cores
    #[arg(long, conflicts_with_all = ["address", "csv", "plot", "picture", "trace"])]
    pub distance: bool,

    /// Write the results as JSON, one object per size. For this and the next three options - is standard output; the table then
    /// goes to standard error
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub json: Option<PathBuf>,

    /// Write the results as comma-separated values
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub csv: Option<PathBuf>,

    /// Plot the results, as SVG
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub plot: Option<PathBuf>,

    /// Draw the copies of one message of the last size, as SVG: the recorded message of median duration. The size must exceed 40
    /// bytes, since shorter messages are sent without blocks
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub picture: Option<PathBuf>,

    /// Flip one bit of the byte at this offset of all compared data, to test that both ends detect it
    #[arg(long, value_name = "OFFSET", hide = true, value_parser = quantity::bytes)]
    pub inject_flip: Option<u64>,

    /// Options of all tools.
    #[command(flatten)]
    pub common: Common,
}

/// `--test`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// half round trips
    Latency,
    /// one way, measured at the receiver
    Stream,
}

/// Options whose value is optional.
pub const OPTIONAL: [Optional; 2] = [
    ("--fresh", |value| FreshMemory::from_str(value, false).is_ok()),
    ("--reconnect", |value| value.parse::<u32>().is_ok()),
];

/// `--fresh`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FreshMemory {
    /// buffers that superpipe allocates
    Superpipe,
    /// ordinary pages
    Plain,
    /// ordinary pages that superpipe is told are new
    Advised,
}

impl ClientOptions {
    /// Returns every file that the command writes.
    #[must_use]
    pub fn files(&self) -> Vec<NamedFile<'_>> {
        let reports = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--plot", &self.plot),
            ("--picture", &self.picture),
            ("--trace", &self.common.trace),
        ];
        let reports = reports
            .into_iter()
            .filter_map(|(argument, path)| Some(NamedFile::written(argument, path.as_deref()?, 1)));
        let has_table = !self.common.quiet && !self.takes_stdout();
        let table = has_table.then(NamedFile::table);
        reports.chain(table).chain([NamedFile::messages()]).collect()
    }

    /// Returns true if a report goes to standard output, so that the table cannot.
    #[must_use]
    pub fn takes_stdout(&self) -> bool {
        let reports = [&self.json, &self.csv, &self.plot, &self.picture, &self.common.trace];
        let mut paths = reports.into_iter().flatten();
        paths.any(|path| is_dash(path) || own_descriptor(path) == Some(1))
    }

    /// Returns the test.
    #[must_use]
    pub fn test(&self) -> Test {
        let default = if self.bidirectional { Test::Stream } else { Test::Latency };
        self.test.unwrap_or(default)
    }

    /// Returns the memory that the messages use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        match self.fresh {
            None => Memory::Reused,
            Some(FreshMemory::Superpipe) => Memory::Superpipe,
            Some(FreshMemory::Plain) => Memory::Plain,
            Some(FreshMemory::Advised) => Memory::Advised,
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = quantity::duration(text)?;
    let longest = Duration::from_nanos(TIME_MAX_NS);
    if time > longest { Err("a size takes a week at most".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::options::Core;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Perf::command().debug_assert();
    }

    #[test]
    fn rperf_is_a_client_or_a_server() {
        let perf = Perf::try_parse_from(["rperf", "serve", "--core", "1", "--keep"]).unwrap();
        let Some(Part::Serve(serve)) = perf.part else { panic!("{perf:?}") };
        assert!(serve.keep && serve.common.core == Some(Core::Number(1)));
        assert_eq!(serve.listening.listen.to_string(), crate::command_line::options::DEFAULT_ADDRESS);
        let perf = Perf::try_parse_from(["rperf", "localhost"]).unwrap();
        assert!(perf.part.is_none());
        assert_eq!((perf.client.test(), perf.client.memory()), (Test::Latency, Memory::Reused));
        assert_eq!(
            (perf.client.sizes.max(), perf.client.iterations, perf.client.wait),
            (1 << 20, None, None)
        );
        let perf =
            Perf::try_parse_from(["rperf", "localhost", "--iterations=1K", "--warmup=1.5K", "--sizes=1.5K"]);
        let client = perf.unwrap().client;
        assert_eq!((client.iterations, client.warmup, client.sizes.max()), (Some(1000), Some(1500), 1536));
        assert!(Perf::try_parse_from(["rperf"]).is_err());
        assert!(Perf::try_parse_from(["rperf", "--distance"]).unwrap().client.distance);
        assert!(Perf::try_parse_from(["rperf", "localhost", "--distance"]).is_err());
        assert!(Perf::try_parse_from(["rperf", "--generate", "man"]).is_ok());
        assert!(Perf::try_parse_from(["rperf", "serve", "localhost"]).is_err());
    }

    #[test]
    fn options_without_a_value_have_a_default() {
        let client = |arguments: &[&str]| {
            let arguments = ["rperf", "shm:/x"].iter().chain(arguments);
            Perf::try_parse_from(arguments).map(|perf| perf.client)
        };
        assert_eq!(client(&["--fresh"]).unwrap().memory(), Memory::Superpipe);
        assert_eq!(client(&["--fresh=plain"]).unwrap().memory(), Memory::Plain);
        assert_eq!(client(&["--fresh=advised"]).unwrap().memory(), Memory::Advised);
        assert_eq!(client(&["--json=x"]).unwrap().json.unwrap().as_os_str(), "x");
        for report in ["--json", "--csv", "--plot", "--picture", "--trace"] {
            for wrong in [&[report][..], &[report, "x"], &[&format!("{report}=")]] {
                assert!(client(wrong).is_err(), "{wrong:?}");
            }
        }
        for wrong in [&["--fresh=cold"][..], &["--iterations", "0"], &["--sizes", "2G"], &["--test", "both"]]
        {
            assert!(client(wrong).is_err(), "{wrong:?}");
        }
    }
}
