//! rperf: the time that messages take, and the bytes per second that cross, between two processes.
//!
//! ```text
//! options ──▶ client ──▶ messages ──▶ server        what is to be done, told by the client alone
//!               │                       │
//!               └──▶ link ◀─────────────┘           connections, and how each end ends
//!                     │
//!                    end ──▶ latency, stream        the messages: buffers, contents, samples
//!                     │
//!                    row ──▶ output: table, csv, json, plot
//! ```
//!
//! What is measured is the library as everybody uses it: one connection, one slice a message, and one thread at each end.
//! Within what is timed, nothing is allocated, formatted or looked up, and nothing but messages and the clock costs time.

pub mod buffers;
pub mod client;
pub mod clock;
pub mod contents;
pub mod end;
pub mod latency;
pub mod link;
pub mod messages;
pub mod options;
pub mod output;
pub mod plot;
pub mod row;
pub mod runs;
pub mod samples;
pub mod server;
pub mod sizes;
pub mod stream;
pub mod table;

use crate::command;
use crate::exit::{Code, Failure};
use crate::files::{self, Named};
use crate::generate;
use crate::options::Common;
use crate::protocol::Role;
use crate::session::{Session, complain};
use crate::signals;
use crate::trace::Trace;
use clap::CommandFactory;
use options::{Part, Perf};
use std::process::ExitCode;

/// The most bytes of a message.
pub const BYTES_MAX: u64 = 1 << 30;
/// The most single samples of a run. They take 128 MiB of memory, and 192 MiB with those of batches of two.
pub const SAMPLES_MAX: u64 = 1 << 24;

/// The whole tool.
#[must_use]
pub fn main() -> ExitCode {
    let Perf { part, ask } = match command::parse(Role::Client) {
        Ok(perf) => perf,
        Err(code) => return code,
    };
    if let Some(Part::Serve(serve)) = part {
        return match serve.common.generate {
            Some(kind) => generate::print(Role::Server, kind, Perf::command()),
            None => {
                run(Role::Server, &serve.common, &[], |session, trace| server::serve(session, &serve, trace))
            }
        };
    }
    match (ask.common.generate, &ask.address) {
        (Some(kind), _) => generate::print(Role::Client, kind, Perf::command()),
        (None, Some(address)) => run(Role::Client, &ask.common, &ask.files(), |session, trace| {
            client::measure(session, &ask, address, trace)
        }),
        (None, None) => unreachable!("clap asks for an address where nothing is served or generated"),
    }
}

/// Runs one part to its end, and says how that was where it was not good.
fn run(
    role: Role,
    common: &Common,
    files: &[Named<'_>],
    work: impl FnOnce(&Session<'_>, &mut Trace) -> Result<(), Failure>,
) -> ExitCode {
    let outcome = files::check(files).and_then(|()| {
        let session = Session::new(role, common, false)?;
        let mut trace = Trace::open(common.trace.as_deref(), &session.signals)?;
        let outcome = work(&session, &mut trace);
        if let Err(lost) = trace.write() {
            complain(role, &lost.text);
        }
        outcome
    });
    match outcome {
        Ok(()) => Code::Done.into(),
        Err(failure) => {
            complain(role, &failure.text);
            signals::end(failure.code)
        }
    }
}
