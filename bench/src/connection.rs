//! superpipe connections for benchmarks, over a socket in a directory that nobody else can enter.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::{env, io, panic, process, thread};

use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options, WaitStrategy};

use crate::failure::Failure;

/// The timeout of every wait for a message: the other end answers at once, or not at all.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A private directory for a socket. Dropping removes it. A forked process must not drop its copy.
pub struct SocketDirectory(PathBuf);

impl SocketDirectory {
    /// Makes a new directory among the temporary ones.
    ///
    /// # Errors
    /// [`Failure::Os`] where none can be made.
    pub fn new() -> Result<Self, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("superpipe-bench-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::Os("make a private directory", error))?;
        Ok(Self(path))
    }

    /// The address of the socket.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Shm(self.0.join("socket"))
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        // Drop cannot report an error, and the directory is a temporary one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the options of an end that polls, and whose peer may be silent while it measures something else.
#[must_use]
pub fn polling() -> Options {
    Options { wait: WaitStrategy::Spin, idle_timeout: DEADLINE, ..Options::default() }
}

/// Connects two ends in one thread, for benchmarks that count the instructions of a message: what one end sends has arrived
/// when the other polls.
///
/// # Errors
/// Those of `connect`, `accept` and [`SocketDirectory::new`].
pub fn connect_pair(options: Options) -> Result<[Connection; 2], Failure> {
    let directory = SocketDirectory::new()?;
    let address = directory.address();
    let mut listener = Listener::bind(&address, options).map_err(fail)?;
    thread::scope(|scope| {
        let accepting = scope.spawn(move || listener.accept(DEADLINE));
        let client = Connection::connect(&address, options, DEADLINE).map_err(fail)?;
        let server = accepting.join().unwrap_or_else(|cause| panic::resume_unwind(cause)).map_err(fail)?;
        Ok([client, server])
    })
}

/// Converts superpipe's error.
#[cold]
#[must_use]
pub fn fail(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Timeout => Failure::Timeout(DEADLINE.as_secs()),
        ErrorKind::PeerLost | ErrorKind::Closed(_) => Failure::PeerLost,
        ErrorKind::Usage => Failure::Usage(error.to_string()),
        _ => Failure::Os("move a message", io::Error::other(error)),
    }
}
