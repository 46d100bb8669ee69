//! Many connections of few processes on one poller: messages both ways, sleep and wake, and processes that are killed while messages flow.
//!
//! ```text
//! gathering   every client asks, and is answered       until each has had some answers, and was told to wait; then the server waits for all of them
//! waking      one connection of each process is told   until each client has asked again: every connection was woken
//! losing      every client asks, and is answered       until the victims are dead, and each of the others has had more answers
//! stopping    every client is told to close            until all are closed
//! ```
//!
//! Here the processes are of one host, and meet over shared memory. `vm/tests/many` runs server and clients apart, over RDMA, on two hosts: SUPERPIPE_MANY_SERVE and
//! SUPERPIPE_MANY_CONNECT are the server's addresses, separated by spaces, and SUPERPIPE_MANY_HOSTS is the number of hosts with clients.

mod clients;
mod server;

use core::time::Duration;
use std::env;

use superpipe::Address;

/// Ten times as long as the test takes in a guest.
const DEADLINE: Duration = Duration::from_secs(200);
/// Connections to each address, of each host: of the process that survives, and of the one that is killed.
const SURVIVORS: u32 = 12;
const VICTIMS: u32 = 4;
/// Answers that each connection gets before the next step.
const ROUNDS: u32 = 8;

/// Tags of answers: what the client does next.
const MORE: u64 = 1;
const QUIET: u64 = 2;
/// As MORE: a victim may be killed after some of these.
const FLOW: u64 = 3;
const STOP: u64 = 4;
/// Tag of the message that wakes a process.
const WAKE: u64 = 5;

/// Addresses of a variable. None if it is not set.
fn addresses(variable: &str) -> Option<Vec<Address>> {
    let all = env::var(variable).ok()?;
    Some(all.split_whitespace().map(|address| address.parse().unwrap()).collect())
}

#[test]
fn many_are_served_and_outlive_those_killed() {
    if let Some(addresses) = addresses("SUPERPIPE_MANY_SERVE") {
        let hosts = env::var("SUPERPIPE_MANY_HOSTS").unwrap().parse().unwrap();
        server::Server::new(&addresses, hosts).run();
    } else if let Some(addresses) = addresses("SUPERPIPE_MANY_CONNECT") {
        clients::run_or_launch(&addresses);
    } else {
        let path = env::temp_dir().join(format!("superpipe-many-{}.sock", std::process::id()));
        let addresses = [Address::Shm(path)];
        let server = server::Server::new(&addresses, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| clients::launch(&addresses));
            server.run();
        });
    }
}
