//! One sender of many: the messages of wire.md 8.1 in their order, without waiting.
//!
//! ```text
//! HELLO --> NAME --> DATA --> STREAM --> TRAILER --> COMMIT --> VERDICT --> gone
//!   |         |        |        |           |          |           ^
//!   +---------+--------+--------+-----------+----------+-----------+   failed at this end
//!                      |        |                                      cancelled: REPORT, then gone
//! ```
//!
//! [`Sender::step`] does what can be done now, and at most one write of data, so that senders take turns. Whatever a sender sends out of turn ends its own transfer
//! only.

use crate::command_line::options::Receive;
use crate::connection::many::{self, First, Inbox, Taken};
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::files::name::{self, NAME_BYTES_MAX, TAG_NAME};
use crate::files::output::{KeptFiles, Output};
use crate::files::preserve::{ATTRIBUTES_BYTES_MAX, Attributes, TAG_ATTRIBUTES};
use crate::protocol::{Hello, REPORT_BYTES_MAX, Report, Role, TAG_DATA, TAG_TRAILER, TAG_VERDICT, Violation};
use crate::quantity::format_duration;
use crate::timeouts::{HELLO_TIMEOUT, REPORT_TIMEOUT};
use crate::transfer::checks::{self, compare, not_as_announced};
use crate::transfer::run::Run;
use crate::transfer::stop_cause::StopCause;
use core::time::Duration;
use std::ffi::OsString;
use std::time::Instant;
use superpipe::io::{Digest, DigestKind, Sink};
use superpipe::{Connection, Drive, Error, IncomingStream, Length, Reason, Received, StreamError, TrySend};

/// What a step needs of the run.
pub(super) struct Context<'a, 'b> {
    pub(super) run: &'a Run<'b>,
    pub(super) options: &'a Receive,
    pub(super) files: &'a KeptFiles,
}

/// A connected sender.
pub(super) struct Sender {
    state: State,
    inbox: Inbox,
    hello: Option<Hello>,
    name: Option<OsString>,
    attributes: Option<Attributes>,
    digest: Digest,
    /// remark in the TRAILER of a sender that succeeded
    remark: String,
    begun_at: Option<Instant>,
    moved_at: Instant,
    /// time by which the state must change
    deadline: Option<Instant>,
}

enum State {
    Hello {
        is_greeted: bool,
    },
    Name,
    Data,
    Stream {
        /// taken by the first step
        stream: Option<IncomingStream>,
        sink: Sink,
        output: Output,
    },
    Trailer {
        output: Output,
    },
    /// the file is being completed elsewhere
    Commit,
    /// the sender cancelled, and may send its report
    Report {
        reason: Reason,
    },
    Verdict {
        report: Vec<u8>,
        code: Code,
        is_sent: bool,
    },
}

/// Result of a step.
pub(super) enum Next {
    /// Nothing more can be done until the sender sends something, or until this end can send if that is true.
    Wait { to_send: bool },
    /// The data are whole, and are those that the sender sent: the file is to be completed.
    Commit(Box<Output>),
}

impl Sender {
    /// Begins with a connection that was made now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: State::Hello { is_greeted: false },
            inbox: Inbox::default(),
            hello: None,
            name: None,
            attributes: None,
            digest: Digest::new(DigestKind::None),
            remark: String::new(),
            begun_at: None,
            moved_at: now,
            deadline: Some(now + HELLO_TIMEOUT),
        }
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The transfer cannot go on. After a failure of this end, [`refuse`](Self::refuse) tells the sender.
    pub(super) fn step(
        &mut self,
        connection: &mut Connection,
        context: &Context<'_, '_>,
    ) -> Result<Next, StopCause> {
        let run = context.run;
        loop {
            match &mut self.state {
                State::Hello { is_greeted } => {
                    let failed = |error: Error| run.stop_cause(&error);
                    if !many::greet(connection, is_greeted, &run.hello_to_many()).map_err(failed)? {
                        return Ok(Next::Wait { to_send: true });
                    }
                    let hello = match self.inbox.take_first(connection, Role::Sender).map_err(failed)? {
                        First::Nothing => return Ok(WAIT),
                        First::Other { .. } => Hello::decode(&[], Role::Sender),
                        First::Hello(hello) => hello,
                    };
                    let hello = hello.map_err(broken)?;
                    self.digest = Digest::new(run.checksum_with(&hello));
                    self.hello = Some(hello);
                    self.state = State::Name;
                }
                State::Name => {
                    let mut room = [0; NAME_BYTES_MAX];
                    match take(run, &mut self.inbox, connection, &mut room)? {
                        Taken::Nothing => return Ok(WAIT),
                        Taken::Message(Received { tag: TAG_NAME, bytes }) => {
                            self.name = Some(name::decode(&room[..bytes]).map_err(broken)?);
                        }
                        // rsend has none, and says so
                        Taken::Message(Received { tag: TAG_TRAILER, bytes }) => {
                            return Err(reported(&room[..bytes]));
                        }
                        Taken::Message(_) | Taken::Another => return Err(broken(NO_NAME)),
                    }
                    self.enter(State::Data, None);
                }
                State::Data => {
                    let next = connection.try_peek().map_err(|error| run.stop_cause(&error))?;
                    // Of attributes that come in parts, the first part is taken already.
                    let (tag, length) = match next {
                        _ if self.inbox.has_part() => (TAG_ATTRIBUTES, Length::Exact(0)),
                        Some(incoming) => (incoming.tag, incoming.length),
                        None => return Ok(WAIT),
                    };
                    match (tag, length) {
                        (TAG_ATTRIBUTES, _) if self.attributes.is_none() => {
                            let mut room = [0; ATTRIBUTES_BYTES_MAX];
                            match take(run, &mut self.inbox, connection, &mut room)? {
                                Taken::Nothing => return Ok(WAIT),
                                Taken::Message(Received { bytes, .. }) => {
                                    let attributes = Attributes::decode(&room[..bytes]).map_err(broken)?;
                                    self.attributes = Some(attributes);
                                }
                                Taken::Another => {
                                    return Err(broken(Violation("sent attributes of the wrong length")));
                                }
                            }
                        }
                        (TAG_DATA, Length::Stream) => self.begin(context)?,
                        (TAG_DATA, Length::Exact(_)) => {
                            return Err(broken(Violation("sent its data as a message, not as a stream")));
                        }
                        // the sender cancelled the stream before its first byte
                        (TAG_TRAILER, _) => return Err(StopCause::ByPeer(Reason::DONE)),
                        _ => return Err(broken(Violation("sent another transfer instead of its data"))),
                    }
                }
                State::Stream { stream, sink, output } => {
                    if stream.is_none() {
                        *stream = connection.try_accept_stream().map_err(|error| run.stop_cause(&error))?;
                    }
                    let Some(stream) = stream else { return Ok(WAIT) };
                    let before = self.digest.bytes();
                    let driven = connection.read_stream_to(stream, sink, &mut self.digest);
                    let moved = self.digest.bytes() - before;
                    if moved > 0 {
                        self.moved_at = Instant::now();
                        run.meter.add(usize::try_from(moved).unwrap_or(usize::MAX));
                    }
                    let driven = driven.map_err(|error| match error {
                        StreamError::Local(error) => StopCause::Local(Failure::local_io(
                            format!("cannot write to {}", output.name()),
                            &error,
                        )),
                        StreamError::Connection(error) => run.stop_cause(&error),
                    })?;
                    let announced = self.hello.and_then(|hello| hello.size_hint);
                    if let Some(announced) = announced.filter(|&announced| self.digest.bytes() > announced) {
                        return Err(StopCause::Local(not_as_announced(announced, self.digest.bytes())));
                    }
                    match driven {
                        Drive::Moved | Drive::Idle => return Ok(WAIT),
                        Drive::Done(()) => {
                            if let State::Stream { output, .. } = self.take_state() {
                                self.enter(State::Trailer { output }, None);
                            }
                        }
                    }
                }
                State::Trailer { .. } => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    let trailer = match take(run, &mut self.inbox, connection, &mut room)? {
                        Taken::Nothing => return Ok(WAIT),
                        Taken::Message(Received { tag: TAG_TRAILER, bytes }) => {
                            Report::decode(&room[..bytes]).map_err(broken)?
                        }
                        Taken::Message(_) | Taken::Another => {
                            return Err(broken(Violation("sent another message instead of its report")));
                        }
                    };
                    let announced = self.hello.and_then(|hello| hello.size_hint);
                    compare(&trailer, announced, &self.digest).map_err(StopCause::Local)?;
                    self.remark = trailer.text;
                    if let State::Trailer { output } = self.take_state() {
                        return Ok(Next::Commit(Box::new(output)));
                    }
                }
                State::Commit => return Ok(WAIT),
                State::Report { reason } => {
                    let failure = peer::failure_of_reason(*reason, Role::Sender);
                    let mut room = [0; REPORT_BYTES_MAX];
                    // without a report the reason is all that is known
                    let Ok(taken) = take(run, &mut self.inbox, connection, &mut room) else {
                        return Err(StopCause::ConnectionFailed(failure));
                    };
                    return match taken {
                        Taken::Nothing => Ok(WAIT),
                        Taken::Message(Received { tag: TAG_TRAILER, bytes }) => Err(reported(&room[..bytes])),
                        Taken::Message(_) | Taken::Another => Err(StopCause::ConnectionFailed(failure)),
                    };
                }
                State::Verdict { report, code, is_sent } => {
                    if !*is_sent {
                        *is_sent = send(run, connection, TAG_VERDICT, report)?;
                    }
                    // whatever comes now is nothing that was agreed on
                    if connection.try_peek().map_err(|error| run.stop_cause(&error))?.is_some() {
                        connection.reject((*code).into());
                    }
                    return Ok(Next::Wait { to_send: !*is_sent });
                }
            }
        }
    }

    /// Begins the file of the stream that comes next.
    fn begin(&mut self, context: &Context<'_, '_>) -> Result<(), StopCause> {
        let Context { run, options, files } = context;
        let admit = || {
            let name = self.name.as_deref().unwrap_or_default();
            checks::check_distinct(options, &files.path_of(name))?;
            let attributes =
                if options.preserve { Some(checks::required(self.attributes.as_ref())?) } else { None };
            let mut output = files.create(name)?;
            if let Some(attributes) = attributes {
                output.preserve(attributes)?;
            }
            if let Some(bytes) = self.hello.and_then(|hello| hello.size_hint) {
                output.check_room(bytes, options.sparse)?;
            }
            let sink = output.sink()?;
            Ok(State::Stream { stream: None, sink, output })
        };
        let stream = admit().map_err(StopCause::Local)?;
        run.meter.start(None);
        self.begun_at = Some(Instant::now());
        self.enter(stream, None);
        Ok(())
    }

    /// Has the failure of this end told to the sender: the next steps send it and reject the sender's data. The file is discarded.
    pub(super) fn refuse(&mut self, failure: &Failure) {
        let text = failure.text.clone();
        self.give_verdict(failure.code, text, REPORT_TIMEOUT);
    }

    /// Has the success told to the sender. The connection is then kept for as long as `timeout`, until the sender has closed it: closing before could discard the
    /// VERDICT.
    pub(super) fn confirm(&mut self, timeout: Duration) {
        self.give_verdict(Code::Done, String::new(), timeout);
    }

    /// Has the report of a sender that cancelled awaited. The file is discarded.
    pub(super) fn await_report(&mut self, reason: Reason) {
        self.enter(State::Report { reason }, Some(Instant::now() + REPORT_TIMEOUT));
    }

    fn give_verdict(&mut self, code: Code, text: String, timeout: Duration) {
        let report =
            Report { code: code.number(), bytes: self.digest.bytes(), checksum: self.digest.value(), text };
        let state = State::Verdict { report: report.encode(), code, is_sent: false };
        self.enter(state, Some(Instant::now() + timeout));
    }

    fn enter(&mut self, state: State, deadline: Option<Instant>) {
        (self.state, self.deadline, self.moved_at) = (state, deadline, Instant::now());
    }

    fn take_state(&mut self) -> State {
        core::mem::replace(&mut self.state, State::Commit)
    }

    /// Returns true once the outcome was reported: nothing that happens to the connection changes it.
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.state, State::Verdict { .. })
    }

    /// Returns true while its file is being completed.
    pub(super) const fn is_committing(&self) -> bool {
        matches!(self.state, State::Commit)
    }

    /// Returns the reason of a sender that cancelled, while its report is awaited.
    pub(super) const fn cancelled(&self) -> Option<Reason> {
        match self.state {
            State::Report { reason } => Some(reason),
            _ => None,
        }
    }

    /// Returns the reason for the close of the connection: a sender that got the VERDICT is to read it before it sees the close.
    pub(super) fn reason(&self) -> Reason {
        match &self.state {
            State::Verdict { is_sent: false, code, .. } => (*code).into(),
            _ => Reason::DONE,
        }
    }

    /// Returns true if the state must have changed by now.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline) || !self.is_settled() && self.inbox.is_late(now)
    }

    /// Returns the time since this sender last moved anything; `None` while it waits for this end.
    pub(super) fn idle(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Commit | State::Verdict { .. } => None,
            _ => Some(now.saturating_duration_since(self.moved_at)),
        }
    }

    /// Returns the failure of a sender that is [late](Self::is_late).
    pub(super) fn late(&self) -> Failure {
        if let State::Report { reason } = self.state {
            return peer::failure_of_reason(reason, Role::Sender);
        }
        let within = format_duration(HELLO_TIMEOUT);
        if self.inbox.has_part() {
            return Failure::new(
                Code::Timeout,
                format!("the peer sent a part of a message, and not the rest within {within}"),
            );
        }
        let what = if self.hello.is_some() { "file name" } else { "HELLO" };
        Failure::new(Code::Timeout, format!("the peer sent no {what} within {within}"))
    }

    /// Returns the name that it sent, for people.
    pub(super) fn name(&self) -> Option<String> {
        self.name.as_ref().map(|name| name.to_string_lossy().into_owned())
    }

    /// Returns the bytes and the checksum of its data so far.
    pub(super) const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the remark of a sender that succeeded.
    pub(super) fn remark(&self) -> &str {
        &self.remark
    }

    /// Returns the time since its data began; `None` if they have not.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.begun_at.as_ref().map(Instant::elapsed)
    }
}

const WAIT: Next = Next::Wait { to_send: false };
/// Violation of a sender that sends no name.
const NO_NAME: Violation = Violation("sent no file name, as this rrecv with --keep asks for");

/// Takes the next message, once it is whole.
fn take(
    run: &Run<'_>,
    inbox: &mut Inbox,
    connection: &mut Connection,
    room: &mut [u8],
) -> Result<Taken, StopCause> {
    inbox.take(connection, room).map_err(|error| run.stop_cause(&error))
}

/// Sends a message. Returns false if there is no room now.
fn send(run: &Run<'_>, connection: &mut Connection, tag: u64, bytes: &[u8]) -> Result<bool, StopCause> {
    let sent = connection.try_send(tag, &[bytes]).map_err(|error| run.stop_cause(&error))?;
    Ok(sent == TrySend::Sent)
}

/// Returns the cause for a sender that ended with this report.
fn reported(bytes: &[u8]) -> StopCause {
    match Report::decode(bytes) {
        Ok(report) if report.code != 0 => {
            StopCause::ConnectionFailed(peer::failure_of_report(&report, Role::Sender))
        }
        Ok(_) => StopCause::ConnectionFailed(peer::failure_of_reason(Reason::DONE, Role::Sender)),
        Err(violation) => broken(violation),
    }
}

fn broken(violation: Violation) -> StopCause {
    StopCause::Local(peer::failure_of_violation(violation))
}
