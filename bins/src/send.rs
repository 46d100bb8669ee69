//! rsend.

use crate::command;
use crate::exit::{Code, Failure};
use crate::files::Named;
use crate::generate;
use crate::input::Input;
use crate::options::{DASH, Send};
use crate::peer;
use crate::preserve::{Attributes, TAG_ATTRIBUTES};
use crate::protocol::{Role, TAG_DATA};
use crate::session::PATIENCE;
use crate::stopped::Stopped;
use crate::tool::{self, Run};
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;
use superpipe::io::Digest;
use superpipe::{Address, Connection};

/// The most that is read at once.
const READ_BYTES: usize = 1 << 20;

/// The whole tool.
#[must_use]
pub fn main() -> ExitCode {
    let options = match command::parse::<Send>(Role::Sender) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let data = Named::read("FILE", options.file.as_deref().unwrap_or(Path::new(DASH)));
    match (options.moving.common.generate, &options.address) {
        (Some(kind), _) => generate::print(Role::Sender, kind, Send::command()),
        (None, Some(address)) => {
            tool::run(Role::Sender, &options.moving, data, |run| send(run, &options, address))
        }
        (None, None) => unreachable!("clap asks for an address where nothing is generated"),
    }
}

fn send(run: &mut Run<'_>, options: &Send, address: &Address) -> Result<(), Failure> {
    let input = Input::open(options.file.as_deref());
    let (name, size) = match &input {
        Ok(input) => (input.name.clone(), input.source.size_hint()),
        Err(_) => (options.file.as_ref().map_or_else(String::new, |path| path.display().to_string()), None),
    };
    run.start(address, &name, size, options.connect_timeout)?;
    let mut input = input?;
    let attributes = options.preserve.then(|| Attributes::of(&input, options.file.as_deref())).transpose()?;
    run.session.pin()?;
    let connected = Connection::connect(address, run.options(), options.connect_timeout);
    let mut connection = connected.map_err(|error| run.session.failure(&error))?;
    run.connected(&mut connection)?;
    let outcome = transfer(run, &mut connection, &mut input, attributes.as_ref(), options.inject_flip);
    run.close(connection, &outcome);
    outcome
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    attributes: Option<&Attributes>,
    flip: Option<u64>,
) -> Result<(), Failure> {
    let size = input.source.size_hint();
    let (_, kind) = run.exchange_hellos(connection, size)?;
    if let Some(attributes) = attributes {
        let sent = connection.send(TAG_ATTRIBUTES, &[&attributes.encode()], PATIENCE);
        sent.map_err(|error| run.session.failure(&error))?;
    }
    let mut digest = Digest::new(kind);
    run.meter.start(size);
    let streamed = stream(run, connection, input, &mut digest, flip);
    run.computed(&digest);
    run.settle(streamed, connection, &digest)?;
    let sent = run.session.send_report(connection, Ok(()), &digest, PATIENCE);
    sent.map_err(|error| run.session.failure(&error))?;
    let verdict = run.session.receive_report(connection, PATIENCE)?;
    if verdict.code != 0 {
        return Err(peer::said(&verdict, Role::Receiver));
    }
    if (verdict.bytes, verdict.checksum) != (digest.bytes(), digest.value()) {
        return Err(Failure::new(Code::Integrity, "the receiver is content with other data than were sent"));
    }
    Ok(())
}

fn stream(
    run: &Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    digest: &mut Digest,
    flip: Option<u64>,
) -> Result<(), Stopped> {
    let mut stream = connection.send_stream(TAG_DATA, PATIENCE).map_err(|error| run.stopped(&error))?;
    if let Some(offset) = flip {
        stream.inject_flip(offset);
    }
    let Input { name, source, .. } = input;
    loop {
        match run.step(|| format!("cannot read {name}"), || stream.read_from(source, READ_BYTES, digest)) {
            Ok(0) => return stream.finish(PATIENCE).map_err(|error| run.stopped(&error)),
            Ok(_) => {}
            Err(stopped) => {
                if let Some(code) = stopped.code() {
                    stream.cancel(code.into());
                }
                return Err(stopped);
            }
        }
    }
}
