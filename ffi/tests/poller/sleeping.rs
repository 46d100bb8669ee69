//! Connections that wait for a wake-up: none is lost, and the dead are found.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Arming, Connection, ErrorKind, Options, PollEvent, PollEvents, PollerOptions, WaitStrategy};

use crate::support::{DEADLINE, client, echo, ping, poll_until, serve_prepared, server};

/// Each message finds the server asleep, or about to be.
#[test]
fn no_wake_up_is_lost_at_any_moment() {
    for quiet_after in [Duration::ZERO, Duration::from_micros(30), Duration::from_millis(1)] {
        let options = PollerOptions { quiet_after, ..PollerOptions::default() };
        let (mut poller, _, address) = server(options);
        thread::scope(|scope| {
            for index in 0..3_u8 {
                client(scope, &address, move |mut connection| {
                    for round in 0..400_u32 {
                        let until = Instant::now() + Duration::from_micros(u64::from(round % 40) * 7);
                        while Instant::now() < until {
                            thread::yield_now();
                        }
                        ping(&mut connection, 8, index);
                    }
                });
            }
            // So a lost wake-up is not found in another way, and the client waits for ever.
            serve_prepared(&mut poller, 3, |connection| connection.set_looks_while_armed(false));
        });
    }
}

/// The end of a connection is found whether that is polled or waits, after what was sent before.
#[test]
fn an_end_is_found_after_what_was_sent_before() {
    for (wait, quiet_after) in [
        (WaitStrategy::Spin, Duration::from_secs(3600)),
        (WaitStrategy::Sleep, Duration::ZERO),
        (WaitStrategy::Sleep, Duration::from_secs(3600)),
    ] {
        let (mut poller, _, address) =
            server(PollerOptions { wait, quiet_after, ..PollerOptions::default() });
        thread::scope(|scope| {
            client(scope, &address, |mut connection| {
                connection.send(7, &[b"last words"], DEADLINE).unwrap();
                // With a reason, what was not received is lost.
                connection.flush(DEADLINE).unwrap();
                connection.close(superpipe::Reason(9), DEADLINE).unwrap();
            });
            let mut room = [0; 64];
            let mut received = 0;
            poll_until(&mut poller, |poller, event| {
                match event {
                    PollEvent::Readable { connection } => {
                        let tried = poller.connection(connection).unwrap().try_recv(&mut [&mut room]);
                        received += usize::from(matches!(tried, Ok(superpipe::TryRecv::Received(_))));
                    }
                    PollEvent::Ended { connection } => {
                        let error =
                            poller.remove(connection).unwrap().try_recv(&mut [&mut room]).unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::Closed(superpipe::Reason(9)));
                        return true;
                    }
                    _ => {}
                }
                false
            });
            assert_eq!((received, &room[..10]), (1, &b"last words"[..]));
        });
    }
}

#[test]
fn a_peer_that_shows_no_life_is_reported_once() {
    let mut poller = superpipe::Poller::new(PollerOptions::default()).unwrap();
    let address = crate::support::address();
    let options = Options { idle_timeout: Duration::from_millis(500), ..Options::default() };
    poller.listen(&address, options).unwrap();
    thread::scope(|scope| {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        client(scope, &address, move |mut connection| {
            // It calls nothing, so no keepalive is sent.
            gone.recv_timeout(DEADLINE).unwrap();
            ping(&mut connection, 8, 1);
            assert!(gone.recv_timeout(DEADLINE).is_err(), "the sender is dropped");
        });
        let mut room = [0; 64];
        let begin = Instant::now();
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Silent { .. }));
        assert!(begin.elapsed() >= Duration::from_millis(400));
        let mut events = PollEvents::with_capacity(4);
        poller.poll(&mut events, Duration::from_millis(700)).unwrap();
        assert!(events.is_empty(), "once: {events:?}");
        go.send(()).unwrap();
        poll_until(&mut poller, |poller, event| match event {
            PollEvent::Readable { connection } => echo(poller.connection(connection).unwrap(), &mut room) > 0,
            other => panic!("{other:?}"),
        });
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Silent { .. }));
        drop(go);
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Ended { .. }));
    });
}

/// Keepalives of an idle connection are rare, and as frequent as its peer needs. Those of one whose peer needs fewer come after 0.2, 0.6, 1.4, 3.0 and 6.2 s.
#[test]
fn a_peer_with_a_short_idle_timeout_waits_on() {
    const WAIT: Duration = Duration::from_secs(7);
    let (mut poller, _, address) = server(PollerOptions::default());
    let client = thread::spawn(move || {
        let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        let begin = Instant::now();
        connection.recv_into(&mut [&mut [0; 8]], WAIT).unwrap_err();
        begin.elapsed()
    });
    poll_until(&mut poller, |_, event| matches!(event, PollEvent::Ended { .. }));
    assert!(client.join().unwrap() >= WAIT, "the deadline ends the wait, and no silence");
}

/// Connections on which nothing happens cost no time, whatever they did before.
#[test]
fn nothing_is_polled_once_all_is_quiet() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        client(scope, &address, move |mut connection| {
            ping(&mut connection, 40_000, 1);
            connection
                .keep_alive_while(|| assert!(gone.recv_timeout(DEADLINE).is_err(), "the sender is dropped"));
        });
        let mut room = vec![0; 64 << 10];
        poll_until(&mut poller, |poller, event| match event {
            PollEvent::Readable { connection } => echo(poller.connection(connection).unwrap(), &mut room) > 0,
            _ => false,
        });
        let mut events = PollEvents::with_capacity(4);
        // The peer may ask for something yet.
        let until = Instant::now() + DEADLINE;
        while !matches!(poller.arm(), Arming::Armed { .. }) {
            assert!(Instant::now() < until, "{poller:?}");
            poller.poll(&mut events, Duration::from_millis(1)).unwrap();
        }
        // The time is that of its keepalive, and no shorter one.
        let armed = (0..20).map(|_| {
            poller.poll(&mut events, Duration::from_millis(5)).unwrap();
            poller.arm()
        });
        assert!(armed.filter(|armed| matches!(armed, Arming::Armed { .. })).count() >= 15);
        assert!(events.is_empty());
        drop(go);
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Ended { .. }));
    });
}
