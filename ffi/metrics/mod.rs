//! Metrics: the counters of a process's connections and pollers in a page that other processes of its user can read.
//!
//! ```text
//! publishing process                                        reader, such as superpipe-top
//!   publish() ---> memfd "superpipe-metrics" <--- /proc/PID/fd ---- Reader::open(pid), processes()
//!   each connection and poller, 10 times per second at most:         read(): copied out, checked, and never mapped
//!     its own line, guarded by a sequence
//! ```
//!
//! [`publish`] is opt-in: a library must not show to others what its program does unless that asks for it. Nothing is on the way of a message: counters are
//! plain integers of the connection, and a connection copies them into its line where it reads the clock anyway. So a line is old:
//!
//! - A connection that waits in a blocking call, or is in use in a [`Poller`](crate::Poller), copies every 100 to 250 ms. An idle one in a poller copies with its keepalives, 7.5 to 8 s apart by default and a little over 15 s at most; nothing of it changes meanwhile.
//! - One in a loop of tries or operations copies after 1,024 that found nothing, and with each [`progress`](crate::Connection::progress), if 100 ms have passed.
//! - One that finds a message or credit each time, and never waits, looks at no clock. Its line stays as it is until it waits, or calls
//!   [`progress`](crate::Connection::progress). So does the line of a connection of which the program calls nothing.
//!
//! [`ConnectionLine::copied_at_ns`] says how old a line is.
//!
//! **After fork** the page belongs to the process that made it. A child publishes nothing before it calls [`publish`] itself.

mod connection_line;
mod connection_report;
mod current;
mod finding;
mod open_metrics;
mod page;
mod poller_line;
mod poller_report;
mod process_line;
mod processes;
mod publisher;
mod reader;
mod shape;
mod snapshot;
mod words;

pub use connection_line::{ConnectionCounts, ConnectionLine, Role, State};
pub(crate) use connection_report::{ConnectionReport, LastCopy, Observed, Subject};
pub use open_metrics::OpenMetrics;
pub use poller_line::PollerLine;
pub(crate) use poller_report::PollerReport;
pub use process_line::ProcessLine;
pub use processes::processes;
pub use publisher::{PublishOptions, Publisher, publish};
pub use reader::Reader;
pub use snapshot::Snapshot;

/// Time between two copies of a connection's or a poller's counters. Ten per second are as many as a person can follow, and cost less than a
/// microsecond each.
pub(crate) const COPY_PERIOD_NS: u64 = 100_000_000;
