//! Processes that die, and a process that has no descriptor left. The other process is this test again, with a variable set.

use core::time::Duration;
use std::process::{Child, Command};
use std::time::Instant;
use std::{env, thread};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use superpipe::{
    Address, Connection, ErrorKind, Interest, Options, PollEvent, PollEvents, Poller, PollerOptions, TryRecv,
    WaitStrategy,
};

use crate::support::{DEADLINE, address, echo, poll_until, server};

/// Address for the other process.
const ADDRESS: &str = "SUPERPIPE_TEST_POLLER_ADDRESS";

/// Starts a test of this file as another process.
fn again(test: &str, address: &Address) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("dying::{test}"), "--nocapture"]).env(ADDRESS, address.to_string());
    command.spawn().unwrap()
}

/// Returns the address, in the other process.
fn given() -> Option<Address> {
    Some(env::var(ADDRESS).ok()?.parse().unwrap())
}

/// The message, the wake-up and the end come at once.
#[test]
fn a_process_that_dies_with_its_message_is_seen_to_end() {
    if let Some(address) = given() {
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        thread::sleep(Duration::from_millis(30));
        connection.send(7, &[b"last words"], DEADLINE).unwrap();
        // SAFETY: it ends the process at once, without destructors: nothing is closed.
        unsafe { libc::_exit(0) };
    }
    for (wait, writable) in
        [(WaitStrategy::Sleep, false), (WaitStrategy::Sleep, true), (WaitStrategy::Spin, true)]
    {
        let (mut poller, _, address) = server(PollerOptions { wait, ..PollerOptions::default() });
        let mut other = again("a_process_that_dies_with_its_message_is_seen_to_end", &address);
        let mut room = [0; 64];
        let mut received = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    assert!(poller.set_interest(connection, Interest { readable: true, writable }));
                }
                PollEvent::Readable { connection } => {
                    let tried = poller.connection(connection).unwrap().try_recv(&mut [&mut room]);
                    received += usize::from(matches!(tried, Ok(TryRecv::Received(_))));
                }
                PollEvent::Ended { connection } => {
                    let error = poller.remove(connection).unwrap().try_recv(&mut [&mut room]).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::PeerLost);
                    return true;
                }
                PollEvent::Writable { .. } => assert!(writable),
                other => panic!("{other:?}"),
            }
            false
        });
        assert_eq!((received, &room[..10]), (1, &b"last words"[..]));
        assert!(other.wait().unwrap().success());
    }
}

/// A message that is too long for the program's tries is readable until it is rejected, and hides no end.
#[test]
fn a_message_that_nobody_takes_hides_no_end() {
    if let Some(address) = given() {
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        let mut send = superpipe::SendOperation::new(7, 1 << 20);
        let message = vec![1; 1 << 20];
        for _ in 0..100 {
            let _ = connection.drive_send(&mut send, &[&message]).unwrap();
            connection.progress();
        }
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let (mut poller, _, address) = server(PollerOptions::default());
    let mut other = again("a_message_that_nobody_takes_hides_no_end", &address);
    let mut room = [0; 64];
    let mut left = 0;
    poll_until(&mut poller, |poller, event| {
        match event {
            PollEvent::Readable { connection } => {
                let tried = poller.connection(connection).unwrap().try_recv(&mut [&mut room]);
                left += usize::from(matches!(tried, Ok(TryRecv::TooSmall(_))));
            }
            PollEvent::Ended { .. } => return true,
            PollEvent::Accepted { .. } => {}
            other => panic!("{other:?}"),
        }
        false
    });
    assert!(left > 0);
    assert!(other.wait().unwrap().success());
}

/// A server that has no descriptor left for its clients says so now and then, sleeps meanwhile, and serves them once it has.
#[test]
fn a_server_without_descriptors_is_no_busy_loop() {
    const A_WHILE: Duration = Duration::from_millis(600);
    if let Some(address) = given() {
        let mut poller = Poller::new(PollerOptions::default()).unwrap();
        poller.listen(&address, Options::default()).unwrap();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
        let mut files = Vec::new();
        files.extend(core::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
        assert!(!files.is_empty());
        let mut events = PollEvents::with_capacity(16);
        let (mut failed, mut calls) = (0, 0);
        let begun = Instant::now();
        // A busy host may let the client come late.
        while failed == 0 || begun.elapsed() < A_WHILE {
            assert!(begun.elapsed() < DEADLINE, "no client fails");
            poller.poll(&mut events, A_WHILE).unwrap();
            calls += 1;
            for event in &events {
                assert!(matches!(event, PollEvent::AcceptFailed { .. }), "{event:?}");
                failed += 1;
            }
        }
        let whiles = begun.elapsed().as_secs_f64() / A_WHILE.as_secs_f64();
        let most = [30.0, 40.0].map(|most| most * whiles);
        assert!(f64::from(failed) <= most[0] && f64::from(calls) <= most[1], "{failed} {calls}: {whiles}");
        drop(files);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        let mut room = [0; 64];
        poll_until(&mut poller, |poller, event| match event {
            PollEvent::Readable { connection } => echo(poller.connection(connection).unwrap(), &mut room) > 0,
            _ => false,
        });
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Ended { .. }));
        return;
    }
    let address = address();
    let mut other = again("a_server_without_descriptors_is_no_busy_loop", &address);
    let until = Instant::now() + DEADLINE;
    let mut connection = loop {
        match Connection::connect(&address, Options::default(), until) {
            Ok(connection) => break connection,
            // It had one for the socket, and none for the memory.
            Err(error) => assert!(error.kind() == ErrorKind::Limit && Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    crate::support::ping(&mut connection, 8, 3);
    drop(connection);
    assert!(other.wait().unwrap().success());
}

/// The end of a connection is reported by its descriptors while another one has its place, and then it comes back.
#[test]
fn one_that_died_while_it_was_away_is_seen_to_end() {
    if let Some(address) = given() {
        let _connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        thread::sleep(Duration::from_millis(300));
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let options = PollerOptions {
        wait: WaitStrategy::Spin,
        quiet_after: Duration::from_secs(3600),
        ..PollerOptions::default()
    };
    let (mut poller, _, address) = server(options);
    let mut other = again("one_that_died_while_it_was_away_is_seen_to_end", &address);
    let mut key = None;
    poll_until(&mut poller, |_, event| match event {
        PollEvent::Accepted { connection, .. } => {
            key = Some(connection);
            true
        }
        other => panic!("{other:?}"),
    });
    let key = key.unwrap();
    let mut events = PollEvents::with_capacity(4);
    poller.poll(&mut events, Duration::from_millis(10)).unwrap();
    // Another one in its place.
    let mut listener = superpipe::Listener::bind(&crate::support::address(), Options::default()).unwrap();
    let at = listener.local_addr().clone();
    let connecting = thread::spawn(move || Connection::connect(&at, Options::default(), DEADLINE).unwrap());
    let substitute = listener.accept(DEADLINE).unwrap();
    let _its_peer = connecting.join().unwrap();
    let away = core::mem::replace(poller.connection(key).unwrap(), substitute);
    poller.poll(&mut events, Duration::from_millis(10)).unwrap();
    assert!(other.wait().unwrap().success());
    poller.poll(&mut events, Duration::from_millis(50)).unwrap();
    assert!(events.is_empty(), "{events:?}");
    drop(core::mem::replace(poller.connection(key).unwrap(), away));
    let until = Instant::now() + Duration::from_secs(10);
    poller.poll(&mut events, until).unwrap();
    assert_eq!(events.iter().collect::<Vec<_>>(), [PollEvent::Ended { connection: key }]);
}
