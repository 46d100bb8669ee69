//! superpipe-top: shows the connections of processes that publish their metrics.
//!
//! ```text
//! options ──▶ looks ──▶ rates ──▶ table, json         processes and their snapshots; differences; what is printed
//! ```
//!
//! It only reads what the library's [`Reader`](superpipe::metrics::Reader) has checked.

pub mod json;
pub mod looks;
pub mod options;
pub mod rates;
pub mod table;

use crate::command_line::{command, generate};
use crate::exit::{Code, Failure};
use crate::files::descriptor::duplicate;
use crate::signals::{self, Signals};
use crate::stderr::{ToolName, print_line};
use clap::CommandFactory;
use core::sync::atomic::Ordering;
use core::time::Duration;
use looks::{Look, Looks};
use options::Top;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;
use superpipe::metrics::OpenMetrics;

const NAME: ToolName = ToolName("superpipe-top");
/// Interval between two checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Moves a terminal to its upper left corner, and clears the rest of a line, and of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";

/// Runs superpipe-top.
#[must_use]
pub fn main() -> ExitCode {
    let options: Top = match command::parse(NAME, &[]) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Some(kind) = options.generate {
        return generate::print(NAME, kind, Top::command());
    }
    match run(&options) {
        Ok(()) => Code::Done.into(),
        Err(failure) => {
            print_line(NAME, &failure.text);
            signals::end(failure.code)
        }
    }
}

/// Looks until everything is shown.
fn run(options: &Top) -> Result<(), Failure> {
    let signals = Signals::install("look")?;
    let mut looks = Looks::new(options.pids.clone());
    let in_place = !options.once && !options.json && !options.openmetrics && io::stdout().is_terminal();
    let mut is_first = true;
    loop {
        let Some(look) = looks.look()? else { return Ok(()) };
        for gone in &look.gone {
            // On a terminal the line would be overwritten at once.
            if !in_place {
                print_line(NAME, gone);
            }
        }
        if !print(shown(options, &look, in_place, is_first), &signals)? || options.once || options.openmetrics
        {
            return Ok(());
        }
        is_first = false;
        wait(options.interval, &signals)?;
    }
}

/// Returns the text of a look.
fn shown(options: &Top, look: &Look, in_place: bool, is_first: bool) -> String {
    if options.openmetrics {
        return OpenMetrics(&look.snapshots).to_string();
    }
    if options.json {
        return json::line(look);
    }
    let table = table::of(look);
    match (in_place, is_first) {
        (true, _) => {
            let clear = if is_first { "\x1b[2J" } else { "" };
            format!("{clear}{HOME}{}{CLEAR_BELOW}", table.replace('\n', CLEAR_LINE))
        }
        (false, true) => table,
        (false, false) => format!("\n{table}"),
    }
}

/// Prints a text to standard output, and waits until it is read, or a signal arrives. Returns false if its reader has ended, which is no failure.
///
/// Other processes share the descriptor's flags, so it is not made non-blocking: a thread of its own writes.
fn print(text: String, signals: &Signals) -> Result<bool, Failure> {
    let (written, is_written) = mpsc::channel();
    let failed = |error: &io::Error| Failure::local_io("cannot write to standard output", error);
    let mut out = duplicate(1).map_err(|error| failed(&error))?;
    let work = move || {
        // nobody waits for it after a signal
        let _ = written.send(out.write_all(text.as_bytes()));
    };
    thread::Builder::new().name("stdout".into()).spawn(work).map_err(|error| failed(&error))?;
    let outcome = loop {
        match is_written.recv_timeout(POLL_INTERVAL) {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(failure) = signals.failure() {
                    return Err(failure);
                }
            }
        }
    };
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

/// Waits for the next look.
fn wait(interval: Duration, signals: &Signals) -> Result<(), Failure> {
    let end = Instant::now() + interval;
    loop {
        if signals.flag().load(Ordering::Relaxed) {
            return signals.failure().map_or(Ok(()), Err);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}
