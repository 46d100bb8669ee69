//! Steps of applications that lend memory for their messages, in the order of the blocking calls: a call that is given up, or fails, returns
//! once its memory is released, and then takes the memory back.

use superpipe_core::driver::{
    Drive, Ended, Next, Received, RecvFailed, RecvOperation, SendFailed, SendOperation,
};
use superpipe_core::{
    Buffer, Closed, End, Failure, Reason, RecvMemory, Registration, RemoteClaim, SendMemory, Sending,
};
use superpipe_testkit::pair::reason;

use super::State;
use super::flow::{Open, payload};
use crate::explore::cases::Lending;
use crate::explore::fabric::Way;
use crate::explore::step::Step;

/// Bytes that each receive lends.
const ROOM_BYTES: usize = 256;

/// Content of memory before a receive.
const UNTOUCHED: u8 = 0xa5;

/// Reason with which an operation is cancelled before it has begun. No peer may see it.
const NOT_BEGUN: Reason = Reason(8);

/// Calls of one end.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Lender {
    /// Calls that are over but for their memory.
    sending: Option<SendOperation>,
    receiving: Option<RecvOperation>,
    /// Receives that have begun.
    received: u8,
    /// A call was told that the connection has ended, and no other is made.
    has_ended: bool,
    give_ups_left: u32,
}

impl Lender {
    pub(super) fn new(lending: Option<Lending>, side: usize) -> Self {
        let give_ups_left = lending.map_or(0, |lending| lending.give_ups_max[side]);
        Self { give_ups_left, ..Self::default() }
    }
}

impl<const DIRECT: bool> State<DIRECT> {
    /// Adds the steps of the calls to try.
    pub(super) fn lending_steps(&self, side: usize, ended: bool, steps: &mut Vec<Step>) {
        let Some(lending) = self.case.lending else { return };
        let Lender { sending, receiving, has_ended, give_ups_left, .. } = &*self.lenders[side];
        let (out, back) = (&self.flows[side], &self.flows[1 - side]);
        let (mut awaits, mut may_cancel) = (false, false);
        if let Some((index, open)) = &out.open {
            awaits = matches!(open, Open::Message(op) if op.awaits_release());
            may_cancel = self.case.transfers[side][*index].cancel;
        }
        let is_over = ended || *has_ended;
        if sending.is_none() && (awaits || !is_over && !out.is_sent()) {
            steps.push(Step::Send(side));
        }
        if may_cancel && !awaits && !is_over {
            steps.push(Step::Cancel(side));
        }
        let awaits = back.receive.as_ref().is_some_and(RecvOperation::awaits_release);
        let has_messages = !self.case.transfers[1 - side].is_empty();
        if receiving.is_none() && (awaits || !is_over && has_messages) {
            steps.push(Step::Receive(side));
        }
        // The call learns of an end in its next round, and its deadline may pass before.
        if back.receive.is_some() && !awaits && !*has_ended && *give_ups_left > 0 {
            steps.push(Step::GiveUp(side));
        }
        if back.receive.is_some() && !awaits && !is_over {
            let head = back.head.map(|index| self.case.transfers[1 - side][index]);
            if head.is_some_and(|transfer| transfer.reject) {
                steps.push(Step::Reject(side));
            }
        }
        let is_gone = self.fabric.is_broken() && !self.ends[side].0.is_peer_gone();
        if is_gone {
            steps.push(Step::LearnOfLoss(side));
        }
        if lending.deaths[side] && !self.fabric.is_broken() {
            steps.push(Step::Die(side));
        }
    }

    /// Returns true while a call is under way, or waits for its memory.
    pub(super) fn is_in_call(&self, side: usize) -> bool {
        let Lender { sending, receiving, .. } = &*self.lenders[side];
        let is_open = self.flows[side].open.is_some() || self.flows[1 - side].receive.is_some();
        is_open || sending.is_some() || receiving.is_some()
    }

    /// Returns a message, and lends its memory.
    pub(super) fn lend_message(&mut self, side: usize, index: usize) -> SendOperation {
        let bytes = self.case.transfers[side][index].bytes;
        let op = SendOperation::new(index as u64, bytes);
        let Some(Lending { is_kept: [is_kept, _], .. }) = self.case.lending else { return op };
        let number = u8::try_from(2 * index).expect("a case has few messages");
        self.fabric.lend(side, Way::Out, number, payload(side, index, bytes), is_kept);
        let number = u64::from(number);
        op.with_memory(if is_kept {
            SendMemory::Registered(Registration(number))
        } else {
            SendMemory::Lent(Buffer(number))
        })
    }

    /// Sends the next part of a message, out of one slice.
    pub(super) fn drive_lent(&mut self, side: usize, index: usize) -> bool {
        let Self { ends, flows, fabric, .. } = self;
        let flow = flows[side].change();
        let Some((_, Open::Message(op))) = &mut flow.open else { panic!("{index} is no operation") };
        let driver = &mut ends[side].change().0;
        let all = fabric.lent_bytes(side, Way::Out).to_vec();
        let driven = driver.drive_send(fabric, op, &[&all]);
        let is_released = driver.is_send_released(op);
        let state = &mut flow.sent[index];
        state.begun |= op.has_begun() || op.awaits_release() || driven == Drive::Done(Ok(()));
        assert!(op.sent() >= state.bytes, "less was sent than before");
        state.bytes = op.sent();
        // The end of a message is reported once its memory is released, and is on its way before.
        let is_open = driver.endpoint().closed().is_none() && state.rejected.is_none();
        state.ended |= op.awaits_release() && is_open && state.bytes == all.len();
        match driven {
            Drive::Moved | Drive::Idle => return true,
            Drive::Done(Ok(())) => {
                assert_eq!(state.bytes, all.len(), "sent, and not all of it");
                state.ended = true;
            }
            Drive::Done(Err(SendFailed::Rejected(reason))) => assert_eq!(state.rejected, Some(reason)),
            Drive::Done(Err(SendFailed::Closed)) => {
                let closed = driver.endpoint().closed();
                assert!(closed.is_some(), "nobody has closed");
                state.cancelled.get_or_insert(Reason::DONE);
                flow.next = flow.sent.len();
                self.lenders[side].change().has_ended = true;
            }
            Drive::Done(Err(other)) => panic!("transfer {index} cannot go on: {other:?}"),
        }
        assert!(is_released, "message {index} is sent, and its memory is not released");
        flow.open = None;
        self.fabric.take_back(side, Way::Out);
        true
    }

    /// Lets the deadline of a call that sends pass.
    pub(super) fn cancel_call(&mut self, side: usize) -> bool {
        let index = self.flows[side].open.as_ref().map_or(0, |(index, _)| *index);
        self.cancel_lent(side, reason(side, index, 1))
    }

    /// Gives up the message that is sent.
    fn cancel_lent(&mut self, side: usize, why: Reason) -> bool {
        let flow = self.flows[side].change();
        let Some((index, Open::Message(mut op))) = flow.open.take() else { return false };
        let driver = &mut self.ends[side].change().0;
        let begun = op.has_begun();
        let before = driver.endpoint().state().sending;
        driver.cancel_send(&mut self.fabric, &mut op, why);
        assert!(!op.has_begun(), "given up, and still open");
        let after = driver.endpoint().state().sending;
        let is_right =
            if begun { matches!(after, Sending::Nothing | Sending::Cancelling) } else { after == before };
        assert!(is_right, "given up, and {after:?}");
        let state = &mut flow.sent[index];
        state.cancelled.get_or_insert(why);
        // The receiver counts nothing of a message that was written remotely.
        if self.fabric.was_posted(side) {
            state.bytes = 0;
        }
        if self.fabric.lent_number(side, Way::Out).is_some() {
            self.lenders[side].change().sending = Some(op);
        }
        true
    }

    /// Receives the next part of a message, into one slice. Cancels an operation that has not begun, which the peer must not notice.
    pub(super) fn receive_lent(&mut self, side: usize) -> bool {
        let Some(Lending { is_kept: [_, is_kept], .. }) = self.case.lending else { return false };
        let Self { case, ends, flows, fabric, lenders, .. } = self;
        let (driver, flow, transfers) =
            (&mut ends[side].change().0, flows[1 - side].change(), &case.transfers[1 - side]);
        let mut op = flow.receive.take().unwrap_or_else(|| {
            let number = 2 * lenders[side].received + 1;
            fabric.lend(side, Way::In, number, vec![UNTOUCHED; ROOM_BYTES], is_kept);
            let claim = RemoteClaim { address: 0, key: number.into() };
            RecvOperation::new().with_memory(if is_kept {
                RecvMemory::Registered(claim)
            } else {
                RecvMemory::Lent(Buffer(number.into()))
            })
        });
        let before = op.taken();
        let mut place = fabric.lent_bytes(side, Way::In).to_vec();
        let driven = driver.drive_recv(fabric, &mut op, &mut [&mut place]);
        let taken = op.taken();
        fabric.fill_lent(side, &place);
        let got = &place[before..taken];
        let is_done = match driven {
            Drive::Done(Ok(Received { tag, bytes })) => {
                assert_eq!(bytes, taken, "received, and other bytes taken");
                flow.arrived_tag(tag);
                flow.took(transfers, got, End::Fin);
                true
            }
            Drive::Done(Err(RecvFailed::Cancelled(reason))) => {
                flow.arrived_cancelled(reason, taken);
                flow.took(transfers, got, End::Cancelled(reason));
                true
            }
            Drive::Done(Err(other)) => panic!("received by nobody else: {other:?}"),
            Drive::Moved | Drive::Idle => {
                if op.has_begun()
                    && flow.head.is_none()
                    && let Some(incoming) = driver.try_peek(fabric)
                {
                    flow.arrived(transfers, incoming);
                }
                if !got.is_empty() {
                    flow.took(transfers, got, End::No);
                }
                false
            }
        };
        let is_kept_on = !is_done && (op.has_begun() || op.awaits_release());
        if !is_done && !is_kept_on {
            driver.cancel_recv(fabric, &mut op, NOT_BEGUN);
        }
        if is_kept_on {
            flow.receive = Some(op);
            return true;
        }
        assert!(driver.is_recv_released(&op), "a receive is over, and its memory is not released");
        fabric.take_back(side, Way::In);
        if is_done {
            lenders[side].change().received += 1;
        }
        true
    }

    /// Ends a receive whose time is over. Its message stays at the head if nothing of it was taken.
    fn give_up_receive(&mut self, side: usize) -> bool {
        let flow = self.flows[1 - side].change();
        let Some(mut op) = flow.receive.take() else { return false };
        let driver = &mut self.ends[side].change().0;
        driver.release_recv(&mut self.fabric, &mut op, Reason::GIVEN_UP);
        if op.taken() > 0
            && let Some(index) = flow.head.take()
        {
            flow.sent[index].rejected = Some(Reason::GIVEN_UP);
        }
        self.await_receive(side, op)
    }

    /// Rejects the message that is received.
    pub(super) fn reject_lent(&mut self, side: usize) -> bool {
        let from = 1 - side;
        let flow = self.flows[from].change();
        let (Some(index), Some(mut op)) = (flow.head, flow.receive.take()) else { return false };
        let why = reason(from, index, 2);
        self.ends[side].change().0.cancel_recv(&mut self.fabric, &mut op, why);
        assert!(!op.has_begun(), "given up, and still open");
        flow.sent[index].rejected = Some(why);
        flow.head = None;
        self.await_receive(side, op)
    }

    fn await_receive(&mut self, side: usize, op: RecvOperation) -> bool {
        let lender = self.lenders[side].change();
        lender.receiving = Some(op);
        lender.received += 1;
        true
    }

    /// Notes that this end has closed with a reason, while a message is sent.
    pub(super) fn note_abort(&mut self, side: usize, why: Reason) {
        let flow = self.flows[side].change();
        if let Some((index, Open::Message(op))) = &flow.open
            && !op.awaits_release()
        {
            let state = &mut flow.sent[*index];
            state.cancelled = Some(why);
            if self.fabric.was_posted(side) {
                state.bytes = 0;
            }
        }
    }

    /// Lets the deadline of a receive pass.
    pub(super) fn let_deadline_pass(&mut self, side: usize) -> bool {
        self.lenders[side].change().give_ups_left -= 1;
        self.give_up_receive(side)
    }

    /// Makes one round of a wait, or of the close. If the connection has ended, both calls fail.
    pub(super) fn progress_lender(&mut self, side: usize) -> bool {
        let is_in_call = self.is_in_call(side);
        let driver = &mut self.ends[side].change().0;
        if driver.is_closing() && !is_in_call {
            if let Drive::Done(done) = driver.drive_close(&mut self.fabric) {
                assert!(done.is_ok() || self.fabric.is_broken(), "{done:?}");
                driver.progress(&mut self.fabric);
            }
            return true;
        }
        let mut wait = driver.begin_wait();
        let Next::Ended(ended) = driver.round(&mut self.fabric, &mut wait, false) else { return true };
        // What was sent before closes with `DONE` can still be taken.
        let is_done =
            matches!(ended, Ended::Closed(Closed::Here(Reason::DONE) | Closed::ByPeer(Reason::DONE)));
        if !is_done || self.aborted || driver.is_peer_gone() {
            self.lenders[side].change().has_ended = true;
            let awaits = |open: &(usize, Open)| matches!(&open.1, Open::Message(op) if op.awaits_release());
            if self.flows[side].open.as_ref().is_some_and(|open| !awaits(open)) {
                self.cancel_lent(side, Reason::GIVEN_UP);
            }
            if self.flows[1 - side].receive.as_ref().is_some_and(|op| !op.awaits_release()) {
                self.give_up_receive(side);
            }
            let flow = self.flows[side].change();
            flow.next = flow.sent.len();
        }
        true
    }

    /// Lets an end die, with its calls and its memory.
    pub(super) fn die(&mut self, side: usize) -> bool {
        self.fabric.lose(side);
        self.flows[side].change().open = None;
        self.flows[1 - side].change().receive = None;
        *self.lenders[side].change() = Lender::default();
        true
    }

    /// Takes memory back as soon as it is released.
    pub(super) fn take_back_released(&mut self) {
        if self.case.lending.is_none() {
            return;
        }
        for side in 0..2 {
            let driver = &self.ends[side].0;
            let Lender { sending, receiving, .. } = &*self.lenders[side];
            let is_sent = sending.as_ref().is_some_and(|op| driver.is_send_released(op));
            let is_received = receiving.as_ref().is_some_and(|op| driver.is_recv_released(op));
            if is_sent {
                self.lenders[side].change().sending = None;
                self.fabric.take_back(side, Way::Out);
            }
            if is_received {
                self.lenders[side].change().receiving = None;
                self.fabric.take_back(side, Way::In);
            }
            let closed = self.ends[side].0.endpoint().closed();
            self.aborted |= matches!(closed, Some(Closed::Here(reason)) if reason != Reason::DONE);
        }
    }

    /// Returns true if an end may have failed so: its work requests were flushed.
    pub(super) fn may_fail(&self, failure: Failure) -> bool {
        let fails = self.case.lending.is_some_and(|lending| lending.flush_fails) && self.fabric.is_broken();
        fails && matches!(failure, Failure::Device(_))
    }

    /// Returns true for the wanted end of a connection that was lost: the calls of both ends have returned, and have their memory.
    pub(super) fn is_lost_and_over(&self) -> bool {
        let is_over = |side: usize| {
            let has_learned = self.lenders[side].has_ended || self.ends[side].0.endpoint().closed().is_some();
            has_learned && !self.is_in_call(side) && self.fabric.jobs(side) == 0
        };
        self.fabric.is_broken() && (0..2).all(|side| self.fabric.is_dead(side) || is_over(side))
    }

    /// Returns true if an end has closed with a reason, and all that is left is a notification that it does not take.
    pub(super) fn is_aborted_and_done(&self) -> bool {
        self.aborted && self.case.lending.is_some() && self.fabric.is_done()
    }

    /// Checks the memory of ends whose calls have returned.
    pub(super) fn check_lent(&self) {
        for side in 0..2 {
            let is_back = self.is_in_call(side) || self.fabric.has_all_memory(side);
            assert!(is_back, "end {side} is in no call, and has lent memory");
        }
    }
}
