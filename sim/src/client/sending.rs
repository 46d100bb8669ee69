//! Sending calls, each compared with what the state permits.

use superpipe_core::driver::{Drive, SendFailed, SendOperation};
use superpipe_core::{
    Closed, INLINE_BYTES_MAX, Layout, Length, Protocol, Reason, RefusedSend, Sending, State,
};
use superpipe_testkit::PairFabric;

use super::ops::{SendOp, Writing, cuts, gather, up_to};
use super::{Call, ClientPair};

/// Reason with which a client cancels an operation.
const CANCEL_REASON: Reason = Reason(7);

impl<F: PairFabric> ClientPair<F> {
    /// Draws the length of the next message: lines, the edges of blocks, or any length.
    fn bytes(&mut self, side: usize) -> usize {
        let block = self.fabric.setup().layouts[1 - side].block_bytes as usize;
        let client = &mut self.clients[side];
        let most = client.program.bytes_max;
        let rng = &mut client.rng;
        let bytes = match rng.below(8) {
            0..=2 => rng.below(49),
            3 | 4 => ((1 + rng.below(12)) * block + rng.below(131)).saturating_sub(65),
            5 | 6 => rng.below(2501),
            _ => rng.below(9001),
        };
        bytes % (most + 1)
    }

    pub(super) fn draw(&mut self, side: usize, is_stream: bool) -> usize {
        let bytes = self.bytes(side);
        let rng = &mut self.clients[side].rng;
        self.flows[side].draw(rng, bytes, is_stream)
    }

    /// Checks the cause of a refusal against the state of the end.
    fn check_refused(&self, side: usize, state: State, refused: RefusedSend, bytes: usize) {
        let config = self.clients[side].driver.endpoint().config();
        let setup = self.fabric.setup();
        let base = setup.growth.and_then(|growth| growth.base);
        let is_right = match refused {
            RefusedSend::NoCredit => self.closed(side).is_none(),
            RefusedSend::Busy => state.sending != Sending::Nothing,
            RefusedSend::TooLong => {
                let is_long = |layout: Layout| {
                    let blocks = bytes / (layout.block_bytes as usize - 64) + 3;
                    blocks >= layout.block_count as usize
                };
                let is_above =
                    config.protocol == Protocol::Provision && bytes > config.threshold_bytes as usize;
                let is_long = bytes > config.c0_bytes as usize
                    || is_long(setup.layouts[1 - side])
                    || base.is_some_and(is_long);
                bytes > INLINE_BYTES_MAX && (is_long || is_above || !F::DIRECT)
            }
            RefusedSend::Closed => self.closed(side).is_some(),
            RefusedSend::NotOpen | RefusedSend::Rejected(_) | RefusedSend::WrongLength => false,
        };
        assert!(is_right || self.is_unchecked(), "refused: {refused:?}, in {state:?}, {bytes} bytes");
    }

    pub(super) fn try_send(&mut self, side: usize) {
        let index = self.draw(side, false);
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let message = &self.flows[side].messages[index];
        let cuts = cuts(&mut client.rng, message.payload.len());
        let slices = gather(&message.payload, &cuts);
        let sent = client.driver.try_send(&mut self.fabric, message.tag, &slices);
        self.count(Call::TrySend, state, sent.is_ok());
        match sent {
            Ok(_) => self.flows[side].sent_at_once(index),
            Err(refused) => {
                let bytes = self.flows[side].messages[index].payload.len();
                self.check_refused(side, state, refused, bytes);
            }
        }
    }

    /// Sends a message at once if it can, as a blocking call does first. Returns true if it has become an operation to wait for.
    pub(super) fn send_or_begin(&mut self, side: usize, slot: usize) -> bool {
        self.cancel_send(side, slot, CANCEL_REASON);
        let index = self.draw(side, false);
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let message = &self.flows[side].messages[index];
        let bytes = message.payload.len();
        let cuts = cuts(&mut client.rng, bytes);
        let slices = gather(&message.payload, &cuts);
        let begun = client.driver.begin_send(&mut self.fabric, message.tag, &slices);
        self.count(Call::TrySend, state, begun.is_none());
        let Some(op) = begun else {
            self.flows[side].sent_at_once(index);
            return false;
        };
        if op.needs_transfer() {
            self.check_refused(side, state, RefusedSend::TooLong, bytes);
        }
        self.clients[side].sends[slot] = Some(SendOp { op, index, cuts });
        true
    }

    /// Creates an operation for a message, which does nothing yet.
    pub(super) fn begin_send(&mut self, side: usize, slot: usize) {
        self.cancel_send(side, slot, CANCEL_REASON);
        let index = self.draw(side, false);
        let client = &mut self.clients[side];
        let message = &self.flows[side].messages[index];
        let op = SendOperation::new(message.tag, message.payload.len());
        let cuts = cuts(&mut client.rng, message.payload.len());
        client.sends[slot] = Some(SendOp { op, index, cuts });
    }

    /// Drives a message once, sometimes with other slices, and returns the result.
    pub(super) fn drive_send(&mut self, side: usize, slot: usize, is_odd: bool) -> Drive<()> {
        let state = self.state_of(side);
        let Self { clients, flows, fabric, .. } = self;
        let (client, flow) = (&mut clients[side], &mut flows[side]);
        let Some(SendOp { op, index, cuts }) = client.sends[slot].as_mut() else { return Drive::Done(()) };
        let index = *index;
        let message = &flow.messages[index];
        let (before, had_begun) = (op.sent(), op.has_begun());
        let bytes = message.payload.len();
        let mut other = message.payload.clone();
        if is_odd && client.rng.one_in(2) {
            other.extend([0xee; 300].iter().take(1 + client.rng.below(300)));
        } else if is_odd {
            other.truncate(client.rng.below(bytes + 1));
        }
        let is_other = other.len() != bytes;
        let slices = gather(&other, cuts);
        let mut clone_before = (had_begun && client.rng.one_in(8)).then(|| op.clone());
        let driven = client.driver.drive_send(fabric, op, &slices);
        if let (Some(clone), true) = (&mut clone_before, op.sent() > before) {
            if client.rng.one_in(2) {
                let refused = client.driver.drive_send(fabric, clone, &slices);
                assert_eq!(refused, Drive::Done(Err(SendFailed::NotOpen)), "a clone that was left behind");
            } else {
                client.driver.cancel_send(fabric, clone, CANCEL_REASON);
            }
        }
        let (now, begun) = (op.sent(), op.has_begun());
        assert!(now >= before, "less was sent than before");
        let is_new = !had_begun && begun;
        if is_new {
            flow.starts(index, client.driver.endpoint().config().protocol);
        }
        let is_known = had_begun || is_new;
        if is_known && flow.open == Some(index) {
            flow.pushed(index, now - before);
        }
        let accepted = matches!(driven, Drive::Moved | Drive::Done(Ok(())));
        self.count(Call::DriveSend, state, accepted);
        match driven {
            Drive::Moved => Drive::Moved,
            Drive::Idle => {
                assert!(
                    self.closed(side).is_none() || self.is_unchecked(),
                    "waits for a connection that is closed"
                );
                Drive::Idle
            }
            Drive::Done(Ok(())) => {
                assert_eq!(now, bytes, "sent, and not all of it");
                assert!(!is_other || before == bytes || self.is_unchecked(), "sent, and not what was given");
                let flow = &mut self.flows[side];
                if flow.open == Some(index) {
                    flow.ends(index);
                } else {
                    flow.sent_at_once(index);
                }
                Drive::Done(())
            }
            Drive::Done(Err(failed)) => {
                let open = self.flows[side].open;
                match failed {
                    SendFailed::Rejected(reason) => self.flows[side].check_rejected(index, reason),
                    SendFailed::Closed => {
                        assert!(self.closed(side).is_some() || self.is_unchecked(), "closed, it says");
                    }
                    SendFailed::WrongLength => {
                        assert!(is_other || self.is_unchecked(), "the same slices have another length");
                        if !is_known && open.is_none() {
                            // It may have begun and been given up in one call.
                            let protocol = self.clients[side].driver.endpoint().config().protocol;
                            self.flows[side].starts(index, protocol);
                            self.flows[side].pushed(index, now - before);
                        }
                        self.flows[side].gives_up(index, Reason::GIVEN_UP);
                    }
                    SendFailed::NotOpen => {
                        let is_right = !had_begun || self.closed(side).is_some() || open != Some(index);
                        assert!(is_right || self.is_unchecked(), "not open: it is");
                    }
                }
                Drive::Done(())
            }
        }
    }

    /// Drives a clone of an operation of the other end. It must be refused and send nothing.
    pub(super) fn drive_send_of_peer(&mut self, side: usize, slot: usize) {
        let [this, that] = match &mut self.clients {
            [first, second] if side == 0 => [first, second],
            [first, second] => [second, first],
        };
        let Some(SendOp { op, index, cuts }) = &that.sends[slot] else { return };
        if !op.has_begun() {
            return;
        }
        let (mut op, before) = (op.clone(), op.sent());
        let message = &self.flows[1 - side].messages[*index];
        let driven = this.driver.drive_send(&mut self.fabric, &mut op, &gather(&message.payload, cuts));
        let is_right = driven == Drive::Done(Err(SendFailed::NotOpen)) && op.sent() == before;
        assert!(is_right, "another's operation: {driven:?}");
    }

    pub(super) fn cancel_send(&mut self, side: usize, slot: usize, reason: Reason) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(SendOp { op, index, .. }) = client.sends[slot].as_mut() else { return };
        let (index, begun) = (*index, op.has_begun());
        client.driver.cancel_send(&mut self.fabric, op, reason);
        assert!(!op.has_begun(), "given up, and still open");
        self.count(Call::CancelSend, state, begun);
        if begun {
            self.flows[side].gives_up(index, reason);
        }
    }

    pub(super) fn start(&mut self, side: usize) {
        let is_stream = !self.clients[side].rng.one_in(4);
        let index = self.draw(side, is_stream);
        let state = self.state_of(side);
        let (tag, length) = {
            let message = &self.flows[side].messages[index];
            (message.tag, message.length)
        };
        let started = self.clients[side].driver.endpoint_mut().start(tag, length);
        self.count(Call::Start, state, started.is_ok());
        match started {
            Ok(id) => {
                let protocol = self.clients[side].driver.endpoint().config().protocol;
                self.flows[side].starts(index, protocol);
                self.clients[side].writing = Some(Writing { id, index });
                self.clients[side].reserved = 0;
            }
            Err(refused) => self.check_refused(side, state, refused, 0),
        }
    }

    /// Checks why a transfer does not continue.
    fn check_transfer_refused(&mut self, side: usize, index: usize, refused: RefusedSend) {
        match refused {
            RefusedSend::Rejected(reason) => self.flows[side].check_rejected(index, reason),
            RefusedSend::Closed => {
                assert!(self.closed(side).is_some() || self.is_unchecked(), "closed, it says")
            }
            RefusedSend::NotOpen => {
                let is_open = self.flows[side].open == Some(index) && self.closed(side).is_none();
                assert!(!is_open || self.is_unchecked(), "not open: it is");
            }
            RefusedSend::NoCredit => {
                assert!(self.closed(side).is_none() || self.is_unchecked(), "closed, and no credit")
            }
            RefusedSend::Busy | RefusedSend::TooLong | RefusedSend::WrongLength => {
                assert!(self.is_unchecked(), "refused: {refused:?}");
            }
        }
    }

    /// Pushes at most `bytes_max` bytes. Returns `Done` once the transfer has ended.
    pub(super) fn push(&mut self, side: usize, bytes_max: usize) -> Drive<()> {
        let state = self.state_of(side);
        let Self { clients, flows, fabric, .. } = self;
        let client = &mut clients[side];
        let Some(Writing { id, index }) = client.writing else { return Drive::Done(()) };
        let message = &flows[side].messages[index];
        let rest = &message.payload[message.bytes.min(message.payload.len())..];
        let run = &rest[..rest.len().min(bytes_max)];
        let cuts = cuts(&mut client.rng, run.len());
        let pushed = client.driver.endpoint_mut().push(fabric, id, &gather(run, &cuts));
        let (wanted, is_exact) = (run.len(), message.length != Length::Stream);
        self.count(Call::Push, state, pushed.is_ok_and(|bytes| bytes > 0 || wanted == 0));
        match pushed {
            Ok(bytes) => {
                assert!(bytes <= wanted, "more was taken than was given");
                // A call that waits for a larger landing buffer ends the reservation before.
                if bytes > 0 || self.fabric.setup().growth.is_some() {
                    self.clients[side].reserved = 0;
                }
                if self.flows[side].open != Some(index) {
                    assert!(self.is_unchecked() || bytes == 0, "what is not open takes bytes");
                    return Drive::Done(());
                }
                self.flows[side].pushed(index, bytes);
                let message = &self.flows[side].messages[index];
                let all = message.payload.len();
                // A message of no bytes ends with an empty push, if there is credit.
                let has_ended = all > 0 || self.state_of(side).sending == Sending::Nothing;
                if is_exact && message.bytes == all && has_ended {
                    self.flows[side].ends(index);
                    return Drive::Done(());
                }
                if bytes > 0 { Drive::Moved } else { Drive::Idle }
            }
            // A message of no bytes reports its end only here.
            Err(RefusedSend::NotOpen) if is_exact && self.flows[side].messages[index].payload.is_empty() => {
                if self.flows[side].open == Some(index) {
                    self.flows[side].ends(index);
                }
                Drive::Done(())
            }
            Err(refused) => {
                self.check_transfer_refused(side, index, refused);
                Drive::Done(())
            }
        }
    }

    /// Reserves space, and fills it.
    pub(super) fn reserve(&mut self, side: usize) {
        let state = self.state_of(side);
        let Self { clients, flows, fabric, .. } = self;
        let client = &mut clients[side];
        let Some(Writing { id, index }) = client.writing else { return };
        let message = &flows[side].messages[index];
        let rest = &message.payload[message.bytes.min(message.payload.len())..];
        let Ok(bytes_max) = u32::try_from(1 + client.rng.below(1500)) else { return };
        let reserved = client.driver.endpoint_mut().reserve(fabric, id, bytes_max);
        match reserved {
            Ok(reservation) => {
                let bytes = reservation.bytes();
                assert!(bytes > 0 && bytes <= bytes_max, "{bytes} of {bytes_max} bytes were reserved");
                let run = &rest[..rest.len().min(bytes as usize)];
                let mut left = run;
                for (at, bytes) in reservation.spans() {
                    let (here, after) = left.split_at((bytes as usize).min(left.len()));
                    fabric.fill(reservation.memory, at, here);
                    left = after;
                }
                client.reserved = u32::try_from(run.len()).unwrap_or(0);
                self.count(Call::Reserve, state, true);
            }
            Err(RefusedSend::WrongLength) => {
                let is_right = message.length != Length::Stream && rest.is_empty();
                assert!(is_right || self.is_unchecked(), "it has bytes left");
                self.count(Call::Reserve, state, false);
            }
            Err(refused) => {
                self.count(Call::Reserve, state, false);
                if self.fabric.setup().growth.is_some() {
                    self.clients[side].reserved = 0;
                }
                self.check_transfer_refused(side, index, refused);
            }
        }
    }

    pub(super) fn commit(&mut self, side: usize) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(Writing { id, index }) = client.writing else { return };
        let reserved = core::mem::take(&mut client.reserved);
        let bytes = if client.rng.one_in(2) { reserved } else { up_to(&mut client.rng, reserved) };
        // Sometimes commits more than was reserved, which must be refused.
        let is_odd = client.rng.one_in(8);
        let asked = if is_odd { u32::MAX } else { bytes };
        let committed = client.driver.endpoint_mut().commit(&mut self.fabric, id, asked);
        self.count(Call::Commit, state, committed.is_ok());
        match committed {
            Ok(()) => {
                assert!(!is_odd || self.is_unchecked(), "more was committed than was reserved");
                let flow = &mut self.flows[side];
                if flow.open == Some(index) {
                    flow.pushed(index, bytes as usize);
                    let message = &flow.messages[index];
                    let all = message.payload.len();
                    if message.length != Length::Stream && message.bytes == all && bytes > 0 {
                        flow.ends(index);
                    }
                }
            }
            Err(RefusedSend::WrongLength) => {
                assert!(is_odd || self.is_unchecked(), "{bytes} of {reserved} bytes")
            }
            Err(refused) => self.check_transfer_refused(side, index, refused),
        }
    }

    /// Ends the stream.
    pub(super) fn finish(&mut self, side: usize) -> Drive<()> {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(Writing { id, index }) = client.writing else { return Drive::Done(()) };
        let finished = client.driver.endpoint_mut().finish(&mut self.fabric, id);
        self.count(Call::Finish, state, finished.is_ok());
        match finished {
            Ok(()) => {
                self.clients[side].reserved = 0;
                self.flows[side].ends(index);
                Drive::Done(())
            }
            Err(RefusedSend::WrongLength) => {
                let is_exact = self.flows[side].messages[index].length != Length::Stream;
                assert!(is_exact || self.is_unchecked(), "it is a stream");
                Drive::Done(())
            }
            Err(RefusedSend::NoCredit) => Drive::Idle,
            Err(refused) => {
                self.check_transfer_refused(side, index, refused);
                Drive::Done(())
            }
        }
    }

    pub(super) fn cancel_stream(&mut self, side: usize, reason: Reason) {
        let state = self.state_of(side);
        let client = &mut self.clients[side];
        let Some(Writing { id, index }) = client.writing else { return };
        client.driver.cancel_stream(&mut self.fabric, id, reason);
        client.reserved = 0;
        let is_open = self.flows[side].open == Some(index);
        self.count(Call::CancelStream, state, is_open);
        self.flows[side].gives_up(index, reason);
    }

    /// Asks whether everything was delivered.
    pub(super) fn delivered(&mut self, side: usize) -> bool {
        let state = self.state_of(side);
        let delivered = self.clients[side].driver.endpoint_mut().poll_delivered();
        self.count(Call::Delivered, state, delivered);
        let is_right = !delivered || self.flows[side].is_delivered() || self.closed(side).is_some();
        assert!(is_right || self.may_fail || self.is_unchecked(), "not all of what was delivered was taken");
        delivered
    }

    /// Closes this end.
    pub(super) fn close(&mut self, side: usize, reason: Reason) {
        let state = self.state_of(side);
        let closed = self.closed(side);
        let takes = matches!(closed, None | Some(Closed::ByPeer(_)));
        let client = &mut self.clients[side];
        client.driver.close(&mut self.fabric, reason);
        if takes && client.closed_with.is_none() {
            client.closed_with = Some(reason);
            if let Some(index) = self.flows[side].open {
                self.flows[side].gives_up(index, reason);
            }
        }
        self.count(Call::Close, state, closed != self.closed(side));
        assert!(self.closed(side).is_some(), "closed, and open");
        assert!(self.clients[side].driver.is_closing(), "closed, and says that nobody did");
    }
}
