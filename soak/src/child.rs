//! The sender's process: started from this same program, stopped and continued at random, and sure to end.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio, id};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::options::Wishes;
use crate::round::{Draw, Round};

/// Microseconds for which it runs, and is stopped, at a time.
const SLOW_US: [[usize; 2]; 2] = [[1, 12_000], [1, 12_000]];
/// The same, so quickly that it comes to no end of a message between two stops, and a short deadline passes in each.
const QUICK_US: [[usize; 2]; 2] = [[1, 200], [60, 400]];
/// Stops of a kind that follow each other, where both kinds take turns.
const BURST: u64 = 64;
/// A shorter sleep than this takes as long.
const SLEEP_US_MIN: u128 = 30;

/// The sender. Dropped, it is killed, also where it is stopped.
pub(crate) struct Sender {
    child: Child,
}

impl Sender {
    /// Starts it. It dies with this process (`PR_SET_PDEATHSIG`).
    pub(crate) fn start(round: &Round, wishes: &Wishes, socket: &Path) -> io::Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("--sender")
            .arg(socket)
            .args(["--seed", &round.seed.to_string(), "--round", &round.number.to_string()])
            .args(["--parent", &id().to_string()])
            .args(wishes.to_string().split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self { child })
    }

    /// The process, which is not reaped, and its number therefore nobody else's, as long as this value lives.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Tells it to send its last message.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until it has ended, and reads what it says became of its messages.
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
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops and continues the sender until it `is_over`, and leaves it running. How many times.
pub(crate) fn disturb(pid: Pid, round: &Round, is_over: &AtomicBool) -> u64 {
    let mut random = round.random(Draw::Stop, 0);
    let mut stops = 0;
    while !is_over.load(Ordering::Relaxed) {
        let is_quick = round.is_quick || (stops / BURST).is_multiple_of(2);
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

/// Sleeps, but for times that no sleep is as short as.
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
