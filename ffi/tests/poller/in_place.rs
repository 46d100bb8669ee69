//! Reports of connections with loans, and with messages that are built in place.

use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

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
        poller.poll(&mut events, Duration::from_millis(20)).unwrap();
        assert!(events.iter().all(|event| !matches!(event, PollEvent::Readable { .. })), "{events:?}");
        // Eight of 60,000 bytes fill the client's landing buffer: it holds them.
        let begun = Instant::now();
        let mut sent = 0;
        while sent < 8 {
            let connection = poller.connection(key).unwrap();
            let TryReserve::Reserved(reserved) = connection.try_reserve(sent, 60_000).unwrap() else {
                // The client has yet to acknowledge the end of the warm-up.
                assert!(begun.elapsed() < DEADLINE, "{sent} have room");
                poller.poll(&mut events, Duration::from_millis(1)).unwrap();
                assert!(events.is_empty(), "{events:?}");
                continue;
            };
            connection.copy_into(&reserved, 0, &[sent.to_le_bytes()[0]; 60_000]).unwrap();
            connection.commit(reserved).unwrap();
            sent += 1;
        }
        let more = poller.connection(key).unwrap().try_reserve(sent, 60_000).unwrap();
        assert!(matches!(more, TryReserve::Pending), "{more:?}");
        poller.set_interest(key, Interest { readable: true, writable: true });
        poller.poll(&mut events, Duration::from_millis(20)).unwrap();
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
