//! Messages of one client: one that is sent, and those that are taken.

use super::stop::{Stop, broken, of_error};
use crate::connection::many::{Inbox, Taken};
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::{Report, Role, TAG_TRAILER, Violation};
use superpipe::{Connection, Drive, Error, Received, SendOperation};

/// A message that is sent.
pub(super) struct Answer {
    bytes: Vec<u8>,
    send: SendOperation,
    is_sent: bool,
}

impl Answer {
    pub(super) fn new(tag: u64, bytes: Vec<u8>) -> Self {
        let send = SendOperation::new(tag, bytes.len());
        Self { bytes, send, is_sent: false }
    }

    /// Sends what can be sent now. Returns true once all is sent.
    pub(super) fn drive(&mut self, connection: &mut Connection) -> Result<bool, Error> {
        while !self.is_sent {
            match connection.drive_send(&mut self.send, &[&self.bytes])? {
                Drive::Done(()) => self.is_sent = true,
                Drive::Moved => {}
                Drive::Idle => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Takes the next message, which must have this tag, or be the client's report. `is_early`: a report of success is one too early.
pub(super) fn expect<'a>(
    session: &Session<'_>,
    (inbox, connection): (&mut Inbox, &mut Connection),
    tag: u64,
    room: &'a mut [u8],
    is_early: bool,
) -> Result<Option<&'a [u8]>, Stop> {
    match inbox.take(connection, room).map_err(|error| of_error(session, &error))? {
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
