//! Connects beside each other, and beside everything else.

use core::time::Duration;
use std::collections::HashMap;
use std::thread;

use superpipe::{
    Arming, Connection, ErrorKind, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions, TryRecv,
    TrySend,
};

use crate::support::{DEADLINE, address, echo, poll_until, serve, server};

/// Two pollers, each of one thread: two hundred connections are begun at once, and each carries a message there and back.
#[test]
fn two_hundred_connects_at_once_are_all_served() {
    const COUNT: usize = 200;
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut poller = Poller::new(PollerOptions::default()).unwrap();
            let mut keys: HashMap<_, _> = (0..COUNT)
                .map(|index| (poller.connect(&address, Options::default(), DEADLINE).unwrap(), index as u64))
                .collect();
            assert_eq!((keys.len(), poller.connection_count()), (COUNT, COUNT));
            poll_until(&mut poller, |poller, event| {
                match event {
                    PollEvent::Connected { connection: key } => {
                        let connection = poller.connection(key).unwrap();
                        assert_eq!(connection.try_send(keys[&key], &[b"ping"]).unwrap(), TrySend::Sent);
                    }
                    PollEvent::Readable { connection: key } => {
                        let mut room = [0; 8];
                        let connection = poller.connection(key).unwrap();
                        if let TryRecv::Received(received) = connection.try_recv(&mut [&mut room]).unwrap() {
                            assert_eq!(
                                (received.tag, &room[..4]),
                                (keys.remove(&key).unwrap(), &b"ping"[..])
                            );
                            poller.remove(key).unwrap();
                        }
                    }
                    other => panic!("{other:?}"),
                }
                keys.is_empty()
            });
            assert_eq!(poller.connection_count(), 0);
        });
        serve(&mut poller, COUNT);
    });
}

#[test]
fn a_connect_that_nobody_answers_fails_in_time_beside_others() {
    let (mut poller, _, there) = server(PollerOptions::default());
    let nobody = address();
    let lost = poller.connect(&nobody, Options::default(), Duration::from_millis(300)).unwrap();
    let found = poller.connect(&there, Options::default(), DEADLINE).unwrap();
    let (mut connected, mut accepted, mut failed) = (0, 0, 0);
    poll_until(&mut poller, |poller, event| {
        match event {
            PollEvent::Connected { connection } => {
                assert_eq!(connection, found);
                connected += 1;
            }
            PollEvent::Accepted { .. } => accepted += 1,
            PollEvent::ConnectFailed { connection, kind } => {
                assert_eq!((connection, kind), (lost, ErrorKind::Connect));
                assert!(poller.connection(lost).is_none());
                let error = poller.take_error(lost).unwrap();
                assert!(error.kind() == kind && error.to_string().contains("poller"), "{error}");
                assert!(poller.take_error(lost).is_none() && poller.take_error(found).is_none());
                failed += 1;
            }
            PollEvent::Readable { .. } => {}
            other => panic!("{other:?}"),
        }
        connected + accepted + failed == 3
    });
    assert_eq!(poller.connection_count(), 2, "both ends of one connection");
    // What both have acknowledged meanwhile keeps neither from its sleep.
    let mut events = PollEvents::with_capacity(4);
    let is_asleep = (0..20).any(|_| {
        poller.poll(&mut events, Duration::from_millis(1)).unwrap();
        matches!(poller.arm(), Arming::Armed { .. })
    });
    assert!(is_asleep, "{poller:?}");
}

/// Who comes before the listener is served once there is one.
#[test]
fn a_connect_waits_for_its_listener() {
    let address = address();
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    poller.connect(&address, Options::default(), DEADLINE).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            let mut listener = Listener::bind(&address, Options::default()).unwrap();
            let mut connection = listener.accept(DEADLINE).unwrap();
            connection.send(1, &[b"x"], DEADLINE).unwrap();
            connection.flush(DEADLINE).unwrap();
        });
        let mut room = [0; 8];
        let mut received = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Readable { connection } => {
                    let connection = poller.connection(connection).unwrap();
                    received += usize::from(matches!(
                        connection.try_recv(&mut [&mut room]),
                        Ok(TryRecv::Received(_))
                    ));
                }
                PollEvent::Ended { .. } => return true,
                PollEvent::Connected { .. } => {}
                other => panic!("{other:?}"),
            }
            false
        });
        assert_eq!(received, 1);
    });
}

/// A name that must be looked up, and a host that has no RDMA device here: a thread connects, and the poller goes on.
#[test]
fn a_connect_to_another_host_is_made_by_a_thread() {
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let there = "no-such-host.invalid:7471".parse().unwrap();
    let keys: Vec<_> = (0..20)
        .map(|_| poller.connect(&there, Options::default(), Duration::from_millis(500)).unwrap())
        .collect();
    let mut failed = 0;
    poll_until(&mut poller, |poller, event| {
        let PollEvent::ConnectFailed { connection, kind } = event else { panic!("{event:?}") };
        assert!(
            keys.contains(&connection) && matches!(kind, ErrorKind::Connect | ErrorKind::Timeout),
            "{kind:?}"
        );
        assert!(poller.take_error(connection).is_some());
        failed += 1;
        failed == keys.len()
    });
    assert_eq!(poller.connection_count(), 0);
}

#[test]
fn a_connection_made_elsewhere_is_taken_in_and_given_back() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
            let mut own = Poller::new(PollerOptions::default()).unwrap();
            let key = own.adopt(connection).unwrap();
            assert_eq!(own.connection(key).unwrap().try_send(7, &[b"hello"]).unwrap(), TrySend::Sent);
            poll_until(&mut own, |_, event| event == PollEvent::Readable { connection: key });
            // Another poller has it from now on, and then nobody.
            let connection = own.remove(key).unwrap();
            let mut other = Poller::new(PollerOptions::default()).unwrap();
            let other_key = other.adopt(connection).unwrap();
            poll_until(&mut other, |_, event| event == PollEvent::Readable { connection: other_key });
            assert!(other.connection(key).is_none() && own.connection(key).is_none());
            let mut connection = other.remove(other_key).unwrap();
            let mut room = [0; 8];
            assert_eq!(connection.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes, 5);
        });
        let mut room = [0; 64];
        poll_until(&mut poller, |poller, event| match event {
            PollEvent::Readable { connection } => {
                echo(poller.connection(connection).unwrap(), &mut room);
                false
            }
            PollEvent::Ended { .. } => true,
            _ => false,
        });
    });
}
