//! Sending steps of an application.

use superpipe_core::driver::{Drive, SendFailed};
use superpipe_core::{Closed, Length, Reason, RefusedSend, TransferId};

use super::State;
use super::flow::{Open, payload};
use crate::explore::cases::SendMethod;

/// Empty slices: as many as one call of core walks.
const EMPTY_SLICES: usize = 1 << 14;

impl<const DIRECT: bool> State<DIRECT> {
    /// Takes the next sending step.
    pub(super) fn send(&mut self, side: usize) -> bool {
        match self.flows[side].open {
            None => self.begin(side, false),
            Some((index, Open::Stream(id))) => self.continue_stream(side, index, id),
            Some((index, Open::Message(_))) => self.drive(side, index),
        }
    }

    /// Begins the next transfer. `is_stale`: out of memory that was withdrawn.
    pub(super) fn begin(&mut self, side: usize, is_stale: bool) -> bool {
        let index = self.flows[side].next;
        let transfer = self.case.transfers[side][index];
        self.ends[side].change().0.set_protocol(transfer.protocol);
        let op = match transfer.send_method {
            SendMethod::Drive => Some(self.lend_message(side, index)),
            SendMethod::Exposed | SendMethod::ExposedInParts => {
                let Some(op) = self.exposed_message(side, index, is_stale) else { return true };
                Some(op)
            }
            SendMethod::TrySend | SendMethod::Push(_) | SendMethod::Reserve(_) => None,
        };
        if let Some(op) = op {
            let flow = self.flows[side].change();
            flow.next += 1;
            flow.open = Some((index, Open::Message(op)));
            return self.drive(side, index);
        }
        let driver = &mut self.ends[side].change().0;
        let length = if transfer.stream { Length::Stream } else { Length::Exact(transfer.bytes as u64) };
        let at_once = transfer.send_method == SendMethod::TrySend;
        let begun = if at_once {
            let payload = payload(side, index, transfer.bytes);
            driver.try_send(&mut self.fabric, index as u64, &[&payload])
        } else {
            driver.endpoint_mut().start(index as u64, length)
        };
        match begun {
            Ok(id) => {
                let flow = self.flows[side].change();
                flow.next += 1;
                flow.sent[index].begun = true;
                flow.sent[index].number = Some(id.number());
                if at_once {
                    flow.sent[index].bytes = transfer.bytes;
                    flow.sent[index].ended = true;
                } else {
                    flow.open = Some((index, Open::Stream(id)));
                }
            }
            Err(RefusedSend::NoCredit | RefusedSend::Busy) => {}
            Err(RefusedSend::Closed) => self.give_up(side),
            Err(other) => panic!("transfer {index} cannot begin: {other}"),
        }
        true
    }

    /// Sends the next part of a message.
    fn drive(&mut self, side: usize, index: usize) -> bool {
        if self.case.lending.is_some() {
            return self.drive_lent(side, index);
        }
        let all = payload(side, index, self.case.transfers[side][index].bytes);
        let (first, second) = all.split_at(all.len() / 3);
        let in_parts = self.case.transfers[side][index].send_method == SendMethod::ExposedInParts;
        let (second, third) = second.split_at(second.len() / if in_parts { 2 } else { 1 });
        let mut slices = vec![first, second];
        if in_parts {
            slices.extend([&[][..]; EMPTY_SLICES].into_iter().chain([third]));
        }
        let Self { ends, flows, fabric, .. } = self;
        let flow = flows[side].change();
        let Some((_, Open::Message(op))) = &mut flow.open else { panic!("{index} is no operation") };
        let driver = &mut ends[side].change().0;
        let exposed_before = driver.endpoint().counters().exposed_bytes_sent;
        let driven = driver.drive_send(fabric, op, &slices);
        let (begun, sent) = (op.has_begun(), op.sent());
        let exposed_bytes = driver.endpoint().counters().exposed_bytes_sent - exposed_before;
        let state = &mut flow.sent[index];
        state.begun |= begun || driven == Drive::Done(Ok(()));
        assert!(sent >= state.bytes, "less was sent than before");
        state.bytes = sent;
        if begun && exposed_bytes > 0 {
            state.head = usize::try_from(exposed_bytes).ok();
        }
        match driven {
            Drive::Moved | Drive::Idle => {}
            Drive::Done(Ok(())) => {
                assert_eq!(sent, all.len(), "sent, and not all of it");
                state.ended = true;
                flow.open = None;
            }
            Drive::Done(Err(SendFailed::Rejected(reason))) => {
                assert_eq!(state.rejected, Some(reason));
                flow.open = None;
            }
            Drive::Done(Err(SendFailed::Closed)) => self.give_up(side),
            Drive::Done(Err(other)) => panic!("transfer {index} cannot go on: {other:?}"),
        }
        true
    }

    fn continue_stream(&mut self, side: usize, index: usize, id: TransferId) -> bool {
        let transfer = self.case.transfers[side][index];
        let sent = self.flows[side].sent[index].bytes;
        let all = payload(side, index, transfer.bytes);
        let rest = &all[sent..];
        let end = self.ends[side].change().0.endpoint_mut();
        let pushed = match transfer.send_method {
            _ if rest.is_empty() && transfer.stream => end.finish(&mut self.fabric, id).map(|()| 0),
            SendMethod::Reserve(bytes) => end.reserve(&mut self.fabric, id, bytes).and_then(|reservation| {
                let bytes = rest.len().min(reservation.bytes() as usize);
                let mut left = &rest[..bytes];
                for (at, bytes) in reservation.spans() {
                    let (here, after) = left.split_at((bytes as usize).min(left.len()));
                    self.fabric.fill(side, reservation.memory, at, here);
                    left = after;
                }
                let committed = u32::try_from(bytes).unwrap_or(u32::MAX);
                end.commit(&mut self.fabric, id, committed).map(|()| bytes)
            }),
            SendMethod::Push(bytes) => end.push(&mut self.fabric, id, &[&rest[..rest.len().min(bytes)]]),
            SendMethod::TrySend | SendMethod::Drive | SendMethod::Exposed | SendMethod::ExposedInParts => {
                panic!("what is sent at once, or driven, is no stream")
            }
        };
        let flow = self.flows[side].change();
        let finished = rest.is_empty() && transfer.stream && pushed.is_ok();
        match pushed {
            Ok(bytes) => {
                let state = &mut flow.sent[index];
                state.bytes += bytes;
                state.ended = finished || !transfer.stream && state.bytes == transfer.bytes;
                if state.ended {
                    flow.open = None;
                }
            }
            Err(RefusedSend::NoCredit) => {}
            Err(RefusedSend::Rejected(reason)) => {
                assert_eq!(flow.sent[index].rejected, Some(reason));
                flow.open = None;
            }
            Err(RefusedSend::Closed) => self.give_up(side),
            Err(other) => panic!("transfer {index} cannot go on: {other}"),
        }
        true
    }

    /// Gives up: the connection is closed, the rest is never sent, and closing this end cancels the open transfer.
    fn give_up(&mut self, side: usize) {
        let closed = self.ends[side].0.endpoint().closed();
        assert!(matches!(closed, Some(Closed::ByPeer(_))), "closed: {closed:?}");
        let flow = self.flows[side].change();
        flow.next = flow.sent.len();
        if let Some((index, _)) = flow.open.take() {
            flow.sent[index].cancelled = Some(Reason::DONE);
        }
    }
}
