//! Receiving calls, each compared with what was sent.

use superpipe_core::driver::{Drive, Received, RecvFailed, RecvOperation, RefusedRecv};
use superpipe_core::{End, Incoming, Length, Readable, Reason, Receiving};
use superpipe_testkit::PairFabric;

use super::ops::{ReceiveOp, cuts, scatter, up_to};
use super::{Call, ClientPair, Stage};

/// Byte that fills a buffer before a receive.
const UNTOUCHED: u8 = 0xa5;

/// Returns true if nothing was written here. It has no branch, so that the compiler vectorizes it.
fn is_untouched(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |differs, byte| differs | (byte ^ UNTOUCHED)) == 0
}

/// Size of the largest buffer, which is more than the longest message.
const BUFFER_BYTES_MAX: usize = 9100;

/// Base of the reasons with which a receiver rejects.
const REJECT_REASON: u32 = 2 << 16;

impl<F: PairFabric> ClientPair<F> {
    /// Draws the size of a receive buffer: often enough, often exact or one byte too small, or none.
    fn room(&mut self, side: usize) -> usize {
        let flow = &self.flows[1 - side];
        let next = flow.head.or_else(|| flow.next()).map(|index| flow.messages[index].payload.len());
        let rng = &mut self.clients[side].rng;
        match (rng.below(8), next) {
            (0, _) => rng.below(64),
            (1 | 2, Some(exact)) => exact,
            (3, Some(exact)) => exact.saturating_sub(1),
            _ => BUFFER_BYTES_MAX,
        }
    }

    /// Checks that a shown message is next, and whether it fits the buffer.
    fn check_shown(&mut self, side: usize, incoming: Incoming, room: usize, is_too_small: bool) {
        self.flows[1 - side].arrived(incoming);
        let fits = matches!(incoming.length, Length::Exact(length) if length <= room as u64);
        assert!(fits != is_too_small || self.is_unchecked(), "{incoming:?} and {room} bytes of room");
    }

    pub(super) fn try_recv(&mut self, side: usize) {
        let room = self.room(side);
        let state = self.state_of(side);
        let is_shut = self.is_shut(side);
        let client = &mut self.clients[side];
        let cuts = cuts(&mut client.rng, room);
        let mut buffer = vec![UNTOUCHED; room];
        let found = client.driver.try_recv(&mut self.fabric, &mut scatter(&mut buffer, &cuts));
        self.count(Call::TryRecv, state, matches!(found, Ok(Some(_))));
        let flow = &mut self.flows[1 - side];
        match found {
            Ok(None) => {
                assert!(is_untouched(&buffer), "nothing came, and it was written");
                let sees_all = state.receiving != Receiving::Discarding && !self.is_notified;
                if sees_all && self.clients[side].rng.one_in(4) {
                    let peeked = self.clients[side].driver.try_peek(&mut self.fabric);
                    assert!(peeked.is_none() || self.is_unchecked(), "it was there: {peeked:?}");
                }
            }
            Ok(Some(Received { tag, bytes })) => {
                assert!(!is_shut || flow.is_unchecked, "closed, and received");
                flow.arrived_tag(tag);
                flow.took(&buffer[..bytes]);
                flow.ended(End::Fin);
                let rest = &buffer[bytes..];
                assert!(is_untouched(rest) || self.is_unchecked(), "written behind its end");
                self.clients[side].shown = None;
            }
            Err(RefusedRecv::TooSmall(incoming)) => self.check_shown(side, incoming, room, true),
            Err(RefusedRecv::Long(incoming)) => self.check_shown(side, incoming, room, false),
        }
    }

    pub(super) fn try_peek(&mut self, side: usize) -> Option<Incoming> {
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let peeked = self.clients[side].driver.try_peek(&mut self.fabric);
        self.count(Call::TryPeek, state, peeked.is_some());
        match peeked {
            Some(incoming) => {
                assert!(!is_shut || self.is_unchecked(), "closed, and shown");
                self.flows[1 - side].arrived(incoming);
            }
            None => {
                let is_gone = self.flows[1 - side].head.is_none() || self.may_be_shut(side);
                assert!(is_gone || self.is_unchecked(), "what was at the head is not shown");
            }
        }
        peeked
    }

    pub(super) fn reject(&mut self, side: usize) {
        if !self.knows_next(side) && self.try_peek(side).is_none() && !self.is_certain(side) {
            return;
        }
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let reason = Reason(REJECT_REASON | up_to(&mut client.rng, 0xffff));
        let rejected = client.driver.reject(&mut self.fabric, reason);
        self.count(Call::Reject, state, rejected);
        if rejected {
            self.flows[1 - side].arrived_certain();
        }
        let is_known = self.flows[1 - side].head.is_some() && !self.is_shut(side);
        assert!(
            rejected == is_known || !rejected && self.may_be_shut(side) || self.is_unchecked(),
            "rejected: {rejected}, and at the head: {is_known}"
        );
        if rejected {
            self.flows[1 - side].reject(reason);
            self.clients[side].shown = None;
        }
    }

    /// Rejects messages, each as soon as it begins. While a REJECT is due, none may begin.
    pub(super) fn reject_each(&mut self, side: usize) {
        if self.closed(side).is_some() || !matches!(self.clients[side].stage, Stage::Calling) {
            return;
        }
        self.reject(side);
        for _ in 0..up_to(&mut self.clients[side].rng, 6) {
            self.progress(side);
            self.begin_recv(side, 1, false);
            let _ = self.drive_recv(side, 1, false);
            if self.clients[side].rng.one_in(8) {
                self.reject(side);
            }
            self.cancel_recv(side, 1, Reason::GIVEN_UP);
        }
    }

    /// Begins and rejects messages without `progress` in between, so that a REJECT is due when the next one begins.
    pub(super) fn reject_in_row(&mut self, side: usize) {
        if self.closed(side).is_some() || !matches!(self.clients[side].stage, Stage::Calling) {
            return;
        }
        for _ in 0..up_to(&mut self.clients[side].rng, 8) {
            self.begin_recv(side, 1, false);
            let _ = self.drive_recv(side, 1, false);
            self.cancel_recv(side, 1, Reason::GIVEN_UP);
        }
    }

    /// Returns true if the head is known, or (sometimes) if the next message is certain although no call has shown it.
    fn knows_next(&mut self, side: usize) -> bool {
        let flow = &self.flows[1 - side];
        flow.head.is_some() || flow.certain().is_some() && self.clients[side].rng.one_in(2)
    }

    /// Returns true if a stream may take the head: no operation has begun to, and the stream claims it. It may also take the next message
    /// unseen, or find nothing.
    fn may_read(&mut self, side: usize) -> bool {
        let head = self.flows[1 - side].head;
        if head.is_some() && self.clients[side].reads == head || head.is_none() && self.knows_next(side) {
            return true;
        }
        let Some(incoming) = self.try_peek(side) else { return self.is_certain(side) };
        self.claim(side, &incoming)
    }

    /// Returns true if the head can be nothing but the message that is certain to come next.
    fn is_certain(&self, side: usize) -> bool {
        let flow = &self.flows[1 - side];
        self.is_shut(side) || flow.certain().is_some() || flow.next().is_none()
    }

    /// Claims the head for a stream.
    fn claim(&mut self, side: usize, incoming: &Incoming) -> bool {
        let client = &mut self.clients[side];
        let is_ours = client.driver.claim(incoming);
        let (head, at) = (self.flows[1 - side].head, self.flows[1 - side].at);
        let takes = |it: &ReceiveOp| it.op.has_begun() && it.index == head && it.op.taken() == at;
        let is_taken = client.receives.iter().flatten().any(takes);
        assert!(is_ours != is_taken || self.flows[1 - side].is_unchecked, "claimed: {is_ours}");
        if is_ours {
            client.reads = head;
        }
        is_ours
    }

    /// Claims the rest of an unseen message of which a stream took a part.
    fn claim_rest(&mut self, side: usize) {
        let head = self.flows[1 - side].head;
        if head.is_some()
            && self.clients[side].reads != head
            && let Some(incoming) = self.try_peek(side)
        {
            self.claim(side, &incoming);
        }
    }

    /// Clones an operation that has begun. The one that continues first has the message.
    pub(super) fn clone_receive(&mut self, side: usize, slot: usize) {
        let client = &mut self.clients[side];
        if let Some(it) = client.receives[slot].as_ref().filter(|it| it.op.has_begun() && !it.is_odd) {
            let fork = it.clone();
            if !client.receives[1 - slot].as_ref().is_some_and(|other| other.op.has_begun()) {
                client.receives[1 - slot] = Some(fork);
            }
        }
    }

    /// Drives a clone of an operation of the other end. It must be refused and take nothing.
    pub(super) fn drive_receive_of_peer(&mut self, side: usize, slot: usize) {
        let theirs = self.clients[1 - side].receives[slot].as_ref().filter(|it| it.op.has_begun());
        let Some(mut theirs) = theirs.cloned() else { return };
        let before = theirs.op.taken();
        let driver = &mut self.clients[side].driver;
        let mut slices = scatter(&mut theirs.buffer, &theirs.cuts);
        let driven = if theirs.is_cold {
            driver.recv_part(&mut self.fabric, &mut theirs.op, slices[0])
        } else {
            driver.drive_recv(&mut self.fabric, &mut theirs.op, &mut slices)
        };
        let is_right = driven == Drive::Done(Err(RecvFailed::NotOpen));
        assert!(is_right && theirs.op.taken() == before, "another's operation: {driven:?}");
        self.clients[side].driver.cancel_recv(&mut self.fabric, &mut theirs.op, Reason::GIVEN_UP);
    }

    pub(super) fn begin_recv(&mut self, side: usize, slot: usize, is_cold: bool) {
        self.cancel_recv(side, slot, Reason::GIVEN_UP);
        let room = self.room(side);
        let client = &mut self.clients[side];
        let cuts = if is_cold { Vec::new() } else { cuts(&mut client.rng, room) };
        client.receives[slot] = Some(ReceiveOp {
            op: if is_cold { RecvOperation::cold() } else { RecvOperation::new() },
            buffer: vec![UNTOUCHED; room],
            cuts,
            expected: Vec::new(),
            index: None,
            is_cold,
            is_odd: false,
        });
    }

    /// Drives a message that is received once. The first drive sometimes is `begin_recv`, as in a blocking call.
    pub(super) fn drive_recv(&mut self, side: usize, slot: usize, is_odd: bool) -> Drive<()> {
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let Self { clients, fabric, .. } = self;
        let client = &mut clients[side];
        let Some(it) = client.receives[slot].as_mut() else { return Drive::Done(()) };
        let (had_begun, before) = (it.op.has_begun(), it.op.taken());
        let is_fresh = it.op == RecvOperation::new();
        let mut room = it.buffer.len();
        let (call, driven);
        if it.is_cold && had_begun {
            let left = room - before;
            let bytes = if client.rng.one_in(8) { 0 } else { client.rng.below(left + 1).max(left.min(64)) };
            call = Call::ReceivePart;
            driven = client.driver.recv_part(fabric, &mut it.op, &mut it.buffer[before..before + bytes]);
        } else {
            if is_odd {
                it.is_odd = true;
                if client.rng.one_in(2) {
                    room = client.rng.below(room + 1);
                } else {
                    it.buffer.resize(room + 100, UNTOUCHED);
                    room += 100;
                }
            }
            let mut slices = scatter(&mut it.buffer[..room], &it.cuts);
            if is_fresh && client.rng.below(4) > 0 {
                call = Call::BeginReceive;
                driven = client.driver.begin_recv(fabric, &mut it.op, &mut slices);
            } else {
                call = Call::DriveReceive;
                driven = client.driver.drive_recv(fabric, &mut it.op, &mut slices);
            }
        }
        self.count(call, state, matches!(driven, Drive::Moved | Drive::Done(Ok(_))));
        self.check_received(side, slot, driven, (had_begun, before, room, is_shut))
    }

    /// Checks what an operation took, and how it ended.
    fn check_received(
        &mut self,
        side: usize,
        slot: usize,
        driven: Drive<Result<Received, RecvFailed>>,
        (had_begun, before, room, is_shut): (bool, usize, usize, bool),
    ) -> Drive<()> {
        let may_be_shut = self.may_be_shut(side);
        let Some(it) = self.clients[side].receives[slot].as_mut() else { return Drive::Done(()) };
        let (has_begun, mut taken) = (it.op.has_begun(), it.op.taken());
        let flow = &mut self.flows[1 - side];
        match driven {
            Drive::Done(Ok(Received { tag, bytes })) => {
                if !had_begun {
                    flow.arrived_tag(tag);
                }
                taken = bytes;
            }
            Drive::Done(Err(RecvFailed::Cancelled(reason))) if !had_begun => {
                flow.arrived_cancelled(reason, taken)
            }
            Drive::Moved | Drive::Idle if has_begun && !had_begun => {
                if let Some(incoming) = self.clients[side].driver.try_peek(&mut self.fabric) {
                    flow.arrived(incoming);
                }
            }
            _ => {}
        }
        let Some(it) = self.clients[side].receives[slot].as_mut() else { return Drive::Done(()) };
        let is_idle = matches!(driven, Drive::Idle | Drive::Done(Err(RecvFailed::TooSmall(_))));
        if it.index.is_none() && (has_begun || !is_idle) {
            it.index = flow.head;
        }
        // The same poll may have found the message and the close of the connection.
        let is_unknown = flow.head.is_none() && may_be_shut && !is_shut;
        it.is_odd |= is_unknown;
        if flow.is_unchecked || is_unknown {
            return driven.map(|_| ());
        }
        let new = taken - before;
        assert!(new == 0 || !is_shut, "closed, and received");
        assert!(new == 0 || it.index == flow.head, "bytes of another message");
        assert!(
            new == 0 || before == flow.at,
            "{before} bytes were taken, and {} of them elsewhere",
            flow.at
        );
        let was_next = before == flow.at;
        if it.is_odd {
            flow.skipped(new);
        } else {
            flow.took(&it.buffer[before..taken]);
            it.expected.extend_from_slice(&it.buffer[before..taken]);
            assert!(it.buffer[..taken] == it.expected, "what had come before has changed");
            let rest = &it.buffer[taken..];
            assert!(is_untouched(rest), "written behind what came");
        }
        if new > 0 {
            self.clients[side].shown = None;
        }
        let Some(it) = self.clients[side].receives[slot].as_ref() else { return Drive::Done(()) };
        match driven {
            Drive::Moved => Drive::Moved,
            Drive::Idle => Drive::Idle,
            Drive::Done(Ok(_)) => {
                flow.ended(End::Fin);
                Drive::Done(())
            }
            Drive::Done(Err(failed)) => {
                match failed {
                    RecvFailed::Cancelled(reason) => flow.ended(End::Cancelled(reason)),
                    RecvFailed::TooSmall(incoming) => self.check_shown(side, incoming, room, true),
                    RecvFailed::Busy => {
                        let client = &self.clients[side];
                        let mut others = client.receives.iter().flatten();
                        let is_read = client.reads.is_some() && client.reads == self.flows[1 - side].head;
                        assert!(is_read || others.any(|other| other.index.is_some()), "busy: nobody else is");
                    }
                    RecvFailed::WrongLength => panic!("the slices are the same each time"),
                    RecvFailed::NotOpen => {
                        let is_open = had_begun && was_next && it.index.is_some() && it.index == flow.head;
                        assert!(!is_open || may_be_shut, "not open: it is");
                    }
                }
                Drive::Done(())
            }
        }
    }

    pub(super) fn cancel_recv(&mut self, side: usize, slot: usize, reason: Reason) {
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let client = &mut self.clients[side];
        let Some(it) = client.receives[slot].as_mut() else { return };
        let has_begun = it.op.has_begun();
        client.driver.cancel_recv(&mut self.fabric, &mut it.op, reason);
        let flow = &mut self.flows[1 - side];
        let is_its = it.op.taken() == flow.at || flow.is_unchecked;
        if has_begun && is_its && it.index.is_some() && it.index == flow.head && !is_shut {
            flow.reject(reason);
            client.shown = None;
        }
        self.count(Call::CancelReceive, state, has_begun);
    }

    /// Reads in place, and checks the bytes.
    pub(super) fn readable(&mut self, side: usize) -> Drive<()> {
        if !self.may_read(side) {
            return Drive::Idle;
        }
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let client = &mut self.clients[side];
        let bytes_max = 1 + up_to(&mut client.rng, 3000);
        let readable = client.driver.endpoint_mut().readable(&mut self.fabric, bytes_max);
        self.count(Call::Readable, state, !matches!(readable, Readable::Nothing));
        let flow = &mut self.flows[1 - side];
        if !matches!(readable, Readable::Nothing) {
            flow.arrived_certain();
        }
        match readable {
            Readable::Nothing => Drive::Idle,
            Readable::Ended(end) => {
                assert!(!is_shut || flow.is_unchecked, "closed, and readable");
                flow.ended(end);
                self.clients[side].shown = None;
                Drive::Done(())
            }
            Readable::Run(run) => {
                assert!(run.bytes > 0 && run.bytes <= bytes_max, "{} of {bytes_max} bytes", run.bytes);
                let mut here = Vec::new();
                for (at, bytes) in run.spans() {
                    here.extend_from_slice(self.fabric.visible(run.memory, at, bytes));
                }
                assert_eq!(here.len(), run.bytes as usize, "spans of another length");
                self.clients[side].shown = Some((flow.head, flow.at, here));
                self.claim_rest(side);
                Drive::Moved
            }
        }
    }

    /// Gives back a part of what was read in place.
    pub(super) fn consume(&mut self, side: usize) -> Drive<()> {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let flow = &self.flows[1 - side];
        let shown = client.shown.take().filter(|(head, at, _)| (*head, *at) == (flow.head, flow.at));
        // Giving back more than was shown, or anything while nothing is shown, has no effect.
        let most = shown.as_ref().map_or(0, |(.., shown)| shown.len());
        if shown.is_none() || client.rng.one_in(8) {
            let more = most + client.rng.below(100) + usize::from(most > 0);
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let end = client.driver.endpoint_mut().consume(&mut self.fabric, more);
            assert!(end == End::No || self.is_unchecked(), "what was not shown has ended: {end:?}");
            self.clients[side].shown = shown;
            self.count(Call::Consume, state, false);
            return Drive::Idle;
        }
        let shown = shown.map(|(.., shown)| shown).unwrap_or_default();
        let bytes = if client.rng.one_in(2) { shown.len() } else { client.rng.below(shown.len() + 1) };
        let is_shut = self.is_shut(side);
        let end = self.clients[side]
            .driver
            .endpoint_mut()
            .consume(&mut self.fabric, u32::try_from(bytes).unwrap_or(u32::MAX));
        // The peer's CLOSE has emptied the head, although the connection does not report the close yet.
        let is_gone = is_shut || state.receiving != Receiving::Underway;
        self.count(Call::Consume, state, !is_gone && bytes > 0);
        if is_gone {
            return Drive::Idle;
        }
        let flow = &mut self.flows[1 - side];
        flow.took(&shown[..bytes]);
        flow.ended(end);
        self.clients[side].shown = Some((flow.head, flow.at, shown[bytes..].to_vec()));
        if end == End::No { Drive::Moved } else { Drive::Done(()) }
    }

    pub(super) fn pull(&mut self, side: usize) -> Drive<()> {
        if !self.may_read(side) {
            return Drive::Idle;
        }
        let (state, is_shut) = (self.state_of(side), self.is_shut(side));
        let client = &mut self.clients[side];
        let room = if client.rng.one_in(8) { 0 } else { client.rng.below(4000) };
        let cuts = cuts(&mut client.rng, room);
        let mut buffer = vec![UNTOUCHED; room];
        let mut slices = scatter(&mut buffer, &cuts);
        let pulled = client.driver.endpoint_mut().pull(&mut self.fabric, &mut slices);
        self.count(Call::Pull, state, pulled.bytes > 0 || pulled.end != End::No);
        let flow = &mut self.flows[1 - side];
        assert!(
            !is_shut || pulled.bytes == 0 && pulled.end == End::No || flow.is_unchecked,
            "closed, and pulled"
        );
        if pulled.bytes > 0 || pulled.end != End::No {
            flow.arrived_certain();
        }
        flow.took(&buffer[..pulled.bytes]);
        flow.ended(pulled.end);
        let rest = &buffer[pulled.bytes..];
        assert!(is_untouched(rest) || flow.is_unchecked, "written behind what came");
        if pulled.bytes > 0 || pulled.end != End::No {
            self.clients[side].shown = None;
            self.claim_rest(side);
        }
        match (pulled.end, pulled.bytes) {
            (End::No, 0) => Drive::Idle,
            (End::No, _) => Drive::Moved,
            _ => Drive::Done(()),
        }
    }
}
