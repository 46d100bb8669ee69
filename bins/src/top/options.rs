//! The command line of superpipe-top. `--help`, the man page and the completions are made from the doc comments of this file.

use crate::command_line::help::EXIT_CODES;
use crate::command_line::options::Generated;
use crate::quantity;
use clap::Parser;
use core::time::Duration;

/// Shortest interval: processes copy their counters ten times per second at most.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  rsend --metrics localhost disk.img & a process that lets others look
  superpipe-top                        all such processes of this user
  superpipe-top --pid 4711 --interval 200ms
                                       one of them, five times per second
  superpipe-top --once --json          every counter, for programs
  superpipe-top --openmetrics          for Prometheus and other collectors";

const COLUMNS: &str = "\
Columns:
  PID.CONN   process, and number of the connection there
  PEER       process or address at the other end, in the process's namespaces;
             behind > if the process connected, behind < if it accepted
  FABRIC     shm: shared memory; verbs: RDMA
  PROTOCOL   protocol of transfers that both ends agreed on
  STATE      open, peer-closes, closed-here, closed-by-peer, failed, peer-lost
  AGE        time since the process copied the counters. A process that sends
             or receives at once each time and never waits copies none
  OUT/s IN/s messages and streams per second, sent and received; then their
             bytes. Messages in a slot line (up to 104 bytes over shared
             memory, 40 over RDMA) have no bytes here
  STALL/s    times per second that the sender found no free block, or waited
             for the receiver's answer
  LANDING    bytes of larger landing buffers that the peer has here now
  GROW SHRNK larger landing buffers provisioned, and asked back
  1COPY      share of the bytes that took one copy, or none: out of registered
             buffers, into trusted ones, by remote writes
  CNCL REJ   transfers cancelled, and rejected, by either end
  IDLE       time since the peer was last seen active
Columns of pollers:
  CONNS      places that are taken, also by connects under way
  ACTIVE     connections that are looked at in each round
  ARMED      connections that wait for a wake-up
  LISTENERS  listeners
  ACCEPTED REFUSED
             clients that became connections, and that did not
  CONNECTED FAILED
             connects that did, and that did not
Rates are those between two looks; at the first look, since the connection was
made.";

/// Show the connections of processes that publish their metrics
///
/// A process publishes if it calls superpipe::metrics::publish; rsend, rrecv and rperf do with --metrics. superpipe-top shows one
/// line per connection, of all such processes of this user. On a terminal it shows the newest figures in place; otherwise it prints
/// them one after the other. It ends by a signal (Ctrl-C), or with --pid once none of these processes is left. Looking costs the
/// processes nothing.
#[derive(Debug, Clone, Parser)]
#[command(name = "superpipe-top", version, disable_help_subcommand = true, after_help = format!("{EXAMPLES}\n\n{COLUMNS}\n\n{EXIT_CODES}"))]
pub struct Top {
    /// Show this process, also one of another user if you are root; may be given several times
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,

    /// Time between two looks, at least 100ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,

    /// Look once
    #[arg(long)]
    pub once: bool,

    /// Print a JSON object per look, with every counter and its rate, on a line of its own
    #[arg(long, conflicts_with = "openmetrics")]
    pub json: bool,

    /// Print OpenMetrics text, once
    #[arg(long)]
    pub openmetrics: bool,

    /// Print the man page or the completions of a shell
    #[arg(long, value_enum, value_name = "KIND", hide = true, exclusive = true)]
    pub generate: Option<Generated>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = quantity::duration(text)?;
    if interval < INTERVAL_MIN {
        return Err("counters are copied ten times per second at most: write 100ms or more".to_owned());
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Top::command().debug_assert();
        let parsed =
            Top::try_parse_from(["superpipe-top", "--pid", "1", "--pid=2", "--interval=0.5s"]).unwrap();
        assert_eq!((parsed.pids, parsed.interval), (vec![1, 2], Duration::from_millis(500)));
        for wrong in [
            &["--interval", "99ms"][..],
            &["--pid", "-1"],
            &["--pid", "x"],
            &["--json", "--openmetrics"],
            &["1"],
        ] {
            assert!(Top::try_parse_from([&["superpipe-top"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
