//! Pollers, and metrics that are published.

use core::time::Duration;
use std::time::Instant;

use superpipe::metrics::{PublishOptions, Reader, publish};
use superpipe::{Options, PollEvent, PollEvents, Poller, PollerOptions, TryRecv, TrySend};

use crate::counting::counted;
use crate::{DEADLINE, address, pair};

/// Both ends of a few connections in one poller: messages of several sizes, sleeps and wake-ups.
pub(crate) fn a_poller_allocates_nothing() {
    let mut poller =
        Poller::new(PollerOptions { quiet_after: Duration::ZERO, ..PollerOptions::default() }).unwrap();
    let address = address("poller");
    poller.listen(&address, Options::default()).unwrap();
    let mut events = PollEvents::with_capacity(8);
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(poller.connect(&address, Options::default(), DEADLINE).unwrap());
    }
    let until = Instant::now() + DEADLINE;
    let mut made = 0;
    while made < 6 {
        poller.poll(&mut events, until).unwrap();
        for event in &events {
            assert!(matches!(event, PollEvent::Connected { .. } | PollEvent::Accepted { .. }), "{event:?}");
            made += 1;
        }
    }
    let mut room = vec![0; 64 << 10];
    let (allocations, ()) = counted(|| {
        for round in 0..60_usize {
            let bytes = [8, 104, 3000, 64 << 10][round % 4];
            for key in &keys {
                let sent = poller.connection(*key).unwrap().try_send(1, &[&room[..bytes]]).unwrap();
                assert_eq!(sent, TrySend::Sent);
            }
            let mut answers = 0;
            while answers < keys.len() {
                assert!(Instant::now() < until);
                poller.poll(&mut events, until).unwrap();
                for event in &events {
                    let PollEvent::Readable { connection: key } = event else { panic!("{event:?}") };
                    let connection = poller.connection(key).unwrap();
                    if let TryRecv::Received(received) = connection.try_recv(&mut [&mut room]).unwrap() {
                        assert_eq!(received.bytes, bytes);
                        if received.tag == 1 {
                            assert_eq!(connection.try_send(2, &[&room[..bytes]]).unwrap(), TrySend::Sent);
                        } else {
                            answers += 1;
                        }
                    }
                }
            }
            // Everything falls asleep.
            poller.poll(&mut events, Duration::from_millis(2)).unwrap();
            assert!(events.is_empty());
            let _ = poller.arm();
        }
    });
    assert_eq!(allocations, 0);
}

/// Copies of counters, of both ends and of a poller, once they are in the page.
pub(crate) fn publishing_allocates_nothing() {
    let publisher = publish(PublishOptions::default()).unwrap();
    let [mut one, other] = pair("page");
    let mut poller = Poller::new(PollerOptions::default()).unwrap();
    let key = poller.adopt(other).map_err(|(_, error)| error).unwrap();
    let mut events = PollEvents::with_capacity(8);
    poller.poll(&mut events, Duration::ZERO).unwrap();
    let mut reader = Reader::open(std::process::id()).unwrap();
    let first = reader.read().unwrap();
    assert_eq!((first.connections.len(), first.pollers.len()), (2, 1));
    let (allocations, ()) = counted(|| {
        let (begun, mut rounds) = (Instant::now(), 0);
        // The poller copies its connections with their keepalives, each 200 ms. A busy host may have few rounds in that time.
        while begun.elapsed() < Duration::from_millis(500) || rounds < 1000 {
            rounds += 1;
            assert_eq!(one.try_send(1, &[b"hello"]).unwrap(), TrySend::Sent);
            poller.poll(&mut events, DEADLINE).unwrap();
            assert!(matches!(
                poller.connection(key).unwrap().try_recv(&mut [&mut [0; 8]]),
                Ok(TryRecv::Received(_))
            ));
            one.progress();
        }
    });
    assert_eq!(allocations, 0);
    let last = reader.read().unwrap();
    for (first, last) in first.connections.iter().zip(&last.connections) {
        assert!(last.copied_at_ns > first.copied_at_ns, "{last:?}");
    }
    assert!(last.pollers[0].copied_at_ns > first.pollers[0].copied_at_ns);
    drop(publisher);
}
