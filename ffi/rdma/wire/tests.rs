//! A wire on a device that does what the test says.

use super::posting::Letter;
use super::*;
use crate::rdma::mail::{IS_RECEIVE, Word};
use crate::verbs::fake::{Posted, answer, begin, channel, receive_immediate, script, sent};
use crate::verbs::{CmId, RemoteAddr, Rkey, WcStatus};
use superpipe_core::{FlagPlace, WcError};

const THERE: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: Rkey(9) };

/// A wire with an image to write from.
struct Ends {
    wire: Wire,
    image: Half,
}

impl Ends {
    fn new() -> Self {
        begin();
        let channel = channel();
        let id = CmId::create(&channel).unwrap();
        let wire = Wire::new(Cm::new(channel, id)).unwrap();
        let layout = Layout { block_bytes: 128, block_count: 4, flags: FlagPlace::Inside };
        let image = wire.register(layout, Access::Local).unwrap();
        Self { wire, image }
    }

    fn write(&mut self, number: u64) -> bool {
        self.wire.write(0, 64, Some(WrId(number)), None, &self.image.mr, THERE)
    }

    fn ring(&mut self) {
        self.wire.ring_doorbell(&self.image.mr, THERE);
    }

    /// Which writes are done, and how.
    fn done(&mut self) -> Vec<(u64, Result<(), WcError>)> {
        core::iter::from_fn(|| self.wire.next_completion()).map(|done| (done.wr.0, done.result)).collect()
    }
}

type Vec<T> = std::vec::Vec<T>;

fn well(numbers: impl Iterator<Item = u64>) -> Vec<(u64, Result<(), WcError>)> {
    numbers.map(|number| (number, Ok(()))).collect()
}

/// What went out since this was asked last, by one doorbell or several.
fn posted() -> Vec<Posted> {
    script(|script| core::mem::take(&mut script.posted)).concat()
}

#[test]
fn an_answer_that_found_no_place_goes_out_with_the_completion_that_makes_one() {
    let mut ends = Ends::new();
    while ends.wire.send_alone(Letter::Word(Word::Wake), false).unwrap() {}
    let last = posted().last().unwrap().id;
    receive_immediate(IS_RECEIVE, Word::Sleep.encode());
    ends.wire.poll();
    assert_eq!(posted(), [], "the queue is full");
    assert!(ends.wire.sleep.is_due());
    sent(last, WcStatus::SUCCESS);
    ends.wire.poll();
    let [answer] = posted().try_into().unwrap();
    assert_eq!((answer.id, answer.from.unwrap().1), (last + 1, 4));
    assert!(!ends.wire.sleep.is_due());
}

#[test]
fn a_write_that_finds_the_link_broken_while_it_flushes_is_done_with_the_others() {
    let mut ends = Ends::new();
    answer("post_send", libc::EIO);
    let mut numbers = 1..;
    while ends.wire.end == End::Not {
        assert!(ends.write(numbers.next().unwrap()), "there is room for more than a batch");
    }
    assert!(ends.write(numbers.next().unwrap()));
    assert_eq!(ends.done(), well(1..numbers.next().unwrap()));
    posted();
    ends.ring();
    assert_eq!(posted(), [], "nothing waits any more");
}

#[test]
fn a_write_that_finds_the_peer_gone_while_it_polls_is_done_with_the_others() {
    let mut ends = Ends::new();
    let mut number = 0;
    // To the brim: what fits no more polls, and finds nothing.
    while ends.write(number + 1) {
        number += 1;
        if number % 11 == 0 {
            ends.ring();
        }
    }
    assert_eq!(ends.wire.end, End::Not);
    sent(0, WcStatus::FLUSHED);
    assert!(ends.write(number + 1));
    assert_eq!(ends.wire.end, End::Gone);
    assert_eq!(ends.done(), well(1..=number + 1));
}

#[test]
fn what_waits_for_the_doorbell_is_done_when_the_device_fails() {
    let mut ends = Ends::new();
    assert!((1..=3).all(|number| ends.write(number)));
    const BAD_RESPONSE: u32 = 17;
    sent(0, WcStatus(BAD_RESPONSE));
    assert_eq!(ends.wire.poll(), 1);
    let failed = Err(WcError { status: BAD_RESPONSE, vendor_err: 0 });
    assert_eq!(ends.done(), [(1, failed), (2, Ok(())), (3, Ok(()))]);
    ends.ring();
    assert_eq!(posted(), []);
    // What the device had done before is still told, and means nothing.
    sent(0, WcStatus::SUCCESS);
    assert_eq!(ends.wire.poll(), 1);
    assert_eq!(ends.done(), []);
}
