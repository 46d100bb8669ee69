//! Messages of halves that are built and read in place.

use std::sync::Barrier;
use std::thread;

use superpipe::{
    Arrival, Connection, ErrorKind, LOANS_MAX, LandingMode, Loan, Options, RecvHalf, Reserved, SendHalf,
    TryRecvLoan, TryReserve, Tuning,
};

use crate::support::{DEADLINE, bytes, pair, pair_with};

const SIZES: [usize; 8] = [0, 1, 104, 4097, 65_536, 100_000, 300_001, 512 << 10];

/// Builds a message by copies, by spans or by slices, and sends it.
fn send(half: &mut SendHalf, tag: u64, message: &[u8], way: usize) {
    let mut reserved = half.reserve(tag, message.len(), DEADLINE).unwrap();
    let mut at = 0;
    match way % 3 {
        0 => half.copy_into(&reserved, 0, message).unwrap(),
        1 => {
            for span in half.reserved_spans(&reserved).unwrap() {
                assert!(span.copy_from(0, &message[at..at + span.len()]));
                at += span.len();
            }
            assert_eq!(at, message.len());
        }
        _ => {
            // SAFETY: 1., 2. the peer is of this test, and follows the protocol.
            for slice in unsafe { half.reserved_slices(&mut reserved) }.unwrap() {
                slice.copy_from_slice(&message[at..at + slice.len()]);
                at += slice.len();
            }
            assert_eq!(at, message.len());
        }
    }
    half.commit(reserved).unwrap();
}

/// Compares a loan by a copy, by spans and by slices.
fn is(half: &mut RecvHalf, loan: &Loan, message: &[u8]) {
    let mut whole = vec![0; message.len()];
    half.copy_from_loan(loan, 0, &mut whole).unwrap();
    assert!(whole == message);
    let mut copied = Vec::new();
    for span in half.loan_spans(loan).unwrap() {
        let mut copy = vec![0; span.len()];
        assert!(span.copy_to(0, &mut copy));
        copied.extend(copy);
    }
    assert!(copied == message);
    // SAFETY: 1., 2. the peer is of this test, and follows the protocol.
    let slices: Vec<&[u8]> = unsafe { half.loan_slices(loan) }.unwrap().collect();
    assert!(slices.concat() == message);
}

fn send_all(mut half: SendHalf, seed: u64) -> SendHalf {
    for round in 0..12 {
        for (index, size) in SIZES.into_iter().enumerate() {
            send(&mut half, index as u64, &bytes(seed + round + index as u64, size), index);
            half.send(99, &[&bytes(seed, 3000)], DEADLINE).unwrap();
        }
    }
    half.flush(DEADLINE).unwrap();
    half
}

/// Holds up to so many loans at a time.
fn receive_all(mut half: RecvHalf, seed: u64, held_max: usize) -> RecvHalf {
    let mut held = Vec::<(Loan, Vec<u8>)>::new();
    for round in 0..12 {
        for (index, size) in SIZES.into_iter().enumerate() {
            let loan = half.recv_loan(DEADLINE).unwrap();
            assert_eq!((loan.tag(), loan.bytes()), (index as u64, size));
            held.push((loan, bytes(seed + round + index as u64, size)));
            for (loan, message) in &held {
                is(&mut half, loan, message);
            }
            // The last ones fill the landing buffer.
            while held.len() > held_max || size > 65_536 && !held.is_empty() {
                let (loan, _) = held.remove((index * 7) % held.len());
                half.give_back(loan).unwrap();
            }
            let mut place = [0; 3000];
            assert_eq!(half.recv_into(&mut [&mut place], DEADLINE).unwrap().tag, 99);
            assert!(place[..] == bytes(seed, 3000));
        }
    }
    for (loan, _) in held {
        half.give_back(loan).unwrap();
    }
    half.progress();
    half
}

/// All four halves of a connection at a time, each in a thread.
#[test]
fn halves_build_and_lend_both_ways_at_once() {
    // A landing buffer does not grow while loans lie in one that was left.
    for (arrival, landing, held_max) in [
        (Arrival::Flag, LandingMode::AtConnect, 2),
        (Arrival::CheckedFlag, LandingMode::AtConnect, 2),
        (Arrival::Flag, LandingMode::OnDemand, 0),
    ] {
        let tuning = Tuning { arrival: Some(arrival), landing: Some(landing), ..Tuning::default() };
        let options = || Options { tuning, ..Options::default() };
        let (a, b) = pair_with(options(), options());
        let ((a_send, a_recv), (b_send, b_recv)) = (a.split(), b.split());
        let threads = [(a_send, b_recv, 1), (b_send, a_recv, 1000)].map(|(sending, receiving, seed)| {
            (
                thread::spawn(move || send_all(sending, seed)),
                thread::spawn(move || receive_all(receiving, seed, held_max)),
            )
        });
        let [(a_send, b_recv), (b_send, a_recv)] =
            threads.map(|(sending, receiving)| (sending.join().unwrap(), receiving.join().unwrap()));
        assert!(a_send.reunite(a_recv).is_ok() && b_send.reunite(b_recv).is_ok());
    }
}

/// A half that waits for space, or for a message, leaves the other one its lock.
#[test]
fn one_half_waits_while_the_other_goes_on() {
    let (a, b) = pair();
    let ((mut a_send, mut a_recv), (mut b_send, mut b_recv)) = (a.split(), b.split());
    let is_full = Barrier::new(2);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            for tag in 0..4 {
                send(&mut a_send, tag, &bytes(tag, 128 << 10), 1);
            }
            is_full.wait();
            // It waits until the first loan is given back, which the receiver does once it has its answer.
            send(&mut a_send, 4, &bytes(4, 128 << 10), 2);
        });
        let answerer = scope.spawn(|| {
            let loan = a_recv.recv_loan(DEADLINE).unwrap();
            is(&mut a_recv, &loan, b"answer");
            a_recv.give_back(loan).unwrap();
        });
        let mut loans: Vec<Loan> = (0..4).map(|_| b_recv.recv_loan(DEADLINE).unwrap()).collect();
        is_full.wait();
        send(&mut b_send, 9, b"answer", 0);
        answerer.join().unwrap();
        is(&mut b_recv, &loans[0], &bytes(0, 128 << 10));
        b_recv.give_back(loans.remove(0)).unwrap();
        let last = b_recv.recv_loan(DEADLINE).unwrap();
        is(&mut b_recv, &last, &bytes(4, 128 << 10));
        sender.join().unwrap();
    });
}

/// Loans and reserved space outlive a split, and the halves' reunion.
#[test]
fn loans_and_space_outlive_split_and_reunite() {
    let (mut a, mut b) = pair();
    a.send(1, &[&bytes(1, 5000)], DEADLINE).unwrap();
    let loan = b.recv_loan(DEADLINE).unwrap();
    let reserved = b.reserve(2, 5000, DEADLINE).unwrap();
    let (mut sending, mut receiving) = b.split();
    is(&mut receiving, &loan, &bytes(1, 5000));
    assert!(matches!(sending.try_reserve(3, 1), Err(error) if error.kind() == ErrorKind::Usage));
    sending.copy_into(&reserved, 0, &bytes(2, 5000)).unwrap();
    let mut b: Connection = sending.reunite(receiving).unwrap();
    b.commit(reserved).unwrap();
    let mut place = vec![0; 5000];
    a.recv_into(&mut [&mut place], DEADLINE).unwrap();
    assert!(place == bytes(2, 5000));
    b.copy_from_loan(&loan, 0, &mut place).unwrap();
    assert!(place == bytes(1, 5000));
    b.give_back(loan).unwrap();
    b.progress();
    a.flush(DEADLINE).unwrap();
}

/// Tokens of another connection come back, and stale calls are refused as they are without a split.
#[test]
fn halves_refuse_what_is_not_theirs() {
    let ((mut a, b), (mut c, d)) = (pair(), pair());
    let ((mut b_send, mut b_recv), (mut d_send, mut d_recv)) = (b.split(), d.split());
    for (end, tag) in [(&mut a, 1), (&mut c, 2)] {
        end.send(tag, &[b"hello"], DEADLINE).unwrap();
    }
    let (one, two) = (b_recv.recv_loan(DEADLINE).unwrap(), d_recv.recv_loan(DEADLINE).unwrap());
    assert_eq!(b_recv.loan_spans(&two).unwrap_err().kind(), ErrorKind::Usage);
    let (two, error) = b_recv.give_back(two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    d_recv.give_back(two).unwrap();
    b_recv.give_back(one).unwrap();
    let reserved = |half: &mut SendHalf| -> Reserved { half.reserve(3, 100, DEADLINE).unwrap() };
    let (three, four) = (reserved(&mut b_send), reserved(&mut d_send));
    assert_eq!(b_send.copy_into(&four, 0, &[1]).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(b_send.reserved_spans(&four).unwrap_err().kind(), ErrorKind::Usage);
    let (four, error) = b_send.commit(four).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    d_send.abandon(four).unwrap();
    b_send.abandon(three).unwrap();
    // More loans than there can be, and more space than there is.
    for _ in 0..=LOANS_MAX {
        a.send(5, &[b"x"], DEADLINE).unwrap();
    }
    let mut loans: Vec<Loan> = (0..LOANS_MAX).map(|_| b_recv.recv_loan(DEADLINE).unwrap()).collect();
    assert_eq!(b_recv.recv_loan(DEADLINE).unwrap_err().kind(), ErrorKind::Limit);
    // Nothing, where the other half has the lock.
    let full = (0..1000).find_map(|_| match b_recv.try_recv_loan().unwrap() {
        TryRecvLoan::Full(incoming) => Some(incoming.tag),
        TryRecvLoan::Nothing => None,
        other => panic!("{other:?}"),
    });
    assert_eq!(full, Some(5));
    loans.drain(..).for_each(|loan| b_recv.give_back(loan).unwrap());
    assert_eq!(b_send.try_reserve(1, usize::MAX).unwrap_err().kind(), ErrorKind::Limit);
    assert!(matches!(b_send.try_reserve(1, 10).unwrap(), TryReserve::Reserved(_) | TryReserve::Pending));
}
