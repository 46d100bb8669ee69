//! Steps of every tool with its connection: the exchange of HELLOs, the reports at the end, and the close.

use crate::command_line::options::{Common, KernelOption};
use crate::connection::cores::Cores;
use crate::connection::peer;
use crate::exit::{Code, Failure};
use crate::os::trust::peer_trust;
use crate::protocol::{
    HELLO_BYTES, Hello, Place, REPORT_BYTES_MAX, Report, Role, TAG_HELLO, TAG_TRAILER, TAG_VERDICT, Violation,
};
use crate::quantity::format_duration;
use crate::report::events::ConnectionProperties;
use crate::signals::Signals;
use crate::stderr::{self, print_line};
use crate::timeouts::{CLOSE_TIMEOUT, HELLO_TIMEOUT, REPORT_TIMEOUT};
use core::time::Duration;
use std::sync::Arc;
use superpipe::io::{Digest, DigestKind};
use superpipe::metrics::{PublishOptions, Publisher, publish};
use superpipe::os::WaitStrategy;
use superpipe::{
    Address, Connection, DeviceName, Error, ErrorKind, MemoryNode, MemoryPlacement, Options, Peer, Reason,
};

/// One end's run: its role, options and signals.
#[derive(Debug, Clone)]
pub struct Session<'a> {
    /// this tool
    pub role: Role,
    /// options that all tools have
    pub common: &'a Common,
    /// signals that ask the tool to stop
    pub signals: Signals,
    /// true if standard error carries nothing but events
    is_mute: bool,
    cores: Cores,
    /// the page of --metrics, as long as the tool runs
    _publisher: Option<Arc<Publisher>>,
}

impl<'a> Session<'a> {
    /// Creates a session, installs the signal handlers, and sets the limits of memory.
    ///
    /// # Errors
    /// The handlers cannot be installed, or the metrics not be published.
    pub fn new(role: Role, common: &'a Common, is_mute: bool) -> Result<Self, Failure> {
        let signals = Signals::install(role.work())?;
        stderr::set_signal_flag(signals.flag());
        common.memory.set();
        let published = common.metrics.then(|| publish(PublishOptions::default()));
        let publisher =
            published.transpose().map_err(|error| Failure::new(Code::Device, error.to_string()))?;
        let cores = Cores::new(role, common.core);
        Ok(Self { role, common, signals, is_mute, cores, _publisher: publisher.map(Arc::new) })
    }

    /// Pins this thread, if `--core` asks for that. Must be called before any memory is touched, and after other threads were started.
    ///
    /// # Errors
    /// The core does not exist, or this process may not use it.
    pub fn pin(&self) -> Result<(), Failure> {
        let device = self.common.route.device;
        self.cores.pin(device.as_ref().map(DeviceName::as_str))
    }

    /// Applies the options of a new connection that are this end's alone, reports its properties with --verbose, and pins this thread near
    /// its device, if `--core` asks for that and the device was not known before.
    ///
    /// # Errors
    /// The kernel refuses to pin.
    pub fn connected(&self, connection: &mut Connection) -> Result<ConnectionProperties, Failure> {
        self.tune(connection);
        let description = connection.description();
        let properties = ConnectionProperties::new(&description);
        let peer = match connection.peer() {
            Peer::Process(cred) => format!("; the peer is process {} of uid {}", cred.pid, cred.uid),
            Peer::Host(address) => format!("; the peer is at {address}"),
            _ => String::new(),
        };
        self.print_if(self.common.verbose, &format!("{properties}{}{peer}", self.memory(description.memory)));
        if self.cores.is_auto()
            && let Some(device) = description.device
        {
            let choice = self.cores.choose(Some(device.as_str()))?;
            self.print_if(self.common.verbose, &format!("pinned to {choice}"));
        }
        Ok(properties)
    }

    /// Applies the options of a new connection that are this end's alone.
    pub fn tune(&self, connection: &mut Connection) {
        let tuning = &self.common.tuning;
        let [copy_in, copy_out] =
            [tuning.copy_in, tuning.copy_out].map(|kernel| kernel.map(KernelOption::kernel));
        if copy_in.is_some() || copy_out.is_some() {
            connection.pin_copies(copy_in, copy_out);
        }
        if let Some(window) = tuning.window {
            connection.set_window(window.bytes());
        }
    }

    /// Returns what to tell of the memory node: nothing if none was chosen or asked for.
    fn memory(&self, placement: MemoryPlacement) -> String {
        let is_asked = self.common.memory.memory_node != MemoryNode::Auto;
        if is_asked || placement.node().is_some() { format!("; {placement}") } else { String::new() }
    }

    /// Returns the core that this end is pinned to.
    #[must_use]
    pub fn core(&self) -> Option<u32> {
        self.cores.core()
    }

    /// Returns the library's options, with the signals' flag.
    #[must_use]
    pub fn options(&self, wait: WaitStrategy) -> Options {
        Options {
            wait,
            idle_timeout: self.common.idle_timeout,
            rdma_device: self.common.route.rdma_device(),
            rdma_ack_timeout: self.common.route.rdma_ack_timeout(),
            peer_uid: self.common.peer_uid,
            peer_trust: peer_trust(self.common.route.trust_peer),
            tuning: self.common.tuning.tuning(),
            memory_node: self.common.memory.memory_node,
            interrupt: Some(self.signals.flag()),
            ..Options::default()
        }
    }

    /// Connects. Any timeout, of a name server or a listener, is a failure to connect.
    ///
    /// # Errors
    /// No connection is established within `timeout`, or none is possible.
    pub fn connect(
        &self,
        address: &Address,
        options: Options,
        timeout: Duration,
    ) -> Result<Connection, Failure> {
        Connection::connect(address, options, timeout).map_err(|error| match error.kind() {
            ErrorKind::Timeout => {
                let text = format!("{error}; --connect-timeout is {}", format_duration(timeout));
                Failure::new(Code::Connect, text)
            }
            _ => self.failure(&error),
        })
    }

    /// Returns the failure for an error of the library.
    #[must_use]
    pub fn failure(&self, error: &Error) -> Failure {
        peer::failure(error, self.role.other(), &self.signals)
    }

    /// Sends this end's HELLO, and receives the peer's. On one host it pins this thread beside the peer's, if `--core` asks for that, and tells the
    /// cores and their distance with --verbose.
    ///
    /// # Errors
    /// The peer is not one of these tools, has another version or the wrong role, is gone, or is silent; or the kernel refuses to pin.
    pub fn exchange_hellos(
        &self,
        connection: &mut Connection,
        checksum: Option<DigestKind>,
        size_hint: Option<u64>,
    ) -> Result<Hello, Failure> {
        let is_one_host = matches!(connection.peer(), Peer::Process(_));
        let hello = |place| Hello { role: self.role, checksum, size_hint, place, wants_name: false };
        match self.role {
            Role::Receiver | Role::Server => {
                let place = self.listeners_place(is_one_host)?;
                self.send_hello(connection, &hello(place))?;
                let theirs = self.receive_hello(connection)?;
                self.settle_listener(&place, &theirs.place)?;
                Ok(theirs)
            }
            Role::Sender | Role::Client if is_one_host && self.core().is_some() => {
                let theirs = self.receive_hello(connection);
                let place = match &theirs {
                    Ok(theirs) => self.place_beside(&theirs.place)?,
                    // The peer gets a HELLO in any case: it may have a reason of its own to give up.
                    Err(failure) if failure.code == Code::Protocol => Place::default(),
                    Err(_) => return theirs,
                };
                self.send_hello(connection, &hello(place)).and(theirs)
            }
            Role::Sender | Role::Client => {
                self.send_hello(connection, &hello(Place { core: self.core(), ..Place::default() }))?;
                self.receive_hello(connection)
            }
        }
    }

    /// Returns what a listener tells of its core. One that chooses it begins anew with each peer.
    ///
    /// # Errors
    /// The kernel refuses to pin.
    pub fn listeners_place(&self, is_one_host: bool) -> Result<Place, Failure> {
        let may_move = is_one_host && self.cores.is_auto();
        if may_move {
            self.cores.choose(None)?;
        }
        let asks = is_one_host && self.common.verbose && self.core().is_some();
        Ok(Place { core: self.core(), may_move, asks, distance: None })
    }

    /// Moves a listener beside its peer, and tells the cores.
    ///
    /// # Errors
    /// The kernel refuses to pin.
    pub fn settle_listener(&self, ours: &Place, theirs: &Place) -> Result<(), Failure> {
        if ours.may_move {
            let choice = self.cores.move_beside(theirs)?;
            self.print_if(self.common.verbose, &format!("pinned to {choice}"));
        }
        if ours.asks && self.core() == ours.core {
            self.print_some(self.cores.told(theirs, theirs.distance));
        }
        Ok(())
    }

    /// Moves the end that connects beside the listener, and measures and tells the distance of both cores if either end is verbose.
    fn place_beside(&self, theirs: &Place) -> Result<Place, Failure> {
        if self.cores.is_auto() {
            let choice = self.cores.move_beside(theirs)?;
            self.print_if(self.common.verbose, &format!("pinned to {choice}"));
        }
        let is_wanted = self.common.verbose || theirs.asks;
        let distance = is_wanted.then(|| self.cores.distance_from(theirs)).flatten();
        if self.common.verbose {
            self.print_some(self.cores.told(theirs, distance));
        }
        Ok(Place { core: self.core(), distance, ..Place::default() })
    }

    fn send_hello(&self, connection: &mut Connection, hello: &Hello) -> Result<(), Failure> {
        let sent = connection.send(TAG_HELLO, &[&hello.encode()], self.hello_timeout());
        sent.map_err(|error| self.failure(&error))
    }

    fn receive_hello(&self, connection: &mut Connection) -> Result<Hello, Failure> {
        let timeout = self.hello_timeout();
        let mut bytes = [0; HELLO_BYTES];
        let theirs = match connection.recv_into(&mut [&mut bytes], timeout) {
            Ok(received) if received.tag == TAG_HELLO => {
                Hello::decode(&bytes[..received.bytes], self.role.other())
            }
            Ok(_) => Hello::decode(&[], self.role.other()),
            Err(error) if is_of_another_kind(&error) => Hello::decode(&[], self.role.other()),
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let text = format!("the peer sent no HELLO within {}", format_duration(timeout));
                return Err(Failure::new(Code::Timeout, text));
            }
            Err(error) => return Err(self.failure(&error)),
        };
        theirs.map_err(peer::failure_of_violation)
    }

    fn hello_timeout(&self) -> Duration {
        match self.role {
            // A silent client must not block others that wait behind it.
            Role::Receiver | Role::Server => self.common.idle_timeout.min(HELLO_TIMEOUT),
            Role::Sender | Role::Client => self.common.idle_timeout,
        }
    }

    /// Sends this end's TRAILER or VERDICT; after a success it carries the remark, if there is one.
    ///
    /// # Errors
    /// The message cannot be sent.
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

    /// Reports a failure to the peer, waits a limited time for the delivery, and returns the failure.
    pub fn report_failure(&self, connection: &mut Connection, failure: Failure, digest: &Digest) -> Failure {
        let sent = self.send_report(connection, Err(&failure), digest, REPORT_TIMEOUT);
        // A peer that does not receive the report gets the code with the close.
        let _ = sent.and_then(|()| connection.flush(REPORT_TIMEOUT));
        failure
    }

    /// Receives the peer's TRAILER or VERDICT.
    ///
    /// # Errors
    /// No report arrives, or it violates the protocol.
    pub fn receive_report(&self, connection: &mut Connection, timeout: Duration) -> Result<Report, Failure> {
        let mut bytes = [0; REPORT_BYTES_MAX];
        let received = connection.recv_into(&mut [&mut bytes], timeout).map_err(|error| {
            if is_of_another_kind(&error) {
                peer::failure_of_violation(Violation(
                    "sent a longer message, or a stream, instead of its report",
                ))
            } else {
                self.failure(&error)
            }
        })?;
        if received.tag != self.role.other().report_tag() {
            return Err(peer::failure_of_violation(Violation("sent another message instead of its report")));
        }
        Report::decode(&bytes[..received.bytes]).map_err(peer::failure_of_violation)
    }

    /// Returns the failure of a peer that gave up: the one in its report, if that arrives, else the one for the reason.
    #[must_use]
    pub fn receive_failure(&self, connection: &mut Connection, reason: Reason) -> Failure {
        // These reasons say less than the error with which the connection ends.
        let is_unspecific = [Reason::DONE, Reason::GIVEN_UP].contains(&reason);
        match self.receive_report(connection, REPORT_TIMEOUT) {
            Ok(report) if report.code != 0 => peer::failure_of_report(&report, self.role.other()),
            Err(failure) if is_unspecific && failure.code == Code::PeerLost => failure,
            _ => self.signals.failure().unwrap_or_else(|| peer::failure_of_reason(reason, self.role.other())),
        }
    }

    /// Closes with the outcome as the reason. Ignores errors: the work is over, and a peer that cannot be reached is gone.
    pub fn close(&self, connection: Connection, outcome: &Result<(), Failure>) {
        let code = outcome.as_ref().err().map_or(Code::Done, |failure| failure.code);
        let _ = connection.close(code.into(), CLOSE_TIMEOUT);
    }

    fn print_some(&self, text: Option<String>) {
        text.into_iter().for_each(|text| self.print_if(true, &text));
    }

    /// Prints one line on standard error if it is `wanted`, unless standard error carries events.
    pub fn print_if(&self, wanted: bool, text: &str) {
        if wanted && !self.is_mute {
            print_line(self.role, text);
        }
    }
}

/// Returns true if the next transfer is longer than the expected message, or a stream.
fn is_of_another_kind(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TooSmall | ErrorKind::Usage)
}

impl Role {
    /// Returns the tag of this role's report.
    #[must_use]
    pub const fn report_tag(self) -> u64 {
        match self {
            Self::Sender | Self::Client => TAG_TRAILER,
            Self::Receiver | Self::Server => TAG_VERDICT,
        }
    }
}
