//! Two endpoints over one fabric, played against a plain oracle: lists of what each end sends, and how each end takes
//! it out.
//!
//! A [`Script`] is plain data, so that a property test can shrink it and a fuzzer can play it. What happens when is
//! decided by its seed.

mod playing;

use superpipe_core::{
    Closed, Config, End, Endpoint, Event, Incoming, Length, Origin, Protocol, Readable, Reason, RefusedSend,
    TransferId, TryRecv,
};

use crate::{Memory, Rng, Setup, Stage};

pub use playing::play;

/// What payload looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Anything.
    Random,
    /// Words that are the flags of the chunks to come.
    Flags,
    /// Lines that are chunk headers, with the flags of the chunks to come.
    Headers,
}

/// How a transfer is handed to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// At once, in so many slices; started and pushed where that is too long.
    TrySend(usize),
    /// In pushes of at most so many bytes, in so many slices.
    Push(usize, usize),
    /// Read into the blocks, at most so many bytes at a time; short reads happen.
    Reserve(u32),
    /// Now this, now that.
    Mixed(u32),
}

/// How a transfer is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Pulled into so many slices of so many bytes.
    Pull(usize, usize),
    /// Read in place, so many bytes at most, and often less is consumed.
    InPlace(u32),
    /// Rejected once so many bytes were taken out.
    Reject(usize),
}

/// One transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Payload bytes.
    pub bytes: usize,
    /// Length unknown.
    pub stream: bool,
    /// What the payload looks like.
    pub content: Content,
    /// By which protocol.
    pub protocol: Protocol,
    /// How it is sent.
    pub how: How,
    /// How it is taken out.
    pub take: Take,
    /// Cancelled once so many bytes were sent, if it has not ended by then.
    pub cancel_at: Option<usize>,
}

/// A connection from beginning to end.
#[derive(Clone, Debug)]
pub struct Script {
    /// The fabric.
    pub setup: Setup,
    /// The policies of the two ends.
    pub configs: [Config; 2],
    /// Where counting starts.
    pub origin: Origin,
    /// What each end sends.
    pub transfers: [Vec<Transfer>; 2],
    /// One in so many chances to receive is taken.
    pub slowness: [usize; 2],
}

/// What an end has open.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: usize,
    id: TransferId,
}

/// What is known of one transfer, by index.
#[derive(Clone, Debug)]
struct Sent {
    tag: u64,
    payload: Vec<u8>,
    number: Option<u64>,
    bytes: usize,
    ended: bool,
    cancelled: Option<Reason>,
    rejected: Option<Reason>,
    told: bool,
    received: Option<usize>,
    whole: bool,
}

/// One direction: from end `from` to the other.
struct Flow {
    sent: Vec<Sent>,
    next: usize,
    open: Option<Open>,
    /// The head, as the receiver knows it.
    head: Option<(usize, u64)>,
    /// Indices below this were seen, or passed over.
    seen: usize,
    at: usize,
}

/// Two endpoints, a fabric, and what must come out.
pub struct Pair<F: Stage> {
    /// The fabric.
    pub fabric: F,
    /// The endpoints.
    pub ends: [Endpoint<F>; 2],
    script: Script,
    flows: [Flow; 2],
    rng: Rng,
    buffer: Vec<u8>,
}

/// What is sent with this index, in this direction, says why it is cancelled or rejected.
#[expect(clippy::cast_possible_truncation, reason = "few transfers")]
const fn reason(side: usize, index: usize, kind: u32) -> Reason {
    Reason(kind << 16 | (side as u32) << 15 | (index as u32 + 1))
}

fn payload(rng: &mut Rng, transfer: &Transfer, origin: &Origin) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(transfer.bytes + 64);
    while bytes.len() < transfer.bytes {
        let flag = origin.sequence.wrapping_add(rng.below(40) as u64);
        let flag = if rng.one_in(2) { flag } else { flag << 32 | rng.next() >> 32 };
        match transfer.content {
            Content::Random => bytes.extend_from_slice(&rng.next().to_le_bytes()),
            Content::Flags => bytes.extend_from_slice(&flag.to_le_bytes()),
            Content::Headers => {
                let number = origin.transfers.wrapping_add(1 + rng.below(20) as u64);
                let line = crate::wire::chunk(1 + (rng.next() & 2), rng.next(), 8, 8, number, flag);
                for word in line.0 {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
    }
    bytes.truncate(transfer.bytes);
    bytes
}

impl Flow {
    fn new(transfers: &[Transfer], origin: &Origin, rng: &mut Rng) -> Self {
        let sent = transfers.iter().enumerate().map(|(index, transfer)| Sent {
            tag: (rng.next() << 16) | index as u64,
            payload: payload(rng, transfer, origin),
            number: None,
            bytes: 0,
            ended: false,
            cancelled: None,
            rejected: None,
            told: false,
            received: None,
            whole: false,
        });
        Self { sent: sent.collect(), next: 0, open: None, head: None, seen: 0, at: 0 }
    }

    const fn is_done(&self) -> bool {
        self.next == self.sent.len() && self.open.is_none()
    }
}

impl<F: Stage> Pair<F> {
    /// Both ends, connected over a fabric that was made with the script's setup.
    #[must_use]
    pub fn over(mut fabric: F, script: Script) -> Self {
        fabric.start(script.origin.blocks);
        let mut rng = Rng::new(script.setup.seed ^ 0x5eed);
        let ends = core::array::from_fn(|side| {
            Endpoint::new(&fabric, fabric.attachment(side), script.configs[side], script.origin)
                .unwrap_or_else(|error| panic!("{error}"))
        });
        let flows = core::array::from_fn(|side| Flow::new(&script.transfers[side], &script.origin, &mut rng));
        Self { fabric, ends, script, flows, rng, buffer: vec![0; 1 << 16] }
    }

    /// This end does one thing: progress, or the next step of what it sends or receives. When it looks and shows life is
    /// left to the caller, who has a clock.
    pub fn turn(&mut self, side: usize) {
        let kind = 3 + self.rng.below(5);
        self.act(side, kind);
        self.check_open();
    }

    /// Whether everything was sent, taken out and acknowledged.
    pub fn is_exchanged(&mut self) -> bool {
        self.flows.iter().all(Flow::is_done)
            && self.flows.iter().all(|flow| flow.head.is_none())
            && self.ends.iter_mut().all(|end| end.delivered() && end.controls_delivered())
    }

    /// Both ends close, and all that came is compared with the script.
    pub fn close(&mut self) {
        self.check_oracle();
        for side in 0..2 {
            self.ends[side].close(&mut self.fabric, Reason::DONE);
        }
    }

    /// Whether both were told of the close, and nothing is on the way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let heard = |side: usize| {
            self.ends[side].counters().controls_sent == self.ends[1 - side].counters().controls_received
        };
        heard(0)
            && heard(1)
            && self.ends.iter().all(|end| end.closed() == Some(Closed::Here(Reason::DONE)))
            && self.ends.iter().all(|end| end.is_told() && end.is_quiescent())
            && self.fabric.is_quiescent()
    }

    /// How far it is, for messages.
    #[must_use]
    pub fn state(&self) -> String {
        let open: Vec<_> = self.flows.iter().map(|flow| (flow.next, flow.open, flow.head, flow.at)).collect();
        let counters: Vec<_> = self.ends.iter().map(Endpoint::counters).collect();
        format!("{open:?} {counters:?} {:?}", self.script)
    }

    fn act(&mut self, side: usize, kind: usize) {
        match kind {
            3 | 4 => {
                self.ends[side].progress(&mut self.fabric);
                self.take_events(side);
            }
            5 | 6 => self.send(side),
            _ if self.rng.one_in(self.script.slowness[side]) => self.receive(side),
            _ => {}
        }
    }

    fn now_and_then(&mut self, side: usize) {
        if self.rng.one_in(128) {
            self.ends[side].look(&mut self.fabric);
        }
        if self.rng.one_in(256) {
            self.ends[side].show_life(&mut self.fabric);
        }
        self.check_open();
    }

    /// Nothing but the script closes a connection.
    fn check_open(&self) {
        for end in &self.ends {
            assert!(
                matches!(end.closed(), None | Some(Closed::Here(_))),
                "{:?} {:?}",
                end.closed(),
                self.script
            );
        }
    }

    fn take_events(&mut self, side: usize) {
        while let Some(Event::Rejected { transfer, reason }) = self.ends[side].poll_event() {
            let sent = self.flows[side].sent.iter_mut().rfind(|sent| sent.number == Some(transfer));
            let sent = sent.unwrap_or_else(|| panic!("{transfer} was rejected, and never sent"));
            assert_eq!(sent.rejected, Some(reason));
            assert!(!core::mem::replace(&mut sent.told, true), "told twice");
        }
    }

    /// The next step of sending.
    fn send(&mut self, side: usize) {
        match self.flows[side].open {
            None => self.begin(side),
            Some(open) => self.go_on(side, open),
        }
    }

    fn begin(&mut self, side: usize) {
        let flow = &mut self.flows[side];
        let index = flow.next;
        let Some(transfer) = self.script.transfers[side].get(index) else { return };
        let end = &mut self.ends[side];
        end.set_protocol(transfer.protocol);
        let sent = &mut flow.sent[index];
        if let (How::TrySend(count), false, None) = (transfer.how, transfer.stream, transfer.cancel_at) {
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
        match end.start(sent.tag, length) {
            Ok(id) => {
                sent.number = Some(id.number());
                flow.next += 1;
                flow.open = Some(Open { index, id });
            }
            Err(RefusedSend::Busy) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn go_on(&mut self, side: usize, open: Open) {
        let Open { index, id } = open;
        let transfer = self.script.transfers[side][index];
        if transfer.cancel_at.is_some_and(|at| at <= self.flows[side].sent[index].bytes) {
            let reason = reason(side, index, 1);
            let sent = &mut self.flows[side].sent[index];
            match self.ends[side].cancel(&mut self.fabric, id, reason) {
                Ok(()) => sent.cancelled = Some(reason),
                // A message of no bytes has ended with a push that could not tell.
                Err(RefusedSend::NotOpen) if transfer.bytes == 0 => sent.ended = true,
                Err(other) => panic!("{other}"),
            }
            self.flows[side].open = None;
            return;
        }
        let how = match transfer.how {
            How::TrySend(slices) => How::Push(usize::MAX, slices),
            How::Mixed(bytes) if self.rng.one_in(2) => How::Reserve(bytes),
            How::Mixed(bytes) => How::Push(bytes as usize, 2),
            how => how,
        };
        let result = if transfer.stream && self.flows[side].sent[index].bytes == transfer.bytes {
            self.ends[side].finish(&mut self.fabric, id).map(|()| self.flows[side].sent[index].ended = true)
        } else if let (How::Reserve(max_bytes), true) = (how, transfer.bytes > 0) {
            self.reserve(side, open, max_bytes)
        } else {
            self.push(side, open, how)
        };
        let flow = &mut self.flows[side];
        match result {
            Ok(()) if flow.sent[index].ended => flow.open = None,
            Ok(()) | Err(RefusedSend::NoCredit) => {}
            Err(RefusedSend::Rejected(reason)) => {
                assert_eq!(flow.sent[index].rejected, Some(reason));
                flow.open = None;
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn push(&mut self, side: usize, open: Open, how: How) -> Result<(), RefusedSend> {
        let sent = &mut self.flows[side].sent[open.index];
        let (limit, count) = if let How::Push(limit, count) = how { (limit, count) } else { (usize::MAX, 1) };
        let rest = &sent.payload[sent.bytes..];
        let run = &rest[..rest.len().min(limit.max(1))];
        let mut slices = [&[][..]; 4];
        cut(&mut self.rng, run, count, &mut slices);
        let (end, all) = (&mut self.ends[side], sent.payload.len());
        match end.push(&mut self.fabric, open.id, &slices) {
            Ok(bytes) => {
                assert!(bytes <= run.len());
                sent.bytes += bytes;
                sent.ended = !self.script.transfers[side][open.index].stream && sent.bytes == all && all > 0;
                Ok(())
            }
            // A message of no bytes tells so only here.
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
        let reservation = end.reserve(&mut self.fabric, open.id, max_bytes.max(1))?;
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
        end.commit(&mut self.fabric, open.id, run.len() as u32)?;
        sent.bytes += run.len();
        sent.ended = !self.script.transfers[side][open.index].stream && sent.bytes == sent.payload.len();
        self.take_events(side);
        Ok(())
    }

    /// The next step of receiving what the other end sends.
    fn receive(&mut self, side: usize) {
        let from = 1 - side;
        if self.flows[from].head.is_none() && self.rng.one_in(2) && self.receive_whole(side) {
            return;
        }
        if self.flows[from].head.is_none() || self.rng.one_in(8) {
            let Some(incoming) = self.ends[side].incoming(&mut self.fabric) else { return };
            self.meet(from, incoming);
        }
        let Some((index, _)) = self.flows[from].head else { return };
        match self.script.transfers[from][index].take {
            Take::Reject(at) if self.flows[from].at >= at => {
                let why = reason(from, index, 2);
                // What is at the head may be the next one, if this was cancelled meanwhile.
                match self.ends[side].incoming(&mut self.fabric) {
                    Some(incoming) if Some(incoming.transfer) == self.flows[from].sent[index].number => {
                        assert!(self.ends[side].reject(&mut self.fabric, why));
                        self.flows[from].sent[index].rejected = Some(why);
                    }
                    // What has come of it was taken out, or it is gone.
                    _ if self.flows[from].sent[index].cancelled.is_none() => return,
                    _ => {}
                }
                self.flows[from].head = None;
            }
            Take::Pull(bytes, slices) => self.pull(side, index, bytes, slices),
            Take::Reject(at) => self.pull(side, index, (at - self.flows[from].at).div_ceil(2), 2),
            Take::InPlace(bytes) => self.read_in_place(side, index, bytes),
        }
    }

    /// Takes the next message the short way, if it can be had so.
    fn receive_whole(&mut self, side: usize) -> bool {
        let from = 1 - side;
        let room = if self.rng.one_in(4) { self.rng.below(100) } else { self.buffer.len() };
        let looks = if self.rng.one_in(2) { 1 } else { 3 };
        let mut slices = [&mut self.buffer[..room]];
        let found = self.ends[side].try_recv(&mut self.fabric, &mut slices, looks);
        let (TryRecv::Taken { tag, bytes } | TryRecv::Begun { tag, bytes }) = found else { return false };
        let index = (tag & 0xffff) as usize;
        let all = self.script.transfers[from][index].bytes;
        let transfer = self.flows[from].sent[index].number.expect("it was sent");
        self.meet(from, Incoming { transfer, tag, length: Length::Exact(all as u64) });
        self.compare(from, index, bytes, 0);
        self.ended(from, index, if matches!(found, TryRecv::Taken { .. }) { End::Fin } else { End::No });
        true
    }

    /// A transfer is at the head: it must be the next one that was not given up.
    fn meet(&mut self, from: usize, incoming: Incoming) {
        let flow = &mut self.flows[from];
        let index = (incoming.tag & 0xffff) as usize;
        if let Some((head, number)) = flow.head {
            if head == index && number == incoming.transfer {
                return;
            }
            assert!(flow.sent[head].cancelled.is_some(), "transfer {head} went away");
        }
        assert!(index >= flow.seen && index < flow.next, "{index} comes after {}", flow.seen);
        for (passed, sent) in flow.sent.iter().enumerate().take(index).skip(flow.seen) {
            assert!(sent.cancelled.is_some(), "transfer {passed} never came");
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
            let pulled = self.ends[side].pull_from(&mut self.fabric, &mut places, skip);
            self.buffer.copy_within(skip..skip + pulled.bytes, 0);
            pulled
        } else {
            self.ends[side].pull(&mut self.fabric, &mut places)
        };
        self.compare(from, index, pulled.bytes, 0);
        self.ended(from, index, pulled.end);
    }

    fn read_in_place(&mut self, side: usize, index: usize, max_bytes: u32) {
        let from = 1 - side;
        match self.ends[side].readable(&mut self.fabric, max_bytes) {
            // Perhaps it is in a line: that has no place.
            Readable::Nothing => self.pull(side, index, max_bytes as usize, 1),
            Readable::Ended(end) => self.ended(from, index, end),
            Readable::Run(run) => {
                assert!(run.bytes > 0 && run.bytes <= max_bytes);
                let mut filled = 0;
                for (at, bytes) in run.spans() {
                    let here = self.fabric.visible(Memory::landing(side), at, bytes);
                    self.buffer[filled..][..bytes as usize].copy_from_slice(here);
                    filled += bytes as usize;
                }
                assert_eq!(filled, run.bytes as usize);
                let less = self.rng.one_in(2);
                let used = if less { self.rng.below(filled + 1) } else { filled };
                #[expect(clippy::cast_possible_truncation, reason = "not more than was there")]
                let end = self.ends[side].consume(&mut self.fabric, used as u32);
                self.compare(from, index, used, 0);
                self.ended(from, index, end);
            }
        }
    }

    /// What is in the buffer is what was sent.
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
                sent.whole = true;
            }
            End::Cancelled(reason) => assert_eq!(sent.cancelled, Some(reason)),
        }
        flow.head = None;
    }

    /// Everything came exactly once, or was given up.
    fn check_oracle(&mut self) {
        for side in 0..2 {
            self.take_events(side);
            for (index, sent) in self.flows[side].sent.iter().enumerate() {
                let given_up = sent.cancelled.is_some() || sent.rejected.is_some();
                assert!(sent.whole || given_up, "transfer {index} of end {side} never came");
                assert_eq!(
                    sent.rejected.is_some(),
                    sent.told,
                    "transfer {index} of end {side}: told of a reject"
                );
            }
        }
    }
}

/// Cuts a run into `count` slices of any size, empty ones too.
fn cut<'a>(rng: &mut Rng, mut run: &'a [u8], count: usize, slices: &mut [&'a [u8]; 4]) {
    let count = count.clamp(1, 4);
    for slice in &mut slices[..count - 1] {
        let (here, after) = run.split_at(rng.below(run.len() + 1));
        (*slice, run) = (here, after);
    }
    slices[count - 1] = run;
}
