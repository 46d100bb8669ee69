//! One connection of the crowd, which sends or receives.

use core::mem;
use std::time::Instant;

use superpipe::{Connection, Drive, ErrorKind, Length, Reason, RecvOperation, SendOperation};

use super::HANG_TIMEOUT;
use super::message::{BYTES_MAX, LARGE_MAX, Message, Pool};
use crate::random::Random;

/// Capacity of a buffer that is kept for the next message.
const KEPT_BYTES: usize = 1 << 20;

/// One of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Parent,
    Child,
}

/// A connection with its open message.
pub(crate) struct Link {
    index: u32,
    pub(crate) connection: Connection,
    work: Work,
    /// Messages that were sent or received.
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
    progress: Instant,
    is_over: bool,
}

enum Work {
    Sending { random: Random, open: Option<(Message, SendOperation)> },
    Receiving { open: Option<(Message, RecvOperation)>, buffer: Vec<u8> },
}

impl Link {
    pub(crate) fn new(index: u32, role: Role, connection: Connection) -> Self {
        let sends = index.is_multiple_of(2) == (role == Role::Parent);
        let work = if sends {
            Work::Sending { random: Random::new(&[index.into()]), open: None }
        } else {
            Work::Receiving { open: None, buffer: Vec::new() }
        };
        let progress = Instant::now();
        Self { index, connection, work, messages: 0, bytes: 0, progress, is_over: false }
    }

    pub(crate) const fn sends(&self) -> bool {
        matches!(self.work, Work::Sending { .. })
    }

    /// Returns true once the last message was sent or received.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends or receives what it can without waiting. Returns true if something moved.
    pub(crate) fn turn(
        &mut self,
        pool: &Pool,
        large: &mut u32,
        now: Instant,
        is_end: bool,
    ) -> Result<bool, String> {
        let index = self.index;
        let moved = match self.work {
            _ if self.is_over => Ok(false),
            Work::Sending { .. } => self.send(pool, large, is_end),
            Work::Receiving { .. } => self.receive(pool),
        };
        let has_moved = moved.map_err(|text| format!("connection {index}: {text}"))?;
        let progressed = self.connection.progress();
        if has_moved || self.is_over {
            self.progress = now;
        } else if now.saturating_duration_since(self.progress) > HANG_TIMEOUT {
            let counters = self.connection.counters();
            return Err(format!(
                "connection {index} made no progress for {} s after {} messages: {counters:?}",
                HANG_TIMEOUT.as_secs(),
                self.messages
            ));
        }
        Ok(has_moved || progressed)
    }

    fn send(&mut self, pool: &Pool, large: &mut u32, is_end: bool) -> Result<bool, String> {
        let Work::Sending { random, open } = &mut self.work else { return Ok(false) };
        let (message, operation) = open.get_or_insert_with(|| {
            let number = self.messages + 1;
            let message = if is_end {
                Message::last(self.index, number)
            } else {
                Message::draw(random, self.index, number, *large < LARGE_MAX)
            };
            *large += u32::from(message.is_large());
            (message, SendOperation::new(message.tag(), message.bytes))
        });
        let driven = self.connection.drive_send(operation, &[message.content(pool)]);
        match driven.map_err(|error| format!("sending {message:?}: {error}"))? {
            Drive::Done(()) => {
                *large -= u32::from(message.is_large());
                self.is_over = message.is_last;
                (self.messages, self.bytes) = (self.messages + 1, self.bytes + message.bytes as u64);
                *open = None;
                Ok(true)
            }
            driven => Ok(driven == Drive::Moved),
        }
    }

    fn receive(&mut self, pool: &Pool) -> Result<bool, String> {
        let Work::Receiving { open, buffer } = &mut self.work else { return Ok(false) };
        if open.is_none() {
            let peeked = self.connection.try_peek().map_err(|error| error.to_string())?;
            let Some(incoming) = peeked else { return Ok(false) };
            let message = Message::of_tag(self.index, incoming.tag);
            let is_next = message.number == self.messages + 1 && message.bytes <= BYTES_MAX;
            if !is_next || incoming.length != Length::Exact(message.bytes as u64) {
                return Err(format!("{incoming:?} after {} messages", self.messages));
            }
            // Never the contents of the message before.
            buffer.clear();
            buffer.resize(message.bytes, 0);
            *open = Some((message, RecvOperation::new()));
        }
        let Some((message, operation)) = open else { return Ok(false) };
        let driven = self.connection.drive_recv(operation, &mut [&mut buffer[..]]);
        match driven.map_err(|error| format!("receiving {message:?}: {error}"))? {
            Drive::Done(received) => {
                if (received.tag, received.bytes) != (message.tag(), message.bytes) {
                    return Err(format!("{received:?} instead of {message:?}"));
                }
                let content = message.content(pool);
                if buffer != content {
                    let at = buffer.iter().zip(content).position(|(is, wanted)| is != wanted);
                    return Err(format!("{message:?} differs from byte {at:?} on"));
                }
                self.is_over = message.is_last;
                (self.messages, self.bytes) = (self.messages + 1, self.bytes + message.bytes as u64);
                if buffer.capacity() > KEPT_BYTES {
                    drop(mem::take(buffer));
                }
                *open = None;
                Ok(true)
            }
            driven => Ok(driven == Drive::Moved),
        }
    }

    /// Closes, once the other process has taken everything.
    pub(crate) fn close(self) -> Result<(), String> {
        match self.connection.close(Reason::DONE, HANG_TIMEOUT) {
            Ok(()) => Ok(()),
            // The other process was first.
            Err(error) if error.kind() == ErrorKind::Closed(Reason::DONE) => Ok(()),
            Err(error) => Err(format!("connection {}: close: {error}", self.index)),
        }
    }
}
