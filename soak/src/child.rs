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

/// The longest that it is stopped, or runs, at a time, in microseconds.
const MOST_US: usize = 12_000;
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
        pause(random.time(1, MOST_US));
        if kill_process(pid, Signal::STOP).is_err() {
            break;
        }
        stops += 1;
        pause(random.time(1, MOST_US));
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
