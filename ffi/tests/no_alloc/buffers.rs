//! Registered and trusted buffers, and loans.

use core::time::Duration;
use std::sync::Barrier;
use std::thread;

use superpipe::{
    Connection, ErrorKind, Listener, Options, PeerTrust, Protocol, Received, Registered, RegisteredBuf,
    TrustedBuf, TryRecvLoan, TryReserve, Tuning,
};

use crate::counting::{counted, counted_after};
use crate::messages::rest;
use crate::{DEADLINE, address, pair};

/// Once a buffer is registered, which allocates.
pub(crate) fn messages_out_of_registered_buffers_allocate_nothing() {
    let address = address("buffers");
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let (registered, is_counted) = (Barrier::new(2), Barrier::new(2));
    let allocations = thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = listener.accept(DEADLINE).unwrap();
            let mut sink = RegisteredBuf::new(1 << 20).unwrap();
            assert_eq!(connection.recv_registered(&mut sink, DEADLINE).unwrap().bytes, 1);
            registered.wait();
            for number in 0..100 {
                connection.recv_registered(&mut sink, DEADLINE).unwrap();
                assert!(sink[0] == number && sink[99_999] == number);
            }
            is_counted.wait();
            assert_eq!(connection.counters().exposed_bytes_received, 50 * ((1 << 20) + 100_000));
        });
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        let mut source = RegisteredBuf::new(1 << 20).unwrap();
        assert_eq!(connection.register(&source, DEADLINE).unwrap(), Registered::Ready);
        connection.send_registered(7, &source, 0..1, DEADLINE).unwrap();
        let (allocations, ()) = counted_after(
            || _ = registered.wait(),
            || {
                for number in 0..100 {
                    source.fill(number);
                    let bytes = if number % 2 == 0 { 1 << 20 } else { 100_000 };
                    connection.send_registered(7, &source, 0..bytes, DEADLINE).unwrap();
                    connection.wait_unshared(&source, DEADLINE).unwrap();
                }
            },
        );
        is_counted.wait();
        allocations
    });
    assert_eq!(allocations, 0);
}

/// Once both buffers are exposed, which allocates: messages that both ends copy, those that came before an offer, and tries.
pub(crate) fn messages_into_trusted_buffers_allocate_nothing() {
    const BYTES: usize = 300_000;
    const FIRST_COUNTED: u8 = 20;
    let address = address("trusted");
    // SAFETY: the peer is this test.
    let peer_trust = unsafe { PeerTrust::declare() };
    let mut listener = Listener::bind(&address, Options { peer_trust, ..Options::default() }).unwrap();
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let (exposed, is_counted) = (Barrier::new(2), Barrier::new(2));
    let allocations = thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = listener.accept(DEADLINE).unwrap();
            let mut sink = TrustedBuf::new(BYTES).unwrap();
            let mut seen = vec![0; BYTES];
            for number in 0..100_u8 {
                if number == FIRST_COUNTED {
                    exposed.wait();
                }
                if number % 4 != 3 {
                    connection.offer(&mut sink).unwrap();
                }
                connection.send(1, &[&[number]], DEADLINE).unwrap();
                let received = if number % 2 == 0 {
                    connection.recv_trusted(&mut sink, DEADLINE).unwrap()
                } else {
                    try_recv_trusted(&mut connection, &mut sink)
                };
                assert_eq!(received, Received { tag: 7, bytes: BYTES });
                sink.read(0, &mut seen).unwrap();
                assert!(seen.iter().all(|byte| *byte == number));
            }
            is_counted.wait();
            let counters = connection.counters();
            assert!(
                counters.split_bytes_received > 20 * BYTES as u64 / 2,
                "some were copied by both ends: {counters:?}"
            );
        });
        let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
        let mut source = RegisteredBuf::new(BYTES).unwrap();
        assert_eq!(connection.register(&source, DEADLINE).unwrap(), Registered::Ready);
        let mut answer = |number| {
            let mut asked = [0];
            connection.recv_into(&mut [&mut asked], DEADLINE).unwrap();
            assert_eq!(asked, [number]);
            source.fill(number);
            connection.send_registered(7, &source, 0..BYTES, DEADLINE).unwrap();
            connection.wait_unshared(&source, DEADLINE).unwrap();
        };
        (0..FIRST_COUNTED).for_each(&mut answer);
        let (allocations, ()) = counted_after(
            || _ = exposed.wait(),
            || {
                (FIRST_COUNTED..100).for_each(&mut answer);
            },
        );
        is_counted.wait();
        allocations
    });
    assert_eq!(allocations, 0);
}

/// Receives by calls that never wait.
fn try_recv_trusted(connection: &mut Connection, sink: &mut TrustedBuf) -> Received {
    loop {
        match connection.recv_trusted(sink, Duration::ZERO) {
            Ok(received) => return received,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
        rest(connection);
    }
}

/// Messages of several sizes that are built and read in place, with up to three loans held.
pub(crate) fn loans_allocate_nothing() {
    let [mut sender, mut receiver] = pair("loans");
    let mut room = vec![0; 64 << 10];
    let mut held = [None, None, None];
    let (allocations, ()) = counted(|| {
        for round in 0..300_usize {
            let (bytes, value) = ([0, 8, 104, 3000, 64 << 10][round % 5], round.to_le_bytes()[0]);
            room[..bytes].fill(value);
            let reserved = loop {
                receiver.progress();
                match sender.try_reserve(7, bytes).unwrap() {
                    TryReserve::Reserved(reserved) => break reserved,
                    TryReserve::Pending => _ = sender.progress(),
                }
            };
            sender.copy_into(&reserved, 0, &room[..bytes]).unwrap();
            sender.commit(reserved).unwrap();
            room[..bytes].fill(!value);
            let TryRecvLoan::Loan(loan) = receiver.try_recv_loan().unwrap() else { panic!("it is here") };
            receiver.copy_from_loan(&loan, 0, &mut room[..bytes]).unwrap();
            assert!(loan.bytes() == bytes && room[..bytes].iter().all(|byte| *byte == value));
            let spans = receiver.loan_spans(&loan).unwrap();
            assert_eq!(spans.map(|span| span.len()).sum::<usize>(), bytes);
            if let Some(older) = held[round % 3].replace(loan) {
                receiver.give_back(older).unwrap();
            }
        }
    });
    assert_eq!(allocations, 0);
}
