//! Keys, and a program that does odd things with what they name.

use core::mem;
use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use superpipe::{
    Arming, Connection, Interest, Key, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions,
    Reason,
};

use crate::support::{DEADLINE, client, echo, ping, poll_until, server};

#[test]
fn a_stale_key_names_nothing_though_its_place_is_taken_again() {
    let (mut poller, listener, address) =
        server(PollerOptions { connections_max: 1, ..PollerOptions::default() });
    let mut keys: Vec<Key> = Vec::new();
    thread::scope(|scope| {
        for index in 0..3 {
            client(scope, &address, move |mut connection| ping(&mut connection, 8, index));
        }
        let mut room = [0; 64];
        let mut ended = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    assert!(!keys.contains(&connection));
                    keys.push(connection);
                }
                PollEvent::Readable { connection } => {
                    assert_eq!(Some(&connection), keys.last());
                    echo(poller.connection(connection).unwrap(), &mut room);
                }
                PollEvent::Ended { connection } => {
                    assert_eq!(Some(&connection), keys.last());
                    assert!(poller.remove(connection).is_some() && poller.remove(connection).is_none());
                    ended += 1;
                }
                other => panic!("{other:?}"),
            }
            for key in keys.iter().rev().skip(1) {
                assert!(poller.connection(*key).is_none() && poller.remove(*key).is_none());
                assert!(!poller.set_interest(*key, Interest::default()) && poller.take_error(*key).is_none());
            }
            ended == 3
        });
    });
    assert!(poller.connection(listener).is_none() && poller.local_addr(listener) == Some(&address));
    assert!(poller.remove(listener).is_none() && poller.local_addr(listener).is_none());
    assert!(poller.listen(&address, Options::default()).is_ok(), "nobody listens there any more");
}

/// A key of one poller names nothing in another one that has the same places.
#[test]
fn a_key_of_another_poller_names_nothing() {
    let [(one, first, at), (other, second, _)] =
        [server(PollerOptions::default()), server(PollerOptions::default())];
    assert_eq!(one.local_addr(first), Some(&at));
    assert!(first != second && one.local_addr(second).is_none() && other.local_addr(first).is_none());
}

/// The program puts another connection in the place of one that has ended.
#[test]
fn a_connection_in_the_place_of_one_that_ended_is_driven() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        client(scope, &address, |mut connection| ping(&mut connection, 8, 1));
        let mut room = [0; 64];
        let mut ended = None;
        let mut serve = |poller: &mut Poller, event| match event {
            PollEvent::Readable { connection } => {
                echo(poller.connection(connection).unwrap(), &mut room);
                None
            }
            PollEvent::Ended { connection } => Some(connection),
            _ => None,
        };
        poll_until(&mut poller, |poller, event| {
            ended = serve(poller, event);
            ended.is_some()
        });
        let key = ended.unwrap();
        // The error of what has ended is no reason to report it again.
        assert!(poller.connection(key).unwrap().try_send(1, &[b"x"]).is_err());
        let mut events = PollEvents::with_capacity(4);
        poller.poll(&mut events, Duration::from_millis(5)).unwrap();
        assert!(events.is_empty(), "{events:?}");
        let mut listener = Listener::bind(&crate::support::address(), Options::default()).unwrap();
        client(scope, listener.local_addr(), |mut connection| ping(&mut connection, 8, 2));
        *poller.connection(key).unwrap() = listener.accept(DEADLINE).unwrap();
        poll_until(&mut poller, |poller, event| {
            ended = serve(poller, event);
            ended.is_some()
        });
        assert_eq!(ended, Some(key));
    });
}

/// The connections of two keys are exchanged: each is driven where it is now.
#[test]
fn exchanged_connections_are_driven_in_their_new_place() {
    let (mut poller, _, address) =
        server(PollerOptions { quiet_after: Duration::ZERO, ..PollerOptions::default() });
    let connected = Barrier::new(2);
    thread::scope(|scope| {
        let connected = &connected;
        for index in 0..2 {
            client(scope, &address, move |mut connection| {
                connected.wait();
                for _ in 0..20 {
                    thread::sleep(Duration::from_millis(1));
                    ping(&mut connection, 64, index);
                }
            });
        }
        let mut keys = Vec::new();
        let mut room = [0; 64];
        let (mut ended, mut count, mut exchanges) = (0, 0, 0);
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => keys.push(connection),
                PollEvent::Readable { connection } => {
                    // An earlier event of the same call may have removed it.
                    if let Some(connection) = poller.connection(connection) {
                        count += echo(connection, &mut room);
                    }
                }
                PollEvent::Ended { connection } => {
                    ended += usize::from(poller.remove(connection).is_some());
                }
                other => panic!("{other:?}"),
            }
            if count > 5 * exchanges + exchanges
                && let [one, other] = keys[..]
                && let Some(mut connection) = poller.remove(one)
            {
                // By way of a third place, since two cannot be borrowed at a time.
                if let Some(there) = poller.connection(other) {
                    mem::swap(&mut connection, there);
                }
                keys[0] = poller.adopt(connection).unwrap();
                count += 1;
                exchanges += 1;
            }
            ended == 2
        });
        assert!(exchanges > 0 && count == 40 + exchanges, "{count} {exchanges}");
    });
}

/// Makes two ends.
fn pair(options: Options) -> [Connection; 2] {
    let mut listener = Listener::bind(&crate::support::address(), options).unwrap();
    let address = listener.local_addr().clone();
    let connecting = thread::spawn(move || Connection::connect(&address, options, DEADLINE).unwrap());
    [listener.accept(DEADLINE).unwrap(), connecting.join().unwrap()]
}

/// Makes two ends, of which one has taken what its peer sent when they connected, as one does that was polled for a while.
fn used_pair(options: Options) -> [Connection; 2] {
    let [one, other] = pair(options);
    let mut waitable = one.into_waitable().unwrap();
    for _ in 0..20 {
        let _ = waitable.connection_for_tries().progress();
        let _ = waitable.arm(Interest::default());
    }
    [waitable.into_connection(), other]
}

/// A connection whose peer is silent is replaced by a new one.
#[test]
fn a_new_connection_is_not_silent_like_the_one_before() {
    let options = Options { idle_timeout: Duration::from_millis(600), ..Options::default() };
    let [one, _silent] = used_pair(options);
    let mut waitable = one.into_waitable().unwrap();
    let begin = Instant::now();
    while waitable.check_silence().is_ok() {
        assert!(begin.elapsed() < DEADLINE);
        waitable.arm(Interest::default());
        thread::sleep(Duration::from_millis(1));
    }
    let [another, _peer] = used_pair(options);
    *waitable.connection() = another;
    waitable.check_silence().unwrap();
    waitable.arm(Interest::default());
    waitable.check_silence().unwrap();
}

/// The same in a poller: the silence of the new one is reported.
#[test]
fn silence_of_a_new_connection_is_reported() {
    let options = Options { idle_timeout: Duration::from_millis(500), ..Options::default() };
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let [one, _silent] = used_pair(options);
    let key = poller.adopt(one).unwrap();
    poll_until(&mut poller, |_, event| matches!(event, PollEvent::Silent { .. }));
    let [another, _silent_too] = used_pair(options);
    *poller.connection(key).unwrap() = another;
    let mut events = PollEvents::with_capacity(4);
    let begin = Instant::now();
    while events.is_empty() && begin.elapsed() < Duration::from_secs(5) {
        poller.poll(&mut events, Duration::from_millis(100)).unwrap();
    }
    assert_eq!(events.iter().collect::<Vec<_>>(), [PollEvent::Silent { connection: key }]);
}

/// One that has ended, with a message that the program left, is replaced by one whose message was not reported yet.
#[test]
fn a_message_of_a_new_connection_is_reported_before_its_end() {
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let closed = || {
        let [mut one, mut peer] = pair(Options::default());
        peer.send(7, &[b"last words"], DEADLINE).unwrap();
        drop(peer);
        for _ in 0..100 {
            one.progress();
        }
        one
    };
    let key = poller.adopt(closed()).unwrap();
    poll_until(&mut poller, |_, event| matches!(event, PollEvent::Ended { .. }));
    *poller.connection(key).unwrap() = closed();
    let mut first = None;
    poll_until(&mut poller, |_, event| {
        first.get_or_insert(event);
        matches!(event, PollEvent::Ended { .. })
    });
    assert_eq!(first, Some(PollEvent::Readable { connection: key }));
}

/// Nothing that was armed is left, wherever a connection goes.
#[test]
fn a_connection_goes_from_set_to_set() {
    let [mut first, mut second] =
        [PollerOptions::default(), PollerOptions::default()].map(|options| Poller::new(options).unwrap());
    let [one, mut peer] = pair(Options::default());
    let [other, mut its_peer] = pair(Options::default());
    let [third, mut third_peer] = pair(Options::default());
    let [a, b] = [first.adopt(one).unwrap(), second.adopt(other).unwrap()];
    let mut waitable = third.into_waitable().unwrap();
    for end in [first.connection(a).unwrap(), second.connection(b).unwrap(), waitable.connection()] {
        end.set_looks_while_armed(false);
    }
    let mut events = PollEvents::with_capacity(0);
    let mut room = [0; 64];
    for turn in 0..60_u8 {
        // All are armed.
        for poller in [&mut first, &mut second] {
            let until = Instant::now() + DEADLINE;
            while !matches!(poller.arm(), Arming::Armed { .. }) {
                assert!(Instant::now() < until);
                poller.poll(&mut events, Duration::ZERO).unwrap();
                assert!(events.is_empty());
            }
        }
        while !matches!(waitable.arm(Interest::default()), Arming::Armed { .. }) {}
        match turn % 3 {
            0 => mem::swap(first.connection(a).unwrap(), second.connection(b).unwrap()),
            1 => mem::swap(waitable.connection(), second.connection(b).unwrap()),
            _ => mem::swap(waitable.connection(), first.connection(a).unwrap()),
        }
        if turn % 2 == 0 {
            for poller in [&mut first, &mut second] {
                poller.poll(&mut events, Duration::ZERO).unwrap();
                let _ = poller.arm();
            }
            let _ = waitable.arm(Interest::default());
        }
        let peers = [&mut peer, &mut its_peer, &mut third_peer];
        for peer in peers {
            peer.send(u64::from(turn), &[b"x"], DEADLINE).unwrap();
        }
        for (poller, key) in [(&mut first, a), (&mut second, b)] {
            poll_until(poller, |poller, event| {
                assert_eq!(event, PollEvent::Readable { connection: key });
                echo(poller.connection(key).unwrap(), &mut room) == 1
            });
        }
        let until = Instant::now() + DEADLINE;
        while echo(waitable.connection_for_tries(), &mut room) == 0 {
            assert!(Instant::now() < until, "{turn}");
            if waitable.arm(Interest::default()) != Arming::Busy {
                thread::sleep(Duration::from_micros(50));
            }
        }
        for peer in [&mut peer, &mut its_peer, &mut third_peer] {
            assert_eq!(peer.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes, 1);
        }
    }
    // A poller goes before one of its connections, which goes on.
    let mut left =
        mem::replace(first.connection(a).unwrap(), pair(Options::default()).into_iter().next().unwrap());
    drop(first);
    for peer in [&mut peer, &mut its_peer, &mut third_peer] {
        peer.send(1, &[b"y"], DEADLINE).unwrap();
    }
    assert_eq!(left.recv_into(&mut [&mut room], DEADLINE).unwrap().bytes, 1);
    left.close(Reason(3), DEADLINE).unwrap();
}
