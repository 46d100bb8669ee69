//! rperf: measures latency and throughput of messages between two processes.
//!
//! ```text
//! options ──▶ client ──▶ messages ──▶ serving       the client sends all settings; the server serves many clients
//!               │
//!               ├──▶ link ──▶ end, latency, stream  measured messages of one connection: buffers, contents, samples
//!               ├──▶ many                           messages over many connections at once
//!               │
//!             row, many_row ──▶ output: table, csv, json, plot
//! ```
//!
//! rperf uses the library as any program does: one slice per message, and one thread at each end.
//! The timed loops only send and receive messages and read the clock; they allocate, format and look up nothing.

pub mod buffers;
pub mod client;
pub mod clock;
mod columns;
pub mod contents;
pub mod copies;
pub mod counts;
pub mod distance;
pub mod end;
pub mod histogram;
pub mod latency;
pub mod link;
pub mod many;
pub mod many_row;
pub mod many_table;
pub mod messages;
pub mod options;
pub mod output;
pub mod parts;
pub mod perform;
pub mod planned;
pub mod plot;
pub mod row;
pub mod runs;
pub mod samples;
mod serving;
pub mod sizes;
pub mod stream;
pub mod table;

use crate::command_line::command;
use crate::command_line::generate;
use crate::command_line::options::Common;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::files::distinct::{self, NamedFile};
use crate::protocol::Role;
use crate::signals;
use crate::stderr::print_line;
use crate::trace::Trace;
use clap::CommandFactory;
use options::{Part, Perf};
use std::process::ExitCode;

/// Largest message, in bytes. It limits the memory that a client can make the server allocate.
pub const BYTES_MAX: u64 = 1 << 30;
/// Limit on the single samples of a run. They take 128 MiB of memory, and 192 MiB with those of batches of two.
pub const SAMPLES_MAX: u64 = 1 << 24;

/// Runs rperf or rperf serve.
#[must_use]
pub fn main() -> ExitCode {
    let Perf { part, client } = match command::parse(Role::Client, &options::OPTIONAL) {
        Ok(perf) => perf,
        Err(code) => return code,
    };
    if let Some(Part::Serve(serve)) = part {
        return match serve.common.generate {
            Some(kind) => generate::print(Role::Server, kind, Perf::command()),
            None => {
                run(Role::Server, &serve.common, &[], |session, trace| serving::serve(session, &serve, trace))
            }
        };
    }
    match (client.common.generate, &client.address) {
        (Some(kind), _) => generate::print(Role::Client, kind, Perf::command()),
        (None, Some(address)) => run(Role::Client, &client.common, &client.files(), |session, trace| {
            client::measure(session, &client, address, trace)
        }),
        (None, None) if client.distance => {
            run(Role::Client, &client.common, &client.files(), |session, _| distance::print(session, &client))
        }
        (None, None) => unreachable!("clap asks for an address where nothing is served, generated or probed"),
    }
}

/// Runs one part to its end, and prints its failure.
fn run(
    role: Role,
    common: &Common,
    files: &[NamedFile<'_>],
    work: impl FnOnce(&Session<'_>, &mut Trace) -> Result<(), Failure>,
) -> ExitCode {
    let outcome = distinct::check(files).and_then(|()| {
        let session = Session::new(role, common, false)?;
        let mut trace = Trace::open(common.trace.as_deref(), &session.signals)?;
        let outcome = work(&session, &mut trace);
        if let Err(lost) = trace.write() {
            print_line(role, &lost.text);
        }
        outcome
    });
    match outcome {
        Ok(()) => Code::Done.into(),
        Err(failure) => {
            print_line(role, &failure.text);
            signals::end(failure.code)
        }
    }
}
