//! Text after the options in `--help`, which the man pages show in separate sections.

const ADDRESSES: &str = "\
Addresses:
  HOST:PORT        shared memory if HOST is a name or address of this host,
                   else RDMA. Shared memory connects processes of one user, by
                   a socket in $XDG_RUNTIME_DIR/superpipe or, without that
                   variable, in /tmp/superpipe-UID. A listener at localhost
                   accepts this host only; a listener at :PORT, or at another
                   name or address of this host, accepts other hosts as well.
                   A listener at port 0 gets a free port, which the tool
                   prints
  HOST             port 7471 of HOST
  verbs:HOST:PORT  RDMA, also within one host. A listener at verbs::PORT uses
                   every address of this host
  shm:PATH         shared memory, by a socket at PATH: for containers that
                   share only PATH, or differ in $XDG_RUNTIME_DIR
An IPv6 address is written in brackets: [::1]:7471";

const QUANTITIES: &str = "\
Quantities:
  SIZE, RATE       bytes, bytes per second: 4096, 64K, 1.5M; K, M, G and T are
                   powers of 1024
  TIME             500ms, 10s, 1m30s, 2h, 1d; without a unit, seconds
  counts of rperf  --iterations and --warmup: 20000, 20K, 1.5M; K, M and G are
                   powers of 1000";

const REPORTS: &str = "\
Reports:
  A tool that cannot open a report ends with code 8 before it does anything
  else. If rsend or rrecv cannot write --trace or --json to the end, it prints
  a warning (with --json=-, the end event contains it) and keeps the exit code
  of the transfer; so does rperf with --trace. rperf ends with code 8 if it
  cannot write the table, --json, --csv, --plot or --picture.
  A tool gives up a pipe, standard output included, if nobody opens it for
  reading within 10 s or if its reader reads nothing for 10 s; rrecv waits
  --accept-timeout for the reader of a FILE that is a pipe. Writing a report
  to a stopped terminal has no time limit.";

/// Exit codes of every tool.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    success; for rsend: the receiver has confirmed all data
  2    usage error, or the options of the two ends disagree
  3    no connection, or no way to listen
  4    the peer was silent for longer than the idle timeout
  5    the peer is gone, or gave up
  6    the received data differ from the sent data
  7    wrong protocol, version or user
  8    a file, pipe or disk failed, at this end or at the other
  9    a device failed, or a limit was reached
  101  a bug in this program
  129  ended by SIGHUP
  130  ended by SIGINT
  143  ended by SIGTERM
Codes 4 and 6 to 9 also report a failure of the other end; the message names
the end. A tool that receives one of these signals notifies its peer, cleans
up and dies by the signal; a second signal ends it at once";

/// Returns that text, after the examples of one tool.
pub(crate) fn after_help(examples: &str) -> String {
    format!("{examples}\n\n{ADDRESSES}\n\n{QUANTITIES}\n\n{REPORTS}\n\n{EXIT_CODES}")
}
