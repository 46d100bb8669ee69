//! Both ends of a superpipe connection in one thread, for benchmarks of what a message costs in instructions: whatever
//! one end sends is there when the other looks.

use std::{panic, thread};

use superpipe::{Connection, Listener, Options};

use crate::failure::Failure;
use crate::meeting::{DEADLINE, Place, fail};

/// Two ends, connected.
///
/// # Errors
/// What `connect` and `accept` fail with, and what [`Place::new`] does.
pub fn connect(options: Options) -> Result<[Connection; 2], Failure> {
    let place = Place::new()?;
    let address = place.address();
    let mut listener = Listener::bind(&address, options).map_err(fail)?;
    thread::scope(|scope| {
        let accepting = scope.spawn(move || listener.accept(DEADLINE));
        let client = Connection::connect(&address, options, DEADLINE).map_err(fail)?;
        let server = accepting.join().unwrap_or_else(|cause| panic::resume_unwind(cause)).map_err(fail)?;
        Ok([client, server])
    })
}
