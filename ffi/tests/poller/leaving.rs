//! Connections that leave their poller: they work on by themselves, in another poller, and in the first one again. Over RDMA they keep their place in a completion queue that they
//! share with those that stay.

use core::time::Duration;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use superpipe::{Arming, Connection, ErrorKind, Key, PollEvent, PollEvents, Poller, PollerOptions, Reason};

use crate::support::{DEADLINE, client, echo, echo_some, ping, poll_until, server};

const PINGS: u64 = 40;

/// Sends messages that find their receiver asleep, or about to be.
fn ping_slowly(connection: &mut Connection, value: u8) {
    for round in 0..PINGS {
        thread::sleep(Duration::from_millis(round % 7));
        ping(connection, 8, value);
    }
}

/// Answers by calls that wait, until the peer closes. Returns the number of messages.
fn serve_alone(mut connection: Connection) -> u64 {
    let (mut room, mut count) = ([0; 64], 0);
    loop {
        match connection.recv_into(&mut [&mut room], DEADLINE) {
            Ok(received) => {
                connection.send(received.tag, &[&room[..received.bytes]], DEADLINE).unwrap();
                count += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Closed(Reason::DONE), "{error}");
                return count;
            }
        }
    }
}

/// Polls until so many messages were answered.
fn serve_some(poller: &mut Poller, mut messages: u64) {
    let mut room = [0; 64];
    poll_until(poller, |poller, event| {
        if let PollEvent::Readable { connection } = event {
            let most = usize::try_from(messages).unwrap();
            messages -= echo_some(poller.connection(connection).unwrap(), &mut room, most) as u64;
        }
        messages == 0
    });
}

#[test]
fn those_that_left_and_those_that_stay_are_woken() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        for index in 0..6 {
            client(scope, &address, move |mut connection| ping_slowly(&mut connection, index));
        }
        let mut room = [0; 64];
        let (mut accepted, mut ended, mut left) = (0, 0, Vec::new());
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    accepted += 1;
                    // Only a wake-up brings what arrives while it sleeps.
                    poller.connection(connection).unwrap().set_looks_while_armed(false);
                    if accepted % 2 == 0 {
                        let connection = poller.remove(connection).unwrap();
                        left.push(scope.spawn(|| serve_alone(connection)));
                    }
                }
                // One that has just left has a stale key.
                PollEvent::Readable { connection } => {
                    if let Some(connection) = poller.connection(connection) {
                        echo(connection, &mut room);
                    }
                }
                PollEvent::Ended { connection } => {
                    ended += u32::from(poller.remove(connection).is_some());
                }
                other => panic!("{other:?}"),
            }
            (accepted, ended) == (6, 3)
        });
        // Those that left may outlive it.
        drop(poller);
        for left in left {
            assert_eq!(left.join().unwrap(), PINGS);
        }
    });
}

/// The wake-ups of one that left are its own.
#[test]
fn a_poller_is_not_woken_for_one_that_left() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        client(scope, &address, |mut connection| ping_slowly(&mut connection, 1));
        let mut left = None;
        poll_until(&mut poller, |poller, event| {
            if let PollEvent::Accepted { connection, .. } = event {
                left = poller.remove(connection);
            }
            left.is_some()
        });
        let left = left.unwrap();
        let serving = scope.spawn(|| serve_alone(left));
        let (mut events, mut wakeups) = (PollEvents::with_capacity(4), 0);
        while !serving.is_finished() {
            poller.poll(&mut events, Duration::ZERO).unwrap();
            assert!(events.is_empty(), "{events:?}");
            if poller.arm() != Arming::Busy {
                let mut fds = [PollFd::new(&poller, PollFlags::IN)];
                let timeout = Timespec::try_from(Duration::from_millis(200)).unwrap();
                wakeups += poll(&mut fds, Some(&timeout)).unwrap();
            }
        }
        assert_eq!(serving.join().unwrap(), PINGS);
        // Its listener's timer may be left.
        assert!(wakeups < 8, "{wakeups} wake-ups for {PINGS} messages of another");
    });
}

#[test]
fn one_that_left_is_woken_in_any_poller() {
    let (mut first, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        for index in 0..2 {
            client(scope, &address, move |mut connection| {
                (0..3).for_each(|_| ping_slowly(&mut connection, index));
                let _ = connection.recv_into(&mut [&mut [0; 8]], DEADLINE).unwrap_err();
            });
        }
        let mut keys: Vec<Key> = Vec::new();
        poll_until(&mut first, |poller, event| {
            if let PollEvent::Accepted { connection, .. } = event {
                poller.connection(connection).unwrap().set_looks_while_armed(false);
                keys.push(connection);
            }
            keys.len() == 2
        });
        // One of them goes to another poller, which serves it while the first one serves the other.
        let mut second = Poller::new(PollerOptions::default()).unwrap();
        let moved = second.adopt(first.remove(keys[0]).unwrap()).map_err(|(_, error)| error).unwrap();
        let serving = scope.spawn(move || {
            serve_some(&mut second, PINGS);
            let back = second.remove(moved).unwrap();
            (second, back)
        });
        serve_some(&mut first, PINGS);
        let (second, back) = serving.join().unwrap();
        drop(second);
        first.adopt(back).map_err(|(_, error)| error).unwrap();
        serve_some(&mut first, 4 * PINGS);
        // Its clients wait for their end.
        drop(first);
    });
}
