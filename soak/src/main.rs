//! A black-box soak of the std API over shared memory, by two processes (docs/testing.md).
#![forbid(unsafe_code)]

mod child;
mod message;
mod options;
mod oracle;
mod random;
mod receiver;
mod round;
mod sender;
mod tally;
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

use child::{Sender, disturb};
use message::Pool;
use options::Options;
use oracle::Oracle;
use receiver::{Failure, Receiver, Step};
use round::Round;
use sender::Outcome;
use tally::Tally;
use watchdog::{HANG, Watchdog};

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (&options.sender, options.parent) {
        (Some(socket), Some(parent)) => {
            let (seed, number) = (options.seed.unwrap_or_default(), options.round.unwrap_or_default());
            let round = Round::new(seed, number, &options.wishes);
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

/// Rounds until the time is over and everything has happened that must.
fn soak(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) << 16 ^ now.as_secs() ^ u64::from(id()) << 40
    });
    println!("seed {seed}, {} s", options.seconds);
    let place = Place::new().map_err(|error| format!("cannot make a private directory: {error}"))?;
    let soak = Soak {
        options,
        seed,
        pool: Pool::new(seed),
        watchdog: Watchdog::start(Duration::from_secs(options.seconds * 4 + 120), place.0.clone()),
        place,
    };
    let (begun, mut tally) = (Instant::now(), Tally::default());
    for number in options.round.unwrap_or(0).. {
        let number = options.round.unwrap_or(number);
        let round = Round::new(seed, number, &options.wishes);
        soak.play(&round, &mut tally).map_err(|text| {
            let seconds = begun.elapsed().as_secs_f64();
            format!(
                "FAILED after {seconds:.1} s and {} messages: {text}\n{}",
                tally.all_ok(),
                soak.again(&round)
            )
        })?;
        let seconds = begun.elapsed().as_secs();
        let is_missing = options.is_complete() && !tally.missing().is_empty();
        if seconds >= options.seconds && (!is_missing || seconds >= 4 * options.seconds) {
            break;
        }
    }
    print!("{tally}");
    if tally.wrong > 0 {
        return Err(format!(
            "FAILED: of {} messages {} were wrong",
            tally.all_ok() + tally.wrong,
            tally.wrong
        ));
    }
    match tally.missing() {
        missing if missing.is_empty() || !options.is_complete() => Ok(()),
        missing => Err(format!("FAILED: these never happened: {}; seed {seed}", missing.join("; "))),
    }
}

struct Soak<'a> {
    options: &'a Options,
    seed: u64,
    pool: Pool,
    place: Place,
    watchdog: &'static Watchdog,
}

impl Soak<'_> {
    /// Describes a round, and how to repeat it.
    fn again(&self, round: &Round) -> String {
        let (Self { options, seed, .. }, number) = (self, round.number);
        format!(
            "seed {seed}, {round}\nthe same draws, as often as it takes (the operating system schedules as it likes):\n\
             cargo run --release -p superpipe-soak -- --seed {seed} --round {number} --round-ms {}{} --seconds 60",
            options.round_ms, options.wishes
        )
    }

    /// One round, with a connection and a sender of its own.
    fn play(&self, round: &Round, tally: &mut Tally) -> Result<(), String> {
        self.watchdog.round(self.again(round));
        self.watchdog.call("connect");
        let socket = self.place.0.join("socket");
        let mut sender = Sender::start(round, &self.options.wishes, &socket)
            .map_err(|error| format!("cannot start the sender: {error}"))?;
        self.watchdog.set_sender(Some(sender.pid()));
        let connection = connect(round, socket).map_err(|error| format!("connect: {error}"))?;
        let oracle = Oracle::new(round, &self.pool);
        let file = self.place.0.join("stream");
        let mut receiver =
            Receiver::new(round, oracle, connection, self.watchdog, &file, self.options.wishes.plain);
        let received = self.receive(&mut receiver, &mut sender);
        *tally += &receiver.tally;
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
        tally.sent += count(Outcome::Sent);
        tally.sends_timed_out += count(Outcome::TimedOut);
        tally.sends_rejected += count(Outcome::Rejected);
        tally.sends_given_up += count(Outcome::GivenUp);
        if tally.wrong > 0 {
            return Ok(());
        }
        oracle.finish(&outcomes).map_err(|wrong| wrong.to_string())
    }

    /// Receives while the sender is stopped and continued, and then what is left.
    fn receive(&self, receiver: &mut Receiver<'_>, sender: &mut Sender) -> Result<(), String> {
        let (pid, round, is_over) = (sender.pid(), receiver.round, AtomicBool::new(false));
        let disturbed = thread::scope(|scope| {
            let stopper = scope.spawn(|| disturb(pid, round, &is_over));
            // Also where the rest panics, the stopper ends, and with it the scope.
            let over = Over(&is_over);
            let (begun, length) = (Instant::now(), Duration::from_millis(self.options.round_ms));
            let mut done = Ok(());
            while done.is_ok() && begun.elapsed() < length {
                let step = receiver.step();
                done = self.judged(receiver, step).map(|_| ());
            }
            drop(over);
            receiver.tally.stops += stopper.join().unwrap_or_default();
            done
        });
        disturbed?;
        sender.end();
        let begun = Instant::now();
        loop {
            let step = receiver.step_patiently();
            if self.judged(receiver, step)? == Step::Last {
                return Ok(());
            }
            if begun.elapsed() > HANG {
                return Err(format!("the last message has not come for {} s", HANG.as_secs()));
            }
        }
    }

    /// A step, and what to say of one that failed.
    fn judged(&self, receiver: &mut Receiver<'_>, step: Result<Step, Failure>) -> Result<Step, String> {
        match step {
            Ok(step) => Ok(step),
            Err(Failure::Wrong(wrong)) if self.options.count => {
                receiver.tally.wrong += 1;
                println!("{}: {wrong}", receiver.round);
                Ok(Step::On)
            }
            Err(Failure::Wrong(wrong)) => Err(wrong.to_string()),
            Err(Failure::Other(text)) => Err(format!("after message {}: {text}", receiver.oracle.last())),
        }
    }
}

/// Tells a thread that it is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn connect(round: &Round, socket: PathBuf) -> Result<Connection, superpipe::Error> {
    let address = Address::Shm(socket);
    if round.is_sender_listening {
        Connection::connect(&address, round.receiver_options(), HANG / 2)
    } else {
        Listener::bind(&address, round.receiver_options())?.accept(HANG / 2)
    }
}

/// A directory that nobody else can enter; dropped, it is gone.
struct Place(PathBuf);

impl Place {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("superpipe-soak-{}", id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}
