//! Messages and streams.

use core::time::Duration;
use std::io::{Read, Write};
use std::sync::Barrier;
use std::thread;

use superpipe::{
    Connection, Drive, ErrorKind, Listener, Options, Protocol, Reason, Received, RecvOperation,
    SendOperation, TryRecv, TrySend,
};

use crate::counting::{counted, counted_after};
use crate::{DEADLINE, address, pair};

const SIZES: [usize; 9] = [0, 8, 40, 41, 1000, 16 << 10, 70_000, 1 << 20, 5_000_001];

/// Both ends send and receive every size by every protocol, as messages and as streams.
fn exchange(connection: &mut Connection, first: bool, out: &[u8], back: &mut [u8]) {
    for protocol in Protocol::ALL {
        connection.set_protocol(protocol);
        for bytes in SIZES {
            for turn in [true, false] {
                if turn == first {
                    connection.send(7, &[&out[..bytes / 3], &out[bytes / 3..bytes]], DEADLINE).unwrap();
                    let mut stream = connection.open_stream(8, DEADLINE).unwrap();
                    stream.write_all(&out[..bytes]).unwrap();
                    stream.finish(DEADLINE).unwrap();
                } else {
                    let (head, tail) = back.split_at_mut(bytes / 2);
                    let received = connection.recv_into(&mut [head, tail], DEADLINE).unwrap();
                    assert_eq!((received.tag, received.bytes), (7, bytes));
                    assert!(back[..bytes] == out[..bytes]);
                    back[..bytes].fill(0);
                    let mut stream = connection.accept_stream(DEADLINE).unwrap();
                    stream.read_exact(&mut back[..bytes]).unwrap();
                    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
                    assert!(back[..bytes] == out[..bytes]);
                }
            }
        }
    }
}

/// The same by calls that never wait.
fn exchange_by_tries(connection: &mut Connection, first: bool, out: &[u8], back: &mut [u8]) {
    for bytes in SIZES {
        for turn in [true, false] {
            if turn == first {
                send_by_tries(connection, &[&out[..bytes / 3], &out[bytes / 3..bytes]]);
            } else {
                let (head, tail) = back.split_at_mut(bytes / 2);
                assert_eq!(receive_by_tries(connection, &mut [head, tail]), Received { tag: 7, bytes });
                assert!(back[..bytes] == out[..bytes]);
                back[..bytes].fill(0);
            }
        }
    }
}

fn send_by_tries(connection: &mut Connection, slices: &[&[u8]]) {
    loop {
        match connection.try_send(7, slices).unwrap() {
            TrySend::Sent => return,
            TrySend::Full => rest(connection),
            TrySend::TooLong => break,
        }
    }
    let mut send = SendOperation::new(7, slices.iter().map(|slice| slice.len()).sum());
    while connection.drive_send(&mut send, slices).unwrap() != Drive::Done(()) {
        rest(connection);
    }
}

fn receive_by_tries(connection: &mut Connection, slices: &mut [&mut [u8]]) -> Received {
    for _ in 0..3 {
        match connection.recv_into(slices, Duration::ZERO) {
            Ok(received) => return received,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
    }
    loop {
        match connection.try_recv(slices).unwrap() {
            TryRecv::Received(received) => return received,
            TryRecv::Nothing => {
                connection.try_peek().unwrap();
                rest(connection);
            }
            TryRecv::Incomplete(_) => break,
            TryRecv::TooSmall(incoming) => panic!("{incoming:?}"),
        }
    }
    let mut receive = RecvOperation::new();
    loop {
        if let Drive::Done(received) = connection.drive_recv(&mut receive, slices).unwrap() {
            return received;
        }
        rest(connection);
    }
}

pub(crate) fn rest(connection: &mut Connection) {
    connection.progress();
    thread::yield_now();
}

pub(crate) fn exchanges_allocate_nothing() {
    let address = address("messages");
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let out: Vec<u8> =
        (0..5_000_001u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    let barrier = Barrier::new(2);
    let allocations = thread::scope(|scope| {
        scope.spawn(|| {
            let mut back = vec![0; out.len()];
            let mut connection = listener.accept(DEADLINE).unwrap();
            barrier.wait();
            exchange(&mut connection, false, &out, &mut back);
            exchange_by_tries(&mut connection, false, &out, &mut back);
            barrier.wait();
        });
        let mut back = vec![0; out.len()];
        let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
        #[cfg(feature = "recorder")]
        connection.record(true);
        let (allocations, ()) = counted_after(
            || _ = barrier.wait(),
            || {
                exchange(&mut connection, true, &out, &mut back);
                exchange_by_tries(&mut connection, true, &out, &mut back);
            },
        );
        barrier.wait();
        allocations
    });
    assert_eq!(allocations, 0);
    // The counter does count.
    assert_eq!(counted(|| drop(core::hint::black_box(vec![1u8; 10]))).0, 1);
}

/// A loop of tries may go on for as long as it likes after the peer has closed.
pub(crate) fn tries_after_a_close_allocate_nothing() {
    for reason in [Reason::DONE, Reason(7)] {
        let [mut connection, other] = pair("tries");
        other.close(reason, DEADLINE).unwrap();
        assert!(connection.recv_into(&mut [&mut [0; 8]], DEADLINE).is_err());
        let (allocations, kinds) = counted(|| {
            [(); 100].map(|()| {
                [
                    connection.try_recv(&mut [&mut [0; 8]]).err().map(|error| error.kind()),
                    connection.try_send(1, &[b"nobody"]).err().map(|error| error.kind()),
                    connection.try_peek().err().map(|error| error.kind()),
                ]
            })
        });
        for (tries, kinds) in kinds.iter().enumerate() {
            assert_eq!(*kinds, [Some(ErrorKind::Closed(reason)); 3], "after {tries} of each");
        }
        assert_eq!(allocations, 0, "{reason:?}");
    }
}
