//! State of a case, its possible steps, and their effects.

mod exposing;
mod flow;
mod growing;
mod lending;
mod offering;
mod receiving;
mod sending;
mod windows;

use core::hash::{Hash, Hasher};
use std::rc::Rc;

use superpipe_core::driver::{Drive, Driver, Next, WaitStrategy};
use superpipe_core::{Attachment, Closed, Endpoint, Event, Landing, Nanos, Reason, Sending};
use superpipe_testkit::Memory;
use superpipe_testkit::pair::reason;

use super::cases::{Case, ClosePolicy};
use super::fabric::StepFabric;
use super::fingerprint::{CopyOnWrite, Fingerprint};
use super::step::Step;
use exposing::Exposures;
use flow::{Flow, Open};
use lending::Lender;
use offering::Offerings;

/// Reason of a close that ends everything.
const ABORTED: Reason = Reason(7);

/// Most rounds in a row in which an end may find work while its peer rests.
const ROUNDS_MAX: u32 = 100;

/// No idle timeout, since there is no time.
const IDLE_TIMEOUT_NS: u64 = u64::MAX;

/// A driver with its endpoint, distinguished by its fingerprint.
#[derive(Clone)]
struct End<const DIRECT: bool>(Driver<StepFabric<DIRECT>>);

impl<const DIRECT: bool> Hash for End<DIRECT> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.fingerprint(hasher);
    }
}

/// Two drivers, the fabric, and the progress of their applications.
#[derive(Clone)]
pub(super) struct State<const DIRECT: bool> {
    case: Rc<Case>,
    fabric: StepFabric<DIRECT>,
    ends: [CopyOnWrite<End<DIRECT>>; 2],
    /// Oracles by sender.
    flows: [CopyOnWrite<Flow>; 2],
    /// Times that each end may still wish to shrink.
    shrinks_left: [u32; 2],
    /// Memory that each end has exposed.
    exposures: [CopyOnWrite<Exposures>; 2],
    /// Calls of each end that lend memory.
    lenders: [CopyOnWrite<Lender>; 2],
    /// Memory of each end that its peer may write.
    offerings: [CopyOnWrite<Offerings>; 2],
    /// An end has ended everything.
    aborted: bool,
}

impl<const DIRECT: bool> State<DIRECT> {
    /// Returns the first state.
    pub(super) fn new(case: &Rc<Case>) -> Self {
        let fabric = StepFabric::new(Rc::clone(case));
        let first = case.first_layout();
        let landing = |owner| {
            let memory = if case.has_own_first() { Memory::grown(owner, 1) } else { Memory::landing(owner) };
            Landing { memory, layout: first }
        };
        let end = |side| {
            let attachment = Attachment {
                link: side,
                control_page: Memory::control_page(side),
                peer_control_page: Memory::control_page(1 - side),
                landing: landing(side),
                peer_landing: landing(1 - side),
                growth: growing::terms(case, side),
            };
            let made = Endpoint::new(&fabric, attachment, case.config(), case.origin);
            let end = made.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let id = 1 + side as u64;
            CopyOnWrite::new(End(Driver::new(end, id, WaitStrategy::Sleep, IDLE_TIMEOUT_NS, Nanos(0))))
        };
        let ends = core::array::from_fn(end);
        let flows = core::array::from_fn(|side| CopyOnWrite::new(Flow::new(case, side)));
        let shrinks_left = case.growing.map_or([0; 2], |growing| growing.shrinks_max);
        let exposures = core::array::from_fn(|side| CopyOnWrite::new(Exposures::new(case, side)));
        let lenders = core::array::from_fn(|side| CopyOnWrite::new(Lender::new(case.lending, side)));
        let offerings = core::array::from_fn(|side| CopyOnWrite::new(Offerings::new(case, side)));
        let aborted = false;
        let case = Rc::clone(case);
        let mut first =
            Self { case, fabric, ends, flows, shrinks_left, exposures, lenders, offerings, aborted };
        first.prepare();
        first
    }

    /// Returns the fingerprint of the whole state.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let ([e0, e1], [f0, f1]) = (&self.ends, &self.flows);
        Fingerprint::of(&(
            self.fabric.fingerprints(),
            e0.fingerprint(),
            e1.fingerprint(),
            f0.fingerprint(),
            f1.fingerprint(),
            self.shrinks_left,
            self.exposures.each_ref().map(CopyOnWrite::fingerprint),
            self.lenders.each_ref().map(CopyOnWrite::fingerprint),
            self.offerings.each_ref().map(CopyOnWrite::fingerprint),
            self.aborted,
        ))
    }

    /// Returns true for the wanted end: everything was delivered or given up, both ends are closed if they close, and nothing is on its way.
    pub(super) fn is_over(&self) -> bool {
        let closes = self.case.close_policy != [ClosePolicy::Never; 2];
        let closes_early = self.case.close_policy.contains(&ClosePolicy::WhenSent);
        let closed = |(side, end): (usize, &CopyOnWrite<End<DIRECT>>)| {
            let end = end.0.endpoint();
            if closes {
                end.closed().is_some() && end.peer_closes() && end.is_flushed() && end.is_quiescent()
            } else {
                let mut end = end.clone();
                end.poll_delivered()
                    && end.poll_controls_delivered()
                    && end.is_growth_steady()
                    && (end.is_exposing_steady() || self.awaits_end_of_offer(side))
                    && !self.keeps_offer(side)
            }
        };
        self.is_lost_and_over()
            || (self.fabric.is_quiescent() || self.is_aborted_and_done())
                && (self.aborted || self.flows.iter().all(|flow| flow.is_right(closes_early)))
                && self.ends.iter().enumerate().all(closed)
                && (0..2).all(|side| !self.is_in_call(side) || self.case.lending.is_none())
    }

    /// Returns the steps to try.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for side in 0..2 {
            let (case, end, flow) = (&self.case, self.ends[side].0.endpoint(), &self.flows[side]);
            let ended = end.closed().is_some_and(|closed| {
                !matches!(closed, Closed::Here(Reason::DONE) | Closed::ByPeer(Reason::DONE))
            });
            let head = self.flows[1 - side].head.map(|index| case.transfers[1 - side][index]);
            if self.fabric.is_dead(side) {
                let pieces = self.fabric.deliverable(side).into_iter();
                steps.extend(pieces.map(|(write, piece)| Step::Deliver { from: side, write, piece }));
                continue;
            }
            if case.lending.is_some() {
                self.lending_steps(side, ended, &mut steps);
            } else if !ended {
                if !flow.is_sent() {
                    steps.push(Step::Send(side));
                }
                if flow.open.as_ref().is_some_and(|(index, _)| case.transfers[side][*index].cancel) {
                    steps.push(Step::Cancel(side));
                }
                if !case.transfers[1 - side].is_empty() {
                    steps.push(Step::Receive(side));
                }
                if head.is_some_and(|transfer| transfer.reject) {
                    steps.push(Step::Reject(side));
                }
            }
            if !case.settles {
                steps.push(Step::Progress(side));
            }
            steps.push(Step::Rest(side));
            if case.checks_time {
                steps.push(Step::CheckTime(side));
            }
            if case.keepalives && self.fabric.is_quiescent() {
                steps.push(Step::SendKeepalive(side));
            }
            if self.may_close(side, ended) {
                steps.push(Step::Close(side));
            }
            if case.close_policy[side] == ClosePolicy::Abort && end.closed().is_none() {
                steps.push(Step::Abort(side));
            }
            self.window_steps(side, &mut steps);
            self.growing_steps(side, &mut steps);
            self.exposing_steps(side, &mut steps);
            self.offering_steps(side, &mut steps);
            if self.fabric.completable(side) {
                steps.push(Step::Complete(side));
            }
            let pieces = self.fabric.deliverable(side).into_iter();
            steps.extend(pieces.map(|(write, piece)| Step::Deliver { from: side, write, piece }));
        }
        steps
    }

    fn may_close(&self, side: usize, ended: bool) -> bool {
        if self.case.lending.is_some() && self.flows[side].open.is_some() {
            return false;
        }
        let exchanged = self.flows.iter().all(|flow| flow.is_sent() && flow.head.is_none());
        match self.ends[side].0.endpoint().closed() {
            Some(Closed::ByPeer(_)) => ended || self.flows[side].is_sent(),
            Some(Closed::Here(_) | Closed::Failed(_)) => false,
            None if self.case.close_policy[side] == ClosePolicy::WhenSent => self.flows[side].is_sent(),
            None => exchanged,
        }
    }

    /// Takes a step. Returns false if it is impossible.
    pub(super) fn take(&mut self, step: Step) -> bool {
        let taken = match step {
            Step::Send(side) => self.send(side) && self.send_on(side) && self.take_events(side),
            Step::Cancel(side) if self.case.lending.is_some() => self.cancel_call(side),
            Step::Cancel(side) => self.cancel(side),
            Step::Receive(side) => self.receive(side),
            Step::Reject(side) => self.reject(side),
            Step::Progress(side) => {
                self.progress(side);
                self.take_events(side)
            }
            Step::Rest(side) => self.rest(side) && self.take_events(side),
            Step::CheckTime(side) => {
                let driver = &mut self.ends[side].change().0;
                let mut wait = driver.begin_wait();
                let checked = driver.check_time(&mut self.fabric, &mut wait, Nanos(0), Nanos(1));
                assert_eq!(checked, Ok(1), "a check long before the deadline");
                true
            }
            Step::SendKeepalive(side) => {
                let driver = &mut self.ends[side].change().0;
                let due = driver.next_tick();
                driver.tick(&mut self.fabric, due);
                true
            }
            Step::GiveUp(side) => self.let_deadline_pass(side),
            Step::Die(side) => self.die(side),
            Step::LearnOfLoss(side) => {
                self.ends[side].change().0.note_peer_gone();
                true
            }
            Step::Close(side) => self.close(side),
            Step::Abort(side) => self.abort(side),
            Step::Shrink(side) => self.shrink(side),
            Step::SetWindow { side, blocks } => self.set_window(side, blocks),
            Step::Expose(side) => self.expose(side) && self.take_events(side),
            Step::Withdraw(side) => self.withdraw(side) && self.take_events(side),
            Step::SendStale(side) => self.begin(side, true) && self.take_events(side),
            Step::ExposeWritable(side) => self.expose_writable(side) && self.take_events(side),
            Step::WithdrawWritable(side) => self.withdraw_writable(side) && self.take_events(side),
            Step::Offer(side) => self.offer(side) && self.take_events(side),
            Step::FinishJob { side, job } => {
                self.fabric.finish_job(side, job);
                self.take_job(side)
            }
            Step::FailJob { side, job } => {
                self.fabric.fail_job(side, job);
                self.take_job(side)
            }
            Step::RepeatJob(side) => {
                self.fabric.repeat_job(side);
                self.ends[side].change().0.progress(&mut self.fabric);
                // An end that awaits no job may not look.
                self.fabric.forget_report(side);
                self.take_events(side)
            }
            Step::Deliver { from, write, piece } => {
                self.fabric.deliver(from, write, piece);
                true
            }
            Step::Complete(side) => {
                if self.fabric.complete(side) {
                    self.ends[side].change().0.progress(&mut self.fabric);
                }
                self.take_events(side)
            }
        };
        for (side, end) in self.ends.iter().enumerate() {
            if let Some(Closed::Failed(failure)) = end.0.endpoint().closed()
                && !self.may_fail(failure)
            {
                panic!("end {side} has failed: {failure}");
            }
        }
        self.take_back_released();
        self.check_lent();
        self.check_grown();
        self.check_exposed();
        self.take_offers_back();
        self.check_split_bytes();
        taken
    }

    /// Describes a step with its place in the fabric.
    pub(super) fn describe(&self, step: Step) -> String {
        match step {
            Step::Deliver { from, write, piece } => {
                format!("end {from}: {} becomes visible", self.fabric.describe(from, write, piece))
            }
            Step::FinishJob { side, job } | Step::FailJob { side, job } => {
                format!("{step}: {}", self.fabric.describe_job(side, job))
            }
            step => step.to_string(),
        }
    }

    /// Makes one round of a wait, or of the close if this end has closed.
    fn progress(&mut self, side: usize) {
        if self.case.lending.is_some() {
            self.progress_lender(side);
            return;
        }
        let driver = &mut self.ends[side].change().0;
        if !driver.is_closing() {
            let mut wait = driver.begin_wait();
            if let Next::Ended(ended) = driver.round(&mut self.fabric, &mut wait, false) {
                assert!(driver.endpoint().closed().is_some(), "{ended}");
            }
            return;
        }
        let is_delivered = |driver: &Driver<StepFabric<DIRECT>>| {
            driver.endpoint().is_flushed() && driver.endpoint().is_quiescent()
        };
        let was_delivered = is_delivered(driver);
        match driver.drive_close(&mut self.fabric) {
            Drive::Done(result) => {
                assert!(result.is_ok() && was_delivered, "the close is done before CLOSE is delivered");
                driver.progress(&mut self.fabric);
            }
            Drive::Moved | Drive::Idle => {
                assert!(!was_delivered, "CLOSE is delivered, and the close is not done")
            }
        }
    }

    fn rest(&mut self, side: usize) -> bool {
        let driver = &mut self.ends[side].change().0;
        let mut rounds_left = if self.case.settles { ROUNDS_MAX } else { 0 };
        while driver.progress(&mut self.fabric) {
            if rounds_left == 0 {
                assert!(!self.case.settles, "end {side} finds work in every round");
                return false;
            }
            rounds_left -= 1;
        }
        driver.endpoint_mut().acknowledge(&mut self.fabric);
        true
    }

    fn cancel(&mut self, side: usize) -> bool {
        let flow = self.flows[side].change();
        let Some((index, open)) = flow.open.take() else { return false };
        let reason = reason(side, index, 1);
        let driver = &mut self.ends[side].change().0;
        let sending = driver.endpoint().state().sending;
        let begun = match open {
            Open::Stream(id) => {
                driver.cancel_stream(&mut self.fabric, id, reason);
                true
            }
            Open::Message(mut op) => {
                let begun = op.has_begun();
                driver.cancel_send(&mut self.fabric, &mut op, reason);
                assert!(!op.has_begun(), "given up, and still open");
                begun
            }
        };
        flow.sent[index].cancelled = Some(reason);
        let after = driver.endpoint().state().sending;
        if begun {
            assert!(matches!(after, Sending::Nothing | Sending::Cancelling), "given up, and {after:?}");
            assert!(!DIRECT || after == Sending::Nothing, "CANCEL waits");
        } else {
            assert_eq!(after, sending, "what had not begun was given up");
        }
        true
    }

    fn close(&mut self, side: usize) -> bool {
        let driver = &mut self.ends[side].change().0;
        let end = driver.endpoint_mut();
        let closing = self.case.close_policy[side];
        let waits = end.closed().is_none() && closing != ClosePolicy::WhenSent;
        // Both calls are made, since either may have an effect.
        let [delivered, controls_delivered] = [end.poll_delivered(), end.poll_controls_delivered()];
        if closing != ClosePolicy::Never && (!waits || delivered && controls_delivered) {
            driver.close(&mut self.fabric, Reason::DONE);
            assert!(driver.is_closing(), "closed, and says that nobody did");
        }
        true
    }

    fn abort(&mut self, side: usize) -> bool {
        self.ends[side].change().0.close(&mut self.fabric, ABORTED);
        let flow = self.flows[side].change();
        if self.case.lending.is_some() {
            self.note_abort(side, ABORTED);
        } else if let Some((index, _)) = flow.open.take() {
            flow.sent[index].cancelled = Some(ABORTED);
        }
        self.aborted = true;
        true
    }

    fn take_events(&mut self, side: usize) -> bool {
        while let Some(Event::Rejected { transfer, reason }) = self.ends[side].change().0.poll_event() {
            self.flows[side].change().check_rejected(transfer, reason);
        }
        true
    }
}
