//! Lines of pollers.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::metrics::State;
use superpipe::{Address, Connection, Options, PollEvent, PollEvents, Poller, PollerOptions, Reason};

use super::support::{COPY_PERIOD, DEADLINE, path, publish_now, read_own, turn};

#[test]
fn a_poller_shows_what_it_has_and_what_it_did() {
    let _turn = turn();
    let _publisher = publish_now();
    let mut poller =
        Poller::new(PollerOptions { quiet_after: Duration::ZERO, ..PollerOptions::default() }).unwrap();
    let address = Address::Shm(path("poller"));
    poller.listen(&address, Options::default()).unwrap();
    let nowhere = Address::Shm(path("nowhere"));
    let failing = poller.connect(&nowhere, Options::default(), Duration::from_millis(1)).unwrap();
    let key = poller.connect(&address, Options::default(), DEADLINE).unwrap();
    let mut events = PollEvents::with_capacity(8);
    let (mut seen, until) = ([0_u64; 3], Instant::now() + DEADLINE);
    while seen != [1; 3] {
        poller.poll(&mut events, until).unwrap();
        assert!(Instant::now() < until, "{seen:?}");
        for event in &events {
            match event {
                PollEvent::Accepted { .. } => seen[0] += 1,
                PollEvent::Connected { .. } => seen[1] += 1,
                PollEvent::ConnectFailed { .. } => seen[2] += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(poller.take_error(failing).is_some());
    // Both ends fall asleep.
    poller.poll(&mut events, 2 * COPY_PERIOD).unwrap();
    let found = read_own();
    let [line] = &found.pollers[..] else { panic!("{:?}", found.pollers) };
    assert_eq!((line.connections, line.armed, line.active, line.listeners), (2, 2, 0, 1));
    assert_eq!((line.accepted, line.connected, line.connect_failed, line.accept_failed), (1, 1, 1, 0));
    assert!(line.rounds > 0 && line.calls > 0 && line.sleeps > 0);
    assert_eq!(found.connections.len(), 2);

    // A message wakes one of them.
    let (before, sent) = (line.wakeups, Instant::now());
    poller.connection(key).unwrap().send(1, &[b"hello"], DEADLINE).unwrap();
    poller.poll(&mut events, until).unwrap();
    assert!(events.iter().any(|event| matches!(event, PollEvent::Readable { .. })), "{events:?}");
    thread::sleep(COPY_PERIOD.saturating_sub(sent.elapsed()));
    for _ in 0..8 {
        poller.poll(&mut events, Duration::ZERO).unwrap();
    }
    let line = read_own().pollers[0];
    assert!(line.wakeups > before, "{line:?}");
    drop(poller);
    assert_eq!(read_own().pollers, []);
}

/// A client comes and goes before a copy is due again, and then the poller sleeps.
#[test]
fn one_that_sleeps_shows_what_it_has() {
    let _turn = turn();
    let _publisher = publish_now();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let address = Address::Shm(path("sleeping"));
    poller.listen(&address, Options::default()).unwrap();
    let (mut events, until) = (PollEvents::with_capacity(8), Instant::now() + DEADLINE);
    // A copy is made when it ends.
    poller.poll(&mut events, 2 * COPY_PERIOD).unwrap();
    let there = address.clone();
    let client = thread::spawn(move || {
        Connection::connect(&there, Options::default(), DEADLINE).unwrap().close(Reason::DONE, DEADLINE)
    });
    let mut has_ended = false;
    while !has_ended {
        poller.poll(&mut events, until).unwrap();
        for event in &events {
            if let PollEvent::Ended { connection } = event {
                drop(poller.remove(connection).unwrap());
                has_ended = true;
            }
        }
    }
    let _ = client.join().unwrap();
    let has_read = &AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(move || {
            // A line that is written at that moment is left out.
            let shown = || {
                let pollers = read_own().pollers;
                pollers.first().map(|line| (line.connections, line.active, line.accepted))
            };
            let (begun, mut last) = (Instant::now(), shown());
            while last != Some((0, 0, 1)) && begun.elapsed() < DEADLINE / 2 {
                thread::sleep(Duration::from_millis(5));
                last = shown();
            }
            has_read.store(true, Ordering::Relaxed);
            // Another client ends the sleep.
            let _ = Connection::connect(&address, Options::default(), DEADLINE);
            assert_eq!(last, Some((0, 0, 1)));
        });
        // The end of a sleep would make a copy, too.
        while !has_read.load(Ordering::Relaxed) && !reading.is_finished() {
            poller.poll(&mut events, 2 * DEADLINE).unwrap();
        }
        while !reading.is_finished() {
            poller.poll(&mut events, Duration::from_millis(10)).unwrap();
        }
    });
}

#[test]
fn one_that_has_ended_and_is_kept_shows_its_end() {
    let _turn = turn();
    let _publisher = publish_now();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let address = Address::Shm(path("kept"));
    poller.listen(&address, Options::default()).unwrap();
    let client = thread::spawn(move || {
        Connection::connect(&address, Options::default(), DEADLINE)
            .unwrap()
            .close(Reason(7), DEADLINE)
            .unwrap();
    });
    let mut events = PollEvents::with_capacity(8);
    let until = Instant::now() + DEADLINE;
    loop {
        poller.poll(&mut events, until).unwrap();
        assert!(Instant::now() < until, "it does not end");
        if events.iter().any(|event| matches!(event, PollEvent::Ended { .. })) {
            break;
        }
    }
    client.join().unwrap();
    // No other call of it follows.
    let found = read_own();
    let [line] = &found.connections[..] else { panic!("{:?}", found.connections) };
    assert_eq!(line.state, State::ClosedByPeer);
}
