//! Steps of an application whose peer may forge lines. It continues its script, receives whatever arrives, and compares nothing. The
//! caller checks that it survives and that the connection ends.

use superpipe_core::{Arrival, End, Length};

use super::Pair;
use super::flow::Open;
use crate::PairFabric;

impl<F: PairFabric> Pair<F> {
    pub(super) fn turn_unchecked(&mut self, side: usize) {
        if self.is_shut(side) {
            self.receive_nothing(side);
        }
        match self.rng.below(6) {
            0 | 1 => {
                self.end_round(side);
                while self.ends[side].poll_event().is_some() {}
            }
            2 | 3 => self.send_unchecked(side),
            4 => {
                let all = self.rng.below(self.buffer.len());
                let mut slices = [&mut self.buffer[..all]];
                let polls = 1 + u32::from(self.rng.one_in(2));
                self.ends[side].endpoint_mut().try_recv(&mut self.fabric, &mut slices, polls);
            }
            _ if self.rng.one_in(8) => {
                let reason = super::flow::reason(side, 0, 2);
                self.ends[side].reject(&mut self.fabric, reason);
            }
            _ => {
                let incoming = self.ends[side].try_peek(&mut self.fabric);
                let all = self.rng.below(self.buffer.len());
                let pulled =
                    self.ends[side].endpoint_mut().pull(&mut self.fabric, &mut [&mut self.buffer[..all]]);
                // In notify mode each poll takes some notifications, so the second may find a transfer that the first did not.
                let sees_more = self.script.configs[side].arrival == Arrival::Notify;
                let is_right = incoming.is_some() || sees_more || pulled.end == End::No;
                assert!(is_right, "the end of what was never shown");
            }
        }
    }

    fn send_unchecked(&mut self, side: usize) {
        let flow = &mut self.flows[side];
        let end = &mut self.ends[side];
        let Some(Open { index, id }) = flow.open else {
            let (index, Some(sent)) = (flow.next, flow.sent.get(flow.next)) else { return };
            let all = Length::Exact(sent.payload.len() as u64);
            if let Ok(id) = end.endpoint_mut().start(sent.tag, all) {
                flow.next += 1;
                flow.open = Some(Open { index, id });
            }
            return;
        };
        let sent = &mut flow.sent[index];
        // A stream that began before the first forged line ends here, too.
        let rest = &sent.payload[sent.bytes..];
        match end.endpoint_mut().push(&mut self.fabric, id, &[rest]) {
            Ok(bytes) if bytes < rest.len() => sent.bytes += bytes,
            Ok(bytes) => {
                sent.bytes += bytes;
                if end.endpoint_mut().finish(&mut self.fabric, id)
                    != Err(superpipe_core::RefusedSend::NoCredit)
                {
                    flow.open = None;
                }
            }
            Err(_) => flow.open = None,
        }
    }
}
