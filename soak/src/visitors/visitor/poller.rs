//! Some connections, by a poller.

use core::time::Duration;
use std::collections::HashMap;
use std::time::Instant;

use superpipe::{Connection, Interest, Key, PollEvent, PollEvents, Poller, PollerOptions, Reason};

use super::super::HANG_TIMEOUT;
use super::super::counts::Counts;
use super::super::message::{Pool, Side};
use super::super::talk::{Stop, Talk, pause};
use super::Visit;
use crate::random::Random;

/// Questions without an answer, at most.
const OPEN_MAX: u32 = 4;
/// Longest wait of a poll: pauses end, and loans are given back.
const LOOK: Duration = Duration::from_millis(2);

/// One connection.
struct Asking {
    talk: Talk,
    questions: u32,
    drops: bool,
    random: Random,
    /// Time at which the next question is due.
    due: Instant,
}

pub(super) fn run(visit: &Visit<'_>) -> Result<(), String> {
    let failed = |error: superpipe::Error| error.to_string();
    let connections = visit.connections();
    let options = PollerOptions { connections_max: connections, ..PollerOptions::default() };
    let mut poller = Poller::new(options).map_err(failed)?;
    let (mut asking, mut counts) = (HashMap::new(), Counts::default());
    for connection in 0..connections {
        let mut plan = visit.plan(connection);
        let key = poller.connect(&visit.address, plan.options, HANG_TIMEOUT).map_err(failed)?;
        let random = Random::new(&[plan.random.word()]);
        let talk = Talk::new(Side::Visitor, Some(plan.id), random);
        let (questions, drops, random) = (plan.questions, plan.drops, plan.random);
        asking.insert(key, Asking { talk, questions, drops, random, due: Instant::now() });
    }
    let mut is_there: Vec<Key> = Vec::new();
    let mut events = PollEvents::with_capacity(8);
    while !asking.is_empty() {
        poller.poll(&mut events, LOOK).map_err(failed)?;
        for event in &events {
            match event {
                PollEvent::Connected { connection } => is_there.push(connection),
                PollEvent::Readable { .. } | PollEvent::Writable { .. } => {}
                PollEvent::ConnectFailed { connection, .. } => {
                    return Err(format!("connect: {:?}", poller.take_error(connection)));
                }
                other => return Err(format!("{other:?}")),
            }
        }
        // All of them: a pause may be over, and loans are given back.
        let mut gone = Vec::new();
        for key in &is_there {
            let (Some(one), Some(connection)) = (asking.get_mut(key), poller.connection(*key)) else {
                continue;
            };
            let is_over =
                one.turn(connection, visit.pool, &mut counts).map_err(|stop| format!("{stop:?}"))?;
            let writable = one.wants_to_send();
            poller.set_interest(*key, Interest { readable: true, writable });
            if is_over {
                gone.push(*key);
            }
        }
        for key in gone {
            is_there.retain(|one| *one != key);
            let (Some(one), Some(connection)) = (asking.remove(&key), poller.remove(key)) else {
                return Err(format!("{key:?} names nothing"));
            };
            one.leave(connection, visit.pool)?;
        }
    }
    match poller.connection_count() {
        0 => Ok(()),
        count => Err(format!("{count} places are taken, and there is no connection")),
    }
}

impl Asking {
    fn wants_to_send(&self) -> bool {
        let Talk { sent, received, .. } = self.talk;
        let may_ask = sent < self.questions && sent - received < OPEN_MAX && self.due <= Instant::now();
        self.talk.is_sending() || may_ask
    }

    /// Receives, asks, and gives a loan back. Returns true once it is over.
    fn turn(&mut self, connection: &mut Connection, pool: &Pool, counts: &mut Counts) -> Result<bool, Stop> {
        while self.talk.receive(connection, pool, counts)? {}
        if self.wants_to_send() && self.talk.send(connection, pool, counts)? {
            self.due = Instant::now() + pause(&mut self.random);
        }
        self.talk.give_back(connection, pool)?;
        let Talk { sent, received, .. } = self.talk;
        self.talk.check_progress(sent > received || self.talk.is_sending()).map_err(Stop::Wrong)?;
        // One that drops its connection leaves an answer, or a question that is on its way.
        Ok(if self.drops {
            sent + u32::from(self.talk.is_sending()) >= self.questions
        } else {
            received == self.questions
        })
    }

    fn leave(mut self, mut connection: Connection, pool: &Pool) -> Result<(), String> {
        if self.drops {
            return Ok(());
        }
        while self.talk.held() > 0 {
            self.talk.give_back(&mut connection, pool).map_err(|stop| format!("{stop:?}"))?;
        }
        connection.close(Reason::DONE, HANG_TIMEOUT).map_err(|error| format!("close: {error}"))
    }
}
