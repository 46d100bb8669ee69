//! Both ends of a superpipe connection in one thread, for benchmarks of what a message costs in instructions: whatever
//! one end sends is there when the other looks.

use core::time::Duration;
use std::path::Path;
use std::{fs, thread};

use superpipe::{Address, Connection, Error, Listener, Options};

/// Ends every wait: in one thread nothing that is not there will come.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Two ends, connected through a socket in `directory`, which is made and removed again.
///
/// # Errors
/// What `connect` and `accept` fail with.
///
/// # Panics
/// If the directory exists or cannot be made, or no thread can.
pub fn connect(directory: &Path, options: Options) -> Result<[Connection; 2], Error> {
    fs::create_dir(directory).unwrap_or_else(|error| panic!("cannot make {}: {error}", directory.display()));
    let address = Address::Shm(directory.join("socket"));
    let ends = Listener::bind(&address, options).and_then(|mut listener| {
        thread::scope(|scope| {
            let accepting = scope.spawn(move || listener.accept(DEADLINE));
            let client = Connection::connect(&address, options, DEADLINE)?;
            let server = accepting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok([client, server])
        })
    });
    // A socket that could not be removed is the caller's temporary directory's to clean.
    let _ = fs::remove_dir_all(directory);
    ends
}
