//! The client's connections of one measurement: the control connection, and with `--reconnect` one more for the measured messages, new for
//! each size.

use super::messages::{Join, TAG_GO, TAG_JOIN, TAG_RECORDS};
use crate::connection::peer;
use crate::connection::session::Session;
use crate::exit::{Code, Failure};
use crate::protocol::{HELLO_BYTES, Hello, REPORT_BYTES_MAX, Report, Role, TAG_HELLO, Violation};
use crate::report::copying::Copying;
use crate::report::growth::Growth;
use crate::timeouts::{REPORT_TIMEOUT, UNLIMITED};
use crate::trace::Trace;
use crate::trace::track::{TRACK_BYTES_MAX, Track};
use core::time::Duration;
use superpipe::WaitStrategy;
use superpipe::io::{Digest, DigestKind};
use superpipe::{Connection, Error, ErrorKind};

/// Wait for the peer's report when it may have ended: it reports its end at once, or the library notices its loss.
const END_WAIT: Duration = Duration::from_millis(50);

/// The client's end of the connections.
#[derive(Debug)]
pub struct Link<'a> {
    /// session of this tool
    pub session: &'a Session<'a>,
    /// trace that keeps the records
    pub trace: &'a mut Trace,
    control: Connection,
    data: Option<Connection>,
    replaced: Option<Connection>,
    wait: WaitStrategy,
}

/// The expected control message of the peer, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// bytes of the expected message
    Message(Vec<u8>),
    /// report with code 0: the peer is done
    End,
}

/// Error of sending or receiving a message.
#[derive(Debug)]
pub enum MessageError {
    /// error of the library
    Library(Error),
    /// another message arrived than the expected one
    Unexpected,
    /// failure of this end, or a signal
    Local(Failure),
}

impl<'a> Link<'a> {
    /// Creates a link of one connection. Recording starts if a trace is wanted.
    pub fn new(session: &'a Session<'a>, mut control: Connection, trace: &'a mut Trace) -> Self {
        trace.start_recording(&mut control);
        Self { session, control, data: None, replaced: None, wait: WaitStrategy::Sleep, trace }
    }

    /// Returns the connection of the measured messages.
    #[inline]
    pub fn data(&mut self) -> &mut Connection {
        self.data.as_mut().unwrap_or(&mut self.control)
    }

    /// Returns the control connection.
    pub const fn control(&mut self) -> &mut Connection {
        &mut self.control
    }

    /// Replaces the connection of the measured messages. The one before stays until [`close_replaced`](Self::close_replaced).
    pub fn replace_data(&mut self, mut data: Connection) {
        data.set_wait(self.wait);
        self.trace.start_recording(&mut data);
        self.replaced = self.data.replace(data);
    }

    /// Closes the connection that was replaced. Call this after the first messages of its successor: closing unmaps memory, which flushes the TLB,
    /// and they would pay for that.
    pub fn close_replaced(&mut self) {
        self.replaced = None;
    }

    /// Sets the wait strategy of the control connection and of every later data connection.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        self.wait = wait;
        self.control.set_wait(wait);
    }

    /// Sends HELLO, and receives that of the peer.
    ///
    /// # Errors
    /// As [`Session::exchange_hellos`].
    pub fn exchange_hellos(&mut self) -> Result<(), Failure> {
        self.session.exchange_hellos(&mut self.control, None, None).map(drop)
    }

    /// Sends a message on the control connection.
    ///
    /// # Errors
    /// The peer is lost or silent, or has given up.
    pub fn send(&mut self, tag: u64, bytes: &[u8]) -> Result<(), Failure> {
        let sent = self.control.send(tag, &[bytes], UNLIMITED);
        sent.map_err(|error| self.explain(MessageError::Library(error)))
    }

    /// Receives a message with this tag on the control connection, or the peer's final report.
    ///
    /// # Errors
    /// The peer's own report of its failure; or the peer is lost or silent, or sends another message.
    pub fn receive(&mut self, tag: u64) -> Result<Incoming, Failure> {
        let mut bytes = [0; REPORT_BYTES_MAX];
        let received = match self.control.recv_into(&mut [&mut bytes], UNLIMITED) {
            Ok(received) => received,
            Err(error) => return Err(self.explain(MessageError::Library(error))),
        };
        let bytes = &bytes[..received.bytes];
        if received.tag == tag {
            return Ok(Incoming::Message(bytes.to_vec()));
        }
        let other = self.session.role.other();
        if received.tag != other.report_tag() {
            return Err(peer::failure_of_violation(Violation("sent a message out of turn")));
        }
        let report = Report::decode(bytes).map_err(peer::failure_of_violation)?;
        if report.code == 0 { Ok(Incoming::End) } else { Err(peer::failure_of_report(&report, other)) }
    }

    /// Checks that the peer has not ended while a new data connection is awaited.
    ///
    /// # Errors
    /// The peer's end, with its report if there is one; a message out of turn; or a signal.
    pub fn check_peer(&mut self) -> Result<(), Failure> {
        match self.session.receive_report(&mut self.control, END_WAIT) {
            Ok(report) => Err(peer::failure_of_report(&report, self.session.role.other())),
            Err(failure) if failure.code == Code::Timeout => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Receives a message with this tag, which must come before the peer's end.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_message(&mut self, tag: u64) -> Result<Vec<u8>, Failure> {
        match self.receive(tag)? {
            Incoming::Message(bytes) => Ok(bytes),
            Incoming::End => Err(peer::failure_of_violation(Violation("ended the measurement early"))),
        }
    }

    /// Takes the records of the measured messages at this end. Recording ends unless a trace is wanted.
    pub fn take_records(&mut self) -> Track {
        let name = self.session.role.tool();
        let track = Track::take(name, self.data());
        let goes_on = self.trace.is_wanted();
        self.data().record(goes_on);
        track
    }

    /// Tells the server whose a further connection is, and receives its HELLO there.
    ///
    /// # Errors
    /// The peer is gone, or is no rperf serve.
    pub fn join(&self, connection: &mut Connection, join: Join) -> Result<(), Failure> {
        let timeout = self.session.common.idle_timeout;
        let failed = |error: Error| self.session.failure(&error);
        connection.send(TAG_JOIN, &[&join.encode()], timeout).map_err(failed)?;
        let mut bytes = [0; HELLO_BYTES];
        let received = connection.recv_into(&mut [&mut bytes], timeout).map_err(failed)?;
        let hello = if received.tag == TAG_HELLO { &bytes[..received.bytes] } else { &[] };
        Hello::decode(hello, Role::Server).map(drop).map_err(peer::failure_of_violation)
    }

    /// Receives a message with this tag on the control connection, of so many bytes.
    ///
    /// # Errors
    /// The peer is lost or silent, or sends another message.
    pub fn receive_long(&mut self, tag: u64, bytes: usize) -> Result<Vec<u8>, Failure> {
        let mut room = vec![0; bytes];
        let received = match self.control.recv_into(&mut [&mut room], UNLIMITED) {
            Ok(received) => received,
            Err(error) => return Err(self.explain(MessageError::Library(error))),
        };
        if received.tag != tag {
            return Err(peer::failure_of_violation(Violation("sent a message out of turn")));
        }
        room.truncate(received.bytes);
        Ok(room)
    }

    /// Receives the server's records.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_records(&mut self) -> Result<Track, Failure> {
        let mut bytes = vec![0; TRACK_BYTES_MAX];
        let received = match self.control.recv_into(&mut [&mut bytes], UNLIMITED) {
            Ok(received) => received,
            Err(error) => return Err(self.explain(MessageError::Library(error))),
        };
        if received.tag != TAG_RECORDS {
            return Err(peer::failure_of_violation(Violation("sent another message instead of its records")));
        }
        Track::decode(self.session.role.other().tool(), &bytes[..received.bytes])
            .map_err(peer::failure_of_violation)
    }

    /// Waits for GO: this end may begin.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn await_go(&mut self) -> Result<(), MessageError> {
        match self.receive_message(TAG_GO).map_err(MessageError::Local)?.len() {
            0 => Ok(()),
            _ => {
                Err(MessageError::Local(peer::failure_of_violation(Violation("sent a GO that is not empty"))))
            }
        }
    }

    /// Turns an error into the failure to report, with the peer's own report if there is one.
    pub fn explain(&mut self, error: MessageError) -> Failure {
        match error {
            MessageError::Local(failure) => failure,
            MessageError::Library(error) => match error.kind() {
                ErrorKind::Closed(reason) | ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) => {
                    self.session.receive_failure(&mut self.control, reason)
                }
                ErrorKind::TooSmall => self.explain(MessageError::Unexpected),
                _ => self.session.failure(&error),
            },
            MessageError::Unexpected => {
                let other = self.session.role.other();
                match self.session.receive_report(&mut self.control, REPORT_TIMEOUT) {
                    Ok(report) if report.code != 0 => peer::failure_of_report(&report, other),
                    // the unexpected message was the peer's report, whose code the close repeats
                    Err(failure) if !matches!(failure.code, Code::Timeout | Code::Protocol) => failure,
                    _ => peer::failure_of_violation(Violation("sent another message than the expected one")),
                }
            }
        }
    }

    /// Reports the outcome to the peer, adds the records to a trace that is still empty, and closes.
    pub fn end(mut self, outcome: &Result<(), Failure>) {
        self.send_end(outcome);
        if self.trace.is_empty() {
            let name = self.session.role.tool();
            let data = self.data.as_mut().unwrap_or(&mut self.control);
            self.trace.add(Track::take(name, data));
        }
        self.close(outcome);
    }

    fn send_end(&mut self, outcome: &Result<(), Failure>) {
        let nothing = Digest::new(DigestKind::None);
        match outcome {
            // losing the server now changes no result
            Ok(()) => _ = self.session.send_report(&mut self.control, Ok(None), &nothing, REPORT_TIMEOUT),
            // there is no peer to report to, or the reason of the close tells it
            Err(Failure { code, .. })
                if matches!(code, Code::PeerLost | Code::Timeout) || code.is_signal() => {}
            Err(failure) => {
                self.session.report_failure(&mut self.control, failure.clone(), &nothing);
            }
        }
    }

    fn close(self, outcome: &Result<(), Failure>) {
        for mut connection in self.data.into_iter().chain([self.control]) {
            let growth = Growth::new(&connection.counters());
            self.session.print_if(self.session.common.verbose && growth.has_any(), &growth.to_string());
            let copying = Copying::new(&connection.counters());
            self.session.print_if(self.session.common.verbose && copying.has_any(), &copying.to_string());
            self.session.close(connection, outcome);
        }
    }
}
