//! Messages that an operation gives back: whole if it took nothing, else given up.

use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation};
use superpipe_core::{Line, Reason};
use superpipe_testkit::{TestFabric, wire, wire::kind};

use crate::driver::{One, message, taken};

tables! {
    what_nothing_was_taken_of_is_the_next_ones
    what_something_was_taken_of_is_rejected
    one_that_has_not_begun_gives_nothing_back
    one_that_has_ended_gives_nothing_back
    a_clone_that_was_left_behind_gives_nothing_back
}

type Driven = Drive<Result<Received, RecvFailed>>;

const NOT_OPEN: Driven = Drive::Done(Err(RecvFailed::NotOpen));
const BUSY: Driven = Drive::Done(Err(RecvFailed::Busy));

/// A message of 300 bytes of which 100 are here.
fn first_part<F: TestFabric>() -> One<F> {
    let mut t = One::new();
    t.slot(0, wire::chunk(kind::RTS, 7, 300, 100, 1, 1));
    t
}

/// Finds the message and takes nothing of it.
fn found<F: TestFabric>(t: &mut One<F>) -> RecvOperation {
    let mut receive = RecvOperation::cold();
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
    assert_eq!((receive.taken(), receive.has_begun()), (0, true));
    receive
}

fn release<F: TestFabric>(t: &mut One<F>, receive: &mut RecvOperation) {
    t.driver.release_recv(&mut t.fabric, receive, Reason(77));
    assert!(!receive.has_begun());
}

fn what_nothing_was_taken_of_is_the_next_ones<F: TestFabric>() {
    let mut t = One::<F>::new();
    t.slot(0, message(20, 1, 1));
    let mut receive = found(&mut t);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 300]), BUSY);
    release(&mut t, &mut receive);
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [9; 300]), Drive::Done(Ok(taken(7, 20))));
    assert_eq!(t.said(0), Line([0; 8]), "nothing was rejected");
}

fn what_something_was_taken_of_is_rejected<F: TestFabric>() {
    let mut t = first_part::<F>();
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), Drive::Moved);
    release(&mut t, &mut receive);
    assert_eq!(t.said(0), wire::reject(1, 77, 1));
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN);
}

fn one_that_has_not_begun_gives_nothing_back<F: TestFabric>() {
    let mut t = first_part::<F>();
    let owner = found(&mut t);
    let mut receive = RecvOperation::new();
    release(&mut t, &mut receive);
    assert_eq!(t.receive(&mut receive, &mut [0; 300]), NOT_OPEN, "it has ended");
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 300]), BUSY, "the message is the other's");
    let part = t.driver.recv_part(&mut t.fabric, &mut owner.clone(), &mut [0; 100]);
    assert_eq!(part, Drive::Moved);
}

fn one_that_has_ended_gives_nothing_back<F: TestFabric>() {
    // The same message, which another has found meanwhile.
    let mut t = first_part::<F>();
    let mut receive = found(&mut t);
    release(&mut t, &mut receive);
    let mut owner = found(&mut t);
    release(&mut t, &mut receive);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 300]), BUSY);
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut owner, &mut [0; 100]), Drive::Moved);
    // One that took its whole message.
    let mut t = One::<F>::new();
    t.slot(0, wire::inline(7, b"this", 1));
    t.slot(1, wire::inline(8, b"next", 2));
    let mut receive = RecvOperation::new();
    assert_eq!(t.receive(&mut receive, &mut [0; 9]), Drive::Done(Ok(taken(7, 4))));
    release(&mut t, &mut receive);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 9]), Drive::Done(Ok(taken(8, 4))));
    assert_eq!(t.said(0), Line([0; 8]), "nothing was rejected");
}

/// It took nothing; the one that it was cloned from has gone on, and keeps the message.
fn a_clone_that_was_left_behind_gives_nothing_back<F: TestFabric>() {
    let mut t = first_part::<F>();
    let mut receive = found(&mut t);
    let mut clone = receive.clone();
    assert_eq!(t.driver.recv_part(&mut t.fabric, &mut receive, &mut [0; 60]), Drive::Moved);
    release(&mut t, &mut clone);
    assert_eq!(t.receive(&mut RecvOperation::new(), &mut [0; 300]), BUSY);
    let part = t.driver.recv_part(&mut t.fabric, &mut receive, &mut [0; 300]);
    assert_eq!((part, receive.taken()), (Drive::Moved, 100));
    assert_eq!(t.said(0), Line([0; 8]), "nothing was rejected");
}
