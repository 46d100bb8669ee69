//! Black-box soak of the std API over shared memory with two processes (docs/testing.md).
#![forbid(unsafe_code)]

mod counts;
mod crowd;
mod message;
mod options;
mod oracle;
mod random;
mod receiver;
mod round;
mod sender;
mod sender_process;
mod visitors;
mod watchdog;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{ExitCode, id};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use superpipe::{Address, Connection, Listener};

use counts::EventCounts;
use message::ContentPool;
use options::{Mode, Options};
use oracle::Oracle;
use receiver::{Receiver, Step, StepFailure};
use round::Round;
use sender::Outcome;
use sender_process::{Sender, stop_and_continue};
use watchdog::{HANG_TIMEOUT, Watchdog};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (&options.mode, &options.sender, options.parent) {
        (Some(Mode::Crowd(crowd)), ..) => crowd::run(crowd),
        (Some(Mode::Visitors(visitors)), ..) => visitors::run(visitors),
        (None, Some(socket), Some(parent)) => {
            let (seed, number) = (options.seed.unwrap_or_default(), options.round.unwrap_or_default());
            let round = Round::new(seed, number, &options.overrides);
            sender::run(&round, socket, parent).map_err(|error| format!("error: sender: {error}"))
        }
        _ => soak(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Plays rounds until the time is over and every event has occurred.
fn soak(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) << 16 ^ now.as_secs() ^ u64::from(id()) << 40
    });
    println!("seed {seed}, {} s", options.seconds);
    let directory =
        PrivateDirectory::new().map_err(|error| format!("cannot make a private directory: {error}"))?;
    let soak = Soak {
        options,
        seed,
        pool: ContentPool::new(seed),
        watchdog: Watchdog::start(Duration::from_secs(options.seconds * 4 + 120), directory.0.clone()),
        directory,
    };
    let (begun, mut counts) = (Instant::now(), EventCounts::default());
    for number in options.round.unwrap_or(0).. {
        let number = options.round.unwrap_or(number);
        let round = Round::new(seed, number, &options.overrides);
        soak.run_round(&round, &mut counts).map_err(|text| {
            let seconds = begun.elapsed().as_secs_f64();
            format!(
                "FAILED after {seconds:.1} s and {} messages: {text}\n{}",
                counts.all_ok(),
                soak.reproduction(&round)
            )
        })?;
        let seconds = begun.elapsed().as_secs();
        let is_missing = options.is_complete() && !counts.missing().is_empty();
        if seconds >= options.seconds && (!is_missing || seconds >= 4 * options.seconds) {
            break;
        }
    }
    print!("{counts}");
    if counts.mismatches > 0 {
        return Err(format!(
            "FAILED: {} messages were received, and {} of them were wrong",
            counts.all_ok() + counts.mismatches,
            counts.mismatches
        ));
    }
    match counts.missing() {
        missing if missing.is_empty() || !options.is_complete() => Ok(()),
        missing => Err(format!("FAILED: these events never occurred: {}; seed {seed}", missing.join("; "))),
    }
}

struct Soak<'a> {
    options: &'a Options,
    seed: u64,
    pool: ContentPool,
    directory: PrivateDirectory,
    watchdog: &'static Watchdog,
}

impl Soak<'_> {
    /// Describes a round, and the command that repeats it.
    fn reproduction(&self, round: &Round) -> String {
        let (Self { options, seed, .. }, number) = (self, round.number);
        format!(
            "seed {seed}, {round}\nto repeat these draws (the scheduling differs from run to run):\n\
             cargo run --release -p superpipe-soak -- --seed {seed} --round {number} --round-ms {}{} --seconds 60",
            options.round_ms, options.overrides
        )
    }

    /// Plays one round, with its own connection and sender.
    fn run_round(&self, round: &Round, counts: &mut EventCounts) -> Result<(), String> {
        self.watchdog.round(self.reproduction(round));
        self.watchdog.call("connect");
        let socket = self.directory.0.join("socket");
        let mut sender = Sender::start(round, &self.options.overrides, &socket)
            .map_err(|error| format!("cannot start the sender: {error}"))?;
        self.watchdog.set_sender(Some(sender.pid()));
        let connection = connect(round, socket).map_err(|error| format!("connect: {error}"))?;
        let oracle = Oracle::new(round, &self.pool);
        let file = self.directory.0.join("stream");
        let mut receiver =
            Receiver::new(round, oracle, connection, self.watchdog, &file, self.options.overrides.plain);
        let received = self.receive(&mut receiver, &mut sender);
        *counts += &receiver.counts;
        received?;
        let Receiver { oracle, connection, .. } = receiver;
        drop(connection);
        self.watchdog.call("end of the sender");
        let (status, outcomes) = sender.finish().map_err(|error| format!("the sender's end: {error}"))?;
        self.watchdog.set_sender(None);
        if !status.success() {
            return Err(format!("the sender ended with {status}"));
        }
        let count = |is: Outcome| outcomes.iter().filter(|outcome| **outcome == is.byte()).count() as u64;
        counts.sent += count(Outcome::Sent);
        counts.sends_timed_out += count(Outcome::TimedOut);
        counts.sends_rejected += count(Outcome::Rejected);
        counts.sends_given_up += count(Outcome::GivenUp);
        if counts.mismatches > 0 {
            return Ok(());
        }
        oracle.finish(&outcomes).map_err(|mismatch| mismatch.to_string())
    }

    /// Receives while the sender is stopped and continued, and then receives the rest.
    fn receive(&self, receiver: &mut Receiver<'_>, sender: &mut Sender) -> Result<(), String> {
        let (pid, round, is_over) = (sender.pid(), receiver.round, AtomicBool::new(false));
        let disturbed = thread::scope(|scope| {
            let stopper = scope.spawn(|| stop_and_continue(pid, round, &is_over));
            // Dropping the guard ends the stopper, and with it the scope, even after a panic.
            let over = SetOnDrop(&is_over);
            let (begun, length) = (Instant::now(), Duration::from_millis(self.options.round_ms));
            let mut done = Ok(());
            while done.is_ok() && begun.elapsed() < length {
                let step = receiver.step();
                done = self.check_step(receiver, step).map(|_| ());
            }
            drop(over);
            receiver.counts.stops += stopper.join().unwrap_or_default();
            done
        });
        disturbed?;
        sender.end();
        let begun = Instant::now();
        loop {
            let step = receiver.step_patiently();
            if self.check_step(receiver, step)? == Step::Last {
                return Ok(());
            }
            if begun.elapsed() > HANG_TIMEOUT {
                return Err(format!("the last message did not arrive within {} s", HANG_TIMEOUT.as_secs()));
            }
        }
    }

    /// Returns the step, or the text of its failure.
    fn check_step(
        &self,
        receiver: &mut Receiver<'_>,
        step: Result<Step, StepFailure>,
    ) -> Result<Step, String> {
        match step {
            Ok(step) => Ok(step),
            Err(StepFailure::Mismatch(mismatch)) if self.options.count => {
                receiver.counts.mismatches += 1;
                println!("{}: {mismatch}", receiver.round);
                Ok(Step::On)
            }
            Err(StepFailure::Mismatch(mismatch)) => Err(mismatch.to_string()),
            Err(StepFailure::Other(text)) => Err(format!("after message {}: {text}", receiver.oracle.last())),
        }
    }
}

/// Sets a flag when dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect(round: &Round, socket: PathBuf) -> Result<Connection, superpipe::Error> {
    let address = Address::Shm(socket);
    if round.is_sender_listening {
        Connection::connect(&address, round.receiver_options(), HANG_TIMEOUT / 2)
    } else {
        Listener::bind(&address, round.receiver_options())?.accept(HANG_TIMEOUT / 2)
    }
}

/// A directory that only this user can enter. Dropping removes it.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("superpipe-soak-{}", id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // A failure here has no one to report to.
        let _ = fs::remove_dir_all(&self.0);
    }
}
