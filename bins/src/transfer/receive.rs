//! rrecv: accepts a sender, and receives its data into the output.

use crate::command_line::command;
use crate::command_line::generate;
use crate::command_line::options::{Listening, Receive};
use crate::connection::listen::Acceptor;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::files::descriptor::{DASH, is_dash};
use crate::files::distinct::{self, NamedFile};
use crate::files::output::Output;
use crate::files::preserve::{ATTRIBUTES_BYTES_MAX, Attributes, TAG_ATTRIBUTES};
use crate::protocol::{Hello, Role, TAG_DATA, TAG_TRAILER, Violation};
use crate::timeouts::{REPORT_TIMEOUT, UNLIMITED};
use crate::transfer::checks::{self, compare, not_as_announced};
use crate::transfer::keep;
use crate::transfer::run::{Run, run_tool};
use crate::transfer::stop_cause::StopCause;
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Length, Reason};

/// Runs rrecv.
#[must_use]
pub fn main() -> ExitCode {
    let options = match command::parse::<Receive>(Role::Receiver, &[]) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let data = match &options.keep {
        Some(directory) => NamedFile::written("--keep", directory, 1),
        None => NamedFile::written("FILE", options.file.as_deref().unwrap_or(Path::new(DASH)), 1),
    };
    match options.transfer.common.generate {
        Some(kind) => generate::print(Role::Receiver, kind, Receive::command()),
        None => run_tool(Role::Receiver, &options.transfer, data, |run| match &options.keep {
            Some(directory) => keep::keep(run, &options, directory),
            None => receive(run, &options),
        }),
    }
}

fn receive(run: &mut Run<'_>, options: &Receive) -> Result<(), Failure> {
    let file = options.file.as_deref().filter(|path| !is_dash(path));
    let name = file.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
    let Listening { listen, accept_timeout } = &options.listening;
    run.start(listen, &name, None, *accept_timeout)?;
    distinct::check_terminal(options.file.as_deref())?;
    let deadline = Instant::now() + *accept_timeout;
    let output = match file.filter(|file| options.preserve && file.is_dir()) {
        Some(directory) => Output::open_in(directory, options.if_exists())?,
        None => Output::open_with(file, options.if_exists(), &run.session.signals, *accept_timeout)?,
    };
    if options.preserve && !output.is_file() {
        let text = format!("--preserve: {name} cannot be given a mode and time; name a FILE or a directory");
        return Err(Failure::new(Code::Usage, text));
    }
    drop(output.sink()?);
    run.session.pin()?;
    let (mut connection, preamble) = accept_sender(run, options, deadline)?;
    let outcome = transfer(run, &mut connection, preamble, output, options);
    run.close(connection, &outcome);
    outcome
}

/// Content of the messages before the data.
struct Preamble {
    hello: Hello,
    kind: DigestKind,
    attributes: Option<Attributes>,
}

/// Accepts connections until a transfer begins over one, and then stops listening.
fn accept_sender(
    run: &mut Run<'_>,
    options: &Receive,
    deadline: Instant,
) -> Result<(Connection, Preamble), Failure> {
    let session = run.session.clone();
    let mut acceptor = Acceptor::listen(&session, &options.listening, run.options())?;
    run.listening(&options.listening.listen, acceptor.address());
    loop {
        let mut connection = acceptor.accept(deadline)?;
        run.connected(&mut connection)?;
        match begin(run, &mut connection, options) {
            Ok(preamble) => return Ok((connection, preamble)),
            Err(failure) if session.signals.failure().is_some() => {
                run.close(connection, &Err(failure.clone()));
                return Err(failure);
            }
            Err(failure) => {
                acceptor.failed(&failure);
                run.reject_sender(connection, failure);
            }
        }
    }
}

/// Exchanges the messages before the data, and waits for the data. Until then rrecv writes nothing, and may accept another sender
/// instead.
fn begin(run: &Run<'_>, connection: &mut Connection, options: &Receive) -> Result<Preamble, Failure> {
    let (hello, kind) = run.exchange_hellos(connection, None)?;
    let nothing = Digest::new(kind);
    let mut attributes = None;
    let awaited = await_data(run, connection).map(|received| attributes = received);
    run.end_stream(awaited, connection, &nothing)?;
    if let Err(failure) = check_attributes(options, attributes.as_ref()) {
        if let Ok(stream) = connection.accept_stream(UNLIMITED) {
            stream.reject(failure.code.into());
        }
        return Err(run.session.report_failure(connection, failure, &nothing));
    }
    Ok(Preamble { hello, kind, attributes })
}

/// Checks that the sender sent the attributes that --preserve needs, and, for a directory, that its name is not that of a report.
fn check_attributes(options: &Receive, attributes: Option<&Attributes>) -> Result<(), Failure> {
    let (true, Some(file)) = (options.preserve, options.file.as_deref()) else { return Ok(()) };
    match checks::required(attributes)?.name() {
        Some(name) if file.is_dir() => checks::check_distinct(options, &file.join(name)),
        _ => Ok(()),
    }
}

/// Waits for the data, which must be a stream, and returns the attributes that come before them.
fn await_data(run: &Run<'_>, connection: &mut Connection) -> Result<Option<Attributes>, StopCause> {
    let broken = |what| StopCause::Local(peer::failure_of_violation(what));
    let mut incoming = connection.peek(UNLIMITED).map_err(|error| run.stop_cause(&error))?;
    let mut attributes = None;
    if incoming.tag == TAG_ATTRIBUTES {
        let mut bytes = [0; ATTRIBUTES_BYTES_MAX];
        let received =
            connection.recv_into(&mut [&mut bytes], UNLIMITED).map_err(|error| run.stop_cause(&error))?;
        attributes = Some(Attributes::decode(&bytes[..received.bytes]).map_err(broken)?);
        incoming = connection.peek(UNLIMITED).map_err(|error| run.stop_cause(&error))?;
    }
    match (incoming.tag, incoming.length) {
        (TAG_DATA, Length::Stream) => Ok(attributes),
        (TAG_DATA, Length::Exact(_)) => Err(broken(Violation("sent its data as a message, not as a stream"))),
        // the sender cancelled the stream before its first byte
        (TAG_TRAILER, _) => Err(StopCause::ByPeer(Reason::DONE)),
        _ => Err(broken(Violation("sent another transfer instead of its data"))),
    }
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    preamble: Preamble,
    mut output: Output,
    options: &Receive,
) -> Result<(), Failure> {
    let Preamble { hello, kind, attributes } = preamble;
    let mut digest = Digest::new(kind);
    run.meter.start(hello.size_hint);
    let admit = |output: &mut Output| {
        output.begin()?;
        if let Some(attributes) = attributes.filter(|_| options.preserve) {
            output.preserve(&attributes)?;
        }
        hello.size_hint.map_or(Ok(()), |bytes| output.check_room(bytes, options.sparse))?;
        output.sink()
    };
    let streamed = stream(run, connection, &mut output, admit, hello.size_hint, &mut digest);
    run.computed(&digest);
    run.end_stream(streamed, connection, &digest)?;
    let trailer = run.session.receive_report(connection, UNLIMITED)?;
    let kept = compare(&trailer, hello.size_hint, &digest);
    let kept = kept.and_then(|()| connection.keep_alive_while(|| output.commit()));
    if let Err(failure) = kept {
        return Err(run.session.report_failure(connection, failure, &digest));
    }
    // The transfer is complete at this end, whatever the sender does. The sender closes once it has the VERDICT; closing earlier
    // here could discard the VERDICT.
    let sent = run.session.send_report(connection, Ok(None), &digest, REPORT_TIMEOUT);
    let _ = sent.and_then(|()| connection.peek(run.session.common.idle_timeout).map(drop));
    if !trailer.text.is_empty() {
        run.session.print_if(true, &format!("{}: {}", Role::Sender.part(), trailer.text));
    }
    Ok(())
}

fn stream(
    run: &Run<'_>,
    connection: &mut Connection,
    output: &mut Output,
    admit: impl FnOnce(&mut Output) -> Result<Sink, Failure>,
    announced: Option<u64>,
    digest: &mut Digest,
) -> Result<(), StopCause> {
    let mut stream = connection.accept_stream(UNLIMITED).map_err(|error| run.stop_cause(&error))?;
    let mut sink = match admit(output) {
        Ok(sink) => sink,
        Err(failure) => {
            stream.reject(failure.code.into());
            return Err(StopCause::Local(failure));
        }
    };
    loop {
        let written =
            run.step(|| format!("cannot write to {}", output.name()), || stream.write_to(&mut sink, digest));
        match written {
            Ok(0) => return Ok(()),
            Ok(_) => {
                if let Some(announced) = announced.filter(|&announced| digest.bytes() > announced) {
                    let failure = not_as_announced(announced, digest.bytes());
                    stream.reject(failure.code.into());
                    return Err(StopCause::Local(failure));
                }
            }
            Err(stopped) => {
                if let Some(code) = stopped.code() {
                    stream.reject(code.into());
                }
                return Err(stopped);
            }
        }
    }
}
