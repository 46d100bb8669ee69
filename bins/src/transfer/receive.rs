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
use crate::protocol::{Hello, Report, Role, TAG_DATA, TAG_TRAILER, Violation};
use crate::timeouts::{REPORT_TIMEOUT, UNLIMITED};
use crate::transfer::run::{Run, run_tool};
use crate::transfer::stop_cause::StopCause;
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Length, Reason};

/// Violation of a sender without --preserve, in words that follow "the peer ".
const NO_ATTRIBUTES: &str = "sent no name, mode and time; start rsend with --preserve";

/// Runs rrecv.
#[must_use]
pub fn main() -> ExitCode {
    let options = match command::parse::<Receive>(Role::Receiver, &[]) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let data = NamedFile::written("FILE", options.file.as_deref().unwrap_or(Path::new(DASH)), 1);
    match options.transfer.common.generate {
        Some(kind) => generate::print(Role::Receiver, kind, Receive::command()),
        None => run_tool(Role::Receiver, &options.transfer, data, |run| receive(run, &options)),
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
    let attributes = attributes.ok_or_else(|| peer::failure_of_violation(Violation(NO_ATTRIBUTES)))?;
    match attributes.name() {
        Some(name) if file.is_dir() => {
            let path = file.join(name);
            let checked =
                distinct::check(&options.transfer.files(NamedFile::written("the sender's file", &path, 1)));
            checked.map_err(|failure| Failure::new(Code::LocalIo, failure.text))
        }
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

/// Checks that the received data are those that the sender sent and announced.
fn compare(trailer: &Report, announced: Option<u64>, digest: &Digest) -> Result<(), Failure> {
    if trailer.code != 0 {
        return Err(peer::failure_of_report(trailer, Role::Sender));
    }
    let (here, there) = ((digest.bytes(), digest.value()), (trailer.bytes, trailer.checksum));
    if here == there {
        return match announced {
            Some(announced) if announced != here.0 => Err(not_as_announced(announced, here.0)),
            _ => Ok(()),
        };
    }
    let kind = digest.kind();
    if kind == DigestKind::None && here.0 == there.0 {
        return Err(peer::failure_of_violation(Violation("sent a checksum, and none was negotiated")));
    }
    let text = if here.0 == there.0 {
        format!(
            "the received data differ from the sent data: {kind} {:x} here and {:x} at the sender",
            here.1, there.1
        )
    } else {
        format!(
            "the received data differ from the sent data: {} bytes here and {} at the sender",
            here.0, there.0
        )
    };
    Err(Failure::new(Code::Integrity, text + "; send it again"))
}

fn not_as_announced(announced: u64, received: u64) -> Failure {
    let text = format!(
        "the received data differ from the announced length: {announced} bytes announced, {received} received; send it again"
    );
    Failure::new(Code::LocalIo, text)
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
