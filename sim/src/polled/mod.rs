//! Many connections of one thread: core's poller (`superpipe_core::polling`) as it ships, over direct store, with a virtual epoll.
//!
//! | module | contents |
//! |---|---|
//! | `case` | everything that a seed decides |
//! | `net` | connections, their sleep words, and the sets that report wake-ups: edge-triggered, late, or lost where a barrier failed |
//! | `end` | an end of a connection as core polls it |
//! | `server` | a program with a poller: it answers messages, and removes, replaces and exchanges connections (`server/acts`) |
//! | `client` | its peers: they poll, or wait by a set of their own |
//! | `seen` | oracle: what has arrived is seen in time, in order, and by nobody else |
//! | `life` | oracle: a peer is reported silent when it is, and only then |
//! | `fairness` | oracle: nobody starves, and nothing is reported twice in a call |
//! | `coverage` | what happened to a connection in which state |
//! | `turns` | turns in order of time |
//! | `run` | a run to its end |
//! | `idle` | one active connection beside thousands that are idle |

mod case;
mod client;
mod coverage;
mod end;
mod fairness;
mod idle;
mod life;
mod net;
mod run;
mod seen;
mod server;
mod turns;

pub(crate) use case::PolledCase;
pub use case::polled_seed;
pub use coverage::{PollCase, PollCoverage, PolledState};
pub use idle::{IdleCosts, idle_costs};
pub(crate) use run::{PolledOutcome, run_polled};
