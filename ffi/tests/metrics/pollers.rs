//! Lines of pollers.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use superpipe::{Address, Options, PollEvent, PollEvents, Poller, PollerOptions};

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

/// A connection in a poller, and its peer.
fn polled(name: &str) -> (Poller, superpipe::Connection) {
    let (connected, accepted) = super::support::pair(name);
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    poller.adopt(accepted).map_err(|(_, error)| error).unwrap();
    (poller, connected)
}

/// The newest line of the end that a poller has.
fn accepted_line() -> (superpipe::metrics::ConnectionLine, Duration) {
    let found = read_own();
    let is_accepted =
        |line: &&superpipe::metrics::ConnectionLine| line.role == superpipe::metrics::Role::Accepted;
    let line = *found.connections.iter().find(is_accepted).unwrap();
    (line, Duration::from_nanos(found.read_at_ns - line.copied_at_ns))
}

/// Attack: a connection that has ended, and is still in its poller, is not shown as open for ever.
#[test]
fn attack_the_end_of_a_polled_connection_is_shown() {
    let _turn = turn();
    let _publisher = publish_now();
    let (mut poller, connected) = polled("polled-end");
    let mut events = PollEvents::with_capacity(8);
    poller.poll(&mut events, 2 * COPY_PERIOD).unwrap();
    connected.close(superpipe::Reason(7), DEADLINE).unwrap();
    let begun = Instant::now();
    let mut has_ended = false;
    while begun.elapsed() < Duration::from_secs(4) {
        poller.poll(&mut events, Duration::from_millis(50)).unwrap();
        has_ended |= events.iter().any(|event| matches!(event, PollEvent::Ended { .. }));
    }
    assert!(has_ended);
    let (line, age) = accepted_line();
    assert_eq!(line.state, superpipe::metrics::State::ClosedByPeer, "{age:?} old");
}

/// Attack: "a poller's keepalives (each 200 to 240 ms)" copy the counters (docs/architecture/metrics.md).
#[test]
fn attack_an_idle_polled_connection_is_copied_as_the_docs_say() {
    let _turn = turn();
    let _publisher = publish_now();
    let (mut poller, mut connected) = polled("polled-idle");
    let mut events = PollEvents::with_capacity(8);
    let (begun, mut oldest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(6) {
        poller.poll(&mut events, Duration::from_millis(50)).unwrap();
        connected.progress();
        oldest = oldest.max(accepted_line().1);
    }
    assert!(oldest < Duration::from_millis(1000), "a line was {oldest:?} old");
}
