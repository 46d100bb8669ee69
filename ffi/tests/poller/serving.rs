//! A server whose clients come, send, and go.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use superpipe::{
    Address, Drive, ErrorKind, Interest, Key, LandingMode, Options, PollEvent, PollEvents, Poller,
    PollerOptions, Reason, RecvOperation, SendOperation, TryRecv, TrySend, Tuning, WaitStrategy,
};

use crate::support::{DEADLINE, client, echo, ping, poll_until, server, server_of};

#[test]
fn a_hundred_clients_are_served_and_their_ends_are_seen() {
    for wait in WaitStrategy::ALL {
        let (mut poller, listener, address) = server(PollerOptions { wait, ..PollerOptions::default() });
        thread::scope(|scope| {
            for index in 0..100_u8 {
                client(scope, &address, move |mut connection| {
                    for round in 0..20_u8 {
                        ping(&mut connection, [8, 64, 3000, 40_000][usize::from(round % 4)], index ^ round);
                    }
                });
            }
            let mut room = vec![0; 64 << 10];
            let (mut accepted, mut echoed, mut ended) = (0, 0, 0);
            poll_until(&mut poller, |poller, event| {
                match event {
                    PollEvent::Accepted { listener: of, .. } => {
                        assert_eq!(of, listener);
                        accepted += 1;
                    }
                    PollEvent::Readable { connection } => {
                        echoed += echo(poller.connection(connection).unwrap(), &mut room);
                    }
                    PollEvent::Ended { connection } => {
                        let mut gone = poller.remove(connection).unwrap();
                        let error = gone.try_recv(&mut [&mut room]).unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::Closed(Reason::DONE));
                        ended += 1;
                    }
                    other => panic!("{other:?}"),
                }
                ended == 100
            });
            assert_eq!((accepted, echoed, poller.connection_count()), (100, 2000, 0));
        });
    }
}

/// One client sends without pause, and the others now and then.
#[test]
fn a_client_that_sends_all_the_time_keeps_nobody_waiting() {
    let (mut poller, _, address) = server(PollerOptions::default());
    let is_over = core::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        client(scope, &address, move |mut connection| {
            while !is_over.load(core::sync::atomic::Ordering::Relaxed) {
                // Its answers are not taken: it is not sent any.
                match connection.try_send(1, &[&[1; 4000]]) {
                    Ok(TrySend::Sent) => {}
                    _ => thread::yield_now(),
                }
                connection.progress();
            }
        });
        let others: Vec<_> = (0..5)
            .map(|index| {
                client(scope, &address, move |mut connection| {
                    for _ in 0..50 {
                        thread::sleep(Duration::from_millis(2));
                        ping(&mut connection, 100, index);
                    }
                })
            })
            .collect();
        let mut room = vec![0; 64 << 10];
        let mut ended = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Readable { connection } => {
                    let connection = poller.connection(connection).unwrap();
                    if let Ok(TryRecv::Received(received)) = connection.try_recv(&mut [&mut room])
                        && received.tag == 7
                    {
                        connection.try_send(7, &[&room[..received.bytes]]).unwrap();
                    }
                }
                PollEvent::Ended { connection } => {
                    poller.remove(connection);
                    ended += 1;
                }
                _ => {}
            }
            ended == 5
        });
        is_over.store(true, core::sync::atomic::Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Messages longer than the landing buffer go both ways, each by an operation that is driven when its connection is ready.
#[test]
fn long_messages_go_by_operations_side_by_side() {
    for landing in [LandingMode::AtConnect, LandingMode::OnDemand] {
        let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
        let options = Options { tuning, ..Options::default() };
        serve_long_messages(server_of(PollerOptions::default(), options));
    }
}

fn serve_long_messages((mut poller, _, address): (Poller, Key, Address)) {
    const BYTES: usize = 3_000_001;
    thread::scope(|scope| {
        for index in 0..4 {
            client(scope, &address, move |mut connection| ping(&mut connection, BYTES, index));
        }
        let mut operations = HashMap::new();
        let mut ended = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    operations.insert(connection, (RecvOperation::new(), vec![0; BYTES], None));
                }
                PollEvent::Readable { connection: key } => {
                    let (receive, room, send) = operations.get_mut(&key).unwrap();
                    let connection = poller.connection(key).unwrap();
                    if let Drive::Done(received) = connection.drive_recv(receive, &mut [room]).unwrap() {
                        *send = Some(SendOperation::new(received.tag, received.bytes));
                        assert!(poller.set_interest(key, Interest { readable: true, writable: true }));
                    }
                }
                PollEvent::Writable { connection: key } => {
                    let (_, room, send) = operations.get_mut(&key).unwrap();
                    let connection = poller.connection(key).unwrap();
                    let sent = connection.drive_send(send.as_mut().unwrap(), &[room]).unwrap();
                    if sent == Drive::Done(()) {
                        assert!(poller.set_interest(key, Interest::default()));
                    }
                }
                PollEvent::Ended { connection } => {
                    poller.remove(connection);
                    ended += 1;
                }
                other => panic!("{other:?}"),
            }
            ended == 4
        });
    });
}

/// What is not wanted stays there, costs nobody else anything, and is there when it is wanted.
#[test]
fn what_is_not_wanted_waits() {
    let (mut poller, _, address) = server(PollerOptions::default());
    let sent = Barrier::new(2);
    thread::scope(|scope| {
        let sent = &sent;
        client(scope, &address, move |mut connection| {
            connection.send(7, &[b"early"], DEADLINE).unwrap();
            sent.wait();
            connection.flush(DEADLINE).unwrap();
        });
        let mut accepted = None;
        poll_until(&mut poller, |poller, event| {
            if let PollEvent::Accepted { connection, .. } = event {
                assert!(poller.set_interest(connection, Interest::NONE));
                accepted = Some(connection);
            }
            accepted.is_some()
        });
        sent.wait();
        let key = accepted.unwrap();
        let mut events = PollEvents::with_capacity(4);
        for _ in 0..20 {
            poller.poll(&mut events, Duration::from_millis(2)).unwrap();
            assert!(events.is_empty(), "{events:?}");
        }
        assert!(poller.set_interest(key, Interest::default()));
        let mut room = [0; 64];
        let mut received = 0;
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Readable { connection } => {
                    let connection = poller.connection(connection).unwrap();
                    if let TryRecv::Received(_) = connection.try_recv(&mut [&mut room]).unwrap() {
                        received += 1;
                    }
                }
                PollEvent::Ended { .. } => return true,
                other => panic!("{other:?}"),
            }
            false
        });
        assert_eq!((received, &room[..5]), (1, &b"early"[..]));
    });
}

/// A landing buffer that is full is not writable, and is again once the peer has received.
#[test]
fn a_connection_is_writable_once_there_is_room() {
    let (mut poller, _, address) = server(PollerOptions::default());
    thread::scope(|scope| {
        let (go, gone) = std::sync::mpsc::channel();
        client(scope, &address, move |mut connection| {
            let count: u64 = gone.recv().unwrap();
            let mut room = vec![0; 64 << 10];
            for tag in 0..count {
                assert_eq!(connection.recv_into(&mut [&mut room], DEADLINE).unwrap().tag, tag);
            }
        });
        let (mut sent, mut is_full) = (0, false);
        let message = vec![5; 64 << 10];
        poll_until(&mut poller, |poller, event| {
            match event {
                PollEvent::Accepted { connection, .. } => {
                    assert!(poller.set_interest(connection, Interest { readable: true, writable: true }));
                }
                PollEvent::Writable { connection } => {
                    let sent_now =
                        poller.connection(connection).unwrap().try_send(sent, &[&message]).unwrap();
                    assert_eq!(sent_now, TrySend::Sent, "it was said to be writable, after {sent}");
                    sent += 1;
                    if sent >= 4 && !is_full {
                        // As many as fit, and one that does not.
                        while poller.connection(connection).unwrap().try_send(sent, &[&message]).unwrap()
                            == TrySend::Sent
                        {
                            sent += 1;
                        }
                        is_full = true;
                        let mut events = PollEvents::with_capacity(4);
                        for _ in 0..20 {
                            poller.poll(&mut events, Duration::from_millis(2)).unwrap();
                            assert!(events.is_empty(), "{events:?}");
                        }
                        go.send(sent + 1).unwrap();
                    } else if is_full {
                        assert!(poller.set_interest(connection, Interest::default()));
                    }
                }
                PollEvent::Ended { .. } => return true,
                other => panic!("{other:?}"),
            }
            false
        });
        assert!(is_full && sent > 4);
    });
}
