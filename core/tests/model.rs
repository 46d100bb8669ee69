//! Two endpoints against a plain model: every public method in random order with random arguments, in states where it makes
//! sense and where it does not. The model is a list of what was sent, and how far it was taken out.
//!
//! `SUPERPIPE_MODEL_CASES` and `SUPERPIPE_MODEL_SEED` choose how many cases are played, and which is the first.

#![expect(clippy::cast_possible_truncation, reason = "what is drawn is small")]

use std::env;

use superpipe_core::{
    Arrival, Closed, Config, End, Endpoint, Event, FlagPlace, Incoming, Layout, Length, NOTICES_MIN, Origin,
    Protocol, Readable, Reason, Receiving, RefusedSend, Sending, TransferId, TryRecv,
};
use superpipe_testkit::{Direct, Posted, Rig, Rng, Setup};

const STEPS: usize = 1200;
const PLACE_BYTES: usize = 2000;

/// A transfer of which the peer can know.
#[derive(Debug)]
struct Sent {
    tag: u64,
    length: Length,
    bytes: Vec<u8>,
    end: Option<End>,
    rejected: Option<Reason>,
    told: bool,
}

/// The transfer that an end has open.
#[derive(Debug)]
struct Open {
    id: TransferId,
    tag: u64,
    length: Length,
    /// Set once something of it was sent.
    index: Option<usize>,
    /// Contents of the blocks that are reserved.
    reserved: Option<Vec<u8>>,
}

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    sent: Vec<Sent>,
    open: Option<Open>,
    stale: Vec<TransferId>,
    tags: u64,
    /// The transfer that its receiver takes next or takes, whether it was shown, and how much was taken.
    head: usize,
    shown: bool,
    at: usize,
    /// Bytes that the last look in place showed.
    in_place: u32,
}

struct Model<F: Rig> {
    fabric: F,
    ends: [Endpoint<F>; 2],
    flows: [Flow; 2],
    rng: Rng,
    origin: Origin,
    /// Reason that each end has closed with.
    closed: [Option<Reason>; 2],
}

fn near(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => u64::MAX - rng.below(12) as u64,
        1 => (1 + rng.below(8) as u64) << 32 | rng.below(12) as u64,
        2 => rng.next(),
        _ => 1,
    }
}

impl<F: Rig> Model<F> {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let arrivals = [Arrival::Flag, Arrival::CheckedFlag, Arrival::Notify];
        let arrival = arrivals[rng.below(if F::DIRECT { 2 } else { 3 })];
        let mut layout = || {
            let apart = F::DIRECT && rng.one_in(2);
            let more = [1, 3, 14][rng.below(3)];
            Layout {
                block_bytes: [128, 128, 192, 256, 512][rng.below(5)],
                block_count: 2 + rng.below(more) as u32,
                flags: if apart { FlagPlace::Apart } else { FlagPlace::Inside },
            }
        };
        let layouts = [layout(), layout()];
        let setup = Setup {
            layouts,
            order_inside_write: arrival == Arrival::Flag || rng.one_in(2),
            send_queue: 1 + rng.below(4),
            notices: NOTICES_MIN + rng.below(8) as u16,
            seed: rng.next(),
        };
        let fabric = F::new(&setup);
        let origin = Origin {
            sequence: near(&mut rng).max(1),
            blocks: near(&mut rng),
            controls: near(&mut rng).max(1),
            transfers: near(&mut rng),
            life: near(&mut rng),
            notices: near(&mut rng),
        };
        let ends = [0, 1].map(|side| {
            let config = Config {
                protocol: Protocol::ALL[rng.below(4)],
                arrival,
                c0_bytes: 1 + [0, 200, 2000][rng.below(3)].min(rng.below(2000)) as u32,
                growth_q8: 256 + rng.below(700) as u32,
                chunk_bytes: [0, 1 + rng.below(800) as u32][rng.below(2)],
                folds: 1 + rng.below(6) as u8,
                triple_buffer: rng.one_in(4),
                streaming_bytes: rng.below(3000) as u64,
                order_asserted: rng.one_in(2) && setup.order_inside_write,
            };
            Endpoint::new(&fabric, fabric.attachment(side), config, origin).unwrap()
        });
        let mut model = Self { fabric, ends, flows: Default::default(), rng, origin, closed: [None; 2] };
        model.fabric.start(origin.blocks);
        model
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.below(limit)
    }

    fn reason(&mut self) -> Reason {
        Reason(1 + self.below(1000) as u32)
    }

    fn bytes(&mut self) -> usize {
        match self.below(5) {
            0 => self.below(9),
            1 => self.below(50),
            2 => self.below(300),
            _ => self.below(1500),
        }
    }

    /// Some of it looks like flags and headers.
    fn payload(&mut self, bytes: usize) -> Vec<u8> {
        let mut payload = Vec::with_capacity(bytes + 8);
        while payload.len() < bytes {
            let word = match self.below(4) {
                0 => self.origin.sequence.wrapping_add(self.below(60) as u64),
                1 => self.origin.sequence.wrapping_add(self.below(60) as u64) << 32 | self.rng.next() >> 32,
                2 => self.below(256) as u64,
                _ => self.rng.next(),
            };
            payload.extend_from_slice(&word.to_le_bytes());
        }
        payload.truncate(bytes);
        payload
    }

    /// Returns true if nothing may be delivered at this end: it knows of a close with a reason.
    fn is_shut(&self, side: usize) -> bool {
        let with_reason = |side: usize| self.closed[side].is_some_and(|reason| reason != Reason::DONE);
        with_reason(side) || self.ends[side].peer_closes() && with_reason(1 - side)
    }

    /// Returns true if something may be missing at this end: either has closed with a reason.
    fn may_be_shut(&self) -> bool {
        self.closed.iter().flatten().any(|reason| *reason != Reason::DONE)
    }

    // Calls that send.

    /// The open transfer has begun, if any of it was sent.
    fn sync(&mut self, side: usize) {
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
    fn sent(&mut self, side: usize, bytes: &[u8]) {
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

    fn end(&mut self, side: usize, end: End) {
        let flow = &mut self.flows[side];
        let Some(open) = flow.open.take() else { panic!("nothing is open") };
        flow.stale.push(open.id);
        if let Some(index) = open.index {
            flow.sent[index].end = Some(end);
        }
    }

    /// A call was refused.
    fn refused(&mut self, side: usize, refused: RefusedSend) {
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

    fn send(&mut self, side: usize) {
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
    fn send_stale(&mut self, side: usize) {
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

    fn try_send(&mut self, side: usize) {
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

    fn check_busy(&self, side: usize) {
        let is_busy =
            self.flows[side].open.is_some() || self.ends[side].state().sending == Sending::Cancelling;
        assert!(is_busy, "busy, with nothing open");
    }

    fn next_tag(&mut self, side: usize) -> u64 {
        let flow = &mut self.flows[side];
        flow.tags += 1;
        flow.tags << 8 | side as u64
    }

    fn start(&mut self, side: usize) {
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
    fn open(&self, side: usize) -> Option<(TransferId, u64, bool)> {
        let flow = &self.flows[side];
        let open = flow.open.as_ref()?;
        let sent = open.index.map_or(0, |index| flow.sent[index].bytes.len() as u64);
        Some(match open.length {
            Length::Exact(length) => (open.id, length - sent, false),
            Length::Stream => (open.id, u64::MAX, true),
        })
    }

    fn push(&mut self, side: usize) {
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

    fn reserve(&mut self, side: usize) {
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

    fn commit(&mut self, side: usize) {
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

    fn finish(&mut self, side: usize) {
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

    fn cancel(&mut self, side: usize) {
        let Some((id, ..)) = self.open(side) else { return };
        let reason = self.reason();
        match self.ends[side].cancel(&mut self.fabric, id, reason) {
            Ok(()) => self.end(side, End::Cancelled(reason)),
            refused => panic!("{refused:?}"),
        }
    }

    fn close(&mut self, side: usize, reason: Reason) {
        if self.closed[side].is_none() {
            self.closed[side] = Some(reason);
            if self.flows[side].open.is_some() {
                self.end(side, End::Cancelled(reason));
            }
        }
        self.ends[side].close(&mut self.fabric, reason);
        assert_ne!(self.ends[side].closed(), None);
    }

    // Calls that receive, at the end `side`.

    /// Something of the transfer at the head was given.
    fn gives(&mut self, side: usize) -> &mut Sent {
        assert!(!self.is_shut(side), "delivered by a connection that was closed with a reason");
        let flow = &mut self.flows[1 - side];
        flow.shown = true;
        assert!(flow.head < flow.sent.len(), "something was received that was never sent");
        &mut flow.sent[flow.head]
    }

    fn took(&mut self, side: usize, bytes: &[u8], end: End) {
        if bytes.is_empty() && end == End::No {
            return;
        }
        let at = self.flows[1 - side].at;
        let sent = self.gives(side);
        assert!(at + bytes.len() <= sent.bytes.len(), "more than was sent");
        assert_eq!(&sent.bytes[at..at + bytes.len()], bytes, "wrong bytes");
        let (all, theirs) = (sent.bytes.len(), sent.end);
        if end != End::No {
            assert_eq!((at + bytes.len(), Some(end)), (all, theirs), "another end");
        }
        let flow = &mut self.flows[1 - side];
        flow.at += bytes.len();
        if end != End::No {
            (flow.head, flow.at, flow.shown, flow.in_place) = (flow.head + 1, 0, false, 0);
        }
    }

    fn receive(&mut self, side: usize) {
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

    fn try_recv(&mut self, side: usize) {
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
        assert!(!self.flows[1 - side].shown, "the short way, in the middle of a transfer");
        let end = if matches!(found, TryRecv::Taken { .. }) { End::Fin } else { End::No };
        let sent = self.gives(side);
        assert_eq!((sent.tag, sent.end), (tag, Some(End::Fin)));
        self.took(side, &place[..bytes], end);
    }

    fn incoming(&mut self, side: usize) {
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

    fn pull(&mut self, side: usize) {
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
        self.flows[1 - side].in_place = 0;
        assert!(place[..skip.min(room)].iter().all(|byte| *byte == 0xa5), "written to what is skipped");
        let skip = skip.min(room);
        assert!(
            place[skip + pulled.bytes..].iter().all(|byte| *byte == 0xa5),
            "more was written than is said"
        );
        self.took(side, &place[skip..][..pulled.bytes], pulled.end);
    }

    fn readable(&mut self, side: usize) {
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

    /// Never more than was shown, nor of what was rejected: those are mistakes of the caller's.
    fn consume(&mut self, side: usize) {
        if self.ends[side].state().receiving == Receiving::Discarding {
            return;
        }
        let flow = &mut self.flows[1 - side];
        let bytes = if self.rng.one_in(2) {
            flow.in_place
        } else {
            self.rng.below(flow.in_place as usize + 1) as u32
        };
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

    fn reject(&mut self, side: usize) {
        let reason = self.reason();
        if self.ends[side].reject(&mut self.fabric, reason) {
            let sent = self.gives(side);
            assert_eq!(sent.rejected.replace(reason), None);
            let flow = &mut self.flows[1 - side];
            (flow.head, flow.at, flow.shown, flow.in_place) = (flow.head + 1, 0, false, 0);
        }
    }

    // Calls that drive.

    fn drive(&mut self, side: usize) {
        let (end, fabric) = (&mut self.ends[side], &mut self.fabric);
        match self.rng.below(16) {
            0 => end.look(fabric),
            1 => end.acknowledge(fabric),
            2 if self.rng.one_in(4) => end.show_life(fabric),
            3 => _ = end.has_arrivals(fabric),
            4 => self.check_delivered(side),
            5 => {
                _ = end.controls_delivered();
                _ = (end.heard(), end.is_quiescent(), end.is_told(), end.peer_closes(), end.counters());
            }
            _ => _ = end.progress(fabric),
        }
    }

    /// Compares `delivered` with what was taken out.
    fn check_delivered(&mut self, side: usize) {
        let is_moot = self.closed.iter().all(Option::is_some);
        if !self.ends[side].delivered() || self.ends[side].state().sending == Sending::Cancelling || is_moot {
            return;
        }
        let flow = &self.flows[side];
        for (index, sent) in flow.sent.iter().enumerate().filter(|(_, sent)| sent.rejected.is_none()) {
            let taken = index < flow.head || index == flow.head && flow.at == sent.bytes.len();
            assert!(taken, "delivered, and not taken out: {index}");
            let ended = index < flow.head || sent.end.is_none();
            assert!(ended, "delivered, and its end was not taken out: {index} {sent:?}");
        }
    }

    fn check(&mut self) {
        for side in 0..2 {
            while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
                let index = transfer.wrapping_sub(self.origin.transfers).wrapping_sub(1) as usize;
                let sent = &mut self.flows[side].sent[index];
                assert_eq!((sent.rejected, sent.told), (Some(reason), false));
                sent.told = true;
            }
            match self.ends[side].closed() {
                None => assert_eq!(self.closed[side], None),
                Some(Closed::Here(reason)) => assert_eq!(self.closed[side], Some(reason)),
                Some(Closed::ByPeer(reason)) => {
                    assert_eq!(self.closed[1 - side], Some(reason), "closed by a peer that did not close so");
                    let flow = &self.flows[1 - side];
                    let taken = flow.head == flow.sent.len();
                    assert!(taken || reason != Reason::DONE, "closed, and not all was taken out");
                }
                Some(Closed::Failed(failure)) => panic!("{failure}"),
            }
        }
    }

    fn step(&mut self, closes: bool) {
        let side = self.below(2);
        match self.below(16) {
            0..=2 => {
                for _ in 0..=self.below(8) {
                    self.fabric.step();
                }
            }
            3..=6 => self.drive(side),
            7..=10 => self.send(side),
            11..=14 => self.receive(side),
            _ if closes && self.rng.one_in(60) => {
                let reason = if self.rng.one_in(2) { Reason::DONE } else { self.reason() };
                self.close(side, reason);
            }
            _ => {}
        }
        self.check();
    }

    /// Ends what is open, and takes everything out.
    fn settle(&mut self) {
        let mut place = [0; PLACE_BYTES];
        let way = self.below(3);
        for round in 0..20_000 {
            for side in 0..2 {
                for _ in 0..3 {
                    self.fabric.step();
                }
                if round % 64 == 63 {
                    self.ends[side].look(&mut self.fabric);
                    self.ends[side].show_life(&mut self.fabric);
                }
                self.ends[side].progress(&mut self.fabric);
                self.check();
                match self.open(side) {
                    None => {}
                    Some((_, left, true)) if left > 0 => self.finish(side),
                    Some((_, left, _)) if left > 1 << 20 => self.cancel(side),
                    Some(_) => self.push(side),
                }
                self.sync(side);
                match way {
                    0 => {
                        let pulled = self.ends[side].pull(&mut self.fabric, &mut [&mut place]);
                        self.flows[1 - side].in_place = 0;
                        self.took(side, &place[..pulled.bytes], pulled.end);
                    }
                    1 => {
                        self.readable(side);
                        self.consume(side);
                    }
                    _ => self.receive(side),
                }
            }
            if self.is_settled() {
                return;
            }
        }
        panic!("stuck: {:?}", self.told_of());
    }

    /// Nobody reads: what is cancelled is told all the same, and so is a close.
    fn tell(&mut self, closes: bool) {
        let side = self.below(2);
        if self.ends[side].closed().is_none() {
            self.cancel(side);
        }
        if closes {
            let reason = if self.rng.one_in(2) { Reason::DONE } else { self.reason() };
            self.close(side, reason);
        }
        for round in 0..3000 {
            for side in 0..2 {
                self.fabric.step();
                if round % 64 == 63 {
                    self.ends[side].look(&mut self.fabric);
                    self.ends[side].show_life(&mut self.fabric);
                }
                self.ends[side].progress(&mut self.fabric);
                self.check();
            }
            let known = !closes || self.ends[1 - side].peer_closes();
            if known && self.ends[side].is_told() {
                return;
            }
        }
        panic!("not told: {:?}", self.told_of());
    }

    fn is_settled(&mut self) -> bool {
        if self.closed.iter().any(Option::is_some) {
            // Transfers to an end that has closed need not come out.
            let told = (0..2).all(|side| self.closed[side].is_none() || self.ends[side].is_told());
            let known = (0..2).all(|side| self.closed[side].is_none() || self.ends[1 - side].peer_closes());
            let only_one = self.closed.iter().flatten().count() == 1;
            let done = !self.may_be_shut();
            let closed = (0..2).all(|side| self.ends[side].closed().is_some());
            return told && known && (closed || !(only_one && done));
        }
        let settled = |flow: &Flow| {
            let events = flow.sent.iter().all(|sent| sent.rejected.is_some() == sent.told);
            flow.open.is_none() && flow.head == flow.sent.len() && events
        };
        self.flows.iter().all(settled)
            && self.ends.iter_mut().all(|end| end.delivered() && end.controls_delivered())
    }

    fn told_of(&self) -> String {
        let states: Vec<_> =
            self.ends.iter().map(|end| (end.state(), end.closed(), end.counters())).collect();
        let flows: Vec<_> = self
            .flows
            .iter()
            .map(|flow| {
                let last = flow.sent.last().map(|s| (s.length, s.bytes.len(), s.end, s.rejected, s.told));
                (
                    flow.sent.len(),
                    flow.head,
                    flow.shown,
                    flow.at,
                    last,
                    flow.open.as_ref().map(|open| open.length),
                )
            })
            .collect();
        format!("{states:?} {flows:?} closed {:?} {:?}", self.closed, self.ends[0].config())
    }
}

fn play<F: Rig>(seed: u64) {
    let mut model = Model::<F>::new(seed);
    let closes = seed.is_multiple_of(2);
    for _ in 0..STEPS {
        model.step(closes);
    }
    if seed % 3 == 1 {
        model.tell(closes && seed.is_multiple_of(4));
    }
    model.settle();
    if !closes && seed % 5 == 1 {
        model.tell(true);
    }
    if !closes {
        for side in 0..2 {
            model.close(side, Reason::DONE);
        }
        model.settle();
    }
    for _ in 0..100 {
        model.step(true);
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn all<F: Rig>() {
    let first = number("SUPERPIPE_MODEL_SEED", 0);
    let mut failed = vec![];
    for seed in first..first + number("SUPERPIPE_MODEL_CASES", 200) {
        if std::panic::catch_unwind(|| play::<F>(seed)).is_err() {
            let model = Model::<F>::new(seed);
            let (setup, config) = (model.fabric.setup(), model.ends[0].config());
            println!("^ {} seed {seed}: {:?} {setup:?}", F::NAME, config.arrival);
            failed.push(seed);
            if failed.len() > 20 {
                break;
            }
        }
    }
    assert!(failed.is_empty(), "{} seeds {failed:?}", F::NAME);
}

#[test]
fn direct() {
    all::<Direct>();
}

#[test]
fn posted() {
    all::<Posted>();
}
