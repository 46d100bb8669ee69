//! Messages that are sent as operations belong to one operation of one connection.

use superpipe_core::driver::{Drive, SendFailed, SendOperation};
use superpipe_core::{Arrival, Reason};
use superpipe_testkit::wire::{self, kind};
use superpipe_testkit::{Memory, Setup, TestFabric};

use crate::driver::{GIVEN_UP, LAYOUT, One, payload};

tables! {
    an_operation_of_another_connection_is_refused
    a_clone_that_was_left_behind_is_refused
    one_that_is_refused_cancels_nothing
}

const BYTES: usize = 5000;
const NOT_OPEN: Drive<Result<(), SendFailed>> = Drive::Done(Err(SendFailed::NotOpen));

fn named<F: TestFabric>(id: u64) -> One<F> {
    let fabric = F::new(&Setup::new(LAYOUT, 1));
    let driver = crate::driver::numbered(&fabric, 0, Arrival::Flag, id);
    One { fabric, driver, controls_fed: 0 }
}

fn drive<F: TestFabric>(t: &mut One<F>, send: &mut SendOperation) -> Drive<Result<(), SendFailed>> {
    t.driver.drive_send(&mut t.fabric, send, &[&payload(BYTES)])
}

/// Starts a message that is longer than what goes at once.
fn begun<F: TestFabric>(t: &mut One<F>) -> SendOperation {
    let mut send = SendOperation::new(7, BYTES);
    assert_eq!(drive(t, &mut send), Drive::Moved);
    assert!(send.has_begun() && send.sent() > 0 && send.sent() < BYTES);
    send
}

/// Both connections have sent as much of a transfer of the same number.
fn an_operation_of_another_connection_is_refused<F: TestFabric>() {
    let [mut one, mut other] = [named::<F>(1), named::<F>(2)];
    let (mut ours, theirs) = (begun(&mut one), begun(&mut other));
    assert_eq!(ours.sent(), theirs.sent());
    assert_eq!(drive(&mut one, &mut theirs.clone()), NOT_OPEN);
    assert_ne!(drive(&mut one, &mut ours), NOT_OPEN);
}

fn a_clone_that_was_left_behind_is_refused<F: TestFabric>() {
    let mut t = named::<F>(1);
    let mut send = begun(&mut t);
    let [mut clone, mut cancelled] = [send.clone(), send.clone()];
    let before = send.sent();
    t.control(wire::cts(1, 1));
    for acked in 1..4 {
        t.ack(acked, u64::MAX, 0);
        t.settle();
        if drive(&mut t, &mut send) == Drive::Moved && send.sent() > before {
            break;
        }
    }
    assert!(send.sent() > before);
    let sent = t.driver.endpoint().counters().bytes_sent;
    assert_eq!(drive(&mut t, &mut clone), NOT_OPEN);
    assert_eq!(t.driver.endpoint().counters().bytes_sent, sent);
    t.driver.cancel_send(&mut t.fabric, &mut cancelled, GIVEN_UP);
    assert_ne!(drive(&mut t, &mut send), NOT_OPEN, "the message goes on");
}

fn one_that_is_refused_cancels_nothing<F: TestFabric>() {
    let [mut one, mut other] = [named::<F>(1), named::<F>(2)];
    let (mut ours, mut theirs) = (begun(&mut one), begun(&mut other));
    one.driver.cancel_send(&mut one.fabric, &mut theirs, Reason(5));
    assert!(!theirs.has_begun());
    assert_ne!(drive(&mut one, &mut ours), NOT_OPEN, "it goes on");
    one.driver.cancel_send(&mut one.fabric, &mut ours, GIVEN_UP);
    assert_eq!(drive(&mut one, &mut ours), NOT_OPEN);
    one.settle();
    let told = (0..LAYOUT.block_count).any(|block| {
        one.fabric.memories().line(Memory::landing(1), LAYOUT.line_at(block)).0[0] & kind::CANCEL != 0
    });
    assert!(told, "the receiver is told");
}
