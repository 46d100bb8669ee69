//! A poller's descriptor in an epoll that tells of changes only (edge-triggered), as event loops use it: what was told once is not told again.

use core::time::Duration;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use superpipe::{Arming, Connection, Key, PollEvent, PollEvents, Poller, PollerOptions, TryRecv};

use crate::support::{DEADLINE, client, poll_until, server};

/// Returns a poller, an epoll that tells of its changes, and connections with their keys there, which no timer looks at while they are armed.
fn watched(connections: usize) -> (Poller, OwnedFd, Vec<(Connection, Key)>) {
    let (mut poller, _, there) = server(PollerOptions::default());
    let changes = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&changes, poller.as_fd(), epoll::EventData::new_u64(1), flags).unwrap();
    let connect = |poller: &mut Poller| {
        thread::scope(|scope| {
            let made = client(scope, &there, |connection| connection);
            let mut key = None;
            poll_until(poller, |poller, event| {
                if let PollEvent::Accepted { connection, .. } = event {
                    poller.connection(connection).unwrap().set_looks_while_armed(false);
                    key = Some(connection);
                }
                key.is_some()
            });
            (made.join().unwrap(), key.unwrap())
        })
    };
    let pairs = (0..connections).map(|_| connect(&mut poller)).collect();
    (poller, changes, pairs)
}

/// Polls and arms until nothing is to be done, and all changes are told.
fn settle(poller: &mut Poller, changes: &OwnedFd, events: &mut PollEvents) {
    loop {
        poller.poll(events, Duration::ZERO).unwrap();
        if events.is_empty() && poller.arm() != Arming::Busy {
            break;
        }
    }
    await_change(changes, Duration::ZERO);
}

/// Receives the next message, and waits for it by changes alone.
fn receive(poller: &mut Poller, changes: &OwnedFd, events: &mut PollEvents, what: &str) -> Key {
    let mut room = [0; 64];
    let begun = Instant::now();
    loop {
        poller.poll(events, Duration::ZERO).unwrap();
        for event in &*events {
            if let PollEvent::Readable { connection } = event
                && let Ok(TryRecv::Received(_)) =
                    poller.connection(connection).unwrap().try_recv(&mut [&mut room])
            {
                return connection;
            }
        }
        if events.is_empty() && poller.arm() != Arming::Busy {
            let is_ready =
                poll(&mut [PollFd::new(&*poller, PollFlags::IN)], Some(&Timespec::default())) == Ok(1);
            let has_changed = await_change(changes, Duration::ZERO);
            assert!(has_changed || !is_ready, "{what}: the descriptor is ready, and has told so before");
            assert!(has_changed || await_change(changes, DEADLINE), "{what}: nobody tells of the message");
        }
        assert!(begun.elapsed() < DEADLINE);
    }
}

/// What a program calls between two changes must not hide what the descriptor has told.
#[test]
fn a_pollers_descriptor_can_be_watched_for_changes() {
    let (mut poller, changes, mut pairs) = watched(2);
    let keys = [0, 1].map(|index: usize| pairs[index].1);
    let mut events = PollEvents::with_capacity(8);
    let mut room = [0; 64];
    for round in 0..40 {
        settle(&mut poller, &changes, &mut events);
        pairs[round % 2].0.send(1, &[b"message"], DEADLINE).unwrap();
        assert!(await_change(&changes, DEADLINE), "{round}: the message");
        // It looks at one of them before it polls, which is another one half of the time.
        let looked = poller.connection(keys[round / 2 % 2]).unwrap().try_recv(&mut [&mut room]).unwrap();
        if matches!(looked, TryRecv::Received(_)) {
            continue;
        }
        receive(&mut poller, &changes, &mut events, &format!("round {round}"));
    }
}

/// The kernel reports a part of them at a time: one message, after wake-ups by many acknowledgements.
#[test]
fn many_wake_ups_do_not_hide_a_message() {
    let (mut poller, changes, mut pairs) = watched(250);
    let mut events = PollEvents::with_capacity(8);
    let mut room = [0; 64];
    for (_, key) in &pairs {
        poller.connection(*key).unwrap().send(1, &[b"news"], DEADLINE).unwrap();
    }
    settle(&mut poller, &changes, &mut events);
    let ((last, key), others) = pairs.split_last_mut().unwrap();
    for (peer, _) in others {
        assert!(matches!(peer.try_recv(&mut [&mut room]).unwrap(), TryRecv::Received(_)));
        // Its acknowledgement goes out.
        (0..200).for_each(|_| _ = peer.progress());
    }
    last.send(1, &[b"message"], DEADLINE).unwrap();
    assert!(await_change(&changes, DEADLINE), "the first change");
    assert_eq!(receive(&mut poller, &changes, &mut events, "beside many"), *key);
}

/// Returns true if the set reports something in this time.
fn await_change(set: &impl AsFd, time: Duration) -> bool {
    let mut found = Vec::with_capacity(4);
    let timeout = Timespec::try_from(time).unwrap();
    epoll::wait(set, rustix::buffer::spare_capacity(&mut found), Some(&timeout)).unwrap() > 0
}
