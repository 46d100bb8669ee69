//! Starts the sender as a process of this same program, stops and continues it at random, and ensures that it ends.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio, id};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::options::Overrides;
use crate::round::{RandomStream, Round};

/// Microseconds of running and of being stopped, shortest and longest.
const SLOW_US: [[usize; 2]; 2] = [[1, 12_000], [1, 12_000]];
/// The same for stops so quick that no message completes between two of them, while a short deadline passes in each.
const QUICK_US: [[usize; 2]; 2] = [[1, 200], [60, 400]];
/// Consecutive stops of one kind when both kinds alternate.
const STOPS_PER_KIND: u64 = 64;
/// Shortest time that a sleep can take. Shorter pauses spin.
const SLEEP_US_MIN: u128 = 30;

/// Process of the sender. Dropping kills it, even while it is stopped.
pub(crate) struct Sender {
    child: Child,
}

impl Sender {
    /// Starts the sender. The kernel kills it when this process ends (`PR_SET_PDEATHSIG`).
    pub(crate) fn start(round: &Round, overrides: &Overrides, socket: &Path) -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("--sender")
            .arg(socket)
            .args(["--seed", &round.seed.to_string(), "--round", &round.number.to_string()])
            .args(["--parent", &id().to_string()])
            .args(overrides.to_string().split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    /// Returns the process. It is not reaped while this value lives, so its number stays its own.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells the sender to send its last message.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for the end of the sender, and reads the outcomes of its messages.
    pub(crate) fn finish(mut self) -> io::Result<(ExitStatus, Vec<u8>)> {
        let mut outcomes = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut outcomes)?;
        }
        Ok((self.child.wait()?, outcomes))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops and continues the sender until `is_over`, and leaves it running. Returns the number of stops.
pub(crate) fn stop_and_continue(pid: Pid, round: &Round, is_over: &AtomicBool) -> u64 {
    let mut random = round.random(RandomStream::Stop, 0);
    let mut stops = 0;
    while !is_over.load(Ordering::Relaxed) {
        let is_quick = round.is_quick || (stops / STOPS_PER_KIND).is_multiple_of(2);
        let [runs, rests] = if is_quick { QUICK_US } else { SLOW_US };
        pause(random.time(runs[0], runs[1]));
        if kill_process(pid, Signal::STOP).is_err() {
            break;
        }
        stops += 1;
        pause(random.time(rests[0], rests[1]));
        if kill_process(pid, Signal::CONT).is_err() {
            break;
        }
    }
    stops
}

/// Sleeps, or spins for times too short for a sleep.
fn pause(time: Duration) {
    if time.as_micros() >= SLEEP_US_MIN {
        thread::sleep(time);
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        core::hint::spin_loop();
    }
}
