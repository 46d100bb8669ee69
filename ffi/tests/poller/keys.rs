//! Keys, and a program that does odd things with what they name.

use core::mem;
use core::time::Duration;
use std::sync::Barrier;
use std::thread;

use superpipe::{Interest, Key, Listener, Options, PollEvent, PollEvents, Poller, PollerOptions};

use crate::support::{client, echo, ping, poll_until, server};

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
        *poller.connection(key).unwrap() = listener.accept(crate::support::DEADLINE).unwrap();
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
