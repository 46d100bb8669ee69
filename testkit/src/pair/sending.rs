//! Sending steps of an end.

use superpipe_core::{Length, Reason, RefusedSend, Sending};

use super::Pair;
use super::flow::{Open, reason};
use super::script::SendMethod;
use crate::{PairFabric, Rng};

impl<F: PairFabric> Pair<F> {
    /// Takes the next sending step.
    pub(super) fn send(&mut self, side: usize) {
        match self.flows[side].open {
            _ if self.ends[side].endpoint().closed().is_some() => {}
            None => self.begin(side),
            Some(open) => self.continue_sending(side, open),
        }
    }

    fn begin(&mut self, side: usize) {
        let flow = &mut self.flows[side];
        let index = flow.next;
        let Some(transfer) = self.script.transfers[side].get(index) else { return };
        if self.rng.one_in(64) {
            return self.misuse(side);
        }
        let flow = &mut self.flows[side];
        let end = &mut self.ends[side];
        end.set_protocol(transfer.protocol);
        if F::DIRECT && self.script.windows && self.rng.one_in(4) {
            let window = self.rng.below(2 * self.script.setup.layouts[1 - side].bytes() as usize);
            // Some are chosen.
            end.set_window(u32::try_from(window).ok().filter(|window| !window.is_multiple_of(4)));
        }
        let sent = &mut flow.sent[index];
        if let (SendMethod::TrySend(count), false, None) =
            (transfer.send_method, transfer.stream, transfer.cancel_at)
        {
            let mut slices = [&[][..]; 4];
            cut(&mut self.rng, &sent.payload, count, &mut slices);
            match end.try_send(&mut self.fabric, sent.tag, &slices[..count.clamp(1, 4)]) {
                Ok(id) => {
                    sent.number = Some(id.number());
                    sent.bytes = transfer.bytes;
                    sent.ended = true;
                    flow.next += 1;
                    return;
                }
                Err(RefusedSend::NoCredit | RefusedSend::Busy) => return,
                Err(RefusedSend::TooLong) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let length = if transfer.stream { Length::Stream } else { Length::Exact(transfer.bytes as u64) };
        match end.endpoint_mut().start(sent.tag, length) {
            Ok(id) => {
                sent.number = Some(id.number());
                flow.next += 1;
                flow.open = Some(Open { index, id });
            }
            Err(RefusedSend::Busy) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn continue_sending(&mut self, side: usize, open: Open) {
        let Open { index, id } = open;
        let transfer = self.script.transfers[side][index];
        if transfer.cancel_at.is_some_and(|at| at <= self.flows[side].sent[index].bytes) {
            let reason = reason(side, index, 1);
            let sent = &mut self.flows[side].sent[index];
            match self.ends[side].endpoint_mut().cancel(&mut self.fabric, id, reason) {
                Ok(()) => {
                    sent.cancelled = Some(reason);
                    // The block that is reserved for CANCEL is free, and no completion is awaited.
                    let sending = self.ends[side].endpoint().state().sending;
                    assert!(!F::DIRECT || sending == Sending::Nothing, "CANCEL waits: {:?}", self.script);
                }
                // A message of no bytes has ended with a push that could not report it.
                Err(RefusedSend::NotOpen) if transfer.bytes == 0 => sent.ended = true,
                Err(other) => panic!("{other}"),
            }
            self.flows[side].open = None;
            return;
        }
        let send_method = match transfer.send_method {
            SendMethod::TrySend(slices) => SendMethod::Push(usize::MAX, slices),
            SendMethod::Mixed(bytes) if self.rng.one_in(2) => SendMethod::Reserve(bytes),
            SendMethod::Mixed(bytes) => SendMethod::Push(bytes as usize, 2),
            send_method => send_method,
        };
        let result = if transfer.stream && self.flows[side].sent[index].bytes == transfer.bytes {
            self.ends[side]
                .endpoint_mut()
                .finish(&mut self.fabric, id)
                .map(|()| self.flows[side].sent[index].ended = true)
        } else if let (SendMethod::Reserve(max_bytes), true) = (send_method, transfer.bytes > 0) {
            self.reserve(side, open, max_bytes)
        } else {
            self.push(side, open, send_method)
        };
        let flow = &mut self.flows[side];
        match result {
            Ok(()) if flow.sent[index].ended => flow.open = None,
            Ok(()) | Err(RefusedSend::NoCredit | RefusedSend::Closed) => {}
            Err(RefusedSend::Rejected(reason)) => {
                assert_eq!(flow.sent[index].rejected, Some(reason));
                flow.open = None;
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Makes calls that must be refused without effect.
    fn misuse(&mut self, side: usize) {
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        for length in [1, u64::MAX - 1, u64::MAX] {
            let Ok(id) = end.endpoint_mut().start(0, Length::Exact(length)) else { return };
            assert_eq!(end.endpoint_mut().start(0, Length::Stream), Err(RefusedSend::Busy));
            assert_eq!(
                end.endpoint_mut().finish(fabric, id),
                Err(RefusedSend::WrongLength),
                "a message of {length} bytes"
            );
            assert_eq!(
                end.endpoint_mut().commit(fabric, id, 1),
                Err(RefusedSend::WrongLength),
                "nothing was reserved"
            );
            assert_eq!(end.endpoint_mut().cancel(fabric, id, Reason(1)), Ok(()));
            assert_eq!(end.endpoint_mut().push(fabric, id, &[&[0]]), Err(RefusedSend::NotOpen));
        }
    }

    fn push(&mut self, side: usize, open: Open, send_method: SendMethod) -> Result<(), RefusedSend> {
        let sent = &mut self.flows[side].sent[open.index];
        let (limit, count) =
            if let SendMethod::Push(limit, count) = send_method { (limit, count) } else { (usize::MAX, 1) };
        let rest = &sent.payload[sent.bytes..];
        let run = &rest[..rest.len().min(limit.max(1))];
        let mut slices = [&[][..]; 4];
        cut(&mut self.rng, run, count, &mut slices);
        let (end, all) = (&mut self.ends[side], sent.payload.len());
        match end.endpoint_mut().push(&mut self.fabric, open.id, &slices) {
            Ok(bytes) => {
                assert!(bytes <= run.len());
                sent.bytes += bytes;
                sent.ended = !self.script.transfers[side][open.index].stream && sent.bytes == all && all > 0;
                Ok(())
            }
            // A message of no bytes reports its end only here.
            Err(RefusedSend::NotOpen) if all == 0 => {
                sent.ended = true;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn reserve(&mut self, side: usize, open: Open, max_bytes: u32) -> Result<(), RefusedSend> {
        let sent = &mut self.flows[side].sent[open.index];
        let end = &mut self.ends[side];
        let reservation = end.endpoint_mut().reserve(&mut self.fabric, open.id, max_bytes.max(1))?;
        assert!(reservation.bytes() > 0 && reservation.bytes() <= max_bytes.max(1));
        // A short read.
        let bytes =
            if self.rng.one_in(2) { self.rng.below(reservation.bytes() as usize) + 1 } else { usize::MAX };
        let rest = &sent.payload[sent.bytes..];
        let run = &rest[..rest.len().min(bytes).min(reservation.bytes() as usize)];
        let mut left = run;
        for (at, bytes) in reservation.spans() {
            let (here, after) = left.split_at((bytes as usize).min(left.len()));
            self.fabric.fill(reservation.memory, at, here);
            left = after;
        }
        assert!(left.is_empty(), "the spans are shorter than the reservation");
        if self.rng.one_in(4) {
            end.progress(&mut self.fabric);
        }
        #[expect(clippy::cast_possible_truncation, reason = "not more than was reserved")]
        end.endpoint_mut().commit(&mut self.fabric, open.id, run.len() as u32)?;
        sent.bytes += run.len();
        sent.ended = !self.script.transfers[side][open.index].stream && sent.bytes == sent.payload.len();
        self.take_events(side);
        Ok(())
    }
}

/// Cuts bytes into `count` slices, some of them empty.
fn cut<'a>(rng: &mut Rng, mut run: &'a [u8], count: usize, slices: &mut [&'a [u8]; 4]) {
    let count = count.clamp(1, 4);
    for slice in &mut slices[..count - 1] {
        let (here, after) = run.split_at(rng.below(run.len() + 1));
        (*slice, run) = (here, after);
    }
    slices[count - 1] = run;
}
