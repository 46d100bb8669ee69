//! Text that follows the options in `--help`, and has sections of its own in the man pages.

use crate::options::{ADDRESSES, EXIT_CODES};

const QUANTITIES: &str = "\
Quantities:
  SIZE, OFFSET     bytes: 4096, 64K, 1.5M; K, M, G and T are powers of 1024
  TIME             500ms, 10s, 1m30s, 2h, 1d; without a unit seconds
  rperf counts     in --iterations and --warmup: 20000, 20K, 1.5M; K, M and G
                   are powers of 1000";

const REPORTS: &str = "\
Reports:
  A report that cannot be opened ends the tool with 8 before anything is done.
  One that cannot be written to its end is told of on standard error (in the
  end event, where events go there), and the exit code is that of the work:
  --trace, and --json of rsend and rrecv. What rperf measures is its work:
  where the table, --json, --csv, --plot or --picture cannot be written it
  ends with 8. A pipe that nobody reads is given up after 10 s.";

pub(crate) fn after_help(examples: &str) -> String {
    format!("{examples}\n\n{ADDRESSES}\n\n{QUANTITIES}\n\n{REPORTS}\n\n{EXIT_CODES}")
}
