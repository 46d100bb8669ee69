//! rsend.

use crate::exit::{Code, Failure};
use crate::generate;
use crate::input::Input;
use crate::options::Send;
use crate::peer;
use crate::protocol::{Role, TAG_DATA};
use crate::session::PATIENCE;
use crate::tool::{self, Run};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use superpipe::io::Digest;
use superpipe::{Address, Connection, ErrorKind, Reason, StreamError};

/// The most that is read at once.
const READ_BYTES: usize = 1 << 20;

/// The whole tool.
#[must_use]
pub fn main() -> ExitCode {
    let options = Send::parse();
    match (options.moving.common.generate, &options.address) {
        (Some(kind), _) => generate::print(Role::Sender, kind, Send::command()),
        (None, Some(address)) => tool::run(Role::Sender, &options.moving, |run| send(run, &options, address)),
        (None, None) => unreachable!("clap asks for an address where nothing is generated"),
    }
}

fn send(run: &mut Run<'_>, options: &Send, address: &Address) -> Result<(), Failure> {
    let input = Input::open(options.file.as_deref());
    let (name, size) = match &input {
        Ok(input) => (input.name.clone(), input.source.size_hint()),
        Err(_) => (options.file.as_ref().map_or_else(String::new, |path| path.display().to_string()), None),
    };
    run.start(address, &name, size, options.connect_timeout);
    let mut input = input?;
    run.session.pin()?;
    let connected = Connection::connect(address, run.options(), options.connect_timeout);
    let mut connection = connected.map_err(|error| run.session.failure(&error))?;
    run.connected(&mut connection);
    let outcome = transfer(run, &mut connection, &mut input, options.inject_flip);
    run.close(connection, &outcome);
    outcome
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    flip: Option<u64>,
) -> Result<(), Failure> {
    let size = input.source.size_hint();
    let (_, kind) = run.exchange_hellos(connection, size)?;
    let mut digest = Digest::new(kind);
    run.meter.start(size);
    let streamed = stream(run, connection, input, &mut digest, flip);
    run.computed(&digest);
    match streamed {
        Ok(()) => run
            .session
            .send_report(connection, Ok(()), &digest, PATIENCE)
            .map_err(|error| run.session.failure(&error))?,
        Err(Stopped::Here(failure)) => return Err(run.session.give_up(connection, failure, &digest)),
        Err(Stopped::ByPeer(reason)) => return Err(run.session.peer_gave_up(connection, reason)),
        Err(Stopped::Lost(failure)) => return Err(failure),
    }
    let verdict = run.session.receive_report(connection, PATIENCE)?;
    if verdict.code != 0 {
        return Err(peer::said(&verdict, Role::Receiver));
    }
    if (verdict.bytes, verdict.checksum) != (digest.bytes(), digest.value()) {
        return Err(Failure::new(Code::Integrity, "the receiver is content with other data than were sent"));
    }
    Ok(())
}

/// Why a stream did not end as it should.
enum Stopped {
    /// What is read failed, and the receiver does not know yet.
    Here(Failure),
    /// The receiver does not want it, and has more to say.
    ByPeer(Reason),
    /// The connection failed, or a signal came: there is nobody, or no time, to tell.
    Lost(Failure),
}

fn stream(
    run: &Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    digest: &mut Digest,
    flip: Option<u64>,
) -> Result<(), Stopped> {
    let stopped = |error: superpipe::Error| match error.kind() {
        ErrorKind::Rejected(reason) | ErrorKind::Closed(reason) => Stopped::ByPeer(reason),
        _ => Stopped::Lost(run.session.failure(&error)),
    };
    let mut stream = connection.send_stream(TAG_DATA).map_err(stopped)?;
    if let Some(offset) = flip {
        stream.inject_flip(offset);
    }
    loop {
        // a source that is always ready never waits, where the library would look
        if let Some(failure) = run.session.signals.failure() {
            stream.cancel(failure.code.into());
            return Err(Stopped::Lost(failure));
        }
        match stream.read_from(&mut input.source, READ_BYTES, digest) {
            Ok(0) => break,
            Ok(bytes) => run.meter.add(bytes),
            Err(StreamError::Local(error)) => {
                stream.cancel(Code::LocalIo.into());
                return Err(Stopped::Here(Failure::local_io(format!("cannot read {}", input.name), &error)));
            }
            Err(StreamError::Connection(error)) => {
                let stopped = stopped(error);
                if let Stopped::Lost(failure) = &stopped {
                    stream.cancel(failure.code.into());
                }
                return Err(stopped);
            }
        }
    }
    stream.finish(PATIENCE).map_err(stopped)
}
