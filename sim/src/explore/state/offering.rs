//! Steps of memory that an end offers to its peer, and what must hold of it.

use superpipe_core::{Buffer, End, Exposed, ExposedState, Length, Readable};
use superpipe_testkit::Place;

use super::State;
use super::exposing::BUFFER_BYTES;
use crate::explore::cases::Case;
use crate::explore::step::Step;

/// Byte with which an application overwrites a buffer that is its own again.
const REUSED: u8 = 0xee;

/// Most rounds until both ends have mapped what they begin with.
const ROUNDS_MAX: u32 = 100;

/// Memory that an end has exposed for writing. Each time it is another buffer.
#[derive(Clone, Debug, Hash)]
pub(super) struct Offerings {
    pub(super) handles: Vec<(Exposed, Buffer)>,
    /// The newest is exposed.
    is_current: bool,
    exposes_left: u32,
    withdraws_left: u32,
    offers_left: u32,
    /// Memory that the peer may write, and how many transfers had arrived when it was offered.
    offered: Option<(Exposed, Buffer, usize)>,
    /// Bytes of the message at the head that were put into a buffer.
    taken: usize,
}

impl Offerings {
    pub(super) fn new(case: &Case, side: usize) -> Self {
        let [exposes_left, withdraws_left, offers_left] = case
            .offering
            .map_or([0; 3], |it| [it.exposes_max, it.withdraws_max, it.offers_max].map(|times| times[side]));
        Self {
            handles: Vec::new(),
            is_current: false,
            exposes_left,
            withdraws_left,
            offers_left,
            offered: None,
            taken: 0,
        }
    }

    fn current(&self) -> Option<(Exposed, Buffer)> {
        self.handles.last().copied().filter(|_| self.is_current)
    }
}

impl<const DIRECT: bool> State<DIRECT> {
    /// Adds the steps of offered memory to try.
    pub(super) fn offering_steps(&self, side: usize, steps: &mut Vec<Step>) {
        let Offerings { is_current, exposes_left, withdraws_left, offers_left, .. } = &*self.offerings[side];
        if self.ends[side].0.endpoint().closed().is_some() {
            return;
        }
        if !is_current && *exposes_left > 0 {
            steps.push(Step::ExposeWritable(side));
        }
        if *is_current && *withdraws_left > 0 {
            steps.push(Step::WithdrawWritable(side));
        }
        if *is_current && *offers_left > 0 {
            steps.push(Step::Offer(side));
        }
    }

    /// Exposes the first buffers, and goes on until they are mapped.
    pub(super) fn prepare(&mut self) {
        if !self.case.offering.is_some_and(|it| it.is_prepared) {
            return;
        }
        for side in 0..2 {
            for step in [Step::Expose(side), Step::ExposeWritable(side)] {
                if self.steps().contains(&step) {
                    self.take(step);
                }
            }
        }
        for _ in 0..ROUNDS_MAX {
            for side in 0..2 {
                self.take(Step::Rest(side));
                while let Some((write, piece)) = self.fabric.deliverable(side).first().copied() {
                    self.take(Step::Deliver { from: side, write, piece });
                }
                while self.fabric.jobs(side) > 0 {
                    self.take(Step::FinishJob { side, job: 0 });
                }
            }
        }
        assert!(self.ends.iter().all(|end| end.0.endpoint().is_exposing_steady()), "it is not mapped");
    }

    pub(super) fn expose_writable(&mut self, side: usize) -> bool {
        let buffer = self.fabric.exposed.change().add(side, vec![REUSED; BUFFER_BYTES]);
        let exposed = self.ends[side].change().0.endpoint_mut().expose_writable(&mut self.fabric, buffer);
        let offerings = self.offerings[side].change();
        offerings.exposes_left -= 1;
        offerings.is_current = exposed.is_some();
        offerings.handles.extend(exposed.map(|exposed| (exposed, buffer)));
        true
    }

    pub(super) fn withdraw_writable(&mut self, side: usize) -> bool {
        let offerings = self.offerings[side].change();
        offerings.withdraws_left -= 1;
        if let Some((exposed, _)) = offerings.current() {
            offerings.is_current = false;
            self.ends[side].change().0.endpoint_mut().withdraw_exposed(&mut self.fabric, exposed);
        }
        true
    }

    /// Offers the buffer that is exposed. One that was withdrawn must be refused.
    pub(super) fn offer(&mut self, side: usize) -> bool {
        let offset = self.case.offering.map_or(0, |it| it.offset);
        let is_offered = self.offer_at(side, offset);
        self.offerings[side].change().offers_left -= u32::from(is_offered);
        true
    }

    fn offer_at(&mut self, side: usize, offset: u32) -> bool {
        // The offer of a message that was given up may have ended in this step.
        self.take_offers_back();
        let Self { fabric, ends, flows, offerings, .. } = self;
        let Some((exposed, buffer)) = offerings[side].current() else { return false };
        let endpoint = ends[side].change().0.endpoint_mut();
        let withdrawn = offerings[side].handles.iter().filter(|(handle, _)| *handle != exposed);
        for (stale, _) in withdrawn {
            assert!(!endpoint.offer(fabric, *stale, offset), "memory is offered that was withdrawn");
        }
        let is_ready = endpoint.exposed_state(exposed) == ExposedState::Ready;
        let may_offer = is_ready && offerings[side].offered.is_none() && flows[1 - side].head.is_none();
        let is_offered = endpoint.offer(fabric, exposed, offset);
        assert!(may_offer || !is_offered, "offered twice, behind a message, or before it is mapped");
        if is_offered {
            fabric.exposed.change().offer(buffer, offset as usize);
            offerings[side].change().offered = Some((exposed, buffer, flows[1 - side].seen()));
        }
        is_offered
    }

    /// Receives into the newest buffer, as the library does with a trusted one: offers it until a message comes, and takes the next part.
    pub(super) fn receive_trusted(&mut self, side: usize, max_bytes: u32) -> bool {
        let driver = &mut self.ends[side].change().0;
        let Some(incoming) = driver.try_peek(&mut self.fabric) else {
            if self.flows[1 - side].head.is_none() {
                self.offer_at(side, 0);
            }
            return true;
        };
        assert!(matches!(incoming.length, Length::Exact(_)), "no stream goes into a buffer");
        let transfers = &self.case.transfers[1 - side];
        self.flows[1 - side].change().arrived(transfers, incoming);
        let run = match driver.endpoint_mut().readable(&mut self.fabric, max_bytes) {
            Readable::Nothing => return true,
            Readable::Ended(end) => return self.end_trusted(side, &[], end),
            Readable::Run(run) => run,
        };
        if self.offerings[side].taken == 0 {
            assert!(driver.claim(&incoming), "somebody has begun to take it");
        }
        let newest = self.offerings[side].handles.last().copied();
        let mut found = Vec::new();
        for (at, bytes) in run.spans() {
            let part = self.fabric.visible(run.memory, at, bytes).to_vec();
            let is_there = run.memory.place == Place::Writable
                && newest.is_some_and(|(_, buffer)| self.fabric.exposed.buffer(run.memory) == buffer);
            if is_there {
                assert_eq!(at as usize, self.offerings[side].taken, "the tail is at another place");
            } else if let Some((_, buffer)) = newest {
                self.fabric.exposed.change().write(buffer, self.offerings[side].taken, &part);
            }
            self.offerings[side].change().taken += part.len();
            found.extend(part);
        }
        let end = self.ends[side].change().0.endpoint_mut().consume(&mut self.fabric, run.bytes);
        self.end_trusted(side, &found, end)
    }

    /// Checks what was received, and the whole buffer at the end.
    fn end_trusted(&mut self, side: usize, found: &[u8], end: End) -> bool {
        if let (End::Fin, Some(index), Some((_, buffer))) =
            (end, self.flows[1 - side].head, self.offerings[side].handles.last())
        {
            let bytes = self.case.transfers[1 - side][index].bytes;
            let wanted = super::flow::payload(1 - side, index, bytes);
            assert!(self.fabric.exposed.bytes(*buffer).starts_with(&wanted), "the buffer differs");
        }
        self.took(side, found, end)
    }

    /// Lets applications use memory that is not offered any more: they overwrite it.
    pub(super) fn take_offers_back(&mut self) {
        for side in 0..2 {
            if self.offerings[side].taken > 0 && self.flows[1 - side].head.is_none() {
                self.offerings[side].change().taken = 0;
            }
            let endpoint = self.ends[side].0.endpoint();
            let Some((exposed, buffer, _)) = self.offerings[side].offered else { continue };
            if endpoint.is_offered(exposed) {
                continue;
            }
            self.fabric.exposed.change().end_offer(side);
            self.offerings[side].change().offered = None;
            if self.offerings[side].taken == 0 {
                self.fabric.exposed.change().write(buffer, 0, &[REUSED; BUFFER_BYTES]);
            }
        }
    }

    /// Returns true if memory was withdrawn that is offered to a transfer which has not come.
    pub(super) fn awaits_end_of_offer(&self, side: usize) -> bool {
        let offerings = &self.offerings[side];
        let offered = offerings.offered.map(|(exposed, ..)| exposed);
        offered.is_some() && offered != offerings.current().map(|(exposed, _)| exposed)
    }

    /// Returns true if memory is still offered although its transfer has come, and is over if nothing is on its way.
    pub(super) fn keeps_offer(&self, side: usize) -> bool {
        self.offerings[side].offered.is_some_and(|(.., seen)| self.flows[1 - side].seen() > seen)
    }

    /// Checks that both ends count the bytes that were copied once.
    pub(super) fn check_split_bytes(&self) {
        if self.case.offering.is_none() {
            return;
        }
        for side in 0..2 {
            let [here, there] = [side, 1 - side].map(|side| self.ends[side].0.endpoint().counters());
            assert_eq!(
                here.split_bytes_sent,
                self.fabric.offered_bytes(side),
                "tails that end {side} counts"
            );
            let sent = [here.split_bytes_sent, here.exposed_bytes_sent];
            let received = [there.split_bytes_received, there.exposed_bytes_received];
            assert!(received[0] <= sent[0] && received[1] <= sent[1], "{received:?} of {sent:?} bytes came");
            if self.flows[side].sent.iter().all(|sent| sent.complete) {
                assert_eq!(received, sent, "bytes that were copied once");
            }
        }
    }
}
