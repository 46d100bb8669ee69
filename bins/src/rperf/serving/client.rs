//! One client of many: the messages of wire.md 8.2 in their order, without waiting.
//!
//! ```text
//! HELLO --> PLAN --> READY --> RUN --> (RECONNECT) --> PERFORM -------> ANSWER: DONE, RECORDS --> RUN --> .. --> ended
//!   |                           |                                         ^
//!   +--> JOIN, and no client    +----> (GATHER) -----> GO --> SPREAD -----+   over many connections
//! ```
//!
//! A failure of this end goes to VERDICT; one that the client may report itself, to REPORT.

mod spread;
mod standing;

use super::budget::Share;
use super::messages::{Answer, expect};
use super::script::{Links, Script, Turn, Turned};
use super::stop::{Stop, broken, of_error, stop, told_by};
use crate::connection::many::{self, First, Inbox, Taken};
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::{Hello, Place, REPORT_BYTES_MAX, Report, Role, TAG_TRAILER, TAG_VERDICT, Violation};
use crate::rperf::end::End;
use crate::rperf::many::exchange::Exchange;
use crate::rperf::messages::{
    Join, Plan, Ready, TAG_DONE, TAG_GO, TAG_JOIN, TAG_PLAN, TAG_READY, TAG_RECORDS, TAG_RUN, default_wait,
};
use crate::rperf::runs::{Done, Pattern, Run};
use crate::rperf::samples::{Samples, Scale};
use crate::rperf::stream::window;
use crate::timeouts::REPORT_TIMEOUT;
use crate::trace::track::Track;
use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::time::Instant;
use superpipe::{Error, Key, Peer, Poller, Received, WaitStrategy};

/// Limit on the time in which a client's further connections, or its new one, come. It exceeds the client's own limit for a new one, so that the client fails first and reports why.
const CONNECTIONS_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a peer in a call that cannot go on without it, and the rate that a message has at least: memory that the peer or a device writes
/// or reads itself is only for calls that wait, and all other clients wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const BYTES_PER_S_LEAST: u64 = 100 << 20;

/// A connected client.
pub(super) struct Client {
    pub(super) control: Key,
    /// connection that replaces the control connection for measured messages
    pub(super) data: Option<Key>,
    /// further connections of its plan, in the order of their numbers
    lanes: Vec<Option<Key>>,
    /// the one of them that is checked
    checked: Option<Key>,
    pub(super) peer: Peer,
    /// what its further connections name it by; 0 before its READY
    pub(super) token: u64,
    state: State,
    inbox: Inbox,
    end: Option<End>,
    pub(super) wait: WaitStrategy,
    deadline: Option<Instant>,
    share: Share,
    /// its first RUN has come
    pub(super) has_begun: bool,
    /// recording goes on after a run that was recorded, since a trace is wanted here
    keeps_recording: bool,
    /// records for that
    pub(super) tracks: Vec<Track>,
    /// steps in which it did something, and how many there were at the last look
    moves: u64,
    moves_seen: u64,
    moved_at: Instant,
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
    /// a run over many connections, of which some have not joined yet
    Gather(Run),
    /// one whose GO is being sent
    Go(Box<Exchange>, Answer),
    Spread(Box<Exchange>),
    /// messages that are sent, and then the next RUN is awaited
    Answer(VecDeque<Answer>),
    /// the client may report why it ended; else this is why
    Report(Failure),
    Verdict {
        answer: Answer,
        code: Code,
    },
}

/// Result of a step.
pub(super) enum Next {
    /// Nothing can be done until something arrives, or until this end can send if the flag is true, at the data connection or the control one.
    Wait { on_data: bool, to_send: bool },
    /// It has more to do.
    Again,
    /// The connection is a further one of another client.
    Join(Join),
    /// Each of its further connections is to be driven.
    Spread,
    /// The client is done.
    End,
}

impl Client {
    /// Begins with a connection that was made now.
    ///
    /// `place` is what this end tells of its core.
    pub(super) fn new(
        control: Key,
        peer: Peer,
        place: Place,
        share: Share,
        deadline: Instant,
        keeps_recording: bool,
    ) -> Self {
        Self {
            control,
            data: None,
            lanes: Vec::new(),
            checked: None,
            peer,
            token: 0,
            state: State::Hello { place, is_greeted: false },
            inbox: Inbox::default(),
            end: None,
            wait: WaitStrategy::Sleep,
            deadline: Some(deadline),
            share,
            has_begun: false,
            keeps_recording,
            tracks: Vec::new(),
            moves: 0,
            moves_seen: 0,
            moved_at: Instant::now(),
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
                let data = self.checked.or(self.data).unwrap_or(self.control);
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
                    let ours = Hello {
                        role: session.role,
                        checksum: None,
                        size_hint: None,
                        place,
                        wants_name: false,
                    };
                    let failed = |error: Error| of_error(session, &error);
                    if !many::greet(control, is_greeted, &ours).map_err(failed)? {
                        return Ok(Next::Wait { on_data: false, to_send: true });
                    }
                    let hello = match self.inbox.take_first(control, Role::Client).map_err(failed)? {
                        First::Nothing => return Ok(WAIT),
                        First::Other { tag: TAG_JOIN, bytes: (bytes, count) } => {
                            return Join::decode(&bytes[..count]).map(Next::Join).map_err(broken);
                        }
                        First::Other { .. } => Hello::decode(&[], Role::Client),
                        First::Hello(hello) => hello,
                    };
                    let hello = hello.map_err(broken)?;
                    session.settle_listener(&place, &hello.place).map_err(Stop::Tell)?;
                    // A client that says nothing more keeps its place: it is one of those that are idle.
                    self.enter(State::Plan, None);
                }
                State::Plan => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    let Some(bytes) = expect(session, (&mut self.inbox, control), TAG_PLAN, &mut room, true)?
                    else {
                        return Ok(WAIT);
                    };
                    let plan = Plan::decode(bytes).map_err(broken)?;
                    let wait = plan.wait.unwrap_or_else(|| default_wait(plan.core, session.core()));
                    control.set_wait(wait);
                    self.wait = wait;
                    let mut end = End::new(session.role, plan, None);
                    end.patience = PATIENCE + Duration::from_secs(plan.bytes_max / BYTES_PER_S_LEAST);
                    self.end = Some(end);
                    self.share.reserve(plan.further()).map_err(Stop::Tell)?;
                    self.lanes = vec![None; usize::try_from(plan.further()).unwrap_or(0)];
                    // not 0, and nothing that others can guess
                    self.token = RandomState::new().hash_one(0) | 1;
                    let joins = self.peer.is_anonymous();
                    let ready = Ready { wait, core: session.core(), token: self.token, joins };
                    self.enter(State::Answer([Answer::new(TAG_READY, ready.encode().to_vec())].into()), None);
                }
                State::Run => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    let bytes = match expect(
                        session,
                        (&mut self.inbox, control),
                        TAG_RUN,
                        &mut room,
                        !self.has_begun,
                    ) {
                        Ok(Some(bytes)) => bytes,
                        Ok(None) => return Ok(WAIT),
                        Err(Stop::Lost(failure)) if failure.code == Code::Done => return Ok(Next::End),
                        Err(stop) => return Err(stop),
                    };
                    let Some(end) = &self.end else { return Ok(Next::End) };
                    let run = Run::decode(bytes, &end.plan).map_err(broken)?;
                    self.has_begun = true;
                    if self.lanes.contains(&None) {
                        self.enter(State::Gather(run), Some(Instant::now() + CONNECTIONS_TIMEOUT));
                        return Ok(WAIT);
                    }
                    if run.is_reconnected {
                        self.enter(State::Reconnect(run), Some(Instant::now() + CONNECTIONS_TIMEOUT));
                        return Ok(Next::Wait { on_data: false, to_send: false });
                    }
                    self.begin(poller, session, run)?;
                }
                State::Reconnect(_) => return Ok(WAIT),
                State::Gather(run) => {
                    let run = *run;
                    if self.lanes.contains(&None) {
                        return Ok(WAIT);
                    }
                    self.begin(poller, session, run)?;
                }
                State::Go(_, go) => {
                    if !go.drive(control).map_err(|error| of_error(session, &error))? {
                        return Ok(Next::Wait { on_data: false, to_send: true });
                    }
                    let State::Go(mut exchange, _) = core::mem::replace(&mut self.state, State::Run) else {
                        return Ok(WAIT);
                    };
                    exchange.start();
                    self.enter(State::Spread(exchange), None);
                    return Ok(Next::Spread);
                }
                State::Spread(_) => {
                    let mut room = [0; REPORT_BYTES_MAX];
                    // nothing but its report may come there
                    return match expect(session, (&mut self.inbox, control), 0, &mut room, true)? {
                        None => Ok(WAIT),
                        Some(_) => Err(broken(Violation("sent a message out of turn"))),
                    };
                }
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
                    // without a report, that failure is all that is known, unless the close says more
                    let taken = match self.inbox.take(control, &mut room) {
                        Ok(taken) => taken,
                        Err(error) => return Err(Stop::Lost(told_by(&error).unwrap_or(failure))),
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
        if end.plan.is_many() && run.pattern != Pattern::Check {
            // The interest in that connection is now as that in all others.
            self.checked = None;
            end.release();
            let connections = usize::try_from(end.plan.connections).unwrap_or(0);
            self.share.set(Exchange::buffer_bytes(&run, false, connections)).map_err(Stop::Tell)?;
            let check_stop = || session.signals.failure().map_or(Ok(()), Err);
            let exchange = Exchange::new(run, false, connections, &check_stop).map_err(Stop::Tell)?;
            self.enter(State::Go(Box::new(exchange), Answer::new(TAG_GO, Vec::new())), None);
            return Ok(());
        }
        let lane = usize::try_from(run.connection).unwrap_or(0).checked_sub(1);
        self.checked = lane.and_then(|lane| self.lanes.get(lane).copied().flatten());
        let data = self.checked.or(self.data).unwrap_or(self.control);
        let Some(data) = poller.connection(data) else { return Ok(()) };
        if run.is_recorded {
            data.record(true);
        }
        let bytes = buffer_bytes(&run, end).saturating_add(Samples::bytes(&run, session.role));
        self.share.set(bytes).map_err(Stop::Tell)?;
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
        let (messages, figures) = match run.pattern {
            Pattern::Stream => (samples.count(), samples.figures(Scale { trips: 1, reading_ns: 0 })),
            _ => Default::default(),
        };
        let mut answers = VecDeque::new();
        let done = Done { figures, cpu_ns, wall_ns, messages };
        answers.push_back(Answer::new(TAG_DONE, done.encode().to_vec()));
        if run.is_recorded
            && let Some(data) = poller.connection(self.measured().unwrap_or(self.control))
        {
            let track = Track::take(Role::Server.tool(), data);
            data.record(self.keeps_recording);
            if self.keeps_recording {
                self.tracks.push(track.clone());
            }
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
        self.moves += 1;
    }

    /// Notes whether it has done something since the last look. Returns the time since it did.
    pub(super) fn idle(&mut self, now: Instant) -> Duration {
        let moves = match &self.state {
            State::Perform(script) => self.moves.wrapping_add(script.messages()),
            _ => self.moves,
        };
        if moves != self.moves_seen {
            (self.moves_seen, self.moved_at) = (moves, now);
        }
        now.saturating_duration_since(self.moved_at)
    }
}

/// Returns the bytes of the buffers of a run at this end.
fn buffer_bytes(run: &Run, end: &End) -> u64 {
    let count = match run.pattern {
        Pattern::Stream if end.plan.is_prepared() => window(run.bytes, false) as u64,
        Pattern::Stream => 1,
        Pattern::Check | Pattern::Pingpong | Pattern::Both => 2,
    };
    run.bytes.saturating_mul(count)
}

const WAIT: Next = Next::Wait { on_data: false, to_send: false };
