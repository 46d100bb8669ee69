//! Where a tool waits for another.

use crate::exit::{Code, Failure};
use crate::options::Listening;
use crate::quantity::shown;
use crate::session::Session;
use std::time::Instant;
use superpipe::{Address, Connection, ErrorKind, Listener, Options};

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
        self.listener.accept(deadline).map_err(|error| match error.kind() {
            ErrorKind::Timeout if Instant::now() >= deadline => {
                let waited = shown(self.listening.accept_timeout);
                Failure::new(Code::Connect, format!("{error} within {waited}; see --accept-timeout"))
            }
            _ => self.session.failure(&error),
        })
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
