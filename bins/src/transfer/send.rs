//! rsend: connects to a receiver, and sends it the input.

use crate::command_line::command;
use crate::command_line::generate;
use crate::command_line::options::Send;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::files::descriptor::DASH;
use crate::files::distinct::NamedFile;
use crate::files::input::Input;
use crate::files::name::{self, TAG_NAME};
use crate::files::preserve::{Attributes, TAG_ATTRIBUTES};
use crate::protocol::{Role, TAG_DATA};
use crate::signals::Signals;
use crate::timeouts::UNLIMITED;
use crate::transfer::rate_limit::RateLimiter;
use crate::transfer::run::{Run, run_tool};
use crate::transfer::stop_cause::StopCause;
use clap::CommandFactory;
use core::time::Duration;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind};
use superpipe::{Address, Connection};

/// Most bytes that are read at once. Signals and the progress are checked between two reads.
const READ_BYTES: usize = 1 << 20;

/// Runs rsend.
#[must_use]
pub fn main() -> ExitCode {
    let options = match command::parse::<Send>(Role::Sender, &[]) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let data = NamedFile::read("FILE", options.file.as_deref().unwrap_or(Path::new(DASH)));
    match (options.transfer.common.generate, &options.address) {
        (Some(kind), _) => generate::print(Role::Sender, kind, Send::command()),
        (None, Some(address)) => {
            run_tool(Role::Sender, &options.transfer, data, |run| send(run, &options, address))
        }
        (None, None) => unreachable!("clap asks for an address where nothing is generated"),
    }
}

fn send(run: &mut Run<'_>, options: &Send, address: &Address) -> Result<(), Failure> {
    let input = Input::open(options.file.as_deref());
    let (name, size) = match &input {
        Ok(input) => (input.name.clone(), input.announced()),
        Err(_) => (options.file.as_ref().map_or_else(String::new, |path| path.display().to_string()), None),
    };
    run.start(address, &name, size, options.connect_timeout)?;
    let mut input = input?;
    let attributes = options.preserve.then(|| input.attributes()).transpose()?;
    run.session.pin()?;
    let mut connection = run.session.connect(address, run.options(), options.connect_timeout)?;
    run.connected(&mut connection)?;
    let outcome = transfer(run, &mut connection, &mut input, attributes.as_ref(), options);
    run.close(connection, &outcome);
    outcome
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    attributes: Option<&Attributes>,
    options: &Send,
) -> Result<(), Failure> {
    let size = input.announced();
    let (theirs, kind) = run.exchange_hellos(connection, size)?;
    if theirs.wants_name {
        send_name(run, connection, input, options)?;
    }
    if let Some(attributes) = attributes {
        let sent = connection.send(TAG_ATTRIBUTES, &[&attributes.encode()], UNLIMITED);
        sent.map_err(|error| run.session.failure(&error))?;
    }
    let mut digest = Digest::new(kind);
    run.meter.start(size);
    let streamed = stream(run, connection, input, &mut digest, options);
    run.computed(&digest);
    run.end_stream(streamed, connection, &digest)?;
    let remark = input.remark();
    let sent = run.session.send_report(connection, Ok(remark.as_deref()), &digest, UNLIMITED);
    sent.map_err(|error| run.session.failure(&error))?;
    let verdict = run.session.receive_report(connection, UNLIMITED)?;
    if verdict.code != 0 {
        return Err(peer::failure_of_report(&verdict, Role::Receiver));
    }
    if (verdict.bytes, verdict.checksum) != (digest.bytes(), digest.value()) {
        return Err(Failure::new(Code::Integrity, "the receiver confirmed other data than were sent"));
    }
    if let Some(remark) = remark {
        run.session.print_if(true, &remark);
    }
    Ok(())
}

/// Sends the name that the receiver stores the data by.
fn send_name(
    run: &Run<'_>,
    connection: &mut Connection,
    input: &Input,
    options: &Send,
) -> Result<(), Failure> {
    let own = name::sendable(input.path().and_then(Path::file_name));
    let Some(name) = options.name.as_deref().or(own) else {
        let text =
            format!("the receiver stores files by their names, and {} has none; use --name", input.name);
        let failure = Failure::new(Code::Usage, text);
        return Err(run.session.report_failure(connection, failure, &Digest::new(DigestKind::None)));
    };
    let sent = connection.send(TAG_NAME, &[name.as_bytes()], UNLIMITED);
    sent.map_err(|error| run.session.failure(&error))
}

/// Waits for this time, or until a signal arrives.
fn wait(time: Duration, signals: &Signals) {
    const STEP: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
        && signals.failure().is_none()
    {
        thread::sleep(left.min(STEP));
    }
}

fn stream(
    run: &Run<'_>,
    connection: &mut Connection,
    input: &mut Input,
    digest: &mut Digest,
    options: &Send,
) -> Result<(), StopCause> {
    let mut stream = connection.open_stream(TAG_DATA, UNLIMITED).map_err(|error| run.stop_cause(&error))?;
    if let Some(offset) = options.inject_flip {
        stream.inject_flip(offset);
    }
    let mut limiter = options.rate_limit.map(RateLimiter::new);
    let at_once = limiter.as_ref().map_or(READ_BYTES, RateLimiter::bytes_at_once).min(READ_BYTES);
    loop {
        let left = input.announced().map_or(u64::MAX, |announced| announced.saturating_sub(digest.bytes()));
        let most = usize::try_from(left).unwrap_or(at_once).min(at_once);
        let Input { name, source, .. } = input;
        let read = match most {
            0 => Ok(0),
            _ => run.step(|| format!("cannot read {name}"), || stream.read_from(source, most, digest)),
        };
        let ended = match read {
            Ok(0) => input.check_end(digest.bytes()).map_err(StopCause::Local),
            Ok(bytes) => {
                let left = limiter.as_mut().map_or(Duration::ZERO, |limiter| limiter.after(bytes));
                if !left.is_zero() {
                    // send keepalives meanwhile
                    stream.keep_alive_while(|| wait(left, &run.session.signals));
                }
                continue;
            }
            Err(stopped) => Err(stopped),
        };
        return match ended {
            Ok(()) => stream.finish(UNLIMITED).map_err(|error| run.stop_cause(&error)),
            Err(stopped) => {
                if let Some(code) = stopped.code() {
                    stream.cancel(code.into());
                }
                Err(stopped)
            }
        };
    }
}
