//! Many clients at one listener: a crowd that comes at once, and silent clients that fill its backlog. `vm/tests/crowds` sets the
//! kernel's limit of a backlog low for these, and they are left out where it is high: libsiw takes the mapping at 0x90000 of a
//! process for a failure, so that a process can have no more than 48 small queue pairs.

use crate::api::{address_of, listen};
use crate::foreign_peers::ask;
use core::net::IpAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;
use std::{fs, thread};
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options, Reason};

/// Twice the backlog, and as many as two emulated CPUs serve in ten seconds, one after the other.
const CROWD: usize = 32;
/// Ten times as long as either takes in a guest that is alone on its machine.
const DEADLINE: Duration = Duration::from_secs(200);
/// Backlogs above this are too long for these tests.
const BACKLOG_MAX: usize = 30;
/// Time for which the silent clients stay.
const SILENCE: Duration = Duration::from_secs(2);

/// The kernel's limit of a backlog, and one address of each device.
fn devices() -> (usize, Vec<IpAddr>) {
    let limit = fs::read_to_string("/proc/sys/net/rdma_ucm/max_backlog").unwrap_or_default();
    let limit = limit.trim().parse().unwrap_or(usize::MAX);
    let mut devices = crate::devices();
    if limit > BACKLOG_MAX {
        eprintln!("NOT CHECKED: net.rdma_ucm.max_backlog is above {BACKLOG_MAX}");
        devices.clear();
    }
    (limit, devices)
}

/// Serves until `count` clients have ended. Failed attempts are printed; the clients repeat them.
fn serve(mut listener: Listener, ended: &AtomicUsize, count: usize) -> Vec<u64> {
    let mut tags = Vec::new();
    while ended.load(Ordering::Acquire) < count {
        match listener.accept(Duration::from_millis(200)) {
            Ok(connection) => match answer(connection) {
                Ok(tag) => tags.push(tag),
                Err(error) => eprintln!("after accept: {error}"),
            },
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            Err(error) => eprintln!("accept: {error}"),
        }
    }
    tags.sort_unstable();
    tags
}

/// Sends a tag back to its sender.
fn answer(mut connection: Connection) -> Result<u64, Error> {
    let tag = connection.recv_into(&mut [], DEADLINE)?.tag;
    connection.send(tag, &[], DEADLINE)?;
    connection.close(Reason::DONE, DEADLINE)?;
    Ok(tag)
}

/// Sends a tag, and receives it again.
fn call(address: &Address, tag: u64) -> Result<(), Error> {
    let mut connection = Connection::connect(address, Options::default(), DEADLINE)?;
    connection.send(tag, &[], DEADLINE)?;
    assert_eq!(connection.recv_into(&mut [], DEADLINE)?.tag, tag);
    Ok(())
}

#[test]
fn every_client_of_a_crowd_is_served() {
    for ip in devices().1 {
        let listener = listen(ip, Options::default());
        let (address, start, ended) = (address_of(&listener), Barrier::new(CROWD), AtomicUsize::new(0));
        let client = |tag| {
            start.wait();
            let called = call(&address, tag);
            ended.fetch_add(1, Ordering::Release);
            called
        };
        let (client, ended) = (&client, &ended);
        let from = Instant::now();
        let (served, calls) = thread::scope(|scope| {
            let serving = scope.spawn(move || serve(listener, ended, CROWD));
            let clients: Vec<_> = (0..CROWD as u64).map(|tag| scope.spawn(move || client(tag))).collect();
            let calls: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            (serving.join().unwrap(), calls)
        });
        eprintln!("{ip}: a crowd of {CROWD} took {:?}", from.elapsed());
        let failed: Vec<String> =
            calls.into_iter().filter_map(Result::err).map(|it| it.to_string()).collect();
        assert!(failed.is_empty(), "{ip}: {} of {CROWD} failed: {failed:#?}", failed.len());
        assert_eq!(served, Vec::from_iter(0..CROWD as u64), "{ip}");
    }
}

#[test]
fn silent_clients_only_delay_an_honest_one() {
    let (limit, devices) = devices();
    for ip in devices {
        let listener = listen(ip, Options::default());
        let (to, address, ended) =
            (listener.rdma_addr().unwrap(), address_of(&listener), AtomicUsize::new(0));
        let from = Instant::now();
        let silent: Vec<_> = (0..limit + 4).map(|_| ask(to)).collect();
        let (address, ended) = (&address, &ended);
        thread::scope(|scope| {
            let honest = scope.spawn(move || {
                let called = call(address, 7);
                ended.fetch_add(1, Ordering::Release);
                called
            });
            // They fill the backlog while nobody is accepted.
            thread::sleep(SILENCE);
            drop(silent);
            let served = serve(listener, ended, 1);
            honest.join().unwrap().unwrap_or_else(|error| panic!("{ip}: {error}"));
            assert_eq!(served, [7]);
        });
        eprintln!("{ip}: {limit} silent clients and an honest one took {:?}", from.elapsed());
    }
}
