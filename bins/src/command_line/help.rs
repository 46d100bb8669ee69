//! Text after the options in `--help`, which the man pages show in separate sections.

const ADDRESSES: &str = "\
Addresses:
  HOST:PORT        this host, by any of its names or addresses: shared memory
                   between processes of one user, who meet at a socket in
                   $XDG_RUNTIME_DIR/superpipe, else in /tmp/superpipe-UID;
                   another host: RDMA. Whoever listens at :PORT, or at a name or
                   address of this host that others can use, does both; at
                   localhost it is found by this host alone. Port 0, to
                   listen at, is a free one, which the tool names
  HOST             port 7471 of HOST
  verbs:HOST:PORT  RDMA, also within one host; write [HOST]:PORT around the
                   colons of IPv6. Without HOST: to listen at every address
  shm:PATH         shared memory, through a socket at PATH: for containers
                   that share only that, or where $XDG_RUNTIME_DIR differs";

const QUANTITIES: &str = "\
Quantities:
  SIZE, RATE       bytes, bytes a second: 4096, 64K, 1.5M; K, M, G and T are
                   powers of 1024
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
  ends with 8. A pipe whose reader does not come, or reads nothing, within
  10 s is given up, standard output included; rrecv waits --accept-timeout
  for the reader of a FILE. A terminal that is stopped is waited for.";

const EXIT_CODES: &str = "\
Exit codes:
  0    done; for rsend: the receiver has all of it
  2    usage, or the options of the two ends disagree
  3    no connection, or no way to listen
  4    the peer was silent for longer than the idle timeout
  5    the peer was lost, or gave up
  6    what arrived is not what was sent
  7    protocol, version or authentication
  8    a local file, pipe or disk failed, here or at the other end
  9    a device failed, or a limit was reached
  101  a bug in this program
  129  ended by SIGHUP
  130  ended by SIGINT
  143  ended by SIGTERM
Codes 4 and 6 to 9 also tell that the other end failed so, and the text says which.
A tool that a signal ends dies by it, once it has told its peer";

/// Returns that text, after the examples of one tool.
pub(crate) fn after_help(examples: &str) -> String {
    format!("{examples}\n\n{ADDRESSES}\n\n{QUANTITIES}\n\n{REPORTS}\n\n{EXIT_CODES}")
}
