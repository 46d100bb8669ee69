//! Receiving steps of an application.

use superpipe_core::driver::{Drive, Received, RecvFailed, RefusedRecv};
use superpipe_core::{End, Incoming, Length, Readable, Reason};
use superpipe_testkit::pair::reason;

use super::State;
use crate::explore::cases::ReceiveMethod;

/// More than the longest message of a case.
const ROOM_BYTES: usize = 1024;

/// Content of a buffer before a receive.
const UNTOUCHED: u8 = 0xa5;

/// Reason with which an operation is cancelled before it has begun. No peer may see it.
const NOT_BEGUN: Reason = Reason(8);

impl<const DIRECT: bool> State<DIRECT> {
    /// Takes the next receiving step.
    pub(super) fn receive(&mut self, side: usize) -> bool {
        if self.case.lending.is_some() {
            return self.receive_lent(side);
        }
        let flow = &self.flows[1 - side];
        let is_stream = flow.head.is_some_and(|index| self.case.transfers[1 - side][index].stream);
        match (flow.head, self.case.receive_method[side]) {
            (None, ReceiveMethod::Whole) => self.try_recv(side),
            (None, ReceiveMethod::Pull(_) | ReceiveMethod::InPlace(_)) => self.peek(side),
            (Some(_), ReceiveMethod::Drive(_) | ReceiveMethod::Whole) if is_stream => {
                self.pull(side, ROOM_BYTES)
            }
            (_, ReceiveMethod::Trusted(bytes)) => self.receive_trusted(side, bytes),
            (_, ReceiveMethod::Drive(cut)) => self.drive_recv(side, cut),
            (Some(_), ReceiveMethod::Whole) => self.drive_recv(side, 0),
            (Some(_), ReceiveMethod::InPlace(bytes)) => self.read_in_place(side, bytes),
            (Some(_), ReceiveMethod::Pull(bytes)) => self.pull(side, bytes),
        }
    }

    /// Rejects the transfer at the head.
    pub(super) fn reject(&mut self, side: usize) -> bool {
        if self.case.lending.is_some() {
            return self.reject_lent(side);
        }
        let from = 1 - side;
        let Some(index) = self.flows[from].head else { return false };
        let driver = &mut self.ends[side].change().0;
        let flow = self.flows[from].change();
        let why = reason(from, index, 2);
        match &mut flow.receive {
            Some(op) => {
                driver.cancel_recv(&mut self.fabric, op, why);
                assert!(!op.has_begun(), "given up, and still open");
            }
            None => assert!(driver.reject(&mut self.fabric, why), "it is at the head"),
        }
        flow.sent[index].rejected = Some(why);
        (flow.head, flow.receive) = (None, None);
        true
    }

    /// Polls for a transfer, and claims it for a stream.
    fn peek(&mut self, side: usize) -> bool {
        let driver = &mut self.ends[side].change().0;
        if let Some(incoming) = driver.try_peek(&mut self.fabric) {
            assert!(driver.claim(&incoming), "somebody has begun to take it");
            self.flows[1 - side].change().arrived(&self.case.transfers[1 - side], incoming);
        }
        true
    }

    /// Takes a message that has arrived completely.
    fn try_recv(&mut self, side: usize) -> bool {
        let mut place = [UNTOUCHED; ROOM_BYTES];
        let driver = &mut self.ends[side].change().0;
        let found = driver.try_recv(&mut self.fabric, &mut [&mut place]);
        let flow = self.flows[1 - side].change();
        let transfers = &self.case.transfers[1 - side];
        let taken = match found {
            Ok(Some(Received { tag, bytes })) => {
                flow.arrived_tag(tag);
                flow.took(transfers, &place[..bytes], End::Fin);
                bytes
            }
            Err(RefusedRecv::Long(incoming)) => {
                flow.arrived(transfers, incoming);
                0
            }
            Err(RefusedRecv::TooSmall(incoming)) => {
                self.claim_stream(side, incoming);
                0
            }
            Ok(None) => 0,
        };
        assert!(place[taken..].iter().all(|byte| *byte == UNTOUCHED), "written behind what was taken");
        true
    }

    /// Claims a stream, which operations for messages refuse.
    fn claim_stream(&mut self, side: usize, incoming: Incoming) {
        assert_eq!(incoming.length, Length::Stream, "there is room for it");
        assert!(self.ends[side].change().0.claim(&incoming), "somebody has begun to take it");
        self.flows[1 - side].change().arrived(&self.case.transfers[1 - side], incoming);
    }

    /// Takes the next part of a message. Cancels an operation that has not begun, which the peer must not notice.
    fn drive_recv(&mut self, side: usize, cut: usize) -> bool {
        let Self { case, ends, flows, fabric, .. } = self;
        let (driver, flow, transfers) =
            (&mut ends[side].change().0, flows[1 - side].change(), &case.transfers[1 - side]);
        let mut op = flow.receive.take().unwrap_or_default();
        let before = op.taken();
        let mut place = [UNTOUCHED; ROOM_BYTES];
        let (first, second) = place.split_at_mut(cut);
        let driven = match cut {
            0 => driver.drive_recv(fabric, &mut op, &mut [second]),
            _ => driver.drive_recv(fabric, &mut op, &mut [first, second]),
        };
        let taken = op.taken();
        let (left, right) = (&place[..before], &place[taken..]);
        assert!(left.iter().chain(right).all(|byte| *byte == UNTOUCHED), "written where it must not");
        let end = match driven {
            Drive::Done(Ok(Received { tag, bytes })) => {
                assert_eq!(bytes, taken, "received, and other bytes taken");
                flow.arrived_tag(tag);
                End::Fin
            }
            Drive::Done(Err(RecvFailed::Cancelled(reason))) => {
                flow.arrived_cancelled(reason, taken);
                End::Cancelled(reason)
            }
            Drive::Done(Err(RecvFailed::TooSmall(incoming))) => {
                self.claim_stream(side, incoming);
                return true;
            }
            Drive::Done(Err(other)) => panic!("received by nobody else: {other:?}"),
            Drive::Moved | Drive::Idle if op.has_begun() => {
                if flow.head.is_none()
                    && let Some(incoming) = driver.try_peek(fabric)
                {
                    flow.arrived(transfers, incoming);
                }
                flow.receive = Some(op);
                End::No
            }
            Drive::Moved | Drive::Idle => {
                driver.cancel_recv(fabric, &mut op, NOT_BEGUN);
                End::No
            }
        };
        self.took(side, &place[before..taken], end)
    }

    fn pull(&mut self, side: usize, bytes: usize) -> bool {
        let mut place = [0; ROOM_BYTES];
        let pulled =
            self.ends[side].change().0.endpoint_mut().pull(&mut self.fabric, &mut [&mut place[..bytes]]);
        self.took(side, &place[..pulled.bytes], pulled.end)
    }

    fn read_in_place(&mut self, side: usize, bytes: u32) -> bool {
        match self.ends[side].change().0.endpoint_mut().readable(&mut self.fabric, bytes) {
            Readable::Nothing => true,
            Readable::Ended(end) => self.took(side, &[], end),
            Readable::Run(run) => {
                let mut found = Vec::new();
                for (at, bytes) in run.spans() {
                    found.extend_from_slice(self.fabric.visible(run.memory, at, bytes));
                }
                assert_eq!(found.len(), run.bytes as usize);
                let end = self.ends[side].change().0.endpoint_mut().consume(&mut self.fabric, run.bytes);
                self.took(side, &found, end)
            }
        }
    }

    pub(super) fn took(&mut self, side: usize, got: &[u8], end: End) -> bool {
        if !got.is_empty() || end != End::No {
            self.flows[1 - side].change().took(&self.case.transfers[1 - side], got, end);
        }
        true
    }
}
