//! rrecv.

use crate::command;
use crate::exit::{Code, Failure};
use crate::files::{self, Named};
use crate::generate;
use crate::listen::Place;
use crate::options::{DASH, Listening, Receive, is_dash};
use crate::output::Output;
use crate::peer;
use crate::preserve::{ATTRIBUTES_BYTES_MAX, Attributes, TAG_ATTRIBUTES};
use crate::protocol::{Broken, Hello, Report, Role, TAG_DATA, TAG_TRAILER};
use crate::session::{LAST_WORDS, PATIENCE};
use crate::stopped::Stopped;
use crate::tool::{self, Run};
use clap::CommandFactory;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Length, Reason};

/// Why a sender without --preserve is not enough, in words that follow "the peer ".
const NO_ATTRIBUTES: &str = "tells no name, mode and time; start rsend with --preserve, too";

/// The whole tool.
#[must_use]
pub fn main() -> ExitCode {
    let options = match command::parse::<Receive>(Role::Receiver) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let data = Named::written("FILE", options.file.as_deref().unwrap_or(Path::new(DASH)), 1);
    match options.moving.common.generate {
        Some(kind) => generate::print(Role::Receiver, kind, Receive::command()),
        None => tool::run(Role::Receiver, &options.moving, data, |run| receive(run, &options)),
    }
}

fn receive(run: &mut Run<'_>, options: &Receive) -> Result<(), Failure> {
    let file = options.file.as_deref().filter(|path| !is_dash(path));
    let name = file.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
    let Listening { listen, accept_timeout } = &options.listening;
    run.start(listen, &name, None, *accept_timeout)?;
    files::check_terminal(options.file.as_deref())?;
    let deadline = Instant::now() + *accept_timeout;
    let output = match file.filter(|file| options.preserve && file.is_dir()) {
        Some(directory) => Output::open_in(directory, options.old())?,
        None => Output::open_with(file, options.old(), &run.session.signals, *accept_timeout)?,
    };
    if options.preserve && !output.is_file() {
        let text = format!("--preserve: {name} has no mode and time to be kept; name a FILE or a directory");
        return Err(Failure::new(Code::Usage, text));
    }
    let mut sink = output.sink()?;
    run.session.pin()?;
    let (mut connection, begun) = begin_with_somebody(run, options, deadline)?;
    let outcome = transfer(run, &mut connection, begun, output, &mut sink, options);
    run.close(connection, &outcome);
    outcome
}

/// What both ends said before the data.
struct Begun {
    hello: Hello,
    kind: DigestKind,
    attributes: Option<Attributes>,
}

/// The first connection over which a transfer begins. The address is free again then.
fn begin_with_somebody(
    run: &mut Run<'_>,
    options: &Receive,
    deadline: Instant,
) -> Result<(Connection, Begun), Failure> {
    let session = run.session.clone();
    let mut place = Place::listen(&session, &options.listening, run.options())?;
    run.listening(&options.listening.listen, place.address());
    loop {
        let mut connection = place.accept(deadline)?;
        run.connected(&mut connection)?;
        match begin(run, &mut connection, options) {
            Ok(begun) => return Ok((connection, begun)),
            Err(failure) if session.signals.failure().is_some() => {
                run.close(connection, &Err(failure.clone()));
                return Err(failure);
            }
            Err(failure) => {
                place.failed(&failure);
                run.dismiss(connection, failure);
            }
        }
    }
}

/// Waits until the data begin to come: until then nothing is written, and another sender may take this one's place.
fn begin(run: &Run<'_>, connection: &mut Connection, options: &Receive) -> Result<Begun, Failure> {
    let (hello, kind) = run.exchange_hellos(connection, None)?;
    let nothing = Digest::new(kind);
    let mut attributes = None;
    let awaited = await_data(run, connection).map(|told| attributes = told);
    run.settle(awaited, connection, &nothing)?;
    if let Err(failure) = check_attributes(options, attributes.as_ref()) {
        if let Ok(stream) = connection.recv_stream(PATIENCE) {
            stream.reject(failure.code.into());
        }
        return Err(run.session.give_up(connection, failure, &nothing));
    }
    Ok(Begun { hello, kind, attributes })
}

/// Checks that a sender tells what --preserve takes, and, for a directory, no name of a report.
fn check_attributes(options: &Receive, attributes: Option<&Attributes>) -> Result<(), Failure> {
    let (true, Some(file)) = (options.preserve, options.file.as_deref()) else { return Ok(()) };
    let attributes = attributes.ok_or_else(|| peer::broken(Broken(NO_ATTRIBUTES)))?;
    match attributes.name() {
        Some(name) if file.is_dir() => {
            let path = file.join(name);
            let checked = files::check(&options.moving.files(Named::written("the sender's file", &path, 1)));
            checked.map_err(|failure| Failure::new(Code::LocalIo, failure.text))
        }
        _ => Ok(()),
    }
}

/// What stands before the data, and whether these are a stream.
fn await_data(run: &Run<'_>, connection: &mut Connection) -> Result<Option<Attributes>, Stopped> {
    let broken = |what| Stopped::Here(peer::broken(what));
    let mut incoming = connection.incoming(PATIENCE).map_err(|error| run.stopped(&error))?;
    let mut attributes = None;
    if incoming.tag == TAG_ATTRIBUTES {
        let mut bytes = [0; ATTRIBUTES_BYTES_MAX];
        let received =
            connection.recv_into(&mut [&mut bytes], PATIENCE).map_err(|error| run.stopped(&error))?;
        attributes = Some(Attributes::decode(&bytes[..received.bytes]).map_err(broken)?);
        incoming = connection.incoming(PATIENCE).map_err(|error| run.stopped(&error))?;
    }
    match (incoming.tag, incoming.length) {
        (TAG_DATA, Length::Stream) => Ok(attributes),
        (TAG_DATA, Length::Exact(_)) => Err(broken(Broken("sent its data as a message, not as a stream"))),
        // a stream that was cancelled before it had begun
        (TAG_TRAILER, _) => Err(Stopped::ByPeer(Reason::DONE)),
        _ => Err(broken(Broken("sent another transfer than its data"))),
    }
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    begun: Begun,
    mut output: Output,
    sink: &mut Sink,
    options: &Receive,
) -> Result<(), Failure> {
    let Begun { hello, kind, attributes } = begun;
    let mut digest = Digest::new(kind);
    run.meter.start(hello.size_hint);
    let admit = |output: &mut Output| {
        if let Some(attributes) = attributes.filter(|_| options.preserve) {
            output.preserve(&attributes)?;
        }
        hello.size_hint.map_or(Ok(()), |bytes| output.check_room(bytes, options.sparse))
    };
    let streamed = stream(run, connection, &mut output, admit, sink, &mut digest);
    run.computed(&digest);
    run.settle(streamed, connection, &digest)?;
    let trailer = run.session.receive_report(connection, PATIENCE)?;
    let kept = compare(&trailer, hello.size_hint, &digest);
    let kept = kept.and_then(|()| connection.blocking(|| output.commit()));
    if let Err(failure) = kept {
        return Err(run.session.give_up(connection, failure, &digest));
    }
    // All is done here, whatever the sender does. It closes as soon as it has heard; to close before could cost it the verdict
    // where that is still on its way.
    let told = run.session.send_report(connection, Ok(None), &digest, LAST_WORDS);
    let _ = told.and_then(|()| connection.incoming(run.session.common.idle_timeout).map(drop));
    if !trailer.text.is_empty() {
        run.session.say_if(true, &format!("{}: {}", Role::Sender.part(), trailer.text));
    }
    Ok(())
}

/// Checks that what arrived is what was sent, and what was announced.
fn compare(trailer: &Report, announced: Option<u64>, digest: &Digest) -> Result<(), Failure> {
    if trailer.code != 0 {
        return Err(peer::said(trailer, Role::Sender));
    }
    let (here, there) = ((digest.bytes(), digest.value()), (trailer.bytes, trailer.checksum));
    if here == there {
        return match announced {
            Some(announced) if announced != here.0 => Err(Failure::new(
                Code::LocalIo,
                format!(
                    "what arrived is not what was announced: {announced} bytes were, and {} were sent; send it again",
                    here.0
                ),
            )),
            _ => Ok(()),
        };
    }
    let kind = digest.kind();
    let text = if here.0 == there.0 {
        format!("what arrived is not what was sent: {kind} {:x} here and {:x} at the sender", here.1, there.1)
    } else {
        format!("what arrived is not what was sent: {} bytes here and {} at the sender", here.0, there.0)
    };
    Err(Failure::new(Code::Integrity, text + "; send it again"))
}

fn stream(
    run: &Run<'_>,
    connection: &mut Connection,
    output: &mut Output,
    admit: impl FnOnce(&mut Output) -> Result<(), Failure>,
    sink: &mut Sink,
    digest: &mut Digest,
) -> Result<(), Stopped> {
    let mut stream = connection.recv_stream(PATIENCE).map_err(|error| run.stopped(&error))?;
    if let Err(failure) = admit(output) {
        stream.reject(failure.code.into());
        return Err(Stopped::Here(failure));
    }
    loop {
        match run.step(|| format!("cannot write to {}", output.name()), || stream.write_to(sink, digest)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(stopped) => {
                if let Some(code) = stopped.code() {
                    stream.reject(code.into());
                }
                return Err(stopped);
            }
        }
    }
}
