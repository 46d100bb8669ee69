//! The command line of rperf. `--help`, the man page and the completions are made from the doc comments of this file.

use super::messages::Memory;
use super::sizes::Sizes;
use crate::command_line::command::Optional;
use crate::command_line::help::after_help;
use crate::command_line::options::{Common, Listening, Wait, address};
use crate::files::descriptor::{is_dash, own_descriptor};
use crate::files::distinct::Named;
use crate::quantity;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use core::time::Duration;
use serde::Serialize;
use std::path::PathBuf;
use superpipe::Address;

const EXAMPLES: &str = "\
Examples:
  rperf serve --core 1                 the one end: it needs no more options
  rperf localhost --core 0             8 B to 1 MiB, half round trips
  rperf localhost --core 0 --test stream --sizes 4K..64M*1.05
                                       bytes a second, in steps of 5 %
  rperf localhost --core 0 --sizes 4M,64M --fresh
                                       into memory that was never used
  rperf localhost --json=- --csv=figures.csv --plot=figures.svg
  rperf node2 --core auto              by RDMA, on a core near the device, to
                                       `rperf serve --listen :7471 --core auto`

What is measured:
  Both tests begin each size with one message there and one back, whose
  contents are compared byte by byte at both ends; t_first is half of that
  time. Then a warm-up, then what the other columns tell. Times are in
  microseconds, and GB are 10^9 bytes.

  latency  the client sends a message and receives one of the same size,
           again and again; every figure is half a round trip. One reading of
           the clock, measured at the start, is taken off each sample. GB/s
           is the size divided by the median.
  stream   the client sends message after message; every figure is the time
           from one message being complete at the server to the next. It
           begins with a message that is not counted. GB/s is all bytes
           divided by all of that time.

  A reading of the clock costs about as much as a message of 8 bytes. Where
  messages follow each other within 2 us they are therefore timed by turns in
  two ways: 64 between two readings (fewer where there are few), which give
  minimum, median (t_typical) and average; then as many with a reading each,
  which give the percentiles and the maximum. In a stream of such messages
  the percentiles hold one reading each, and GB/s is that of the batches.

  cpu is the time that each end's thread ran, in percent of the time from when
  its buffers were there to its last message: the waiting, the 1 to 64 messages
  right before the timed ones, and the preparing and comparing of --fresh and
  --verify are in both.

  Without --fresh each end has one buffer to send from and one to receive
  into, page-aligned and resident. With --fresh and with --verify each
  message has a buffer of its own, and the preparing, comparing and giving
  back is not timed: before a round trip the server says that it is ready.
  A stream goes in windows of 64 MiB (2 messages at least, 1024 at most), of
  which the first message starts the clock. What is sent has been written,
  as data has that is worth sending; it is the destination that is fresh.

What is recorded:
  For --trace and --picture both ends record a few messages more, of the last
  size, after everything that is measured. --trace holds the events of both,
  and in a run that fails the client's last ones; for that the client also
  records while it measures, which costs it some 20 ns an event. --picture
  alone changes no figure. Both ends use the clock of their host.";

/// Measures how long messages take between two processes, and how many bytes a second cross
///
/// One process runs `rperf serve`, the other `rperf ADDR`, which tells the server all that it needs to know. Both use the
/// library as any program does: one connection, and a thread at each end. Contents are compared before anything is timed.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "rperf",
    version,
    override_usage = "rperf [OPTIONS] ADDR\n       rperf serve [OPTIONS]",
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_value_name = "serve",
    subcommand_help_heading = "The other end",
    after_help = after_help(EXAMPLES)
)]
pub struct Perf {
    /// `rperf serve`.
    #[command(subcommand)]
    pub part: Option<Part>,

    /// The end that asks.
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum Part {
    /// Answers a client, which tells it all else
    Serve(Serve),
}

/// The end that answers.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Go on with another client after one has ended, whatever its end. Not with --trace, which is of one client
    #[arg(long, conflicts_with = "trace")]
    pub keep: bool,

    /// The address and the time to wait.
    #[command(flatten)]
    pub listening: Listening,

    /// Options of all tools.
    #[command(flatten)]
    pub common: Common,
}

/// The end that asks.
#[derive(Debug, Clone, Args)]
pub struct ClientOptions {
    /// Address of the server: HOST:PORT, verbs:HOST:PORT or shm:PATH
    #[arg(
        value_name = "ADDR",
        required_unless_present = "generate",
        value_parser = OsStringValueParser::new().try_map(address)
    )]
    pub address: Option<Address>,

    /// Test to run
    #[arg(long, value_enum, value_name = "TEST", default_value_t = Test::Latency)]
    pub test: Test,

    /// Bytes of a message, 0 to 1G: a list of sizes and ranges. 64..1M doubles, 4K..64M*1.05 grows by a factor,
    /// 4K..64K+4K by bytes
    #[arg(long, value_name = "LIST", default_value = "8..1M")]
    pub sizes: Sizes,

    /// Messages of each size that are timed [default: as many as fit 0.3 s, 16 to 1000000; fewer, from 3 on, where 16 take more than
    /// 2 s]. Short messages are timed in batches: N is then rounded down, from 160 on to a multiple of 16, and from 1280 on of 128
    #[arg(long, value_name = "N", value_parser = |text: &str| quantity::count(text, 1..=super::SAMPLES_MAX))]
    pub iterations: Option<u64>,

    /// Messages of each size before those, to warm up [default: as many as take 20 ms]. Right before the timed ones come another 1
    /// to 64 in any case, as many as fit 1 ms
    #[arg(long, value_name = "N", value_parser = |text: &str| quantity::count(text, 0..=1 << 32))]
    pub warmup: Option<u64>,

    /// Memory that was never used before, for every message, at both ends: superpipe's own buffers (without a KIND),
    /// ordinary pages as malloc gives, or those with superpipe told that they are new
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "superpipe")]
    pub fresh: Option<FreshMemory>,

    /// A new connection for each size, of which `first` is then the very first message; or several, one after the other,
    /// and `first` is the median of theirs
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub reconnect: Option<u32>,

    /// Compare the contents of every message, also while it is timed; the comparing itself is not timed
    #[arg(long)]
    pub verify: bool,

    /// Way in which both ends wait [default: spin where both are pinned, and not to one core; else yield]
    #[arg(long, value_enum, value_name = "HOW")]
    pub wait: Option<Wait>,

    /// Time to look for a server; the last cause is reported
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    pub connect_timeout: Duration,

    /// Write results as JSON, an object a size; --json=- is standard output, and so it is for the next three. There a
    /// report takes the place of the table, which goes to standard error
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub json: Option<PathBuf>,

    /// Write results as a table of comma-separated values
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub csv: Option<PathBuf>,

    /// Draw the results, as SVG
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub plot: Option<PathBuf>,

    /// Draw the copies of one message of the last size, as SVG: of those that both ends record after the measurement, the one
    /// that takes the median. It needs more than 40 bytes, which travel without blocks
    #[arg(long, value_name = "FILE", require_equals = true, help_heading = "Reports")]
    pub picture: Option<PathBuf>,

    /// Flips one bit of the byte at this offset of all that is compared, to see that both ends notice
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
    /// half a round trip
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
    /// superpipe's own buffers
    Superpipe,
    /// ordinary pages
    Plain,
    /// ordinary pages that superpipe is told are new
    Advised,
}

impl ClientOptions {
    /// Returns every place that the command writes to.
    #[must_use]
    pub fn files(&self) -> Vec<Named<'_>> {
        let reports = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--plot", &self.plot),
            ("--picture", &self.picture),
            ("--trace", &self.common.trace),
        ];
        let reports = reports
            .into_iter()
            .filter_map(|(argument, path)| Some(Named::written(argument, path.as_deref()?, 1)));
        let has_table = !self.common.quiet && !self.takes_stdout();
        let table = has_table.then(Named::table);
        reports.chain(table).chain([Named::messages()]).collect()
    }

    /// Returns true if a report takes standard output, where the table would be.
    #[must_use]
    pub fn takes_stdout(&self) -> bool {
        let reports = [&self.json, &self.csv, &self.plot, &self.picture, &self.common.trace];
        let mut paths = reports.into_iter().flatten();
        paths.any(|path| is_dash(path) || own_descriptor(path) == Some(1))
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
    fn one_tool_has_two_parts() {
        let perf = Perf::try_parse_from(["rperf", "serve", "--core", "1", "--keep"]).unwrap();
        let Some(Part::Serve(serve)) = perf.part else { panic!("{perf:?}") };
        assert!(serve.keep && serve.common.core == Some(Core::Number(1)));
        assert_eq!(serve.listening.listen.to_string(), crate::command_line::options::DEFAULT_ADDRESS);
        let perf = Perf::try_parse_from(["rperf", "localhost"]).unwrap();
        assert!(perf.part.is_none());
        assert_eq!((perf.client.test, perf.client.memory()), (Test::Latency, Memory::Reused));
        assert_eq!(
            (perf.client.sizes.max(), perf.client.iterations, perf.client.wait),
            (1 << 20, None, None)
        );
        let perf =
            Perf::try_parse_from(["rperf", "localhost", "--iterations=1K", "--warmup=1.5K", "--sizes=1.5K"]);
        let client = perf.unwrap().client;
        assert_eq!((client.iterations, client.warmup, client.sizes.max()), (Some(1000), Some(1500), 1536));
        assert!(Perf::try_parse_from(["rperf"]).is_err());
        assert!(Perf::try_parse_from(["rperf", "--generate", "man"]).is_ok());
        assert!(Perf::try_parse_from(["rperf", "serve", "localhost"]).is_err());
    }

    #[test]
    fn options_that_need_no_value_have_one() {
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
