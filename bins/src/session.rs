//! What every tool does with its connection: say who it is, hear whom it met, tell how it ends.

use crate::exit::{Code, Failure};
use crate::options::{Common, Core};
use crate::patience::{GOODBYE, HELLO_PATIENCE, LAST_WORDS};
use crate::peer;
use crate::protocol::{
    Broken, HELLO_BYTES, Hello, REPORT_BYTES_MAX, Report, Role, TAG_HELLO, TAG_TRAILER, TAG_VERDICT, one_line,
};
use crate::quantity::shown;
use crate::report::Joined;
use crate::signals::Signals;
use crate::stderr;
use core::cell::Cell;
use core::time::Duration;
use superpipe::io::{Digest, DigestKind};
use superpipe::os::{PinError, Side, WaitStrategy, choose_core, pin_current_thread};
use superpipe::{Address, Connection, DeviceName, Error, ErrorKind, Options, Peer, Reason};

/// One tool's part in what it does with the other.
#[derive(Debug, Clone)]
pub struct Session<'a> {
    /// which tool
    pub role: Role,
    /// the options that all tools have
    pub common: &'a Common,
    /// whether to stop
    pub signals: Signals,
    /// whether standard error is for programs alone
    is_mute: bool,
    pinned_to: Cell<Option<u32>>,
}

impl<'a> Session<'a> {
    /// Handles signals from now on.
    ///
    /// # Errors
    /// When they cannot be handled.
    pub fn new(role: Role, common: &'a Common, is_mute: bool) -> Result<Self, Failure> {
        let signals = Signals::install(role.work())?;
        stderr::heed(signals.flag());
        Ok(Self { role, common, signals, is_mute, pinned_to: Cell::new(None) })
    }

    /// Pins this thread, if that was asked for and it is known where: before any memory is touched, and after other
    /// threads began.
    ///
    /// # Errors
    /// When the core is not there or not ours to use.
    pub fn pin(&self) -> Result<(), Failure> {
        match (self.common.core, self.common.routed.device) {
            (Some(Core::Number(core)), _) => self.pin_to(core),
            (Some(Core::Auto), Some(device)) => self.pin_near(Some(device)),
            _ => Ok(()),
        }
    }

    /// There is a connection: says how it came out, and pins this thread near its device, if that was asked for and its
    /// name is only known now.
    ///
    /// # Errors
    /// When the kernel refuses to pin.
    pub fn connected(&self, connection: &Connection) -> Result<Joined, Failure> {
        let description = connection.describe();
        let joined = Joined::new(&description);
        let peer = match connection.peer() {
            Peer::Process(cred) => format!("; the peer is process {} of uid {}", cred.pid, cred.uid),
            Peer::Host(address) => format!("; the peer is at {address}"),
            _ => String::new(),
        };
        self.say_if(self.common.verbose, &format!("{joined}{peer}"));
        if (self.common.core, self.common.routed.device) == (Some(Core::Auto), None) {
            self.pin_near(description.device)?;
        }
        Ok(joined)
    }

    fn pin_near(&self, device: Option<DeviceName>) -> Result<(), Failure> {
        let side = match self.role {
            Role::Receiver | Role::Server => Side::Listening,
            Role::Sender | Role::Client => Side::Connecting,
        };
        let choice = choose_core(device.as_ref().map(DeviceName::as_str), side);
        self.pin_to(choice.core)?;
        self.say_if(self.common.verbose, &format!("pinned to {choice}"));
        Ok(())
    }

    fn pin_to(&self, core: usize) -> Result<(), Failure> {
        pin_current_thread(core).map_err(|error| {
            let code = if matches!(error, PinError::Os(_)) { Code::Device } else { Code::Usage };
            Failure::new(code, error.to_string())
        })?;
        self.pinned_to.set(u32::try_from(core).ok());
        Ok(())
    }

    /// The core that this end is pinned to, as peers are told.
    #[must_use]
    pub const fn core(&self) -> Option<u32> {
        self.pinned_to.get()
    }

    /// What the library is asked for, with the signals' flag.
    #[must_use]
    pub fn options(&self, wait: WaitStrategy) -> Options {
        Options {
            wait,
            idle_timeout: self.common.idle_timeout,
            route: self.common.routed.route(),
            peer_uid: self.common.peer_uid,
            tuning: self.common.tuned.wishes(),
            interrupt: Some(self.signals.flag()),
            ..Options::default()
        }
    }

    /// Connects. Whatever takes too long, a name server or a listener: there is no connection.
    ///
    /// # Errors
    /// When there is none within `timeout`, or can be none.
    pub fn connect(
        &self,
        address: &Address,
        options: Options,
        timeout: Duration,
    ) -> Result<Connection, Failure> {
        Connection::connect(address, options, timeout).map_err(|error| match error.kind() {
            ErrorKind::Timeout => {
                let text = format!("{error}; --connect-timeout is {}", shown(timeout));
                Failure::new(Code::Connect, text)
            }
            _ => self.failure(&error),
        })
    }

    /// What the library's error means.
    #[must_use]
    pub fn failure(&self, error: &Error) -> Failure {
        peer::failure(error, self.role.other(), &self.signals)
    }

    /// Introduces this end, and hears the other.
    ///
    /// # Errors
    /// When the peer is no tool of ours, of another version or of the wrong part; or is gone, or silent.
    pub fn exchange_hellos(
        &self,
        connection: &mut Connection,
        checksum: Option<DigestKind>,
        size_hint: Option<u64>,
    ) -> Result<Hello, Failure> {
        let timeout = match self.role {
            // Others may wait for their turn behind a client that says nothing.
            Role::Receiver | Role::Server => self.common.idle_timeout.min(HELLO_PATIENCE),
            Role::Sender | Role::Client => self.common.idle_timeout,
        };
        let hello = Hello { role: self.role, checksum, size_hint };
        connection.send(TAG_HELLO, &[&hello.encode()], timeout).map_err(|error| self.failure(&error))?;
        let mut bytes = [0; HELLO_BYTES];
        let theirs = match connection.recv_into(&mut [&mut bytes], timeout) {
            Ok(received) if received.tag == TAG_HELLO => {
                Hello::decode(&bytes[..received.bytes], self.role.other())
            }
            Ok(_) => Hello::decode(&[], self.role.other()),
            Err(error) if is_of_another_kind(&error) => Hello::decode(&[], self.role.other()),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let text = format!("the peer sent no HELLO within {}", shown(timeout));
                return Err(Failure::new(Code::Timeout, text));
            }
            Err(error) => return Err(self.failure(&error)),
        };
        theirs.map_err(peer::broken)
    }

    /// Tells the peer how this end ended, as its TRAILER or VERDICT; where all is well with a remark, if there is one.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn send_report(
        &self,
        connection: &mut Connection,
        outcome: Result<Option<&str>, &Failure>,
        digest: &Digest,
        timeout: Duration,
    ) -> Result<(), Error> {
        let (code, text) = match outcome {
            Ok(remark) => (Code::Done, remark.unwrap_or_default().to_owned()),
            Err(failure) => (failure.code, failure.text.clone()),
        };
        let report = Report { code: code.number(), bytes: digest.bytes(), checksum: digest.value(), text };
        connection.send(self.role.report_tag(), &[&report.encode()], timeout)
    }

    /// Tells the peer why this end gives up, waits a little until it has heard it, and answers with the failure.
    pub fn give_up(&self, connection: &mut Connection, failure: Failure, digest: &Digest) -> Failure {
        let told = self.send_report(connection, Err(&failure), digest, LAST_WORDS);
        // A peer that does not listen learns the code from the close.
        let _ = told.and_then(|()| connection.flush(LAST_WORDS));
        failure
    }

    /// The peer's TRAILER or VERDICT.
    ///
    /// # Errors
    /// When none comes, or none that can be read.
    pub fn receive_report(&self, connection: &mut Connection, timeout: Duration) -> Result<Report, Failure> {
        let mut bytes = [0; REPORT_BYTES_MAX];
        let received = connection.recv_into(&mut [&mut bytes], timeout).map_err(|error| {
            if is_of_another_kind(&error) {
                peer::broken(Broken("sent a longer message, or a stream, where its report was due"))
            } else {
                self.failure(&error)
            }
        })?;
        if received.tag != self.role.other().report_tag() {
            return Err(peer::broken(Broken("sent another message than its report")));
        }
        Report::decode(&bytes[..received.bytes]).map_err(peer::broken)
    }

    /// The peer gave up: in its own words where they come, else by the reason.
    #[must_use]
    pub fn peer_gave_up(&self, connection: &mut Connection, reason: Reason) -> Failure {
        // An end that is no more than that says less than how this connection ends.
        let is_mute = [Reason::DONE, Reason::GIVEN_UP].contains(&reason);
        match self.receive_report(connection, LAST_WORDS) {
            Ok(report) if report.code != 0 => peer::said(&report, self.role.other()),
            Err(failure) if is_mute && failure.code == Code::PeerLost => failure,
            _ => self.signals.failure().unwrap_or_else(|| peer::left(reason, self.role.other())),
        }
    }

    /// Closes with the reason that the outcome is. A peer that cannot be told is gone, and that is no worse now.
    pub fn close(&self, connection: Connection, outcome: &Result<(), Failure>) {
        let code = outcome.as_ref().err().map_or(Code::Done, |failure| failure.code);
        let _ = connection.close(code.into(), GOODBYE);
    }

    /// One line on standard error, if it is wanted and nothing else has the place.
    pub fn say_if(&self, wanted: bool, text: &str) {
        if wanted && !self.is_mute {
            complain(self.role, text);
        }
    }
}

/// Returns true if a message that came is longer than the one that was due, or a stream.
fn is_of_another_kind(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TooSmall | ErrorKind::Usage)
}

impl Role {
    /// The tag of its report.
    #[must_use]
    pub const fn report_tag(self) -> u64 {
        match self {
            Self::Sender | Self::Client => TAG_TRAILER,
            Self::Receiver | Self::Server => TAG_VERDICT,
        }
    }
}

/// Writes one line to standard error, whatever is in it. A reader that takes nothing for 2 s gets no further line.
pub fn complain(role: Role, text: &str) {
    stderr::write(&format!("{}: {}\n", role.tool(), one_line(text)));
}
