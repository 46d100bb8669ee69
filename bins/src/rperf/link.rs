//! The connections of one measurement: one on which the two ends agree, and where each size is to have a first message of
//! its own, one more for the messages that are measured.

use super::messages::{TAG_GO, TAG_RECORDS};
use crate::exit::{Code, Failure};
use crate::peer;
use crate::protocol::{Broken, REPORT_BYTES_MAX, Report, Role};
use crate::session::{LAST_WORDS, PATIENCE, Session};
use crate::trace::Trace;
use crate::trace::track::{TRACK_BYTES_MAX, Track};
use core::time::Duration;
use superpipe::io::{Digest, DigestKind};
use superpipe::os::WaitStrategy;
use superpipe::{Connection, Error, ErrorKind};

/// To hear whether the peer has ended, which it says at once or is seen.
const SOON: Duration = Duration::from_millis(50);

/// This end of them.
#[derive(Debug)]
pub struct Link<'a> {
    /// this end
    pub session: &'a Session<'a>,
    /// the trace, which keeps records
    pub trace: &'a mut Trace,
    control: Connection,
    data: Option<Connection>,
    wait: WaitStrategy,
}

/// A message of the peer's that was waited for, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// the message that was waited for
    Message(Vec<u8>),
    /// the peer's word that all is done
    End,
}

/// A reason for which messages did not come or go.
#[derive(Debug)]
pub enum Mishap {
    /// the library says so
    Library(Error),
    /// another message came than was expected
    Odd,
    /// something failed here, or is to stop
    Here(Failure),
}

impl<'a> Link<'a> {
    /// Over one connection, for the time being; what it does is recorded if a trace is asked for.
    pub fn new(session: &'a Session<'a>, mut control: Connection, trace: &'a mut Trace) -> Self {
        trace.begin(&mut control);
        Self { session, control, data: None, wait: WaitStrategy::Sleep, trace }
    }

    /// The connection of the measured messages.
    #[inline]
    pub fn data(&mut self) -> &mut Connection {
        self.data.as_mut().unwrap_or(&mut self.control)
    }

    /// The connection on which the two ends agree.
    pub const fn control(&mut self) -> &mut Connection {
        &mut self.control
    }

    /// Measured messages go over a connection of their own from now on; the one before it is closed.
    pub fn replace_data(&mut self, mut data: Connection) {
        data.set_wait(self.wait);
        self.trace.begin(&mut data);
        self.data = Some(data);
    }

    /// Waits like this from now on, on every connection.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        self.wait = wait;
        self.control.set_wait(wait);
    }

    /// Introduces this end, and hears the other.
    ///
    /// # Errors
    /// As [`Session::exchange_hellos`].
    pub fn exchange_hellos(&mut self) -> Result<(), Failure> {
        self.session.exchange_hellos(&mut self.control, None, None).map(drop)
    }

    /// Sends a message of the agreement.
    ///
    /// # Errors
    /// When the peer is gone, silent, or has given up.
    pub fn tell(&mut self, tag: u64, bytes: &[u8]) -> Result<(), Failure> {
        let sent = self.control.send(tag, &[bytes], PATIENCE);
        sent.map_err(|error| self.explain(Mishap::Library(error)))
    }

    /// Waits for a message of the agreement, or for the peer's last word.
    ///
    /// # Errors
    /// When the peer gave up, in its words; or is gone or silent, or says something else.
    pub fn hear(&mut self, tag: u64) -> Result<Heard, Failure> {
        let mut bytes = [0; REPORT_BYTES_MAX];
        let received = match self.control.recv_into(&mut [&mut bytes], PATIENCE) {
            Ok(received) => received,
            Err(error) => return Err(self.explain(Mishap::Library(error))),
        };
        let bytes = &bytes[..received.bytes];
        if received.tag == tag {
            return Ok(Heard::Message(bytes.to_vec()));
        }
        let other = self.session.role.other();
        if received.tag != other.report_tag() {
            return Err(peer::broken(Broken("sent a message out of turn")));
        }
        let report = Report::decode(bytes).map_err(peer::broken)?;
        if report.code == 0 { Ok(Heard::End) } else { Err(peer::said(&report, other)) }
    }

    /// Checks that the peer has not ended, while the connection that is to be measured is not there.
    ///
    /// # Errors
    /// The peer's end, in its words where it has any; or that it speaks out of turn, or a signal came.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.session.receive_report(&mut self.control, SOON) {
            Ok(report) => Err(peer::said(&report, self.session.role.other())),
            Err(failure) if failure.code == Code::Timeout => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Waits for a message that must come before the end does.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub fn hear_more(&mut self, tag: u64) -> Result<Vec<u8>, Failure> {
        match self.hear(tag)? {
            Heard::Message(bytes) => Ok(bytes),
            Heard::End => Err(peer::broken(Broken("ended the measurement before its end"))),
        }
    }

    /// Takes out the records of the measured messages at this end. Recording ends unless all is traced.
    pub fn take_records(&mut self) -> Track {
        let name = self.session.role.tool();
        let track = Track::take(name, self.data());
        let goes_on = self.trace.is_wanted();
        self.data().record(goes_on);
        track
    }

    /// Waits for what the server recorded.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub fn hear_records(&mut self) -> Result<Track, Failure> {
        let mut bytes = vec![0; TRACK_BYTES_MAX];
        let received = match self.control.recv_into(&mut [&mut bytes], PATIENCE) {
            Ok(received) => received,
            Err(error) => return Err(self.explain(Mishap::Library(error))),
        };
        if received.tag != TAG_RECORDS {
            return Err(peer::broken(Broken("sent another message than its records")));
        }
        Track::decode(self.session.role.other().tool(), &bytes[..received.bytes]).map_err(peer::broken)
    }

    /// The other end may begin.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub fn go(&mut self) -> Result<(), Mishap> {
        self.tell(TAG_GO, &[]).map_err(Mishap::Here)
    }

    /// Waits until this end may begin.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub fn await_go(&mut self) -> Result<(), Mishap> {
        match self.hear_more(TAG_GO).map_err(Mishap::Here)?.len() {
            0 => Ok(()),
            _ => Err(Mishap::Here(peer::broken(Broken("sent a GO that is not empty")))),
        }
    }

    /// The failure that a mishap is, in the peer's own words where it has any.
    pub fn explain(&mut self, mishap: Mishap) -> Failure {
        match mishap {
            Mishap::Here(failure) => failure,
            Mishap::Library(error) => match error.kind() {
                ErrorKind::Closed(reason) | ErrorKind::Rejected(reason) | ErrorKind::Cancelled(reason) => {
                    self.session.peer_gave_up(&mut self.control, reason)
                }
                ErrorKind::TooSmall => self.explain(Mishap::Odd),
                _ => self.session.failure(&error),
            },
            Mishap::Odd => {
                let other = self.session.role.other();
                match self.session.receive_report(&mut self.control, LAST_WORDS) {
                    Ok(report) if report.code != 0 => peer::said(&report, other),
                    // it was the peer's last word, which the close repeats
                    Err(failure) if !matches!(failure.code, Code::Timeout | Code::Protocol) => failure,
                    _ => peer::broken(Broken("sent another message than the one that was its turn")),
                }
            }
        }
    }

    /// Says that all is done, or why it is not, keeps what was recorded if nothing was before, and closes.
    pub fn end(mut self, outcome: &Result<(), Failure>) {
        self.tell_end(outcome);
        if self.trace.is_empty() {
            let name = self.session.role.tool();
            let data = self.data.as_mut().unwrap_or(&mut self.control);
            self.trace.add(Track::take(name, data));
        }
        self.close(outcome);
    }

    /// Says why no measurement began, and closes: another client is waited for.
    pub fn dismiss(mut self, failure: Failure) {
        let outcome = Err(failure);
        self.tell_end(&outcome);
        self.close(&outcome);
    }

    fn tell_end(&mut self, outcome: &Result<(), Failure>) {
        let nothing = Digest::new(DigestKind::None);
        match outcome {
            // the client says when that is all; a server that is gone by now changes nothing
            Ok(()) if self.session.role == Role::Client => {
                let _ = self.session.send_report(&mut self.control, Ok(None), &nothing, LAST_WORDS);
            }
            Ok(()) => {}
            // nobody is left to be told, or the close says it soon enough
            Err(Failure { code, .. })
                if matches!(code, Code::PeerLost | Code::Timeout) || code.is_signal() => {}
            Err(failure) => {
                self.session.give_up(&mut self.control, failure.clone(), &nothing);
            }
        }
    }

    fn close(self, outcome: &Result<(), Failure>) {
        for connection in self.data.into_iter().chain([self.control]) {
            self.session.close(connection, outcome);
        }
    }
}
