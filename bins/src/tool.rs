//! What both tools do around a transfer: begin, tell of it, end.

use crate::exit::{Code, Failure};
use crate::generate::{Kind, generate};
use crate::meter::Meter;
use crate::options::Common;
use crate::peer;
use crate::protocol::{
    HELLO_BYTES, Hello, REPORT_BYTES_MAX, Report, Role, TAG_HELLO, TAG_TRAILER, TAG_VERDICT, agreed,
};
use crate::report::{Event, Events, Joined, Settings, gb_per_s};
use crate::signals::Signals;
use clap::Command;
use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use superpipe::io::{Digest, DigestKind};
use superpipe::os::{PinError, pin_current_thread};
use superpipe::{Address, Connection, Error, ErrorKind, Options, Reason};

/// For what the peer's silence bounds, not the time: a stream lasts as long as it lasts, and a disk takes its time.
pub const PATIENCE: Duration = Duration::from_hours(366 * 24);
/// For the peer to take our last words, or for us to hear its own.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
/// For good-byes.
pub const GOODBYE: Duration = Duration::from_secs(1);

/// One run of a tool.
#[derive(Debug)]
pub struct Run<'a> {
    /// which tool
    pub role: Role,
    /// the options that both have
    pub common: &'a Common,
    /// whether to stop
    pub signals: Signals,
    /// the bytes that went through
    pub meter: Meter,
    events: Option<Arc<Events>>,
    joined: Option<Joined>,
    checksum: Option<(DigestKind, u64)>,
}

/// Prints what `--generate` asks for.
#[must_use]
pub fn print_generated(role: Role, kind: Kind, command: Command) -> ExitCode {
    match generate(kind, command) {
        Ok(()) => Code::Done.into(),
        Err(failure) => {
            complain(role, &failure.text);
            failure.code.into()
        }
    }
}

/// Runs a tool from its first event to its last, and says how it ended.
pub fn run(role: Role, common: &Common, work: impl FnOnce(&mut Run<'_>) -> Result<(), Failure>) -> ExitCode {
    let mut run = match Run::new(role, common) {
        Ok(run) => run,
        Err(failure) => {
            complain(role, &failure.text);
            return failure.code.into();
        }
    };
    let result = work(&mut run);
    run.end(result).into()
}

impl<'a> Run<'a> {
    fn new(role: Role, common: &'a Common) -> Result<Self, Failure> {
        let signals = Signals::install()?;
        let events = common.json.as_deref().map(Events::open).transpose()?.map(Arc::new);
        let with_bar = !common.quiet && !common.json_to_stderr() && io::stderr().is_terminal();
        let meter = Meter::new(events.clone(), with_bar);
        let meter = meter.map_err(|error| {
            Failure::new(Code::Device, crate::exit::explain("cannot start a thread", &error))
        })?;
        Ok(Self { role, common, signals, meter, events, joined: None, checksum: None })
    }

    /// The first event: what is about to be done.
    pub fn start(&self, address: &Address, file: &str, size: Option<u64>, timeout: Duration) {
        let settings = Settings::new(self.common, timeout);
        self.put(&Event::Start {
            tool: self.role.tool(),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            address: address.to_string(),
            file,
            size,
            settings: &settings,
        });
    }

    /// Pins this thread, if that was asked for: before any memory is touched, and after the meter's thread began.
    ///
    /// # Errors
    /// When the core is not there or not ours to use.
    pub fn pin(&self) -> Result<(), Failure> {
        let Some(core) = self.common.core else { return Ok(()) };
        pin_current_thread(core).map_err(|error| {
            let code = if matches!(error, PinError::Os(_)) { Code::Device } else { Code::Usage };
            Failure::new(code, error.to_string())
        })
    }

    /// What the library is asked for, with the signals' flag.
    #[must_use]
    pub fn options(&self) -> Options {
        Options { interrupt: Some(self.signals.flag()), ..self.common.library_options() }
    }

    /// There is a connection.
    pub fn connected(&mut self, connection: &Connection) {
        let joined = Joined::new(&connection.describe());
        self.say_if(self.common.verbose, &joined.to_string());
        self.joined = Some(joined);
    }

    /// What the library's error means.
    #[must_use]
    pub fn failure(&self, error: &Error) -> Failure {
        peer::failure(error, self.role.other(), &self.signals)
    }

    /// Introduces this end, and hears the other: its HELLO, and the checksum that both use.
    ///
    /// # Errors
    /// When the peer is no tool of ours, of another version or of the same part; or is gone, or silent.
    pub fn exchange_hellos(
        &self,
        connection: &mut Connection,
        size_hint: Option<u64>,
    ) -> Result<(Hello, DigestKind), Failure> {
        let timeout = self.common.idle_timeout;
        let hello = Hello { role: self.role, checksum: self.common.wished_checksum(), size_hint };
        connection.send(TAG_HELLO, &[&hello.encode()], timeout).map_err(|error| self.failure(&error))?;
        let mut bytes = [0; HELLO_BYTES];
        let theirs = match connection.recv_into(&mut [&mut bytes], timeout) {
            Ok(received) if received.tag == TAG_HELLO => {
                Hello::decode(&bytes[..received.bytes], self.role.other())
            }
            Ok(_) => Hello::decode(&[], self.role.other()),
            Err(error) if error.kind() == ErrorKind::TooSmall => Hello::decode(&[], self.role.other()),
            Err(error) => return Err(self.failure(&error)),
        };
        let theirs = theirs.map_err(peer::broken)?;
        Ok((theirs, agreed(hello.checksum, theirs.checksum)))
    }

    /// Tells the peer how this end ended, as its TRAILER or VERDICT.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn send_report(
        &self,
        connection: &mut Connection,
        outcome: Result<(), &Failure>,
        digest: &Digest,
        timeout: Duration,
    ) -> Result<(), Error> {
        let (code, text) = match outcome {
            Ok(()) => (Code::Done, String::new()),
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
        let received =
            connection.recv_into(&mut [&mut bytes], timeout).map_err(|error| self.failure(&error))?;
        if received.tag != self.role.other().report_tag() {
            return Err(peer::broken(crate::protocol::Broken("sent another message than its report")));
        }
        Report::decode(&bytes[..received.bytes]).map_err(peer::broken)
    }

    /// The peer gave the stream up: in its own words where they come, else by the reason.
    #[must_use]
    pub fn peer_gave_up(&self, connection: &mut Connection, reason: Reason) -> Failure {
        match self.receive_report(connection, LAST_WORDS) {
            Ok(report) if report.code != 0 => peer::said(&report, self.role.other()),
            _ => self.signals.failure().unwrap_or_else(|| peer::left(reason, self.role.other())),
        }
    }

    /// The checksum of all that went through.
    pub fn computed(&mut self, digest: &Digest) {
        self.checksum = Some((digest.kind(), digest.value()));
    }

    /// Closes with the reason that the outcome is. A peer that cannot be told is gone, and that is no worse now.
    pub fn close(&self, connection: Connection, outcome: &Result<(), Failure>) {
        let code = outcome.as_ref().err().map_or(Code::Done, |failure| failure.code);
        let _ = connection.close(code.into(), GOODBYE);
    }

    /// One line on standard error, if it is wanted and nothing else has the place.
    pub fn say_if(&self, wanted: bool, text: &str) {
        if wanted && !self.common.json_to_stderr() {
            complain(self.role, text);
        }
    }

    fn put(&self, event: &Event<'_>) {
        if let Some(events) = &self.events {
            events.put(event);
        }
    }

    fn end(mut self, result: Result<(), Failure>) -> Code {
        let (bytes, seconds) = (self.meter.bytes(), self.meter.seconds());
        self.meter.stop();
        let rate = gb_per_s(bytes, seconds);
        let failure = result.err();
        let code = failure.as_ref().map_or(Code::Done, |failure| failure.code);
        self.put(&Event::End {
            seconds,
            bytes,
            gb_per_s: rate,
            exit_code: code.number(),
            error: failure.as_ref().map(|failure| failure.text.as_str()),
            checksum: self.checksum.map(|(kind, _)| kind.name()),
            checksum_value: self.checksum.map(|(_, value)| format!("{value:#018x}")),
            connection: self.joined.as_ref(),
        });
        match &failure {
            Some(failure) => self.say_if(true, &failure.text),
            None => {
                let checksum = self.checksum.map(|(kind, value)| match kind {
                    DigestKind::None => String::new(),
                    kind => format!(", {kind} {value:x}"),
                });
                let checksum = checksum.unwrap_or_default();
                let text = format!("{bytes} bytes in {seconds:.3} s, {rate:.2} GB/s{checksum}");
                self.say_if(!self.common.quiet, &text);
            }
        }
        if let Some(lost) = self.events.as_ref().and_then(|events| events.take_failure()) {
            complain(self.role, &lost.text);
        }
        code
    }
}

impl Role {
    /// The peer's.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }

    const fn report_tag(self) -> u64 {
        match self {
            Self::Sender => TAG_TRAILER,
            Self::Receiver => TAG_VERDICT,
        }
    }
}

/// One line, whatever is in it. Nobody can be told that standard error is gone.
fn complain(role: Role, text: &str) {
    let line: String = text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let _ = writeln!(io::stderr().lock(), "{}: {line}", role.tool());
}
