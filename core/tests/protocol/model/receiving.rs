//! Calls that receive, at the end `side`.

use superpipe_core::{End, FirstChunk, Incoming, Readable, TryRecv};
use superpipe_testkit::TestFabric;

use crate::model::{Model, PLACE_BYTES, Sent};

impl<F: TestFabric> Model<F> {
    /// Something of the transfer at the head was given.
    pub(crate) fn gives(&mut self, side: usize) -> &mut Sent {
        assert!(!self.is_shut(side), "delivered by a connection that was closed with a reason");
        let flow = &mut self.flows[1 - side];
        flow.shown = true;
        assert!(flow.head < flow.sent.len(), "something was received that was never sent");
        &mut flow.sent[flow.head]
    }

    pub(crate) fn took(&mut self, side: usize, bytes: &[u8], end: End) {
        if bytes.is_empty() && end == End::No {
            return;
        }
        let at = self.flows[1 - side].at;
        // A first chunk that waits for its CTS is dropped with its transfer.
        let holds_back = self.ends[1 - side].config().first_chunk == FirstChunk::DuringRendezvous;
        let sent = self.gives(side);
        assert!(at + bytes.len() <= sent.bytes.len(), "more than was sent");
        assert_eq!(&sent.bytes[at..at + bytes.len()], bytes, "wrong bytes");
        let (all, theirs) = (sent.bytes.len(), sent.end);
        if end != End::No {
            let is_dropped = holds_back && matches!(end, End::Cancelled(_)) && at + bytes.len() == 0;
            let all = if is_dropped { 0 } else { all };
            assert_eq!((at + bytes.len(), Some(end)), (all, theirs), "another end");
        }
        let flow = &mut self.flows[1 - side];
        flow.at += bytes.len();
        if end != End::No {
            (flow.head, flow.at, flow.shown, flow.in_place) = (flow.head + 1, 0, false, 0);
        }
    }

    pub(crate) fn receive(&mut self, side: usize) {
        match self.below(12) {
            0 | 1 => self.try_recv(side),
            2 | 3 => self.incoming(side),
            4..=6 => self.pull(side),
            7 | 8 => self.readable(side),
            9 | 10 => self.consume(side),
            _ if self.rng.one_in(3) => self.reject(side),
            _ => {}
        }
    }

    pub(crate) fn try_recv(&mut self, side: usize) {
        let mut place = [0xa5; PLACE_BYTES];
        let room = if self.rng.one_in(3) { self.below(60) } else { PLACE_BYTES };
        let cut = if self.rng.one_in(3) { self.below(room + 1) } else { room };
        let looks = self.below(4) as u32;
        let (a, b) = place[..room].split_at_mut(cut);
        let found = match cut == room {
            true => self.ends[side].try_recv(&mut self.fabric, &mut [a], looks),
            false => self.ends[side].try_recv(&mut self.fabric, &mut [a, b], looks),
        };
        let (TryRecv::Taken { tag, bytes } | TryRecv::Begun { tag, bytes }) = found else { return };
        assert!(!self.flows[1 - side].shown, "the fast path, in the middle of a transfer");
        let end = if matches!(found, TryRecv::Taken { .. }) { End::Fin } else { End::No };
        let sent = self.gives(side);
        assert_eq!((sent.tag, sent.end), (tag, Some(End::Fin)));
        self.took(side, &place[..bytes], end);
    }

    pub(crate) fn incoming(&mut self, side: usize) {
        let was_shown = self.flows[1 - side].shown;
        let Some(Incoming { transfer, tag, length }) = self.ends[side].incoming(&mut self.fabric) else {
            assert!(!was_shown || self.is_shut(side), "the transfer at the head went away");
            return;
        };
        let sent = self.gives(side);
        assert_eq!((sent.tag, sent.length), (tag, length));
        let number = self.origin.transfers.wrapping_add(self.flows[1 - side].head as u64 + 1);
        assert_eq!(transfer, number);
    }

    pub(crate) fn pull(&mut self, side: usize) {
        let mut place = [0xa5; PLACE_BYTES];
        let room = [0, 8, 100, PLACE_BYTES, PLACE_BYTES, PLACE_BYTES][self.below(6)];
        let room = self.below(room + 1);
        let cut = self.below(room + 1);
        let skip = if self.rng.one_in(3) { self.below(room + 20) } else { 0 };
        let (a, b) = place[..room].split_at_mut(cut);
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        let (pulled, skip) = match self.rng.below(4) {
            0 => (end.pull_cached(fabric, &mut [a, b]), 0),
            _ => (end.pull_from(fabric, &mut [a, &mut [], b], skip), skip),
        };
        if pulled.bytes > 0 {
            self.flows[1 - side].in_place = 0;
        }
        assert!(place[..skip.min(room)].iter().all(|byte| *byte == 0xa5), "written to what is skipped");
        let skip = skip.min(room);
        assert!(
            place[skip + pulled.bytes..].iter().all(|byte| *byte == 0xa5),
            "more was written than is said"
        );
        self.took(side, &place[skip..][..pulled.bytes], pulled.end);
    }

    pub(crate) fn readable(&mut self, side: usize) {
        let most = [0, 1, 50, 1000, u32::MAX][self.below(5)];
        match self.ends[side].readable(&mut self.fabric, most) {
            Readable::Nothing => {}
            Readable::Ended(end) => {
                assert_ne!(end, End::No);
                self.took(side, &[], end);
            }
            Readable::Run(run) => {
                assert!(run.bytes > 0 && run.bytes <= most);
                let mut bytes = vec![];
                for (at, span) in run.spans() {
                    bytes.extend_from_slice(self.fabric.visible(run.memory, at, span));
                }
                assert_eq!(bytes.len(), run.bytes as usize);
                let at = self.flows[1 - side].at;
                let sent = self.gives(side);
                assert_eq!(sent.bytes.get(at..at + bytes.len()), Some(&bytes[..]), "wrong bytes in place");
                self.flows[1 - side].in_place = run.bytes;
            }
        }
    }

    /// More than was shown, and what was rejected, is ignored.
    pub(crate) fn consume(&mut self, side: usize) {
        let shown = self.flows[1 - side].in_place;
        if self.rng.one_in(8) {
            let more = shown + 1 + self.rng.below(1000) as u32;
            assert_eq!(self.ends[side].consume(&mut self.fabric, more), End::No, "more than was shown");
            return;
        }
        let bytes = if self.rng.one_in(2) { shown } else { self.rng.below(shown as usize + 1) as u32 };
        let end = self.ends[side].consume(&mut self.fabric, bytes);
        if self.is_shut(side) {
            assert_eq!(end, End::No);
            return;
        }
        let flow = &mut self.flows[1 - side];
        flow.in_place -= bytes;
        let at = flow.at;
        let bytes = match flow.sent.get(flow.head) {
            Some(sent) => sent.bytes[at..at + bytes as usize].to_vec(),
            None => vec![],
        };
        self.took(side, &bytes, end);
    }

    pub(crate) fn reject(&mut self, side: usize) {
        let reason = self.reason();
        if self.ends[side].reject(&mut self.fabric, reason) {
            let sent = self.gives(side);
            assert_eq!(sent.rejected.replace(reason), None);
            let flow = &mut self.flows[1 - side];
            (flow.head, flow.at, flow.shown, flow.in_place) = (flow.head + 1, 0, false, 0);
        }
    }
}
