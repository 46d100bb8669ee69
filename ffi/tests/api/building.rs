//! Messages that are built in place.

use core::time::Duration;
use std::thread;

use superpipe::{
    Arrival, Connection, ErrorKind, LandingMode, Options, Reason, Reserved, TryReserve, TrySend, Tuning,
};

use crate::support::{DEADLINE, bytes, pair, pair_with};

/// Writes a message by spans, by copies or by slices.
fn write(connection: &mut Connection, reserved: &mut Reserved, message: &[u8], way: usize) {
    assert_eq!(reserved.bytes(), message.len());
    match way % 3 {
        0 => connection.copy_into(reserved, 0, message).unwrap(),
        1 => {
            let mut at = 0;
            for span in connection.reserved_spans(reserved).unwrap() {
                let (first, rest) = message[at..at + span.len()].split_at(1);
                assert!(span.write(0, [first[0]]) && span.copy_from(1, rest));
                assert!(!span.write(span.len(), [0]) && !span.write(usize::MAX, [0; 2]));
                assert!(!span.copy_from(span.len(), &[0]));
                at += span.len();
            }
            assert_eq!(at, message.len());
        }
        _ => {
            let mut at = 0;
            // SAFETY: 1., 2. the peer is of this test, and follows the protocol.
            for slice in unsafe { connection.reserved_slices(reserved) }.unwrap() {
                slice.copy_from_slice(&message[at..at + slice.len()]);
                at += slice.len();
            }
            assert_eq!(at, message.len());
        }
    }
}

#[test]
fn messages_that_are_built_arrive_whole_and_in_order() {
    for (arrival, landing) in [
        (Arrival::Flag, LandingMode::AtConnect),
        (Arrival::CheckedFlag, LandingMode::AtConnect),
        (Arrival::Flag, LandingMode::OnDemand),
    ] {
        let tuning = Tuning { arrival: Some(arrival), landing: Some(landing), ..Tuning::default() };
        let options = || Options { tuning, ..Options::default() };
        let (mut a, mut b) = pair_with(options(), options());
        let sizes = [0, 1, 40, 104, 4096, 4097, 65_537, 100_000, 300_001, 512 << 10];
        let sender = thread::spawn(move || {
            for round in 0..30 {
                for (index, size) in sizes.into_iter().enumerate() {
                    let message = bytes((round * 16 + index) as u64, size);
                    let mut reserved = a.reserve(index as u64, size, DEADLINE).unwrap();
                    write(&mut a, &mut reserved, &message, round + index);
                    a.commit(reserved).unwrap();
                    // Others in between.
                    a.send(99, &[&message[..size.min(5000)]], DEADLINE).unwrap();
                }
            }
            a.flush(DEADLINE).unwrap();
        });
        let mut place = vec![0; 512 << 10];
        for round in 0..30 {
            for (index, size) in sizes.into_iter().enumerate() {
                let message = bytes((round * 16 + index) as u64, size);
                if round % 2 == 0 {
                    let loan = b.recv_loan(DEADLINE).unwrap();
                    assert_eq!((loan.tag(), loan.bytes()), (index as u64, size));
                    b.copy_from_loan(&loan, 0, &mut place[..size]).unwrap();
                    b.give_back(loan).unwrap();
                } else {
                    let received = b.recv_into(&mut [&mut place], DEADLINE).unwrap();
                    assert_eq!((received.tag, received.bytes), (index as u64, size));
                }
                assert!(place[..size] == message, "{size} bytes in round {round}");
                let received = b.recv_into(&mut [&mut place], DEADLINE).unwrap();
                assert!(place[..received.bytes] == message[..size.min(5000)]);
            }
        }
        sender.join().unwrap();
    }
}

#[test]
fn what_no_landing_buffer_holds_is_refused_with_the_limit() {
    for (landing, bytes_max) in [(LandingMode::AtConnect, 512 << 10), (LandingMode::OnDemand, 512 << 10)] {
        let tuning = Tuning { landing: Some(landing), ..Tuning::default() };
        let options = || Options { tuning, ..Options::default() };
        let (mut a, _b) = pair_with(options(), options());
        for bytes in [(512 << 10) + 1, 1 << 30, usize::MAX] {
            for error in [a.try_reserve(1, bytes).unwrap_err(), a.reserve(1, bytes, DEADLINE).unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
                assert!(error.to_string().contains(&format!(" {bytes_max} ")), "{error}");
            }
        }
    }
}

#[test]
fn only_one_is_open_and_receiving_goes_on() {
    let (mut a, mut b) = pair();
    let mut reserved = a.reserve(1, 9000, DEADLINE).unwrap();
    assert_eq!(a.try_reserve(2, 1).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(a.reserve(2, 1, DEADLINE).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(a.try_send(2, &[b"x"]).unwrap(), TrySend::Full);
    let late = a.send(2, &[b"x"], Duration::from_millis(10)).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Timeout);
    let echo = thread::spawn(move || {
        b.send(3, &[&bytes(3, 2 << 20)], DEADLINE).unwrap();
        b
    });
    let mut place = vec![0; 2 << 20];
    a.recv_into(&mut [&mut place], DEADLINE).unwrap();
    assert!(place == bytes(3, 2 << 20));
    let mut b = echo.join().unwrap();
    write(&mut a, &mut reserved, &bytes(1, 9000), 1);
    a.commit(reserved).unwrap();
    let abandoned = a.reserve(4, 100, DEADLINE).unwrap();
    a.copy_into(&abandoned, 0, &[1; 100]).unwrap();
    assert_eq!(a.copy_into(&abandoned, 1, &[1; 100]).unwrap_err().kind(), ErrorKind::Usage);
    a.abandon(abandoned).unwrap();
    a.send(5, &[b"next"], DEADLINE).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    assert_eq!(b.copy_from_loan(&loan, 0, &mut place[..9000]).map(|()| loan.tag()).unwrap(), 1);
    assert!(place[..9000] == bytes(1, 9000));
    assert_eq!(b.recv_into(&mut [&mut place], DEADLINE).unwrap().tag, 5);
    b.give_back(loan).unwrap();
}

#[test]
fn space_of_another_connection_or_a_closed_one_is_refused() {
    let ((mut a, b), (mut c, mut d)) = (pair(), pair());
    let (one, two) = (a.reserve(1, 100, DEADLINE).unwrap(), c.reserve(1, 100, DEADLINE).unwrap());
    assert_eq!(a.copy_into(&two, 0, &[1]).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(a.reserved_spans(&two).unwrap_err().kind(), ErrorKind::Usage);
    // A refused token comes back, and its own connection takes it.
    let (two, error) = a.abandon(two).unwrap_err();
    assert_eq!((two.bytes(), error.kind()), (100, ErrorKind::Usage));
    let (two, error) = a.commit(two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    c.copy_into(&two, 0, &bytes(7, 100)).unwrap();
    c.commit(two).unwrap();
    let mut place = [0; 100];
    assert_eq!(d.recv_into(&mut [&mut place], DEADLINE).unwrap().tag, 1);
    assert!(place[..] == bytes(7, 100));
    b.close(Reason(5), DEADLINE).unwrap();
    assert_eq!(a.recv_into(&mut [&mut [0]], DEADLINE).unwrap_err().kind(), ErrorKind::Closed(Reason(5)));
    assert_eq!(a.commit(one).unwrap_err().1.kind(), ErrorKind::Closed(Reason(5)));
    assert_eq!(a.try_reserve(1, 1).unwrap_err().kind(), ErrorKind::Closed(Reason(5)));
    assert_eq!(a.reserve(1, 1, DEADLINE).unwrap_err().kind(), ErrorKind::Closed(Reason(5)));
}

#[test]
fn a_full_landing_buffer_is_pending_until_it_is_read() {
    let (mut a, mut b) = pair();
    // What the warm-up has left is acknowledged.
    (0..50).for_each(|_| _ = b.progress());
    for tag in 0..4 {
        let reserved = a.reserve(tag, 128 << 10, DEADLINE).unwrap();
        a.copy_into(&reserved, 0, &bytes(tag, 128 << 10)).unwrap();
        a.commit(reserved).unwrap();
    }
    assert_eq!(a.try_reserve(4, 1).unwrap(), TryReserve::Pending);
    assert_eq!(a.reserve(4, 1, Duration::from_millis(10)).unwrap_err().kind(), ErrorKind::Timeout);
    let mut loans: Vec<_> = (0..4).map(|_| b.recv_loan(DEADLINE).unwrap()).collect();
    b.progress();
    assert_eq!(a.try_reserve(4, 1).unwrap(), TryReserve::Pending);
    b.give_back(loans.remove(0)).unwrap();
    let reserved = a.reserve(4, 128 << 10, DEADLINE).unwrap();
    a.abandon(reserved).unwrap();
    for loan in loans {
        let mut place = vec![0; 128 << 10];
        b.copy_from_loan(&loan, 0, &mut place).unwrap();
        assert!(place == bytes(loan.tag(), 128 << 10));
        b.give_back(loan).unwrap();
    }
}
