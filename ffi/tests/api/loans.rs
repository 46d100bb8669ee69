//! Messages that are read in place.

use core::time::Duration;
use std::thread;

use superpipe::{
    Arrival, Connection, Drive, ErrorKind, LOANS_MAX, LandingMode, Loan, Options, Protocol, Reason,
    RecvOperation, TryRecv, TryRecvLoan, TrySend, Tuning,
};

use crate::support::{DEADLINE, bytes, pair, pair_with};

/// Reads a loan by spans, by copies and by slices.
#[track_caller]
fn is(connection: &mut Connection, loan: &Loan, message: &[u8]) {
    assert_eq!(loan.bytes(), message.len());
    let mut whole = vec![0; message.len()];
    connection.copy_from_loan(loan, 0, &mut whole).unwrap();
    assert!(whole == message);
    let (mut at, mut word) = (0, [0; 2]);
    for span in connection.loan_spans(loan).unwrap() {
        assert_eq!(span.read::<1>(span.len() - 1), Some([message[at + span.len() - 1]]));
        assert_eq!((span.read::<1>(span.len()), span.read::<2>(usize::MAX)), (None, None));
        assert!(!span.copy_to(span.len() - 1, &mut word));
        let mut copy = vec![0; span.len()];
        assert!(span.copy_to(0, &mut copy));
        assert!(copy == message[at..at + span.len()]);
        at += span.len();
    }
    assert_eq!(at, message.len());
    // SAFETY: 1., 2. the peer is of this test, and follows the protocol.
    let slices: Vec<&[u8]> = unsafe { connection.loan_slices(loan) }.unwrap().collect();
    assert!(slices.concat() == message);
}

#[test]
fn messages_are_read_in_place_and_given_back_in_any_order() {
    for arrival in [Arrival::Flag, Arrival::CheckedFlag] {
        let tuning = Tuning { arrival: Some(arrival), ..Tuning::default() };
        // Over RDMA both ends have to propose flags.
        let options = || Options { tuning, ..Options::default() };
        let (mut a, mut b) = pair_with(options(), options());
        let sizes = [0, 8, 40, 41, 104, 105, 4096, 4097, 10_000, 16 << 10, 65_535, 64 << 10];
        let sender = thread::spawn(move || {
            for round in 0..20 {
                for (index, size) in sizes.into_iter().enumerate() {
                    a.send(index as u64, &[&bytes(round + index as u64, size)], DEADLINE).unwrap();
                }
            }
            a.flush(DEADLINE).unwrap();
        });
        let mut held = Vec::<(Loan, Vec<u8>)>::new();
        for round in 0..20 {
            for (index, size) in sizes.into_iter().enumerate() {
                let loan = b.recv_loan(DEADLINE).unwrap();
                assert_eq!(loan.tag(), index as u64);
                held.push((loan, bytes(round + index as u64, size)));
                for (loan, message) in &held {
                    is(&mut b, loan, message);
                }
                while held.len() > 3 {
                    let (loan, _) = held.remove((index * 7) % held.len());
                    b.give_back(loan).unwrap();
                }
            }
        }
        for (loan, _) in held {
            b.give_back(loan).unwrap();
        }
        // Over RDMA an acknowledgement may be overtaken by one before it, and is repeated.
        while !sender.is_finished() {
            b.progress();
            thread::yield_now();
        }
        sender.join().unwrap();
    }
}

#[test]
fn everything_else_goes_on_while_a_loan_is_held() {
    let (mut a, mut b) = pair();
    a.send(1, &[&bytes(1, 50_000)], DEADLINE).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    // Its direction goes on until the landing buffer is full.
    let mut sent = 0;
    while a.try_send(2, &[&bytes(2, 50_000)]).unwrap() == TrySend::Sent {
        sent += 1;
        let mut place = vec![0; 50_000];
        assert!(matches!(b.try_recv(&mut [&mut place]).unwrap(), TryRecv::Received(_)));
        assert!(place == bytes(2, 50_000));
    }
    assert!(sent >= 8, "{sent} of 10");
    assert_eq!(a.send(3, &[&[0; 50_000]], Duration::from_millis(20)).unwrap_err().kind(), ErrorKind::Timeout);
    // The other direction goes on, also with messages longer than the landing buffer.
    let echo = thread::spawn(move || {
        let mut place = vec![0; 3 << 20];
        for round in 0..3 {
            a.recv_into(&mut [&mut place], DEADLINE).unwrap();
            assert!(place == bytes(round, 3 << 20));
        }
        a
    });
    for round in 0..3 {
        b.send(round, &[&bytes(round, 3 << 20)], DEADLINE).unwrap();
    }
    let mut a = echo.join().unwrap();
    is(&mut b, &loan, &bytes(1, 50_000));
    b.give_back(loan).unwrap();
    b.progress();
    a.send(4, &[b"go on"], DEADLINE).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    is(&mut b, &loan, b"go on");
}

#[test]
fn what_cannot_be_read_in_place_is_refused_and_stays() {
    let (mut a, mut b) = pair();
    let sender = thread::spawn(move || {
        a.send(1, &[&bytes(1, 1 << 20)], DEADLINE).unwrap();
        let mut stream = a.open_stream(2, DEADLINE).unwrap();
        std::io::Write::write_all(&mut stream, &bytes(2, 1000)).unwrap();
        stream.finish(DEADLINE).unwrap();
        a.set_protocol(Protocol::Eager);
        a.send(3, &[&bytes(3, 3 << 20)], DEADLINE).unwrap();
        a
    });
    let error = b.recv_loan(DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("recv_into"), "{error}");
    assert!(matches!(b.try_recv_loan().unwrap(), TryRecvLoan::Elsewhere(incoming) if incoming.tag == 1));
    let mut place = vec![0; 3 << 20];
    assert_eq!(b.recv_into(&mut [&mut place], DEADLINE).unwrap().bytes, 1 << 20);
    assert!(place[..1 << 20] == bytes(1, 1 << 20));
    assert_eq!(b.recv_loan(DEADLINE).unwrap_err().kind(), ErrorKind::Usage);
    let mut stream = b.accept_stream(DEADLINE).unwrap();
    let mut streamed = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut streamed).unwrap();
    assert!(streamed == bytes(2, 1000));
    drop(stream);
    assert_eq!(b.recv_loan(DEADLINE).unwrap_err().kind(), ErrorKind::Usage, "it is longer than the ring");
    assert_eq!(b.recv_into(&mut [&mut place], DEADLINE).unwrap().bytes, 3 << 20);
    assert!(place == bytes(3, 3 << 20));
    let _a = sender.join().unwrap();
    assert_eq!(b.recv_loan(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn more_loans_than_there_can_be_are_refused() {
    let (mut a, mut b) = pair();
    let mut loans = Vec::new();
    for index in 0..=LOANS_MAX as u64 {
        a.send(index, &[&index.to_le_bytes()], DEADLINE).unwrap();
        if loans.len() < LOANS_MAX {
            loans.push(b.recv_loan(DEADLINE).unwrap());
        }
    }
    let error = b.recv_loan(DEADLINE).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().contains("give one back")),
        (ErrorKind::Limit, true),
        "{error}"
    );
    assert!(matches!(b.try_recv_loan().unwrap(), TryRecvLoan::Full(incoming) if incoming.tag == 16));
    b.give_back(loans.swap_remove(5)).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    is(&mut b, &loan, &16_u64.to_le_bytes());
    for (index, loan) in loans.iter().enumerate().filter(|(index, _)| *index != 5) {
        is(&mut b, loan, &(index as u64).to_le_bytes());
    }
}

#[test]
fn a_loan_of_another_connection_is_refused() {
    let ((mut a, mut b), (mut c, mut d)) = (pair(), pair());
    a.send(1, &[b"one"], DEADLINE).unwrap();
    c.send(2, &[b"two"], DEADLINE).unwrap();
    let (one, two) = (b.recv_loan(DEADLINE).unwrap(), d.recv_loan(DEADLINE).unwrap());
    assert_eq!(b.copy_from_loan(&two, 0, &mut [0; 3]).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(b.loan_spans(&two).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(b.copy_from_loan(&one, 1, &mut [0; 3]).unwrap_err().kind(), ErrorKind::Usage);
    // It comes back, and its own connection takes it.
    let (two, error) = b.give_back(two).unwrap_err();
    assert_eq!((two.tag(), error.kind()), (2, ErrorKind::Usage));
    is(&mut b, &one, b"one");
    is(&mut d, &two, b"two");
    d.give_back(two).unwrap();
    // Over RDMA an acknowledgement may be overtaken by one before it, and is repeated.
    let sender = thread::spawn(move || c.flush(DEADLINE));
    while !sender.is_finished() {
        d.progress();
        thread::yield_now();
    }
    sender.join().unwrap().unwrap();
}

#[test]
fn loans_are_safe_after_the_end_of_the_connection() {
    let (mut a, mut b) = pair();
    a.send(1, &[&bytes(1, 5000)], DEADLINE).unwrap();
    a.send(2, &[&bytes(2, 5000)], DEADLINE).unwrap();
    let (one, two) = (b.recv_loan(DEADLINE).unwrap(), b.recv_loan(DEADLINE).unwrap());
    a.close(Reason(9), DEADLINE).unwrap();
    assert_eq!(b.recv_loan(DEADLINE).unwrap_err().kind(), ErrorKind::Closed(Reason(9)));
    is(&mut b, &one, &bytes(1, 5000));
    b.give_back(two).unwrap();
    drop(b);
    drop(one);
    // An end that closes in good order with a loan held.
    let (mut a, mut b) = pair();
    a.send(1, &[&bytes(1, 5000)], DEADLINE).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    b.close(Reason::DONE, DEADLINE).unwrap();
    assert_eq!(a.recv_loan(DEADLINE).unwrap_err().kind(), ErrorKind::Closed(Reason::DONE));
    drop(loan);
}

/// Landing buffers that were left are kept while loans lie in them: each loan is held while the next message comes, until that needs its blocks.
#[test]
fn loans_keep_landing_buffers_that_were_left() {
    const LONG: usize = 1 << 20;
    let tuning = Tuning { landing: Some(LandingMode::OnDemand), ..Tuning::default() };
    let options = || Options { tuning, ..Options::default() };
    let (mut a, mut b) = pair_with(options(), options());
    let sender = thread::spawn(move || {
        for round in 0..20 {
            a.send(round, &[&bytes(round, 200)], DEADLINE).unwrap();
            a.send(round, &[&bytes(round, LONG)], DEADLINE).unwrap();
        }
        a
    });
    let (mut place, mut bytes_before) = (vec![0; LONG], Vec::new());
    for round in 0..20 {
        let loan = b.recv_loan(DEADLINE).unwrap();
        let mut receive = RecvOperation::new();
        let mut idle = 0;
        while idle < 20_000 {
            match b.drive_recv(&mut receive, &mut [&mut place]).unwrap() {
                Drive::Done(_) => panic!("{round}: the message needs the blocks of the loan"),
                Drive::Moved => idle = 0,
                Drive::Idle => idle += 1,
            }
        }
        bytes_before.push(receive.taken());
        is(&mut b, &loan, &bytes(round, 200));
        b.give_back(loan).unwrap();
        while !matches!(b.drive_recv(&mut receive, &mut [&mut place]).unwrap(), Drive::Done(_)) {}
        assert!(place == bytes(round, LONG), "{round}");
    }
    assert!(b.counters().growths > 1, "{:?}", b.counters());
    assert!(bytes_before.iter().any(|bytes| *bytes > 64 << 10), "{bytes_before:?}");
    let _ = sender.join().unwrap();
}
