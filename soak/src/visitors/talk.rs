//! One end of a visit, by calls that do not wait: sends its messages, and receives and compares those of the other end.

use core::time::Duration;
use std::time::Instant;

use superpipe::{
    Connection, Drive, Error, ErrorKind, Loan, RecvOperation, Reserved, SendOperation, TryRecvLoan,
    TryReserve, TrySend,
};

use super::HANG_TIMEOUT;
use super::counts::{Counts, Event};
use super::message::{Id, Message, Pool, Side};
use crate::random::Random;

/// Loans that are held, at most, before one is given back.
const HELD_MAX: usize = 4;
/// Most bytes of a message that one call sends.
const AT_ONCE_BYTES: usize = 60 << 10;

/// Reason for the end of a visit.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The connection has ended, or a message was cancelled.
    Ended(ErrorKind),
    /// Something arrived that should not have.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Ended(error.kind())
    }
}

/// Receiving of a message that was begun.
struct Receiving {
    message: Message,
    operation: RecvOperation,
    buffer: Vec<u8>,
}

/// One end of a visit.
pub(crate) struct Talk {
    side: Side,
    /// The host learns it from the first message.
    pub(crate) id: Option<Id>,
    random: Random,
    pub(crate) sent: u32,
    pub(crate) received: u32,
    sending: Option<(Message, SendOperation)>,
    receiving: Option<Receiving>,
    held: Vec<(Loan, Message)>,
    /// Time of the last movement, or at which nothing was due.
    progress: Instant,
}

impl Talk {
    pub(crate) fn new(side: Side, id: Option<Id>, random: Random) -> Self {
        Self {
            side,
            id,
            random,
            sent: 0,
            received: 0,
            sending: None,
            receiving: None,
            held: Vec::new(),
            progress: Instant::now(),
        }
    }

    const fn other_side(&self) -> Side {
        match self.side {
            Side::Visitor => Side::Host,
            Side::Host => Side::Visitor,
        }
    }

    /// Returns true while a message is being sent.
    pub(crate) const fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Returns the number of loans that are held.
    pub(crate) const fn held(&self) -> usize {
        self.held.len()
    }

    /// Fails if something was due for too long. `is_due`: the other end waits for this one, or this one for the other.
    pub(crate) fn check_progress(&mut self, is_due: bool) -> Result<(), String> {
        if !is_due {
            self.progress = Instant::now();
        }
        if self.progress.elapsed() < HANG_TIMEOUT {
            return Ok(());
        }
        let Self { id, sent, received, .. } = self;
        let seconds = HANG_TIMEOUT.as_secs();
        Err(format!("{id:?} starved for {seconds} s after {sent} messages were sent and {received} received"))
    }

    /// Receives what is there of the next message. Returns true once a message is complete.
    pub(crate) fn receive(
        &mut self,
        connection: &mut Connection,
        pool: &Pool,
        counts: &mut Counts,
    ) -> Result<bool, Stop> {
        if self.receiving.is_none() {
            let Some(incoming) = connection.try_peek()? else { return Ok(false) };
            let id = *self.id.get_or_insert(Id::of_tag(incoming.tag));
            let message = Message::new(pool, id, self.other_side(), self.received + 1);
            if incoming.tag != message.tag() {
                return Err(Stop::Wrong(format!("{incoming:?} instead of {message:?}")));
            }
            if self.random.chance(50) {
                match connection.try_recv_loan()? {
                    TryRecvLoan::Loan(loan) => return self.hold(connection, pool, loan, message, counts),
                    TryRecvLoan::Nothing | TryRecvLoan::Incomplete(_) => return Ok(false),
                    TryRecvLoan::Elsewhere(_) | TryRecvLoan::Full(_) => {}
                }
            }
            // Never the contents of another message.
            let buffer = vec![!pool_byte(message, pool); message.bytes];
            self.receiving = Some(Receiving { message, operation: RecvOperation::new(), buffer });
        }
        let Some(Receiving { message, operation, buffer }) = &mut self.receiving else { return Ok(false) };
        match connection.drive_recv(operation, &mut [&mut buffer[..]]) {
            Err(error) => {
                self.receiving = None;
                Err(error.into())
            }
            Ok(Drive::Idle) => Ok(false),
            Ok(Drive::Moved) => {
                self.progress = Instant::now();
                Ok(false)
            }
            Ok(Drive::Done(received)) => {
                message.check(pool, received.tag, &buffer[..received.bytes]).map_err(Stop::Wrong)?;
                counts.add(Event::Received);
                self.receiving = None;
                self.count_received();
                Ok(true)
            }
        }
    }

    fn hold(
        &mut self,
        connection: &mut Connection,
        pool: &Pool,
        loan: Loan,
        message: Message,
        counts: &mut Counts,
    ) -> Result<bool, Stop> {
        message.check_spans(pool, loan.tag(), connection.loan_spans(&loan)?).map_err(Stop::Wrong)?;
        self.held.push((loan, message));
        counts.add(Event::Loaned);
        self.count_received();
        if self.held.len() > HELD_MAX {
            self.give_back(connection, pool)?;
        }
        Ok(true)
    }

    fn count_received(&mut self) {
        self.received += 1;
        self.progress = Instant::now();
    }

    /// Gives back one of the loans that are held, any of them. It still is what it was.
    pub(crate) fn give_back(&mut self, connection: &mut Connection, pool: &Pool) -> Result<(), Stop> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (loan, message) = self.held.swap_remove(self.random.below(self.held.len()));
        message.check_spans(pool, loan.tag(), connection.loan_spans(&loan)?).map_err(Stop::Wrong)?;
        connection.give_back(loan).map_err(|(_, error)| Stop::Wrong(format!("give back: {error}")))
    }

    /// Sends the next part of the next message. Returns true once it is sent.
    pub(crate) fn send(
        &mut self,
        connection: &mut Connection,
        pool: &Pool,
        counts: &mut Counts,
    ) -> Result<bool, Stop> {
        let Some(id) = self.id else { return Ok(false) };
        let (message, operation) = match &mut self.sending {
            Some(sending) => sending,
            None => {
                let message = Message::new(pool, id, self.side, self.sent + 1);
                let (is_at_once, way) = (message.bytes <= AT_ONCE_BYTES, self.random.below(3));
                if is_at_once && way == 0 {
                    let sent = connection.try_send(message.tag(), &[message.content(pool)])? == TrySend::Sent;
                    return Ok(self.count_sent(sent, Event::Sent, counts));
                }
                if way == 1 {
                    match connection.try_reserve(message.tag(), message.bytes) {
                        Ok(TryReserve::Reserved(reserved)) => {
                            let is_built = self.build(connection, pool, reserved, message)?;
                            return Ok(self.count_sent(is_built, Event::Built, counts));
                        }
                        Ok(TryReserve::Pending) => return Ok(false),
                        // The peer grants no larger landing buffer now.
                        Err(error) if error.kind() == ErrorKind::Limit => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                let operation = SendOperation::new(message.tag(), message.bytes);
                self.sending.insert((message, operation))
            }
        };
        match connection.drive_send(operation, &[message.content(pool)])? {
            Drive::Idle => Ok(false),
            Drive::Moved => {
                self.progress = Instant::now();
                Ok(false)
            }
            Drive::Done(()) => {
                self.sending = None;
                Ok(self.count_sent(true, Event::Driven, counts))
            }
        }
    }

    /// Builds a message in place, in two parts. Returns false if it was abandoned.
    fn build(
        &mut self,
        connection: &mut Connection,
        pool: &Pool,
        reserved: Reserved,
        message: Message,
    ) -> Result<bool, Stop> {
        let (first, rest) = message.content(pool).split_at(self.random.below(message.bytes + 1));
        connection.copy_into(&reserved, first.len(), rest)?;
        if self.random.chance(10) {
            connection.abandon(reserved).map_err(Error::from)?;
            return Ok(false);
        }
        connection.copy_into(&reserved, 0, first)?;
        connection.commit(reserved).map_err(Error::from)?;
        Ok(true)
    }

    fn count_sent(&mut self, is_sent: bool, event: Event, counts: &mut Counts) -> bool {
        if is_sent {
            self.sent += 1;
            self.progress = Instant::now();
            counts.add(event);
        }
        is_sent
    }
}

/// Returns a byte that the message begins with.
fn pool_byte(message: Message, pool: &Pool) -> u8 {
    message.content(pool).first().copied().unwrap_or(0)
}

/// Draws a pause between two messages. Half of them are none, and a few are so long that the peer falls asleep.
pub(crate) fn pause(random: &mut Random) -> Duration {
    if random.chance(50) { Duration::ZERO } else { random.time(1, 20_000) }
}
