//! Connections that come and go while messages flow, served by one poller.
//!
//! ```text
//! host (this process)                       visitors (its children), some at a time
//!   one poller, one thread   ◀── question ──  by calls that wait, by tokio, or by a poller
//!                            ── answer ──▶    each ends after some messages, closed or dropped, and another one comes
//!   stops, continues and kills them
//! ```
//!
//! Both ends compare every message, also those that lie in place, and again before they are given back. Each round ends once all visitors are gone; then descriptors, places, memory and the budget
//! are what they were before the first one.

mod counts;
mod crew;
mod host;
mod leftovers;
mod message;
mod options;
mod talk;
mod visitor;

pub(crate) use options::VisitorsOptions;

use core::time::Duration;
use std::os::unix::process::parent_id;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::PrivateDirectory;
use host::Host;
use message::Pool;

/// Longest time for which a message may be due: 400 times the longest stop.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// From so many seconds on, everything has to occur.
const COMPLETE_S: u64 = 20;

/// Runs the host, or a visitor, and prints what has occurred.
pub(crate) fn run(options: &VisitorsOptions) -> Result<(), String> {
    if let (Some(kind), Some(number), Some(socket), Some(parent)) =
        (options.visitor, options.number, &options.socket, options.parent)
    {
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| format!("set the parent death signal: {error}"))?;
        if parent_id() != parent {
            return Err("the parent process has ended".into());
        }
        return visitor::run(kind, options.seed.unwrap_or_default(), number, socket);
    }
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) << 16 ^ now.as_secs()
    });
    println!("visitors: {} processes at a time, {} s, seed {seed}", options.visitors, options.seconds);
    let directory =
        PrivateDirectory::new().map_err(|error| format!("cannot make a private directory: {error}"))?;
    let pool = Pool::new(seed);
    let mut host = Host::new(options, seed, &pool, &directory.0.join("socket"))?;
    let rounds = host.run().map_err(|text| format!("FAILED: {text}\nseed {seed}"))?;
    println!("{rounds} rounds:\n{}", host.counts);
    let missing = host.counts.missing();
    if options.seconds >= COMPLETE_S && !missing.is_empty() {
        return Err(format!("FAILED: these never occurred: {}; seed {seed}", missing.join(", ")));
    }
    Ok(())
}
