//! Steps with one of many connections, none of which waits: HELLO, and the next message.

use crate::protocol::{HELLO_BYTES, Hello, Role, TAG_HELLO, Violation};
use crate::timeouts::HELLO_TIMEOUT;
use std::time::Instant;
use superpipe::{Connection, Drive, Error, Length, Received, RecvOperation, TryRecv, TrySend};

/// A message that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// none, or none that is whole
    Nothing,
    /// a message
    Message(Received),
    /// one that is longer than the room, or a stream
    Another,
}

/// The first message of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// none yet
    Nothing,
    /// HELLO, or what is none
    Hello(Result<Hello, Violation>),
    /// a short message with another tag
    Other {
        /// its tag
        tag: u64,
        /// its bytes, and their number
        bytes: ([u8; HELLO_BYTES], usize),
    },
}

/// Sends this end's HELLO, unless it `is_greeted`. Returns true once it is sent.
///
/// # Errors
/// The error of the library.
pub fn greet(connection: &mut Connection, is_greeted: &mut bool, hello: &Hello) -> Result<bool, Error> {
    if !*is_greeted {
        *is_greeted = connection.try_send(TAG_HELLO, &[&hello.encode()])? == TrySend::Sent;
    }
    Ok(*is_greeted)
}

/// Messages of a connection, which are taken whole. What is here of one that comes in parts is received meanwhile: its sender may wait for that, and as long as it were left there, the
/// connection would be readable.
#[derive(Debug, Default)]
pub struct Inbox {
    partial: Option<Partial>,
}

/// A message of which a part is here.
#[derive(Debug)]
struct Partial {
    receive: RecvOperation,
    buffer: Vec<u8>,
    since: Instant,
}

impl Inbox {
    /// Takes the next message, once it is whole.
    ///
    /// # Errors
    /// The error of the library.
    pub fn take(&mut self, connection: &mut Connection, room: &mut [u8]) -> Result<Taken, Error> {
        if self.partial.is_none() {
            let most = room.len() as u64;
            match connection.try_recv(&mut [&mut *room])? {
                TryRecv::Nothing => return Ok(Taken::Nothing),
                TryRecv::Received(received) => return Ok(Taken::Message(received)),
                TryRecv::Incomplete(incoming) => match incoming.length {
                    Length::Exact(bytes) if bytes <= most => {}
                    _ => return Ok(Taken::Another),
                },
                TryRecv::TooSmall(_) => return Ok(Taken::Another),
            }
        }
        let partial = self.partial.get_or_insert_with(|| Partial {
            receive: RecvOperation::new(),
            buffer: vec![0; room.len()],
            since: Instant::now(),
        });
        match connection.drive_recv(&mut partial.receive, &mut [&mut partial.buffer])? {
            Drive::Done(received) => {
                // The room is that of the first call, unless somebody else asks.
                let Some(room) = room.get_mut(..received.bytes) else { return Ok(Taken::Another) };
                room.copy_from_slice(&partial.buffer[..received.bytes]);
                self.partial = None;
                Ok(Taken::Message(received))
            }
            Drive::Moved | Drive::Idle => Ok(Taken::Nothing),
        }
    }

    /// Returns true while a part of a message was received.
    #[must_use]
    pub const fn has_part(&self) -> bool {
        self.partial.is_some()
    }

    /// Returns true if the rest of a message did not come in time.
    #[must_use]
    pub fn is_late(&self, now: Instant) -> bool {
        self.partial.as_ref().is_some_and(|partial| now >= partial.since + HELLO_TIMEOUT)
    }

    /// Takes the first message of a peer with this role.
    ///
    /// # Errors
    /// The error of the library.
    pub fn take_first(&mut self, connection: &mut Connection, role: Role) -> Result<First, Error> {
        let mut room = [0; HELLO_BYTES];
        Ok(match self.take(connection, &mut room)? {
            Taken::Nothing => First::Nothing,
            Taken::Message(Received { tag: TAG_HELLO, bytes }) => {
                First::Hello(Hello::decode(&room[..bytes], role))
            }
            Taken::Message(Received { tag, bytes }) => First::Other { tag, bytes: (room, bytes) },
            Taken::Another => First::Hello(Hello::decode(&[], role)),
        })
    }
}
