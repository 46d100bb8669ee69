//! Where a tool waits for another.

use crate::exit::{Code, Failure};
use crate::options::Listening;
use crate::quantity::shown;
use crate::session::Session;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::thread;
use std::time::Instant;
use superpipe::{Address, Connection, ErrorKind, Listener, Options};

/// Descriptors of a connection over shared memory: the socket, two segments and the peer's process.
const DESCRIPTORS: usize = 4;
/// After a failure of this host, which may not have passed when the next client comes.
const PAUSE: Duration = Duration::from_millis(50);

/// A place where others can connect. Dropped, the place is gone.
#[derive(Debug)]
pub struct Place<'a> {
    session: &'a Session<'a>,
    listening: &'a Listening,
    listener: Listener,
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
        // A port that was chosen here must be told, or nobody could connect.
        let address = listener.address();
        let wanted = session.common.verbose || address != listen;
        session.say_if(wanted, &format!("listening at {address} ({})", places(&listener)));
        Ok(Self { session, listening, listener })
    }

    /// The address that others connect to.
    pub const fn address(&self) -> &Address {
        self.listener.address()
    }

    /// The next that connects.
    ///
    /// # Errors
    /// When nobody does until the deadline, a signal comes, or one attempt goes wrong.
    pub fn accept(&mut self, deadline: Instant) -> Result<Connection, Failure> {
        self.meet(deadline)?
    }

    /// The next that connects, or how one attempt went wrong, which is no reason not to wait for another.
    ///
    /// # Errors
    /// When nobody else can come: the deadline has passed, a signal came, or this process cannot accept anybody.
    pub fn meet(&mut self, deadline: Instant) -> Result<Result<Connection, Failure>, Failure> {
        let error = match self.listener.accept(deadline) {
            Ok(connection) => return Ok(Ok(connection)),
            Err(error) => error,
        };
        let failure = match error.kind() {
            ErrorKind::Timeout if Instant::now() >= deadline => {
                let waited = shown(self.listening.accept_timeout);
                let text = format!("{error} within {waited}; see --accept-timeout");
                return Err(Failure::new(Code::Connect, text));
            }
            _ => self.session.failure(&error),
        };
        match error.kind() {
            ErrorKind::Interrupted => Err(failure),
            // A client that waits in the backlog would have the same error come again and again.
            ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device if lacks_descriptors() => Err(failure),
            ErrorKind::Limit | ErrorKind::Os | ErrorKind::Device => {
                thread::sleep(PAUSE);
                Ok(Err(failure))
            }
            _ => Ok(Err(failure)),
        }
    }
}

/// Returns true if this process cannot open the few descriptors that a connection takes.
fn lacks_descriptors() -> bool {
    let opened: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    opened.is_err()
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
