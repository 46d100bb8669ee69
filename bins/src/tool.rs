//! What rsend and rrecv do around a transfer: begin, tell of it, end.

use crate::exit::{Code, Failure};
use crate::meter::Meter;
use crate::options::Moving;
use crate::protocol::{Hello, Role, agreed};
use crate::report::{Event, Events, Joined, Settings, gb_per_s};
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
    joined: Option<Joined>,
    checksum: Option<(DigestKind, u64)>,
}

/// Runs a tool from its first event to its last, and says how it ended.
pub fn run(role: Role, options: &Moving, work: impl FnOnce(&mut Run<'_>) -> Result<(), Failure>) -> ExitCode {
    let mut run = match Run::new(role, options) {
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
    fn new(role: Role, options: &'a Moving) -> Result<Self, Failure> {
        let session = Session::new(role, &options.common, options.json_to_stderr())?;
        let events = options.json.as_deref().map(Events::open).transpose()?.map(Arc::new);
        let trace = Trace::open(options.common.trace.as_deref(), &session.signals)?;
        let with_bar = !options.common.quiet && !options.json_to_stderr() && io::stderr().is_terminal();
        let meter = Meter::new(events.clone(), with_bar);
        let meter = meter.map_err(|error| {
            Failure::new(Code::Device, crate::exit::explain("cannot start a thread", &error))
        })?;
        Ok(Self { session, meter, options, events, trace, joined: None, checksum: None })
    }

    /// The first event: what is about to be done.
    pub fn start(&self, address: &Address, file: &str, size: Option<u64>, timeout: Duration) {
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
    }

    /// The event of a port that was chosen here, of which nothing else tells.
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
                let text = format!("{bytes} bytes in {seconds:.3} s, {rate:.2} GB/s{checksum}");
                self.session.say_if(!self.session.common.quiet, &text);
            }
        }
        let lost_trace = self.trace.write().err();
        let lost_events = self.events.as_ref().and_then(|events| events.take_failure());
        for lost in lost_events.into_iter().chain(lost_trace) {
            complain(self.session.role, &lost.text);
        }
        code
    }
}
