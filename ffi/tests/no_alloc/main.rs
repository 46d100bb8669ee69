//! Between connect and close nothing is allocated: on neither end, in no size class, by no protocol, from the first
//! message on.

mod buffers;
mod counting;
mod messages;
mod observing;

use core::time::Duration;
use std::thread;

use superpipe::{Address, Connection, Listener, Options};

const DEADLINE: Duration = Duration::from_secs(30);

/// Returns an address at which nobody listens.
fn address(name: &str) -> Address {
    Address::Shm(std::env::temp_dir().join(format!("superpipe-no-alloc-{}-{name}.sock", std::process::id())))
}

/// Connects two ends.
fn pair(name: &str) -> [Connection; 2] {
    let address = address(name);
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let connected = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    [connected, accepting.join().unwrap()]
}

/// One test, so that nothing else runs while it counts.
#[test]
fn nothing_is_allocated_from_connect_to_close() {
    messages::exchanges_allocate_nothing();
    messages::tries_after_a_close_allocate_nothing();
    buffers::messages_out_of_registered_buffers_allocate_nothing();
    buffers::messages_into_trusted_buffers_allocate_nothing();
    observing::a_poller_allocates_nothing();
    buffers::loans_allocate_nothing();
    observing::publishing_allocates_nothing();
}
