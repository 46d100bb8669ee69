//! What rsend and rrecv do around a transfer: begin, tell of it, end.

use crate::bar::rate_shown;
use crate::exit::{Code, Failure, explain};
use crate::files::{self, Named};
use crate::meter::Meter;
use crate::options::Moving;
use crate::protocol::{Hello, Role, agreed};
use crate::report::{Event, Events, Joined, Settings, gb_per_s, round};
use crate::session::{Session, complain};
use crate::signals;
use crate::trace::Trace;
use crate::trace::track::Track;
use core::time::Duration;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use superpipe::io::{Digest, DigestKind};
use superpipe::{Address, Connection, Options};

/// One run of a tool.
#[derive(Debug)]
pub struct Run<'a> {
    /// this end
    pub session: Session<'a>,
    /// the bytes that went through
    pub meter: Meter,
    options: &'a Moving,
    events: Option<Arc<Events>>,
    trace: Trace,
    /// why nothing is done, said after the first event
    refused: Option<Failure>,
    joined: Option<Joined>,
    checksum: Option<(DigestKind, u64)>,
}

/// Runs a tool from its first event to its last, and says how it ended. `data` is what it reads or writes for its peer.
pub fn run(
    role: Role,
    options: &Moving,
    data: Named<'_>,
    work: impl FnOnce(&mut Run<'_>) -> Result<(), Failure>,
) -> ExitCode {
    let mut run = match Run::new(role, options, data) {
        Ok(run) => run,
        Err(failure) => {
            complain(role, &failure.text);
            return signals::end(failure.code);
        }
    };
    let result = work(&mut run);
    signals::end(run.end(result))
}

impl<'a> Run<'a> {
    fn new(role: Role, options: &'a Moving, data: Named<'_>) -> Result<Self, Failure> {
        let has_stderr = options.json_to_stderr();
        let session = Session::new(role, &options.common, has_stderr)?;
        let refused = files::check(&options.files(data)).err();
        // --json is not opened where it may be FILE itself; standard error is open already
        let json = options.json.as_deref().filter(|_| refused.is_none() || has_stderr);
        let events = json.map(|path| Events::open(path, &session.signals)).transpose()?.map(Arc::new);
        let with_bar = !options.common.quiet && !has_stderr && io::stderr().is_terminal();
        let meter = Meter::new(events.clone(), with_bar);
        let trace = Trace::default();
        Ok(Self { session, meter, options, events, trace, refused, joined: None, checksum: None })
    }

    /// Tells in the first event what is about to be done. What could fail before that is done after it, so that an event
    /// says how it ended.
    ///
    /// # Errors
    /// When two files are one, the trace cannot be opened, or there is no thread to tell of the transfer.
    pub fn start(
        &mut self,
        address: &Address,
        file: &str,
        size: Option<u64>,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let settings = Settings::new(self.options, timeout);
        self.put(&Event::Start {
            tool: self.session.role.tool(),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            address: address.to_string(),
            file,
            size,
            settings: &settings,
        });
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        self.trace = Trace::open(self.options.common.trace.as_deref(), &self.session.signals)?;
        let listening = self.meter.listen();
        listening.map_err(|error| Failure::new(Code::Device, explain("cannot start a thread", &error)))
    }

    /// Puts the event of a port that was chosen here.
    pub fn listening(&self, asked: &Address, address: &Address) {
        if asked != address {
            self.put(&Event::Listening { address: address.to_string() });
        }
    }

    /// What the library is asked for.
    #[must_use]
    pub fn options(&self) -> Options {
        self.session.options(self.options.wait.strategy())
    }

    /// There is a connection.
    ///
    /// # Errors
    /// When this thread cannot be pinned near it.
    pub fn connected(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.trace.begin(connection);
        self.joined = Some(self.session.connected(connection)?);
        Ok(())
    }

    /// Introduces this end, and hears the other: its HELLO, and the checksum that both use.
    ///
    /// # Errors
    /// As [`Session::exchange_hellos`].
    pub fn exchange_hellos(
        &self,
        connection: &mut Connection,
        size_hint: Option<u64>,
    ) -> Result<(Hello, DigestKind), Failure> {
        let wished = self.options.wished_checksum();
        let theirs = self.session.exchange_hellos(connection, wished, size_hint)?;
        Ok((theirs, agreed(wished, theirs.checksum)))
    }

    /// The checksum of all that went through.
    pub fn computed(&mut self, digest: &Digest) {
        self.checksum = Some((digest.kind(), digest.value()));
    }

    /// Closes a connection over which no transfer began; another is waited for.
    pub fn dismiss(&mut self, connection: Connection, failure: Failure) {
        self.joined = None;
        self.session.close(connection, &Err(failure));
    }

    /// Keeps what was recorded, and closes with the reason that the outcome is.
    pub fn close(&mut self, mut connection: Connection, outcome: &Result<(), Failure>) {
        self.trace.add(Track::take(self.session.role.tool(), &mut connection));
        self.session.close(connection, outcome);
    }

    fn put(&self, event: &Event<'_>) {
        if let Some(events) = &self.events {
            events.put(event);
        }
    }

    fn end(mut self, result: Result<(), Failure>) -> Code {
        let (bytes, elapsed) = (self.meter.bytes(), self.meter.elapsed());
        self.meter.stop();
        let seconds = round(elapsed.as_secs_f64());
        let rate = gb_per_s(bytes, seconds);
        let failure = result.err();
        let code = failure.as_ref().map_or(Code::Done, |failure| failure.code);
        let lost_trace = self.trace.write().err();
        self.put(&Event::End {
            seconds,
            bytes,
            gb_per_s: rate,
            exit_code: code.number(),
            error: failure.as_ref().map(|failure| failure.text.as_str()),
            report_error: lost_trace.as_ref().map(|lost| lost.text.as_str()),
            checksum: self.checksum.map(|(kind, _)| kind.name()),
            checksum_value: self.checksum.map(|(_, value)| format!("{value:#018x}")),
            core: self.session.core(),
            connection: self.joined.as_ref(),
        });
        match &failure {
            Some(failure) => self.session.say_if(true, &failure.text),
            None => {
                let checksum = self.checksum.map(|(kind, value)| match kind {
                    DigestKind::None => String::new(),
                    kind => format!(", {kind} {value:x}"),
                });
                let checksum = checksum.unwrap_or_default();
                let text =
                    format!("{bytes} bytes in {seconds:.3} s, {}{checksum}", rate_shown(bytes, elapsed));
                self.session.say_if(!self.session.common.quiet, &text);
            }
        }
        // a report that is lost changes no exit code: the peer has acted on it
        let lost_events = self.events.as_ref().and_then(|events| events.take_failure());
        for lost in lost_events.into_iter().chain(lost_trace) {
            self.session.say_if(true, &lost.text);
        }
        code
    }
}
