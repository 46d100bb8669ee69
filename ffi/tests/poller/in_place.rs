//! Reports of connections with loans, and with messages that are built in place.

use std::sync::Barrier;

use superpipe::{Interest, PollEvent, PollEvents, PollerOptions, TryRecvLoan, TryReserve};

use crate::support::{DEADLINE, client, poll_until, server};

/// A loan that is held is not reported again, what comes behind it is, and a sender that waits for its blocks is reported once they are given back.
#[test]
fn a_loan_is_reported_once_and_stops_only_its_direction() {
    let (mut poller, _, address) = server(PollerOptions::default());
    let is_full = Barrier::new(2);
    std::thread::scope(|scope| {
        let client = client(scope, &address, |mut connection| {
            for tag in 0..2 {
                connection.send(tag, &[&[tag.to_le_bytes()[0]; 1000]], DEADLINE).unwrap();
            }
            // The other direction: the client holds what came until it is told to give it back.
            let loans: Vec<_> = (0..8).map(|_| connection.recv_loan(DEADLINE).unwrap()).collect();
            is_full.wait();
            for loan in loans {
                let mut place = vec![0; loan.bytes()];
                connection.copy_from_loan(&loan, 0, &mut place).unwrap();
                assert!(place.iter().all(|byte| u64::from(*byte) == loan.tag()));
                connection.give_back(loan).unwrap();
            }
            let mut place = vec![0; 60_000];
            while connection.recv_into(&mut [&mut place], DEADLINE).unwrap().tag != 99 {}
        });
        let (mut key, mut held) = (None, Vec::new());
        poll_until(&mut poller, |poller, event| {
            if let PollEvent::Readable { connection } = event {
                key = Some(connection);
                let connection = poller.connection(connection).unwrap();
                while let TryRecvLoan::Loan(loan) = connection.try_recv_loan().unwrap() {
                    held.push(loan);
                }
            }
            held.len() == 2
        });
        let key = key.unwrap();
        let mut events = PollEvents::with_capacity(4);
        poller.poll(&mut events, core::time::Duration::from_millis(20)).unwrap();
        assert!(events.iter().all(|event| !matches!(event, PollEvent::Readable { .. })), "{events:?}");
        // Eight of 60,000 bytes fill the client's landing buffer: it holds them.
        let mut sent = 0;
        loop {
            let connection = poller.connection(key).unwrap();
            let reserved = match connection.try_reserve(sent, 60_000).unwrap() {
                TryReserve::Reserved(reserved) => reserved,
                TryReserve::Pending => break,
            };
            connection.copy_into(&reserved, 0, &[sent.to_le_bytes()[0]; 60_000]).unwrap();
            connection.commit(reserved).unwrap();
            sent += 1;
        }
        assert_eq!(sent, 8);
        poller.set_interest(key, Interest { readable: true, writable: true });
        poller.poll(&mut events, core::time::Duration::from_millis(20)).unwrap();
        assert!(events.is_empty(), "{events:?}");
        is_full.wait();
        poll_until(&mut poller, |_, event| matches!(event, PollEvent::Writable { .. }));
        let connection = poller.connection(key).unwrap();
        for loan in held {
            let mut place = [0; 1000];
            connection.copy_from_loan(&loan, 0, &mut place).unwrap();
            assert!(place.iter().all(|byte| u64::from(*byte) == loan.tag()));
            connection.give_back(loan).unwrap();
        }
        connection.send(99, &[b"over"], DEADLINE).unwrap();
        client.join().unwrap();
    });
}

/// A program that waits for room for a long message sleeps meanwhile: the peer holds half of its landing buffer, and gives nothing back.
#[test]
fn a_reservation_that_is_pending_is_not_reported_again_and_again() {
    let (mut poller, _, address) = server(PollerOptions::default());
    let is_over = Barrier::new(2);
    std::thread::scope(|scope| {
        let client = client(scope, &address, |mut connection| {
            connection.send(0, &[b"begin"], DEADLINE).unwrap();
            let loans: Vec<_> = (0..4).map(|_| connection.recv_loan(DEADLINE).unwrap()).collect();
            is_over.wait();
            loans.into_iter().for_each(|loan| connection.give_back(loan).unwrap());
        });
        let mut key = None;
        poll_until(&mut poller, |poller, event| {
            if let PollEvent::Readable { connection } = event {
                key = Some(connection);
                let connection = poller.connection(connection).unwrap();
                let _ = connection.try_recv(&mut [&mut [0; 8]]).unwrap();
            }
            key.is_some()
        });
        let key = key.unwrap();
        for tag in 0..4 {
            let connection = poller.connection(key).unwrap();
            let reserved = connection.reserve(tag, 60_000, DEADLINE).unwrap();
            connection.commit(reserved).unwrap();
        }
        poller.set_interest(key, Interest { readable: true, writable: true });
        let mut events = PollEvents::with_capacity(4);
        let (begin, mut tries) = (std::time::Instant::now(), 0);
        while begin.elapsed() < core::time::Duration::from_millis(200) {
            poller.poll(&mut events, core::time::Duration::from_millis(20)).unwrap();
            if !events.is_empty() {
                let connection = poller.connection(key).unwrap();
                assert_eq!(connection.try_reserve(9, 400 << 10).unwrap(), TryReserve::Pending);
                tries += 1;
            }
        }
        is_over.wait();
        client.join().unwrap();
        assert!(tries < 50, "{tries} times in 200 ms");
    });
}
