//! Calls that send.

use superpipe_core::{End, Length, Protocol, Reason, RefusedSend, Sending, TransferId};
use superpipe_testkit::TestFabric;

use crate::model::{Model, Open, Sent};

impl<F: TestFabric> Model<F> {
    /// The open transfer has begun, if any of it was sent.
    pub(crate) fn sync(&mut self, side: usize) {
        let state = self.ends[side].state().sending;
        let flow = &mut self.flows[side];
        if let Some(open) = &mut flow.open
            && open.index.is_none()
            && matches!(state, Sending::AwaitingCts | Sending::Underway)
        {
            open.index = Some(flow.sent.len());
            let (tag, length) = (open.tag, open.length);
            flow.sent.push(Sent { tag, length, bytes: Vec::new(), end: None, rejected: None, told: false });
        }
    }

    /// Bytes of the open transfer were sent. Whether they were its last.
    pub(crate) fn sent(&mut self, side: usize, bytes: &[u8]) {
        let state = self.ends[side].state().sending;
        self.sync(side);
        let flow = &mut self.flows[side];
        let Some(open) = &mut flow.open else { panic!("sent without a transfer") };
        if !bytes.is_empty() {
            open.reserved = None;
        }
        let index = *open.index.get_or_insert_with(|| {
            if bytes.is_empty() && state != Sending::Nothing {
                return usize::MAX;
            }
            let (tag, length) = (open.tag, open.length);
            flow.sent.push(Sent { tag, length, bytes: Vec::new(), end: None, rejected: None, told: false });
            flow.sent.len() - 1
        });
        if index == usize::MAX {
            open.index = None;
            return;
        }
        let sent = &mut flow.sent[index];
        sent.bytes.extend_from_slice(bytes);
        if sent.length == Length::Exact(sent.bytes.len() as u64)
            && (state == Sending::Nothing || !sent.bytes.is_empty())
        {
            self.end(side, End::Fin);
            assert_ne!(self.ends[side].state().sending, Sending::Underway, "all of it was sent");
        }
    }

    pub(crate) fn end(&mut self, side: usize, end: End) {
        let flow = &mut self.flows[side];
        let Some(open) = flow.open.take() else { panic!("nothing is open") };
        flow.stale.push(open.id);
        if let Some(index) = open.index {
            flow.sent[index].end = Some(end);
        }
    }

    /// A call was refused.
    pub(crate) fn refused(&mut self, side: usize, refused: RefusedSend) {
        match refused {
            RefusedSend::Rejected(reason) => {
                let Some(open) = &self.flows[side].open else { panic!("rejected, and nothing is open") };
                let Some(index) = open.index else { panic!("rejected before anything was sent") };
                assert_eq!(self.flows[side].sent[index].rejected, Some(reason));
                self.end(side, End::Cancelled(reason));
            }
            RefusedSend::Closed => assert_ne!(self.ends[side].closed(), None),
            RefusedSend::NoCredit => {}
            other => panic!("refused: {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, side: usize) {
        if self.rng.one_in(12) {
            return self.send_stale(side);
        }
        let first = match self.flows[side].open {
            Some(_) if !self.rng.one_in(6) => 5,
            _ => 0,
        };
        match first + self.below(14 - first) {
            0..=2 => self.try_send(side),
            3 | 4 => self.start(side),
            5..=8 => self.push(side),
            9 => self.reserve(side),
            10 | 11 => self.commit(side),
            12 => self.finish(side),
            _ if self.rng.one_in(3) => self.cancel(side),
            _ => {
                let protocol = Protocol::ALL[self.below(4)];
                self.ends[side].set_protocol(protocol);
            }
        }
        self.sync(side);
    }

    /// Nothing comes of a transfer that has ended.
    pub(crate) fn send_stale(&mut self, side: usize) {
        let stale = &self.flows[side].stale;
        if stale.is_empty() {
            return;
        }
        let id = stale[self.rng.below(stale.len())];
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        assert!(!end.is_rejected(id));
        let refused = match self.rng.below(5) {
            0 => end.push(fabric, id, &[&[1; 30]]).map(|_| ()),
            1 => end.reserve(fabric, id, 100).map(|_| ()),
            2 => end.commit(fabric, id, self.rng.below(2) as u32),
            3 => end.finish(fabric, id),
            _ => end.cancel(fabric, id, Reason(77)),
        };
        assert!(matches!(refused, Err(RefusedSend::NotOpen | RefusedSend::Closed)), "{refused:?}");
    }

    pub(crate) fn try_send(&mut self, side: usize) {
        let bytes = self.bytes();
        let payload = self.payload(bytes);
        let (a, b) = payload.split_at(self.below(bytes + 1));
        let slices = if self.rng.one_in(2) { vec![&payload[..]] } else { vec![a, &[], b] };
        let tag = self.next_tag(side);
        match self.ends[side].try_send(&mut self.fabric, tag, &slices) {
            Ok(id) => {
                let flow = &mut self.flows[side];
                assert!(flow.open.is_none());
                let length = Length::Exact(bytes as u64);
                flow.sent.push(Sent {
                    tag,
                    length,
                    bytes: payload,
                    end: Some(End::Fin),
                    rejected: None,
                    told: false,
                });
                assert_eq!(id.number(), self.origin.transfers.wrapping_add(flow.sent.len() as u64));
                flow.stale.push(id);
            }
            Err(RefusedSend::Busy) => self.check_busy(side),
            Err(RefusedSend::TooLong) => assert!(bytes > 40),
            Err(refused) => self.refused(side, refused),
        }
    }

    pub(crate) fn check_busy(&self, side: usize) {
        let is_busy =
            self.flows[side].open.is_some() || self.ends[side].state().sending == Sending::Cancelling;
        assert!(is_busy, "busy, with nothing open");
    }

    pub(crate) fn next_tag(&mut self, side: usize) -> u64 {
        let flow = &mut self.flows[side];
        flow.tags += 1;
        flow.tags << 8 | side as u64
    }

    pub(crate) fn start(&mut self, side: usize) {
        let bytes = match self.below(12) {
            0 => u64::MAX - self.below(3) as u64,
            _ => self.bytes() as u64,
        };
        let length = if self.rng.one_in(3) { Length::Stream } else { Length::Exact(bytes) };
        let tag = self.next_tag(side);
        match self.ends[side].start(tag, length) {
            Ok(id) => {
                assert!(self.flows[side].open.is_none());
                self.flows[side].open = Some(Open { id, tag, length, index: None, reserved: None });
            }
            Err(RefusedSend::Busy) => self.check_busy(side),
            Err(refused) => self.refused(side, refused),
        }
    }

    /// The open transfer, and how much it can still take.
    pub(crate) fn open(&self, side: usize) -> Option<(TransferId, u64, bool)> {
        let flow = &self.flows[side];
        let open = flow.open.as_ref()?;
        let sent = open.index.map_or(0, |index| flow.sent[index].bytes.len() as u64);
        Some(match open.length {
            Length::Exact(length) => (open.id, length - sent, false),
            Length::Stream => (open.id, u64::MAX, true),
        })
    }

    pub(crate) fn push(&mut self, side: usize) {
        let Some((id, left, is_stream)) = self.open(side) else { return };
        let mut bytes = self.bytes();
        let beyond = self.rng.one_in(10);
        if !beyond {
            bytes = bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let skip = if self.rng.one_in(3) { self.below(30) } else { 0 };
        let payload = self.payload(skip + bytes);
        let (a, b) = payload.split_at(self.below(payload.len() + 1));
        match self.ends[side].push_from(&mut self.fabric, id, &[a, &[], b], skip) {
            Ok(pushed) => {
                assert!(pushed <= bytes && bytes as u64 <= left);
                self.sent(side, &payload[skip..][..pushed]);
            }
            Err(RefusedSend::WrongLength) => assert!(!is_stream && bytes as u64 > left),
            Err(refused) => self.refused(side, refused),
        }
    }

    pub(crate) fn reserve(&mut self, side: usize) {
        let Some((id, left, _)) = self.open(side) else { return };
        let bytes = self.bytes() as u32;
        let reserved = self.ends[side].reserve(&mut self.fabric, id, bytes);
        self.sync(side);
        match reserved {
            Ok(reserved) => {
                assert!(
                    reserved.bytes() > 0 && reserved.bytes() <= bytes && u64::from(reserved.bytes()) <= left
                );
                let payload = self.payload(reserved.bytes() as usize);
                let mut rest = &payload[..];
                for (at, bytes) in reserved.spans() {
                    let (here, after) = rest.split_at(bytes as usize);
                    self.fabric.fill(reserved.memory, at, here);
                    rest = after;
                }
                assert!(rest.is_empty());
                if let Some(open) = &mut self.flows[side].open {
                    open.reserved = Some(payload);
                }
            }
            Err(RefusedSend::WrongLength) => assert!(left == 0 || bytes == 0),
            Err(refused) => self.refused(side, refused),
        }
    }

    pub(crate) fn commit(&mut self, side: usize) {
        let Some((id, ..)) = self.open(side) else { return };
        let reserved =
            self.flows[side].open.as_ref().and_then(|open| open.reserved.clone()).unwrap_or_default();
        let bytes = match self.below(8) {
            0 => 0,
            1 => reserved.len() + 1,
            2..=4 => reserved.len(),
            _ => self.below(reserved.len() + 1),
        };
        match self.ends[side].commit(&mut self.fabric, id, bytes as u32) {
            Ok(()) if bytes > 0 => self.sent(side, &reserved[..bytes]),
            Ok(()) => {}
            Err(RefusedSend::WrongLength) => assert!(bytes > reserved.len()),
            Err(RefusedSend::NoCredit) => panic!("it was reserved"),
            Err(refused) => self.refused(side, refused),
        }
    }

    pub(crate) fn finish(&mut self, side: usize) {
        let Some((id, _, is_stream)) = self.open(side) else { return };
        match self.ends[side].finish(&mut self.fabric, id) {
            Ok(()) => {
                assert!(is_stream);
                let flow = &mut self.flows[side];
                if let Some(open) = &mut flow.open
                    && open.index.is_none()
                {
                    open.index = Some(flow.sent.len());
                    let (tag, length) = (open.tag, open.length);
                    flow.sent.push(Sent {
                        tag,
                        length,
                        bytes: vec![],
                        end: None,
                        rejected: None,
                        told: false,
                    });
                }
                self.end(side, End::Fin);
            }
            Err(RefusedSend::WrongLength) => assert!(!is_stream),
            Err(refused) => self.refused(side, refused),
        }
    }

    pub(crate) fn cancel(&mut self, side: usize) {
        let Some((id, ..)) = self.open(side) else { return };
        let reason = self.reason();
        match self.ends[side].cancel(&mut self.fabric, id, reason) {
            Ok(()) => self.end(side, End::Cancelled(reason)),
            refused => panic!("{refused:?}"),
        }
    }

    pub(crate) fn close(&mut self, side: usize, reason: Reason) {
        if self.closed[side].is_none() {
            self.closed[side] = Some(reason);
            if self.flows[side].open.is_some() {
                self.end(side, End::Cancelled(reason));
            }
        }
        self.ends[side].close(&mut self.fabric, reason);
        assert_ne!(self.ends[side].closed(), None);
    }
}
