//! The place where a tool waits for another.

use crate::attempts::Attempts;
use crate::exit::Failure;
use crate::options::Listening;
use crate::session::Session;
use crate::shell::quoted;
use core::time::Duration;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::Instant;
use superpipe::tuning::LANDING_BYTES;
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options};

/// Descriptors of a connection over shared memory: the socket, two segments and the peer's process.
const DESCRIPTORS: usize = 4;
/// A lack of descriptors or of memory that lasts longer does not pass by itself. Strangers may cause a shorter one.
const LACK_MAX: Duration = Duration::from_secs(1);
/// After a failure of this host, which may not have passed when the next client comes.
const PAUSE: Duration = Duration::from_millis(50);

/// A place where others can connect. Dropped, the place is gone.
#[derive(Debug)]
pub struct Place<'a> {
    session: &'a Session<'a>,
    listening: &'a Listening,
    listener: Listener,
    attempts: Attempts,
}

/// The end of a wait without a connection.
enum Missed {
    /// The deadline has passed; the library's words, if it had the last.
    Nobody(Option<Error>),
    /// A signal came, or this process cannot accept anybody.
    Ended(Failure),
}

impl<'a> Place<'a> {
    /// Listens.
    ///
    /// # Errors
    /// When the address is in use, or cannot be.
    pub fn listen(
        session: &'a Session<'a>,
        listening: &'a Listening,
        options: Options,
    ) -> Result<Self, Failure> {
        let Listening { listen, .. } = listening;
        let listener = Listener::bind(listen, options).map_err(|error| session.failure(&error))?;
        let address = listener.address();
        // Who cannot be reached from other hosts would wait for them in vain. People are told how to connect.
        let is_worth_it = listener.why_no_verbs().is_some() || io::stderr().is_terminal();
        // A port that was chosen here must be told, or nobody could connect.
        let wanted = session.common.verbose || address != listen || (is_worth_it && !session.common.quiet);
        let other = session.role.other();
        let asked = other_end(address, &listener);
        let text = format!(
            "listening at {address} ({}); at the other end: {} {asked}",
            places(&listener),
            other.tool()
        );
        session.say_if(wanted, &text);
        let attempts = Attempts::new(address.clone());
        Ok(Self { session, listening, listener, attempts })
    }

    /// The address that others connect to.
    pub const fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Waits for the next that connects, as long as `--accept-timeout` says, which ends at `deadline`. An attempt that fails is told,
    /// and the wait goes on.
    ///
    /// # Errors
    /// When nobody else can come: the deadline has passed, a signal came, or this process cannot accept anybody.
    pub fn accept(&mut self, deadline: Instant) -> Result<Connection, Failure> {
        self.meet(deadline).map_err(|missed| match missed {
            Missed::Ended(failure) => failure,
            Missed::Nobody(error) => {
                let nobody = error.map_or_else(
                    || format!("nobody connected to {}", self.address()),
                    |error| error.to_string(),
                );
                self.attempts.explain(self.session.role.work(), self.listening.accept_timeout, &nobody)
            }
        })
    }

    /// Waits likewise, and returns `None` at the deadline, which is the caller's own.
    ///
    /// # Errors
    /// When a signal came, or this process cannot accept anybody.
    pub fn accept_before(&mut self, deadline: Instant) -> Result<Option<Connection>, Failure> {
        match self.meet(deadline) {
            Ok(connection) => Ok(Some(connection)),
            Err(Missed::Nobody(_)) => Ok(None),
            Err(Missed::Ended(failure)) => Err(failure),
        }
    }

    /// Tells that the work with one who had connected failed before it began, and that the wait goes on.
    pub fn failed(&mut self, failure: &Failure) {
        self.attempts.add(self.session, failure);
    }

    /// Begins a wait anew, after work that began.
    pub fn restart(&mut self) {
        self.attempts.restart();
    }

    fn meet(&mut self, deadline: Instant) -> Result<Connection, Missed> {
        // A lack of descriptors or memory: since when, and the failure that told.
        let mut lack: Option<(Instant, Failure)> = None;
        loop {
            // While something lacks, the wait goes on: it is what frees the descriptors of silent strangers.
            let until = if lack.is_some() { deadline.min(Instant::now() + PAUSE) } else { deadline };
            let error = match self.listener.accept(until) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let is_over = Instant::now() >= deadline;
            let is_ours = matches!(error.kind(), ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device);
            match error.kind() {
                ErrorKind::Timeout if is_over => return Err(Missed::Nobody(Some(error))),
                ErrorKind::Interrupted => return Err(Missed::Ended(self.session.failure(&error))),
                _ => {}
            }
            if (is_ours || lack.is_some()) && (lacks_descriptors() || lacks_memory()) {
                let (since, failure) =
                    lack.get_or_insert_with(|| (Instant::now(), self.session.failure(&error)));
                if since.elapsed() >= LACK_MAX {
                    return Err(Missed::Ended(failure.clone()));
                }
            } else {
                let is_waiting = lack.take().is_some() && error.kind() == ErrorKind::Timeout;
                if !is_waiting {
                    self.attempts.add(self.session, &self.session.failure(&error));
                }
            }
            if is_ours {
                // A client that waits in the backlog would have the same error come again and again.
                thread::sleep(PAUSE);
            }
            // attempt after attempt holds up no deadline
            if is_over {
                return Err(Missed::Nobody(None));
            }
        }
    }
}

/// Returns true if this process cannot open the few descriptors that a connection takes.
fn lacks_descriptors() -> bool {
    let opened: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    opened.is_err()
}

/// Returns true if this process cannot make the memory of a connection, which no wait changes where a limit is the reason.
fn lacks_memory() -> bool {
    let made = memfd_create(c"superpipe-check", MemfdFlags::CLOEXEC);
    made.and_then(|memory| ftruncate(memory, u64::from(LANDING_BYTES))).is_err()
}

/// The address by which the other end reaches this one.
fn other_end(address: &Address, listener: &Listener) -> String {
    match address {
        // Where the other end looks for a relative path, it is another one.
        Address::Shm(path) => quoted(&format!("shm:{}", listener.path().unwrap_or(path).display())),
        Address::Port { host, port } => match name_of(host, listener) {
            Some(name) => Address::Port { host: name, port: *port }.to_string(),
            None => format!("localhost:{port}"),
        },
        Address::Verbs { host, port } => {
            let host = name_of(host, listener).unwrap_or_else(|| host.clone());
            Address::Verbs { host, port: *port }.to_string()
        }
    }
}

/// The name that other hosts may know this one by; `None` where they cannot reach it.
fn name_of(host: &str, listener: &Listener) -> Option<String> {
    let address = listener.verbs_address()?;
    match host {
        "" | "0.0.0.0" | "::" => std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| Some(address.ip().to_string()), |name| Some(name.trim().to_owned())),
        host => Some(host.to_owned()),
    }
}

/// Each place where somebody can connect, and why there is no other where there could be.
fn places(listener: &Listener) -> String {
    let shm = listener.path().map(|path| path.display().to_string());
    let verbs = listener.verbs_address().map(|address| format!("verbs at {address}"));
    let mut places = shm.into_iter().chain(verbs).collect::<Vec<_>>().join(", ");
    if let Some(why) = listener.why_no_verbs() {
        places = format!("{places}; not for other hosts: {why}");
    }
    places
}
