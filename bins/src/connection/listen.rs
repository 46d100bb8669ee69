//! Listening for a peer.

use crate::command_line::options::{Common, Listening};
use crate::connection::attempts::Attempts;
use crate::connection::session::Session;
use crate::exit::Failure;
use crate::shell::quoted;
use core::time::Duration;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::Instant;
use superpipe::setup::LANDING_BYTES;
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options};

/// Descriptors that a connection over shared memory needs: the socket, two segments and the peer's process.
const DESCRIPTORS_PER_CONNECTION: usize = 4;
/// Longest shortage of descriptors or memory that is waited out. Other clients can cause a short one; a longer one does not pass
/// by itself.
const SHORTAGE_MAX: Duration = Duration::from_secs(1);
/// Pause after a failure of this host, so that its cause can pass before the next client is accepted.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// An address where peers can connect. Dropping it stops listening.
#[derive(Debug)]
pub struct Acceptor<'a> {
    session: &'a Session<'a>,
    listening: &'a Listening,
    listener: Listener,
    attempts: Attempts,
}

/// Cause for which a wait ended without a connection.
enum NoConnection {
    /// The deadline has passed. Holds the library's error, unless a failed attempt came last.
    Deadline(Option<Error>),
    /// A signal arrived, or this process can accept no connection.
    Failed(Failure),
}

impl<'a> Acceptor<'a> {
    /// Starts listening.
    ///
    /// # Errors
    /// The address is in use, or unusable.
    pub fn listen(
        session: &'a Session<'a>,
        listening: &'a Listening,
        options: Options,
    ) -> Result<Self, Failure> {
        let listener = bind(session, listening, options)?;
        let attempts = Attempts::new(listener.local_addr().clone());
        Ok(Self { session, listening, listener, attempts })
    }

    /// Returns the address that peers connect to.
    pub const fn address(&self) -> &Address {
        self.listener.local_addr()
    }

    /// Waits for the next connection until `deadline`, when `--accept-timeout` ends. Reports a failed attempt, and goes on waiting.
    ///
    /// # Errors
    /// The deadline has passed, a signal arrived, or this process can accept no connection.
    pub fn accept(&mut self, deadline: Instant) -> Result<Connection, Failure> {
        self.wait_for_connection(deadline).map_err(|end| match end {
            NoConnection::Failed(failure) => failure,
            NoConnection::Deadline(error) => {
                let nobody = error.map_or_else(
                    || format!("nobody connected to {}", self.address()),
                    |error| error.to_string(),
                );
                self.attempts.explain(self.session.role.work(), self.listening.accept_timeout, &nobody)
            }
        })
    }

    /// Reports that the work with a connected peer failed before it began. The wait goes on.
    pub fn failed(&mut self, failure: &Failure) {
        self.attempts.add(self.session, failure);
    }

    fn wait_for_connection(&mut self, deadline: Instant) -> Result<Connection, NoConnection> {
        // shortage of descriptors or memory: its start, and the failure that it caused
        let mut shortage: Option<(Instant, Failure)> = None;
        loop {
            // The listener must run during a shortage, because it frees the descriptors of silent clients.
            let until =
                if shortage.is_some() { deadline.min(Instant::now() + RETRY_PAUSE) } else { deadline };
            let error = match self.listener.accept(until) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let is_over = Instant::now() >= deadline;
            let is_ours = matches!(error.kind(), ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device);
            match error.kind() {
                ErrorKind::Timeout if is_over => return Err(NoConnection::Deadline(Some(error))),
                ErrorKind::Interrupted => return Err(NoConnection::Failed(self.session.failure(&error))),
                _ => {}
            }
            let failure = self.session.failure(&error);
            let Common { memory, tuning, .. } = self.session.common;
            if memory.fit_no_connection(&failure.text, &tuning.tuning()) {
                return Err(NoConnection::Failed(failure));
            }
            if (is_ours || shortage.is_some()) && (lacks_descriptors() || lacks_memory()) {
                let (since, failure) = shortage.get_or_insert_with(|| (Instant::now(), failure));
                if since.elapsed() >= SHORTAGE_MAX {
                    return Err(NoConnection::Failed(failure.clone()));
                }
            } else {
                let is_waiting = shortage.take().is_some() && error.kind() == ErrorKind::Timeout;
                if !is_waiting {
                    self.attempts.add(self.session, &failure);
                }
            }
            if is_ours {
                // Without a pause, a client in the backlog would cause the same error in a tight loop.
                thread::sleep(RETRY_PAUSE);
            }
            // repeated attempts do not extend the deadline
            if is_over {
                return Err(NoConnection::Deadline(None));
            }
        }
    }
}

/// Starts listening, and prints the address where peers can connect.
///
/// # Errors
/// The address is in use, or unusable.
pub fn bind(session: &Session<'_>, listening: &Listening, options: Options) -> Result<Listener, Failure> {
    let Listening { listen, .. } = listening;
    let listener = Listener::bind(listen, options).map_err(|error| session.failure(&error))?;
    let address = listener.local_addr();
    // Without RDMA this tool would wait for other hosts in vain. On a terminal, the line shows people how to connect.
    let is_worth_it = listener.rdma_unavailable().is_some() || io::stderr().is_terminal();
    // A port that the system chose must be printed, or nobody could connect.
    let wanted = session.common.verbose || address != listen || (is_worth_it && !session.common.quiet);
    let other = session.role.other();
    let asked = other_end(address, &listener);
    let text = format!(
        "listening at {address} ({}); at the other end: {} {asked}",
        addresses(&listener),
        other.tool()
    );
    session.print_if(wanted, &text);
    Ok(listener)
}

/// Returns true if this process cannot open the few descriptors that a connection needs.
fn lacks_descriptors() -> bool {
    let opened: io::Result<Vec<File>> =
        (0..DESCRIPTORS_PER_CONNECTION).map(|_| File::open("/dev/null")).collect();
    opened.is_err()
}

/// Returns true if this process cannot allocate the memory of a connection. Waiting does not help if a limit is the cause.
fn lacks_memory() -> bool {
    let made = memfd_create(c"superpipe-check", MemfdFlags::CLOEXEC);
    made.and_then(|memory| ftruncate(memory, u64::from(LANDING_BYTES))).is_err()
}

/// Formats the address by which the other end reaches this one.
fn other_end(address: &Address, listener: &Listener) -> String {
    match address {
        // The other end would resolve a relative path in its own directory.
        Address::Shm(path) => quoted(&format!("shm:{}", listener.socket_path().unwrap_or(path).display())),
        Address::HostPort { host, port } => match host_name(host, listener) {
            Some(name) => Address::HostPort { host: name, port: *port }.to_string(),
            None => format!("localhost:{port}"),
        },
        Address::Rdma { host, port } => {
            let host = host_name(host, listener).unwrap_or_else(|| host.clone());
            Address::Rdma { host, port: *port }.to_string()
        }
        other => other.to_string(),
    }
}

/// Returns the name by which other hosts may know this one; `None` if they cannot reach it.
fn host_name(host: &str, listener: &Listener) -> Option<String> {
    let address = listener.rdma_addr()?;
    match host {
        "" | "0.0.0.0" | "::" => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| Some(address.ip().to_string()), |name| Some(name.trim().to_owned())),
        host => Some(host.to_owned()),
    }
}

/// Lists the addresses where peers can connect, and the cause for which other hosts cannot.
fn addresses(listener: &Listener) -> String {
    let shm = listener.socket_path().map(|path| path.display().to_string());
    let verbs = listener.rdma_addr().map(|address| format!("verbs at {address}"));
    let mut addresses = shm.into_iter().chain(verbs).collect::<Vec<_>>().join(", ");
    if let Some(why) = listener.rdma_unavailable() {
        addresses = format!("{addresses}; other hosts cannot connect: {why}");
    }
    addresses
}
