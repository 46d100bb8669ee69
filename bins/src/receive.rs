//! rrecv.

use crate::attempts::Attempts;
use crate::exit::{Code, Failure};
use crate::generate;
use crate::listen::Place;
use crate::options::{Listening, Receive, is_dash};
use crate::output::Output;
use crate::peer;
use crate::protocol::{Broken, Hello, Report, Role, TAG_DATA, TAG_TRAILER};
use crate::session::{LAST_WORDS, PATIENCE};
use crate::stopped::Stopped;
use crate::tool::{self, Run};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Length, Reason};

/// The whole tool.
#[must_use]
pub fn main() -> ExitCode {
    let options = Receive::parse();
    match options.moving.common.generate {
        Some(kind) => generate::print(Role::Receiver, kind, Receive::command()),
        None => tool::run(Role::Receiver, &options.moving, |run| receive(run, &options)),
    }
}

fn receive(run: &mut Run<'_>, options: &Receive) -> Result<(), Failure> {
    let file = options.file.as_deref().filter(|path| !is_dash(path));
    let name = file.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
    let Listening { listen, accept_timeout } = &options.listening;
    run.start(listen, &name, None, *accept_timeout);
    let deadline = Instant::now() + *accept_timeout;
    let output = Output::open(file, &run.session.signals, deadline)?;
    let mut sink = output.sink()?;
    run.session.pin()?;
    let (mut connection, begun) = begin_with_somebody(run, options, deadline)?;
    let outcome = transfer(run, &mut connection, begun, output, &mut sink);
    run.close(connection, &outcome);
    outcome
}

/// What both ends said before the data.
type Begun = (Hello, DigestKind);

/// The first connection over which a transfer begins. The address is free again then.
fn begin_with_somebody(
    run: &mut Run<'_>,
    options: &Receive,
    deadline: Instant,
) -> Result<(Connection, Begun), Failure> {
    let session = run.session.clone();
    let mut place = Place::listen(&session, &options.listening, run.options())?;
    run.listening(&options.listening.listen, place.address());
    let mut attempts = Attempts::new(place.address().clone());
    loop {
        let mut connection = match place.meet(deadline).map_err(|failure| attempts.explain(failure))? {
            Ok(connection) => connection,
            Err(failure) => {
                attempts.add(&session, &failure);
                continue;
            }
        };
        run.connected(&mut connection)?;
        match begin(run, &mut connection) {
            Ok(begun) => return Ok((connection, begun)),
            Err(failure) if session.signals.failure().is_some() => {
                run.close(connection, &Err(failure.clone()));
                return Err(failure);
            }
            Err(failure) => {
                attempts.add(&session, &failure);
                run.dismiss(connection, failure);
            }
        }
    }
}

/// Waits until the data begin to come: until then nothing is written, and another sender may take this one's place.
fn begin(run: &Run<'_>, connection: &mut Connection) -> Result<Begun, Failure> {
    let (hello, kind) = run.exchange_hellos(connection, None)?;
    let awaited = await_data(run, connection);
    run.settle(awaited, connection, &Digest::new(kind))?;
    Ok((hello, kind))
}

fn await_data(run: &Run<'_>, connection: &mut Connection) -> Result<(), Stopped> {
    let broken = |what| Err(Stopped::Lost(peer::broken(Broken(what))));
    let incoming = connection.incoming(PATIENCE).map_err(|error| run.stopped(&error))?;
    match (incoming.tag, incoming.length) {
        (TAG_DATA, Length::Stream) => Ok(()),
        (TAG_DATA, Length::Exact(_)) => broken("sent its data as a message, not as a stream"),
        // a stream that was cancelled before it had begun
        (TAG_TRAILER, _) => Err(Stopped::ByPeer(Reason::DONE)),
        _ => broken("sent another transfer than its data"),
    }
}

fn transfer(
    run: &mut Run<'_>,
    connection: &mut Connection,
    (hello, kind): Begun,
    mut output: Output,
    sink: &mut Sink,
) -> Result<(), Failure> {
    let mut digest = Digest::new(kind);
    run.meter.start(hello.size_hint);
    let streamed = stream(run, connection, output.name(), sink, &mut digest);
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
    name: &str,
    sink: &mut Sink,
    digest: &mut Digest,
) -> Result<(), Stopped> {
    let mut stream = connection.recv_stream(PATIENCE).map_err(|error| run.stopped(&error))?;
    loop {
        match run.step(|| format!("cannot write to {name}"), || stream.write_to(sink, digest)) {
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
