//! Common steps of rsend and rrecv around a transfer: start, reports, end.

use crate::command_line::options::TransferOptions;
use crate::connection::session::Session;
use crate::exit::{Code, Failure, explain};
use crate::files::distinct::{self, NamedFile};
use crate::protocol::{Hello, Place, Role, negotiate_checksum};
use crate::report::bar::format_rate;
use crate::report::copying::Copying;
use crate::report::events::{ConnectionProperties, Event, Events, Settings, gb_per_s, round};
use crate::report::growth::Growth;
use crate::report::meter::Meter;
use crate::signals;
use crate::stderr::print_line;
use crate::trace::Trace;
use crate::trace::track::Track;
use core::fmt;
use core::time::Duration;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use superpipe::io::{Digest, DigestKind};
use superpipe::{Address, Connection, Options};

/// One run of a tool.
#[derive(Debug)]
pub struct Run<'a> {
    /// role, options and signals of this end
    pub session: Session<'a>,
    /// counter of the bytes that went through
    pub meter: Meter,
    options: &'a TransferOptions,
    events: Option<Arc<Events>>,
    trace: Trace,
    /// failure that prevents the run, reported after the first event
    refused: Option<Failure>,
    properties: Option<ConnectionProperties>,
    growth: Option<Growth>,
    copying: Option<Copying>,
    checksum: Option<(DigestKind, u64)>,
    /// transfers of a run that serves many
    pub transfers: Option<Transfers>,
}

/// Counts of the transfers of a run that serves many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transfers {
    /// complete ones
    pub complete: u64,
    /// those that failed, and attempts that failed before their data
    pub failed: u64,
}

/// Runs a tool from its first event to its last, and reports the outcome. `data` is the file that it reads or writes.
pub fn run_tool(
    role: Role,
    options: &TransferOptions,
    data: NamedFile<'_>,
    work: impl FnOnce(&mut Run<'_>) -> Result<(), Failure>,
) -> ExitCode {
    let mut run = match Run::new(role, options, data) {
        Ok(run) => run,
        Err(failure) => {
            print_line(role, &failure.text);
            return signals::end(failure.code);
        }
    };
    let result = work(&mut run);
    signals::end(run.end(result))
}

impl<'a> Run<'a> {
    fn new(role: Role, options: &'a TransferOptions, data: NamedFile<'_>) -> Result<Self, Failure> {
        let has_stderr = options.json_to_stderr();
        let session = Session::new(role, &options.common, has_stderr)?;
        let refused = distinct::check(&options.files(data)).err();
        // do not open --json if it may be FILE itself; standard error is open already
        let json = options.json.as_deref().filter(|_| refused.is_none() || has_stderr);
        let events = json.map(|path| Events::open(path, &session.signals)).transpose()?.map(Arc::new);
        let with_bar = !options.common.quiet && !has_stderr && io::stderr().is_terminal();
        let meter = Meter::new(events.clone(), with_bar);
        let trace = Trace::default();
        Ok(Self {
            session,
            meter,
            options,
            events,
            trace,
            refused,
            properties: None,
            growth: None,
            copying: None,
            checksum: None,
            transfers: None,
        })
    }

    /// Writes the start event. Steps that can fail come after it where possible, so that an end event reports their failure.
    ///
    /// # Errors
    /// Two arguments name one file, the trace cannot be opened, or the reporting thread cannot be started.
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
        let started = self.meter.start_reporting();
        started.map_err(|error| Failure::new(Code::Device, explain("cannot start a thread", &error)))
    }

    /// Writes the event for a port that the system chose.
    pub fn listening(&self, asked: &Address, address: &Address) {
        if asked != address {
            self.put(&Event::Listening { address: address.to_string() });
        }
    }

    /// Returns the checksum that this end and a peer use.
    #[must_use]
    pub fn checksum_with(&self, theirs: &Hello) -> DigestKind {
        negotiate_checksum(self.options.requested_checksum(), theirs.checksum)
    }

    /// Returns this end's HELLO, as one that serves many: it does not move to a core beside one of them, and stores by the names that they send.
    #[must_use]
    pub fn hello_to_many(&self) -> Hello {
        let place = Place { core: self.session.core(), ..Place::default() };
        let checksum = self.options.requested_checksum();
        Hello { role: self.session.role, checksum, size_hint: None, place, wants_name: true }
    }

    /// Returns the library's options.
    #[must_use]
    pub fn options(&self) -> Options {
        self.session.options(self.options.wait.strategy())
    }

    /// Begins the trace of a new connection, reports its properties, and pins this thread.
    ///
    /// # Errors
    /// This thread cannot be pinned near the device.
    pub fn connected(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.trace.start_recording(connection);
        self.properties = Some(self.session.connected(connection)?);
        Ok(())
    }

    /// Exchanges HELLOs, and returns the peer's with the checksum that both ends use.
    ///
    /// # Errors
    /// As [`Session::exchange_hellos`].
    pub fn exchange_hellos(
        &self,
        connection: &mut Connection,
        size_hint: Option<u64>,
    ) -> Result<(Hello, DigestKind), Failure> {
        let requested = self.options.requested_checksum();
        let theirs = self.session.exchange_hellos(connection, requested, size_hint)?;
        Ok((theirs, self.checksum_with(&theirs)))
    }

    /// Records the checksum of the stream.
    pub fn computed(&mut self, digest: &Digest) {
        self.checksum = Some((digest.kind(), digest.value()));
    }

    /// Closes a connection over which no transfer began. The tool then waits for another one.
    pub fn reject_sender(&mut self, connection: Connection, failure: Failure) {
        self.properties = None;
        self.session.close(connection, &Err(failure));
    }

    /// Adds the connection's record to the trace, and closes with the outcome as the reason.
    pub fn close(&mut self, mut connection: Connection, outcome: &Result<(), Failure>) {
        self.trace.add(Track::take(self.session.role.tool(), &mut connection));
        let growth = Growth::new(&connection.counters());
        self.session.print_if(self.session.common.verbose && growth.has_any(), &growth.to_string());
        self.growth = Some(growth);
        let copying = Copying::new(&connection.counters());
        self.session.print_if(self.session.common.verbose && copying.has_any(), &copying.to_string());
        self.copying = Some(copying);
        self.session.close(connection, outcome);
    }

    /// Has events written by a thread from now on: nobody is to wait for their reader.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn detach_events(&self) -> Result<(), Failure> {
        self.events.as_ref().map_or(Ok(()), |events| events.detach())
    }

    /// Writes an event, if events are wanted.
    pub fn put(&self, event: &Event<'_>) {
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
            connection: self.properties.as_ref(),
            growth: self.growth.as_ref(),
            copying: self.copying.as_ref(),
            complete: self.transfers.map(|transfers| transfers.complete),
            failed: self.transfers.map(|transfers| transfers.failed),
        });
        match &failure {
            Some(failure) => self.session.print_if(true, &failure.text),
            None => {
                let checksum = self.checksum.map(|(kind, value)| match kind {
                    DigestKind::None => String::new(),
                    kind => format!(", {kind} {value:x}"),
                });
                let checksum = checksum.unwrap_or_default();
                let transfers = self.transfers.map(|transfers| format!("{transfers}: ")).unwrap_or_default();
                let text = format!(
                    "{transfers}{bytes} bytes in {seconds:.3} s, {}{checksum}",
                    format_rate(bytes, elapsed)
                );
                self.session.print_if(!self.session.common.quiet, &text);
            }
        }
        // a lost report does not change the exit code, on which the peer has already acted
        let lost_events = self.events.as_ref().and_then(|events| events.take_failure());
        for lost in lost_events.into_iter().chain(lost_trace) {
            self.session.print_if(true, &lost.text);
        }
        code
    }
}

impl fmt::Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, failed } = self;
        write!(
            f,
            "{complete} {} complete, {failed} failed",
            if *complete == 1 { "transfer" } else { "transfers" }
        )
    }
}
