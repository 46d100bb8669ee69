//! The processes of the visitors: started, stopped, continued and killed, each by the number of a child that was not waited for.

use core::time::Duration;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::HANG_TIMEOUT;
use super::counts::{Counts, Event};
use super::options::Kind;
use crate::random::Random;

/// Shortest and longest time between two strikes, in microseconds.
const STRIKE_US: [usize; 2] = [500, 60_000];
/// Shortest and longest stop, in microseconds.
const STOP_US: [usize; 2] = [50, 50_000];
/// Strikes of a hundred that kill.
const KILLS_PERCENT: usize = 4;

/// A visitor that runs, or is stopped.
struct Visitor {
    child: Child,
    number: u32,
    kind: Kind,
    begun: Instant,
    stopped_until: Option<Instant>,
    is_killed: bool,
}

/// The visitors.
pub(crate) struct Crew {
    seed: u64,
    random: Random,
    socket: PathBuf,
    present: Vec<Visitor>,
    next_number: u32,
    next_strike: Instant,
    /// True for those that were killed, by their processes.
    killed: HashMap<u32, bool>,
}

impl Crew {
    pub(crate) fn new(seed: u64, socket: &Path) -> Self {
        Self {
            seed,
            random: Random::new(&[seed, u64::MAX]),
            socket: socket.to_path_buf(),
            present: Vec::new(),
            next_number: 1,
            next_strike: Instant::now(),
            killed: HashMap::new(),
        }
    }

    /// Returns the number of visitors that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.present.len()
    }

    /// Returns true if the visitor that is, or was, this process was killed. `None`: there is no such visitor.
    pub(crate) fn was_killed(&self, process: u32) -> Option<bool> {
        self.killed.get(&process).copied()
    }

    /// Starts visitors until there are so many.
    pub(crate) fn start(&mut self, visitors: usize, counts: &mut Counts) -> Result<(), String> {
        while self.present.len() < visitors {
            let (number, kind) = (self.next_number, self.random.pick(&Kind::ALL));
            let started = std::env::current_exe().and_then(|program| {
                Command::new(program)
                    .args(["visitors", "--visitor", kind.name()])
                    .args(["--seed", &self.seed.to_string(), "--number", &number.to_string()])
                    .args(["--parent", &id().to_string()])
                    .arg("--socket")
                    .arg(&self.socket)
                    .stdin(Stdio::null())
                    .spawn()
            });
            let child = started.map_err(|error| format!("cannot start a visitor: {error}"))?;
            self.killed.insert(child.id(), false);
            self.present.push(Visitor {
                child,
                number,
                kind,
                begun: Instant::now(),
                stopped_until: None,
                is_killed: false,
            });
            self.next_number += 1;
            counts.add(match kind {
                Kind::Blocking => Event::Blocking,
                Kind::Tokio => Event::Tokio,
                Kind::Poller => Event::Poller,
            });
        }
        Ok(())
    }

    /// Continues those whose stop is over, and stops or kills one if that is due.
    pub(crate) fn strike(&mut self, now: Instant, counts: &mut Counts) {
        for visitor in &mut self.present {
            if visitor.stopped_until.is_some_and(|until| until <= now) {
                visitor.stopped_until = None;
                visitor.signal(Signal::CONT);
            }
        }
        if now < self.next_strike || self.present.is_empty() {
            return;
        }
        self.next_strike = now + self.random.time(STRIKE_US[0], STRIKE_US[1]);
        let index = self.random.below(self.present.len());
        let visitor = &mut self.present[index];
        if self.random.chance(KILLS_PERCENT) && !visitor.is_killed {
            visitor.is_killed = true;
            self.killed.insert(visitor.child.id(), true);
            counts.add(Event::Killed);
            // It may have ended meanwhile.
            let _ = visitor.child.kill();
        } else if visitor.stopped_until.is_none() {
            visitor.stopped_until = Some(now + self.random.time(STOP_US[0], STOP_US[1]));
            visitor.signal(Signal::STOP);
            counts.add(Event::Stopped);
        }
    }

    /// Takes leave of those that have ended. Fails if one has ended with an error, or does not end.
    pub(crate) fn reap(&mut self) -> Result<(), String> {
        let mut failure = None;
        self.present.retain_mut(|visitor| match visitor.child.try_wait() {
            Ok(None) => {
                if visitor.begun.elapsed() > 2 * HANG_TIMEOUT {
                    failure =
                        Some(format!("visitor {} ({}) does not end", visitor.number, visitor.kind.name()));
                }
                true
            }
            Ok(Some(status)) => {
                if !status.success() && !visitor.is_killed {
                    failure = Some(format!(
                        "visitor {} ({}) ended with {status}",
                        visitor.number,
                        visitor.kind.name()
                    ));
                }
                false
            }
            Err(error) => {
                failure = Some(format!("cannot wait for visitor {}: {error}", visitor.number));
                true
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Forgets visitors of which no connection is left.
    pub(crate) fn forget(&mut self) {
        self.killed.clear();
    }
}

impl Visitor {
    fn signal(&self, signal: Signal) {
        // The child was not waited for, so its number is its own. It may have ended.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pause of the host between two looks at its visitors.
pub(crate) const LOOK: Duration = Duration::from_millis(1);
