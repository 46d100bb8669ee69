//! Steps with one of many connections, none of which waits: HELLO, and the next message.

use crate::protocol::{HELLO_BYTES, Hello, Role, TAG_HELLO, Violation};
use superpipe::{Connection, Error, Length, Received, TryRecv, TrySend};

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

/// Takes the next message, if it is whole.
///
/// # Errors
/// The error of the library.
pub fn take(connection: &mut Connection, room: &mut [u8]) -> Result<Taken, Error> {
    let most = room.len() as u64;
    Ok(match connection.try_recv(&mut [room])? {
        TryRecv::Nothing => Taken::Nothing,
        TryRecv::Received(received) => Taken::Message(received),
        TryRecv::Incomplete(incoming) if matches!(incoming.length, Length::Exact(bytes) if bytes <= most) => {
            Taken::Nothing
        }
        TryRecv::Incomplete(_) | TryRecv::TooSmall(_) => Taken::Another,
    })
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

/// Takes the first message of a peer with this role.
///
/// # Errors
/// The error of the library.
pub fn take_first(connection: &mut Connection, role: Role) -> Result<First, Error> {
    let mut room = [0; HELLO_BYTES];
    Ok(match take(connection, &mut room)? {
        Taken::Nothing => First::Nothing,
        Taken::Message(Received { tag: TAG_HELLO, bytes }) => {
            First::Hello(Hello::decode(&room[..bytes], role))
        }
        Taken::Message(Received { tag, bytes }) => First::Other { tag, bytes: (room, bytes) },
        Taken::Another => First::Hello(Hello::decode(&[], role)),
    })
}
