//! One client of many: the messages of wire.md 8.2 in their order, without waiting.
//!
//! ```text
//! HELLO --> PLAN --> READY --> RUN --> (RECONNECT) --> PERFORM --> ANSWER: DONE, RECORDS --> RUN --> .. --> ended
//! ```
//!
//! A failure of this end goes to VERDICT; one that the client may report itself, to REPORT.

use super::buffer_budget::BufferShare;
use super::script::{Links, Script, Turn, Turned};
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::{
    HELLO_BYTES, Hello, Place, REPORT_BYTES_MAX, Report, Role, TAG_HELLO, TAG_TRAILER, TAG_VERDICT, Violation,
};
use crate::quantity::format_duration;
use crate::rperf::end::End;
use crate::rperf::link::MessageError;
use crate::rperf::messages::{
    Plan, Ready, TAG_DONE, TAG_PLAN, TAG_READY, TAG_RECORDS, TAG_RUN, default_wait,
};
use crate::rperf::runs::{Done, Pattern, Run};
use crate::rperf::samples::Scale;
use crate::rperf::stream::window;
use crate::timeouts::REPORT_TIMEOUT;
use crate::trace::track::Track;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;
use superpipe::{
    Connection, Drive, Error, ErrorKind, Key, Length, Peer, Poller, Received, SendOperation, TryRecv,
    WaitStrategy,
};

/// Limit on the time of a client's reconnect. It exceeds the client's own limit, so that the client fails first and reports why.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a peer in a call that cannot go on without it, and the rate that a message has at least: memory that the peer or a device writes
/// or reads itself is only for calls that wait, and all other clients wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const BYTES_PER_S_LEAST: u64 = 100 << 20;

/// A connected client.
pub(super) struct Client {
    pub(super) control: Key,
    pub(super) data: Option<Key>,
    pub(super) peer: Peer,
    state: State,
    end: Option<End>,
    pub(super) wait: WaitStrategy,
    deadline: Option<Instant>,
    buffers: BufferShare,
    /// its first RUN has come
    pub(super) has_begun: bool,
}

enum State {
    Hello {
        place: Place,
        is_greeted: bool,
    },
    Plan,
    Run,
    Reconnect(Run),
    Perform(Box<Script>),
    /// messages that are sent, and then the next RUN is awaited
    Answer(VecDeque<Answer>),
    /// the client may report why it ended; else this is why
    Report(Failure),
    Verdict {
        answer: Answer,
        code: Code,
    },
}

/// A message that is sent.
struct Answer {
    tag: u64,
    bytes: Vec<u8>,
    send: SendOperation,
    is_sent: bool,
}

/// Result of a step.
pub(super) enum Next {
    /// Nothing can be done until something arrives, or until this end can send if the flag is true, at the data connection or the control one.
    Wait { on_data: bool, to_send: bool },
    /// It has more to do.
    Again,
    /// The client is done.
    End,
}

/// Cause for which a client ends.
pub(super) enum Stop {
    /// A failure that it is told of.
    Tell(Failure),
    /// It has ended, or failed by itself, and may have sent a report.
    Ask(Failure),
    /// Nothing can be said.
    Lost(Failure),
}

impl Client {
    /// Begins with a connection that was made now.
    ///
    /// `place` is what this end tells of its core.
    pub(super) fn new(
        control: Key,
        peer: Peer,
        place: Place,
        buffers: BufferShare,
        deadline: Instant,
    ) -> Self {
        Self {
            control,
            data: None,
            peer,
            state: State::Hello { place, is_greeted: false },
            end: None,
            wait: WaitStrategy::Sleep,
            deadline: Some(deadline),
            buffers,
            has_begun: false,
        }
    }

    /// Does what can be done now.
    ///
    /// # Errors
    /// The measurement cannot go on.
    pub(super) fn step(
        &mut self,
        poller: &mut Poller,
        session: &Session<'_>,
        turn: Turn,
    ) -> Result<Next, Stop> {
        loop {
            if let State::Perform(script) = &mut self.state {
                let data = self.data.unwrap_or(self.control);
                let Some(end) = &mut self.end else { return Ok(Next::End) };
                let mut links = Links { poller, control: self.control, data };
                return match script.turn(end, &mut links, &session.signals, turn) {
                    Ok(Turned::More) => Ok(Next::Again),
                    Ok(Turned::Idle(to_send)) => Ok(Next::Wait { on_data: true, to_send }),
                    Ok(Turned::Done) => {
                        self.answer(poller)?;
                        continue;
                    }
                    Err(error) => Err(stop(session, error)),
                };
            }
            let Some(control) = poller.connection(self.control) else { return Ok(WAIT) };
            match &mut self.state {
                State::Hello { place, is_greeted } => {
                    let place = *place;
                    if !*is_greeted {
                        let hello = Hello {
                            role: session.role,
                            checksum: None,
                            size_hint: None,
                            place,
                            wants_name: false,
                        };
                        let sent = control.try_send(TAG_HELLO, &[&hello.encode()]);
                        *is_greeted =
                            sent.map_err(|error| of_error(session, &error))? == superpipe::TrySend::Sent;
                    }
                    let mut room = [0; HELLO_BYTES];
                    let hello = match take(session, control, &mut room)? {
                        Taken::Nothing => return Ok(WAIT),
                        Taken::Message(Received { tag: TAG_HELLO, bytes }) => {
                            Hello::decode(&room[..bytes], Role::Client)
                        }
                        Taken::Message(_) | Taken::Another => Hello::decode(&[], Role::Client),
                    };
                    let hello = hello.map_err(broken)?;
                    session.settle_listener(&place, &hello.place).map_err(Stop::Tell)?;
                    // A client that says nothing more keeps its place: it is one of those that are idle.
                    self.enter(State::Plan, None);
                }
                State::Plan => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    let Some(bytes) = expect(session, control, TAG_PLAN, &mut room, true)? else {
                        return Ok(WAIT);
                    };
                    let plan = Plan::decode(bytes).map_err(broken)?;
                    let wait = plan.wait.unwrap_or_else(|| default_wait(plan.core, session.core()));
                    control.set_wait(wait);
                    self.wait = wait;
                    let mut end = End::new(session.role, plan, None);
                    end.patience = PATIENCE + Duration::from_secs(plan.bytes_max / BYTES_PER_S_LEAST);
                    self.end = Some(end);
                    let ready = Ready { wait, core: session.core() };
                    self.enter(State::Answer([Answer::new(TAG_READY, ready.encode().to_vec())].into()), None);
                }
                State::Run => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    let bytes = match expect(session, control, TAG_RUN, &mut room, !self.has_begun) {
                        Ok(Some(bytes)) => bytes,
                        Ok(None) => return Ok(WAIT),
                        Err(Stop::Lost(failure)) if failure.code == Code::Done => return Ok(Next::End),
                        Err(stop) => return Err(stop),
                    };
                    let Some(end) = &self.end else { return Ok(Next::End) };
                    let run = Run::decode(bytes, &end.plan).map_err(broken)?;
                    self.has_begun = true;
                    if run.is_reconnected {
                        self.enter(State::Reconnect(run), Some(Instant::now() + RECONNECT_TIMEOUT));
                        return Ok(Next::Wait { on_data: false, to_send: false });
                    }
                    self.begin(poller, session, run)?;
                }
                State::Reconnect(_) => return Ok(WAIT),
                State::Answer(answers) => {
                    while let Some(answer) = answers.front_mut() {
                        if !answer.drive(control).map_err(|error| of_error(session, &error))? {
                            return Ok(Next::Wait { on_data: false, to_send: true });
                        }
                        answers.pop_front();
                    }
                    self.enter(State::Run, None);
                }
                State::Report(failure) => {
                    let failure = failure.clone();
                    let mut room = [0; REPORT_BYTES_MAX];
                    // without a report, that failure is all that is known
                    let Ok(taken) = take(session, control, &mut room) else {
                        return Err(Stop::Lost(failure));
                    };
                    return match taken {
                        Taken::Nothing => Ok(WAIT),
                        Taken::Message(Received { tag: TAG_TRAILER, bytes }) => {
                            let report = Report::decode(&room[..bytes]).map_err(broken)?;
                            let failure = if report.code == 0 {
                                failure
                            } else {
                                peer::failure_of_report(&report, Role::Client)
                            };
                            Err(Stop::Lost(failure))
                        }
                        Taken::Message(_) => Ok(Next::Again),
                        Taken::Another => Err(Stop::Lost(failure)),
                    };
                }
                State::Verdict { answer, code } => {
                    let is_sent = answer.drive(control).map_err(|error| of_error(session, &error))?;
                    if control.try_peek().map_err(|error| of_error(session, &error))?.is_some() {
                        control.reject((*code).into());
                    }
                    return Ok(Next::Wait { on_data: false, to_send: !is_sent });
                }
                State::Perform(_) => return Ok(Next::Again),
            }
        }
    }

    /// Begins a run, on the data connection if there is one.
    fn begin(&mut self, poller: &mut Poller, session: &Session<'_>, run: Run) -> Result<(), Stop> {
        let Some(end) = &mut self.end else { return Ok(()) };
        let Some(data) = poller.connection(self.data.unwrap_or(self.control)) else { return Ok(()) };
        if run.is_recorded {
            data.record(true);
        }
        self.buffers.set(buffer_bytes(&run, end)).map_err(Stop::Tell)?;
        end.set_up(data, session, &run).map_err(|error| stop(session, error))?;
        let script = Script::new(run, end, &data.description());
        self.enter(State::Perform(Box::new(script)), None);
        Ok(())
    }

    /// Takes the connection that the client made anew. Returns the one that it replaces, and whether the run could begin.
    pub(super) fn reconnected(
        &mut self,
        data: Key,
        poller: &mut Poller,
        session: &Session<'_>,
    ) -> (Option<Key>, Result<(), Stop>) {
        let replaced = self.data.replace(data);
        if let Some(connection) = poller.connection(data) {
            connection.set_wait(self.wait);
        }
        let begun = match self.state {
            State::Reconnect(run) => self.begin(poller, session, run),
            _ => Ok(()),
        };
        (replaced, begun)
    }

    /// Has the figures of the run sent that has been performed.
    fn answer(&mut self, poller: &mut Poller) -> Result<(), Stop> {
        let State::Perform(script) = core::mem::replace(&mut self.state, State::Run) else { return Ok(()) };
        let (run, samples, (cpu_ns, wall_ns)) = script.finish();
        if let Some(end) = &mut self.end {
            end.check_contents().map_err(Stop::Tell)?;
        }
        let figures = match run.pattern {
            Pattern::Stream => samples.figures(Scale { trips: 1, reading_ns: 0 }),
            _ => Default::default(),
        };
        let mut answers = VecDeque::new();
        answers.push_back(Answer::new(TAG_DONE, Done { figures, cpu_ns, wall_ns }.encode().to_vec()));
        if run.is_recorded
            && let Some(data) = poller.connection(self.data.unwrap_or(self.control))
        {
            let track = Track::take(Role::Server.tool(), data);
            data.record(false);
            answers.push_back(Answer::new(TAG_RECORDS, track.encode()));
        }
        self.enter(State::Answer(answers), None);
        Ok(())
    }

    /// Has the client told why this end fails.
    pub(super) fn refuse(&mut self, failure: &Failure) {
        let report =
            Report { code: failure.code.number(), bytes: 0, checksum: 0, text: failure.text.clone() };
        let state = State::Verdict { answer: Answer::new(TAG_VERDICT, report.encode()), code: failure.code };
        self.enter(state, Some(Instant::now() + REPORT_TIMEOUT));
    }

    /// Has the client's own report awaited; without one, `failure` is why it ended.
    pub(super) fn await_report(&mut self, failure: Failure) {
        self.enter(State::Report(failure), Some(Instant::now() + REPORT_TIMEOUT));
    }

    fn enter(&mut self, state: State, deadline: Option<Instant>) {
        (self.state, self.deadline) = (state, deadline);
    }

    /// Returns true while it performs a run.
    pub(super) const fn is_performing(&self) -> bool {
        matches!(self.state, State::Perform(_))
    }

    /// Returns true if it awaits a new connection of its client.
    pub(super) const fn is_reconnecting(&self) -> bool {
        matches!(self.state, State::Reconnect(_))
    }

    /// Returns true while its HELLO is awaited, which has a deadline of its own.
    pub(super) const fn awaits_hello(&self) -> bool {
        matches!(self.state, State::Hello { .. })
    }

    /// Returns true once its outcome was reported.
    pub(super) const fn is_settled(&self) -> bool {
        matches!(self.state, State::Verdict { .. })
    }

    /// Returns the failure for which a client ended whose report is awaited.
    pub(super) fn asked(&self) -> Option<Failure> {
        match &self.state {
            State::Report(failure) => Some(failure.clone()),
            _ => None,
        }
    }

    /// Returns true if the state must have changed by now.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Returns the failure of a client that is late, after this time for its HELLO.
    pub(super) fn late(&self, hello_timeout: Duration) -> Failure {
        match &self.state {
            State::Report(failure) => failure.clone(),
            State::Reconnect(_) => {
                let within = format_duration(RECONNECT_TIMEOUT);
                Failure::new(Code::Connect, format!("the client made no new connection within {within}"))
            }
            _ => {
                let within = format_duration(hello_timeout);
                Failure::new(Code::Timeout, format!("the peer sent no HELLO within {within}"))
            }
        }
    }
}

impl Answer {
    fn new(tag: u64, bytes: Vec<u8>) -> Self {
        let send = SendOperation::new(tag, bytes.len());
        Self { tag, bytes, send, is_sent: false }
    }

    /// Sends what can be sent now. Returns true once all is sent.
    fn drive(&mut self, connection: &mut Connection) -> Result<bool, Error> {
        while !self.is_sent {
            match connection.drive_send(&mut self.send, &[&self.bytes])? {
                Drive::Done(()) => self.is_sent = true,
                Drive::Moved => {}
                Drive::Idle => return Ok(false),
            }
        }
        debug_assert!(self.tag != 0, "tags of messages are not 0");
        Ok(true)
    }
}

/// Returns the bytes of the buffers of a run at this end.
fn buffer_bytes(run: &Run, end: &End) -> u64 {
    let count = match run.pattern {
        Pattern::Stream if end.plan.is_prepared() => window(run.bytes, false) as u64,
        Pattern::Stream => 1,
        Pattern::Check | Pattern::Pingpong => 2,
    };
    run.bytes.saturating_mul(count)
}

const WAIT: Next = Next::Wait { on_data: false, to_send: false };

/// A message that was taken.
enum Taken {
    Nothing,
    Message(Received),
    /// one that is longer than the room, or a stream
    Another,
}

/// Takes the next message, if it is whole.
fn take(session: &Session<'_>, connection: &mut Connection, room: &mut [u8]) -> Result<Taken, Stop> {
    let most = room.len() as u64;
    Ok(match connection.try_recv(&mut [room]).map_err(|error| of_error(session, &error))? {
        TryRecv::Nothing => Taken::Nothing,
        TryRecv::Received(received) => Taken::Message(received),
        TryRecv::Incomplete(incoming) if matches!(incoming.length, Length::Exact(bytes) if bytes <= most) => {
            Taken::Nothing
        }
        TryRecv::Incomplete(_) | TryRecv::TooSmall(_) => Taken::Another,
    })
}

/// Takes the next message, which must have this tag, or be the client's report. `is_early`: a report of success is one too early.
fn expect<'a>(
    session: &Session<'_>,
    connection: &mut Connection,
    tag: u64,
    room: &'a mut [u8],
    is_early: bool,
) -> Result<Option<&'a [u8]>, Stop> {
    match take(session, connection, room)? {
        Taken::Nothing => Ok(None),
        Taken::Message(received) if received.tag == tag => Ok(Some(&room[..received.bytes])),
        Taken::Message(Received { tag: TAG_TRAILER, bytes }) => {
            let report = Report::decode(&room[..bytes]).map_err(broken)?;
            match report.code {
                0 if is_early => Err(broken(Violation("ended the measurement early"))),
                0 => Err(Stop::Lost(Failure::new(Code::Done, ""))),
                _ => Err(Stop::Lost(peer::failure_of_report(&report, Role::Client))),
            }
        }
        Taken::Message(_) => Err(broken(Violation("sent a message out of turn"))),
        Taken::Another => Err(broken(Violation("sent another message than the expected one"))),
    }
}

fn stop(session: &Session<'_>, error: MessageError) -> Stop {
    match error {
        MessageError::Local(failure) => Stop::Tell(failure),
        MessageError::Library(error) => of_error(session, &error),
        MessageError::Unexpected => Stop::Ask(unexpected()),
    }
}

fn of_error(session: &Session<'_>, error: &Error) -> Stop {
    match error.kind() {
        ErrorKind::Closed(reason) | ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) => {
            Stop::Ask(peer::failure_of_reason(reason, Role::Client))
        }
        ErrorKind::TooSmall => Stop::Ask(unexpected()),
        _ => Stop::Lost(session.failure(error)),
    }
}

fn unexpected() -> Failure {
    peer::failure_of_violation(Violation("sent another message than the expected one"))
}

fn broken(violation: Violation) -> Stop {
    Stop::Tell(peer::failure_of_violation(violation))
}
