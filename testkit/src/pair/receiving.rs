//! Receiving steps of an end, compared with what was sent.

use superpipe_core::{Closed, End, Incoming, Length, Readable, Reason, TryRecv};

use super::Pair;
use super::flow::reason;
use super::script::ReceiveMethod;
use crate::PairFabric;

impl<F: PairFabric> Pair<F> {
    /// Takes the next receiving step.
    pub(super) fn receive(&mut self, side: usize) {
        let from = 1 - side;
        if self.is_shut(side) {
            return self.receive_nothing(side);
        }
        if self.flows[from].head.is_none() && self.rng.one_in(2) && self.try_recv(side) {
            return;
        }
        if self.flows[from].head.is_none() || self.rng.one_in(8) {
            let Some(incoming) = self.ends[side].try_peek(&mut self.fabric) else { return };
            self.arrived(from, incoming);
        }
        let Some((index, _)) = self.flows[from].head else { return };
        match self.script.transfers[from][index].receive_method {
            ReceiveMethod::Reject(at) if self.flows[from].at >= at => {
                let why = reason(from, index, 2);
                if !self.ends[side].reject(&mut self.fabric, why) {
                    assert!(
                        self.is_shut(side),
                        "{index} was shown, and cannot be rejected: {:?}",
                        self.script
                    );
                    return;
                }
                self.flows[from].sent[index].rejected = Some(why);
                self.flows[from].head = None;
            }
            ReceiveMethod::Pull(bytes, slices) => self.pull(side, index, bytes, slices),
            ReceiveMethod::Reject(at) => self.pull(side, index, (at - self.flows[from].at).div_ceil(2), 2),
            ReceiveMethod::InPlace(bytes) => self.read_in_place(side, index, bytes),
        }
    }

    /// Takes the next message by the fast path, if it permits that.
    fn try_recv(&mut self, side: usize) -> bool {
        let from = 1 - side;
        let room = if self.rng.one_in(4) { self.rng.below(100) } else { self.buffer.len() };
        let polls = if self.rng.one_in(2) { 1 } else { 3 };
        let mut slices = [&mut self.buffer[..room]];
        let found = self.ends[side].endpoint_mut().try_recv(&mut self.fabric, &mut slices, polls);
        let (TryRecv::Taken { tag, bytes } | TryRecv::Begun { tag, bytes }) = found else { return false };
        let index = (tag & 0xffff) as usize;
        let all = self.script.transfers[from][index].bytes;
        let transfer = self.flows[from].sent[index].number.expect("it was sent");
        self.arrived(from, Incoming { transfer, tag, length: Length::Exact(all as u64) });
        self.compare(from, index, bytes, 0);
        self.ended(from, index, if matches!(found, TryRecv::Taken { .. }) { End::Fin } else { End::No });
        true
    }

    /// Returns true if this end has failed or was closed with a reason.
    pub(super) fn is_shut(&self, side: usize) -> bool {
        match self.ends[side].endpoint().closed() {
            None => false,
            Some(Closed::Failed(_)) => true,
            Some(Closed::Here(reason) | Closed::ByPeer(reason)) => reason != Reason::DONE,
        }
    }

    /// Checks that no receiving call delivers anything.
    pub(super) fn receive_nothing(&mut self, side: usize) {
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        let found = end.endpoint_mut().try_recv(fabric, &mut [&mut self.buffer[..]], 1);
        assert!(matches!(found, TryRecv::Nothing | TryRecv::Other), "closed, and received {found:?}");
        assert_eq!(end.try_peek(fabric), None, "closed, and shown");
        let pulled = end.endpoint_mut().pull(fabric, &mut [&mut self.buffer[..]]);
        assert_eq!((pulled.bytes, pulled.end), (0, End::No), "closed, and pulled");
        assert!(
            matches!(end.endpoint_mut().readable(fabric, u32::MAX), Readable::Nothing),
            "closed, and readable"
        );
        assert!(!end.reject(fabric, Reason(1)), "closed, and rejected");
    }

    /// Checks the transfer at the head, which must be the next of which anything was sent.
    fn arrived(&mut self, from: usize, incoming: Incoming) {
        let flow = &mut self.flows[from];
        let index = (incoming.tag & 0xffff) as usize;
        if let Some(head) = flow.head {
            assert_eq!(head, (index, incoming.transfer), "the transfer at the head went away");
            return;
        }
        assert!(index >= flow.seen && index < flow.next, "{index} comes after {}", flow.seen);
        for (passed, sent) in flow.sent.iter().enumerate().take(index).skip(flow.seen) {
            assert!(sent.cancelled.is_some() && sent.bytes == 0, "transfer {passed} never came");
        }
        let (sent, transfer) = (&mut flow.sent[index], self.script.transfers[from][index]);
        let length = if transfer.stream { Length::Stream } else { Length::Exact(transfer.bytes as u64) };
        assert_eq!(incoming.tag, sent.tag);
        assert_eq!(incoming.length, length);
        assert_eq!(Some(incoming.transfer), sent.number);
        assert_eq!(sent.received.replace(0), None, "transfer {index} came twice");
        flow.head = Some((index, incoming.transfer));
        flow.seen = index + 1;
        flow.at = 0;
    }

    fn pull(&mut self, side: usize, index: usize, bytes: usize, slices: usize) {
        let from = 1 - side;
        let mut rest = &mut self.buffer[..];
        let mut places: [&mut [u8]; 4] = Default::default();
        for place in places.iter_mut().take(slices.clamp(1, 4)) {
            let bytes = if self.rng.one_in(6) { 0 } else { bytes.min(rest.len() / 2) };
            let (here, after) = rest.split_at_mut(bytes);
            here.fill(0xa5);
            (*place, rest) = (here, after);
        }
        let all: usize = places.iter().map(|place| place.len()).sum();
        let pulled = if self.rng.one_in(3) && all > 0 {
            let skip = self.rng.below(all);
            let pulled = self.ends[side].endpoint_mut().pull_from(&mut self.fabric, &mut places, skip);
            self.buffer.copy_within(skip..skip + pulled.bytes, 0);
            pulled
        } else {
            self.ends[side].endpoint_mut().pull(&mut self.fabric, &mut places)
        };
        self.compare(from, index, pulled.bytes, 0);
        self.ended(from, index, pulled.end);
    }

    fn read_in_place(&mut self, side: usize, index: usize, max_bytes: u32) {
        let from = 1 - side;
        match self.ends[side].endpoint_mut().readable(&mut self.fabric, max_bytes) {
            Readable::Nothing => {}
            Readable::Ended(end) => self.ended(from, index, end),
            Readable::Run(run) => {
                assert!(run.bytes > 0 && run.bytes <= max_bytes);
                let mut filled = 0;
                for (at, bytes) in run.spans() {
                    let here = self.fabric.visible(run.memory, at, bytes);
                    self.buffer[filled..][..bytes as usize].copy_from_slice(here);
                    filled += bytes as usize;
                }
                assert_eq!(filled, run.bytes as usize);
                let less = self.rng.one_in(2);
                let used = if less { self.rng.below(filled + 1) } else { filled };
                #[expect(clippy::cast_possible_truncation, reason = "not more than was there")]
                let end = self.ends[side].endpoint_mut().consume(&mut self.fabric, used as u32);
                self.compare(from, index, used, 0);
                self.ended(from, index, end);
            }
        }
    }

    /// Compares the buffer with what was sent.
    fn compare(&mut self, from: usize, index: usize, bytes: usize, start: usize) {
        let flow = &mut self.flows[from];
        let wanted = flow.sent[index].payload.get(flow.at..flow.at + bytes);
        let got = &self.buffer[start..start + bytes];
        if wanted != Some(got) {
            let at = wanted.and_then(|wanted| got.iter().zip(wanted).position(|(g, w)| g != w));
            panic!("transfer {index}: {bytes} bytes at {} differ at {at:?}: {:?}", flow.at, self.script);
        }
        flow.at += bytes;
        flow.sent[index].received = Some(flow.at);
    }

    fn ended(&mut self, from: usize, index: usize, end: End) {
        let flow = &mut self.flows[from];
        let sent = &mut flow.sent[index];
        match end {
            End::No => return,
            End::Fin => {
                assert_eq!(flow.at, sent.payload.len(), "transfer {index} ended early");
                sent.complete = true;
            }
            End::Cancelled(reason) => {
                assert_eq!(sent.cancelled, Some(reason));
                let is_all = flow.at == sent.bytes || flow.holds_back && flow.at == 0;
                assert!(
                    is_all,
                    "transfer {index}: CANCEL after {} bytes, and {} were sent",
                    flow.at, sent.bytes
                );
            }
        }
        flow.head = None;
    }
}
