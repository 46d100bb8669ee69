//! One end of one connection.

use core::cell::Cell;

use crate::ack::Ack;
use crate::config::{Config, ConfigError, Origin, Protocol};
use crate::control::{Control, Kind};
use crate::counters::Counters;
use crate::error::{Closed, Failure, ProtocolError, Reason, RefusedSend, RefusedStart};
use crate::fabric::Fabric;
use crate::header::{INLINE_BYTES_MAX, Length};
use crate::layout::{Landing, seat};
use crate::line::LINE_BYTES;
use crate::mailbox::{Inbox, Outbox};
use crate::receive::{End, Pulled, Readable, Receiver, TryRecv};
use crate::recorder::{Recorder, Step};
use crate::send::{Next, Payload, Reservation, Sender, TransferId};
use crate::slices::{Gather, Scatter};

/// Empty rounds of [`Endpoint::progress`] after which acknowledgements that are due go out.
const IDLE_ROUNDS: u32 = 8;

/// Control messages consumed after which the acknowledgement goes out.
const CONTROLS_PER_ACK: u64 = 4;

/// Events that can wait to be taken.
const EVENTS_MAX: usize = 4;

/// The memory that a connection is made of.
pub struct Attachment<F: Fabric> {
    /// The connection on the fabric.
    pub link: F::Link,
    /// Our seat, which the peer writes: [`SEAT_BYTES`](crate::SEAT_BYTES), all zero.
    pub seat: F::Region,
    /// The peer's seat.
    pub peer_seat: F::Remote,
    /// Our landing buffer, all zero, with its layout.
    pub landing: Landing<F::Region>,
    /// The peer's landing buffer, with its layout.
    pub peer_landing: Landing<F::Remote>,
}

/// What happened without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The receiver does not want this transfer; it may have been sent whole already.
    Rejected {
        /// Its number.
        transfer: u64,
        /// The receiver's reason.
        reason: Reason,
    },
}

/// The transfer at the head of what comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its number.
    pub transfer: u64,
    /// The sender's tag.
    pub tag: u64,
    /// How long it is.
    pub length: Length,
}

/// One end of one connection, driven from outside; it keeps nothing of the caller's between calls, never waits and
/// never allocates.
///
/// ```text
///              close, abort                        all sent was consumed
///   OPEN -----------------------> CLOSED-HERE
///    |     peer's CLOSE, and all it sent taken out
///    +--------------------------> CLOSED-BY-PEER
///    |     a broken rule, a failed work request
///    +--------------------------> FAILED
/// ```
///
/// Three kinds of methods. *Sending*: [`try_send`](Self::try_send) for what fits at once;
/// [`start`](Self::start), then [`push`](Self::push) or [`reserve`](Self::reserve) and [`commit`](Self::commit), then
/// for a stream [`finish`](Self::finish); [`cancel`](Self::cancel). *Receiving*: [`incoming`](Self::incoming), then
/// [`pull`](Self::pull), or [`readable`](Self::readable) and [`consume`](Self::consume), or [`reject`](Self::reject).
/// *Driving*: [`progress`](Self::progress) as often as nothing else can be done, then
/// [`poll_event`](Self::poll_event); now and then [`look`](Self::look) and [`show_life`](Self::show_life).
///
/// Transfers of one direction form one sequence. Whatever a sending call refuses with
/// [`RefusedSend::NoCredit`] can succeed after any `progress`; what a receiving call has nothing to give for, too.
pub struct Endpoint<F: Fabric> {
    link: F::Link,
    seat: F::Region,
    peer_seat: F::Remote,
    config: Config,
    sender: Sender<F>,
    receiver: Receiver<F>,
    outbox: Outbox,
    inbox: Inbox,
    /// The counts of the acknowledgement written last, and the peer's newest.
    acked: Ack,
    peer_life: u64,
    ack_every: u64,
    idle_rounds: u32,
    /// What [`has_arrivals`](Self::has_arrivals) told of last: sequence and block.
    noticed: Cell<Option<(u64, u32)>>,
    /// Acknowledgements are awaited: look at them each round.
    wants_ack: bool,
    pending_cts: Option<u64>,
    pending_reject: Option<(u64, Reason)>,
    pending_close: Option<Reason>,
    said_close: bool,
    events: heapless::Deque<Event, EVENTS_MAX>,
    closed: Option<Closed>,
    heard: u64,
    counters: Counters,
    recorder: Recorder,
}

impl<F: Fabric> Endpoint<F> {
    /// An endpoint on memory that both ends have agreed on, counting from `origin` on both ends.
    ///
    /// # Errors
    /// [`ConfigError`]: a field out of range, or an arrival mode or layout that the fabric can't have.
    pub fn new(
        fabric: &F,
        attachment: Attachment<F>,
        config: Config,
        origin: Origin,
    ) -> Result<Self, ConfigError> {
        let Attachment { link, seat, peer_seat, landing, peer_landing } = attachment;
        let ordered = F::DIRECT || fabric.caps(&link).order_inside_write;
        config.validate(F::DIRECT, ordered, [landing.layout, peer_landing.layout])?;
        let Origin { sequence, blocks, controls, transfers, life } = origin;
        let inbox = Inbox::new(controls);
        Ok(Self {
            link,
            seat,
            peer_seat,
            config,
            sender: Sender::new(peer_landing, sequence, blocks, transfers),
            receiver: Receiver::new(landing, sequence, blocks, transfers),
            outbox: Outbox::new(controls),
            acked: Ack { blocks, controls: inbox.consumed(), life },
            inbox,
            peer_life: life,
            ack_every: u64::from(landing.layout.block_count / 8).max(1),
            idle_rounds: 0,
            noticed: Cell::new(None),
            wants_ack: false,
            pending_cts: None,
            pending_reject: None,
            pending_close: None,
            said_close: false,
            events: heapless::Deque::new(),
            closed: None,
            heard: 0,
            counters: Counters::default(),
            recorder: Recorder::new(),
        })
    }

    // Sending.

    /// Sends a whole message if it fits at once: in a line up to 40 bytes, else eagerly up to C0.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `TooLong`: [`start`](Self::start) it. `Busy`,
    /// `Closed`.
    #[inline]
    pub fn try_send(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
    ) -> Result<TransferId, RefusedSend> {
        if !self.sender.can_start() || !self.may_send() {
            return Err(self.why_not());
        }
        let bytes = slices.iter().map(|s| s.len()).sum::<usize>();
        if bytes > INLINE_BYTES_MAX {
            return self.try_send_eager(fabric, tag, slices, bytes);
        }
        if self.sender.is_full() && (!self.refill(fabric) || !F::DIRECT && self.sender.is_full()) {
            return Err(RefusedSend::NoCredit);
        }
        let arrival = self.config.arrival;
        match self.sender.emit_inline(fabric, &mut self.link, arrival, tag, slices, bytes) {
            Ok(id) => {
                self.counters.inline_sent += 1;
                fabric.ring_doorbell(&mut self.link);
                Ok(id)
            }
            Err(_) => {
                self.counters.sq_full += 1;
                Err(RefusedSend::NoCredit)
            }
        }
    }

    fn try_send_eager(
        &mut self,
        fabric: &mut F,
        tag: u64,
        slices: &[&[u8]],
        bytes: usize,
    ) -> Result<TransferId, RefusedSend> {
        let bytes = u32::try_from(bytes).map_err(|_| RefusedSend::TooLong)?;
        if bytes > self.config.c0_bytes {
            return Err(RefusedSend::TooLong);
        }
        let (first, rest) = match self.sender.split(bytes) {
            Err(RefusedSend::NoCredit) if self.refill(fabric) => self.sender.split(bytes)?,
            split => split?,
        };
        let id = self.sender.start(&self.config, tag, Length::Exact(u64::from(bytes)))?;
        let mut gather = Gather::new(slices);
        self.emit(fabric, Payload::Gathered(&mut gather), first, false);
        if rest > 0 {
            self.emit(fabric, Payload::Gathered(&mut gather), rest, false);
        }
        fabric.ring_doorbell(&mut self.link);
        Ok(id)
    }

    /// Starts a transfer: a message of known length, or a stream. Nothing is sent yet.
    ///
    /// # Errors
    /// `Busy` while another transfer is open, or the end of a cancelled one is not told yet. `Closed`.
    pub fn start(&mut self, tag: u64, length: Length) -> Result<TransferId, RefusedStart> {
        if !self.may_send() {
            return Err(RefusedSend::Closed);
        }
        self.sender.start(&self.config, tag, length)
    }

    /// Sends the next bytes of a transfer, as many as there is room for, a landing buffer's worth at most; how many
    /// they were. A message ends with its last byte: one of no bytes with a push of none.
    ///
    /// # Errors
    /// `WrongLength` for more bytes than the message has left; `Rejected`, `NotOpen`, `Closed`.
    pub fn push(&mut self, fabric: &mut F, id: TransferId, slices: &[&[u8]]) -> Result<usize, RefusedSend> {
        self.push_from(fabric, id, slices, 0)
    }

    /// [`push`](Self::push) of what comes after the first `skip` bytes of the slices.
    ///
    /// # Errors
    /// As `push`.
    pub fn push_from(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        slices: &[&[u8]],
        skip: usize,
    ) -> Result<usize, RefusedSend> {
        let mut gather = Gather::new(slices);
        gather.skip(skip);
        let all = gather.remaining();
        self.check(id)?;
        let remaining = self.sender.remaining(id)?;
        if all as u64 > remaining {
            return Err(RefusedSend::WrongLength);
        }
        if all == 0 && remaining > 0 {
            return Ok(0);
        }
        let mut blocks = self.sender.layout().block_count;
        while let Some(bytes) = self.next_chunk(fabric, gather.remaining() as u64) {
            self.emit(fabric, Payload::Gathered(&mut gather), bytes, false);
            let used = self.sender.layout().blocks_for(bytes);
            if gather.remaining() == 0 || used >= blocks {
                break;
            }
            blocks -= used;
        }
        let pushed = all - gather.remaining();
        if pushed > 0 || all == 0 {
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(pushed)
    }

    /// Free bytes of blocks for the next bytes of a transfer, for reading into them directly, at most `max_bytes`.
    /// They count once they are [`commit`](Self::commit)ted.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `Rejected`, `NotOpen`, `Closed`; `WrongLength`
    /// where the message has no bytes left, or none are asked for.
    pub fn reserve(
        &mut self,
        fabric: &mut F,
        id: TransferId,
        max_bytes: u32,
    ) -> Result<Reservation<F::Remote>, RefusedSend> {
        self.check(id)?;
        let wanted = self.sender.remaining(id)?.min(u64::from(max_bytes));
        if wanted == 0 {
            return Err(RefusedSend::WrongLength);
        }
        loop {
            match self.next_chunk(fabric, wanted) {
                None => return Err(RefusedSend::NoCredit),
                Some(0) => {
                    // The protocol begins with an RTS of its own.
                    self.emit(fabric, Payload::InPlace, 0, false);
                    fabric.ring_doorbell(&mut self.link);
                }
                Some(bytes) => return Ok(self.sender.reserve(bytes, max_bytes)),
            }
        }
    }

    /// Sends the first `bytes` bytes of what was reserved last.
    ///
    /// # Errors
    /// `WrongLength` for more than were reserved; `Rejected`, `NotOpen`, `Closed`.
    pub fn commit(&mut self, fabric: &mut F, id: TransferId, bytes: u32) -> Result<(), RefusedSend> {
        self.check(id)?;
        if bytes > self.sender.reserved() {
            return Err(RefusedSend::WrongLength);
        }
        if bytes > 0 {
            self.emit(fabric, Payload::InPlace, bytes, false);
            fabric.ring_doorbell(&mut self.link);
        }
        Ok(())
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// `NoCredit`: call again after [`progress`](Self::progress). `WrongLength` for a message, which ends by itself.
    /// `Rejected`, `NotOpen`, `Closed`.
    pub fn finish(&mut self, fabric: &mut F, id: TransferId) -> Result<(), RefusedSend> {
        self.check(id)?;
        if self.sender.remaining(id)? != u64::MAX {
            return Err(RefusedSend::WrongLength);
        }
        if self.next_chunk(fabric, 0).is_none() {
            return Err(RefusedSend::NoCredit);
        }
        self.emit(fabric, Payload::InPlace, 0, true);
        fabric.ring_doorbell(&mut self.link);
        Ok(())
    }

    /// Gives a transfer up before its end. What was sent of it is thrown away by the receiver.
    ///
    /// # Errors
    /// `NotOpen`.
    pub fn cancel(&mut self, fabric: &mut F, id: TransferId, reason: Reason) -> Result<(), RefusedSend> {
        self.sender.cancel(id, reason)?;
        self.flush_controls(fabric);
        fabric.ring_doorbell(&mut self.link);
        Ok(())
    }

    /// Whether the peer does not want this transfer: the next call that sends says so.
    #[must_use]
    pub fn is_rejected(&self, id: TransferId) -> bool {
        self.sender.is_rejected(id)
    }

    /// Sets the protocol of the transfers started from now on.
    pub const fn set_protocol(&mut self, protocol: Protocol) {
        self.config.protocol = protocol;
    }

    /// Whether all that was sent was taken out by the peer, and nothing is owned by the device. Asks for
    /// acknowledgements to be looked at.
    pub fn delivered(&mut self) -> bool {
        let delivered = self.sender.is_delivered();
        self.wants_ack |= !delivered;
        delivered
    }

    /// Whether the device owns nothing of ours, so that memory can be released.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.sender.is_quiescent()
    }

    // Receiving.

    /// Takes the next message if it came in a line and fits: the shortest way for tiny messages. Anything else is left
    /// for [`incoming`](Self::incoming).
    #[inline]
    pub fn try_recv(&mut self, fabric: &mut F, slices: &mut [&mut [u8]]) -> TryRecv {
        let found = self.receiver.try_inline(fabric, &self.link, self.config.arrival, slices);
        if let TryRecv::Taken { .. } = found {
            self.took(fabric, 0);
        }
        found
    }

    /// The transfer at the head, once its first words are here. It stays at the head until [`pull`](Self::pull) or
    /// [`readable`](Self::readable) has told how it ended, or it is [`reject`](Self::reject)ed.
    #[inline]
    pub fn incoming(&mut self, fabric: &mut F) -> Option<Incoming> {
        // One REJECT waits at most: what could be rejected next has to wait for it.
        if self.pending_reject.is_some() && self.flush_controls(fabric) == 0 {
            return None;
        }
        let must_end = self.receiver.open().is_some_and(|open| open.shown && !open.discarding);
        if !must_end && self.receiver.is_draining() && !self.drain(fabric) {
            return None;
        }
        let polled = self.receiver.poll(fabric, &self.link, self.config.arrival);
        self.judged(fabric, polled).filter(|arrived| *arrived || self.receiver.open().is_some())?;
        let open = self.receiver.open_mut().filter(|open| !open.discarding)?;
        open.shown = true;
        Some(Incoming { transfer: open.transfer, tag: open.tag, length: open.length })
    }

    /// Takes the next bytes of the head transfer, as many as have arrived and fit. Answers its RTS with a CTS.
    #[inline]
    pub fn pull(&mut self, fabric: &mut F, slices: &mut [&mut [u8]]) -> Pulled {
        self.pull_from(fabric, slices, 0)
    }

    /// [`pull`](Self::pull) to what comes after the first `skip` bytes of the slices.
    #[inline]
    pub fn pull_from(&mut self, fabric: &mut F, slices: &mut [&mut [u8]], skip: usize) -> Pulled {
        if self.receiver.is_draining() {
            return self.drain_for_caller(fabric);
        }
        let mut scatter = Scatter::new(slices);
        scatter.skip(skip);
        let (config, consumed) = (self.config, self.receiver.consumed());
        // The CTS goes out before the first bytes are copied: the sender's round trip is hidden behind that.
        let polled = self.receiver.poll(fabric, &self.link, config.arrival);
        if self.judged(fabric, polled) != Some(true) && self.receiver.open().is_none() {
            return Pulled::NOTHING;
        }
        self.answer_rts(fabric);
        self.recorder.record(fabric, Step::Arrive, [self.receiver.last(), 0]);
        let pulled =
            self.receiver.pull(fabric, &mut self.link, config.arrival, &mut scatter, config.streaming_bytes);
        let pulled = self.judged(fabric, pulled).unwrap_or(Pulled::NOTHING);
        if pulled.bytes > 0 {
            self.recorder.record(fabric, Step::CopyOut, [self.receiver.last(), pulled.bytes as u64]);
        }
        if pulled.bytes > 0 || pulled.end != End::No || consumed != self.receiver.consumed() {
            self.took(fabric, pulled.bytes);
        }
        pulled
    }

    /// What can be read in place of the head transfer, at most `max_bytes` bytes. Answers its RTS with a CTS.
    ///
    /// A message in a slot line has no place: [`pull`](Self::pull) it.
    pub fn readable(&mut self, fabric: &mut F, max_bytes: u32) -> Readable<F::Region> {
        if self.receiver.is_draining() {
            return match self.drain_for_caller(fabric).end {
                End::No => Readable::Nothing,
                end => Readable::Ended(end),
            };
        }
        let consumed = self.receiver.consumed();
        let readable = self.receiver.readable(fabric, &self.link, self.config.arrival, max_bytes);
        let readable = self.judged(fabric, readable).unwrap_or(Readable::Nothing);
        self.answer_rts(fabric);
        if consumed != self.receiver.consumed() {
            self.took(fabric, 0);
        }
        readable
    }

    /// Gives the first `bytes` bytes back of what [`readable`](Self::readable) showed last: their memory is used
    /// again. More than it showed are a mistake, and ignored.
    pub fn consume(&mut self, fabric: &mut F, bytes: u32) -> End {
        let end = self.receiver.consume(bytes);
        debug_assert!(end.is_some(), "no more than was readable");
        self.took(fabric, bytes as usize);
        end.unwrap_or(End::No)
    }

    /// Refuses the head transfer: what has come of it and what comes is thrown away by [`progress`](Self::progress).
    /// False if there is none.
    pub fn reject(&mut self, fabric: &mut F, reason: Reason) -> bool {
        if self.incoming(fabric).is_none() {
            return false;
        }
        let Some(open) = self.receiver.open_mut() else { return false };
        open.discarding = true;
        self.pending_reject = Some((open.transfer, reason));
        self.flush_controls(fabric);
        fabric.ring_doorbell(&mut self.link);
        true
    }

    // Driving.

    /// One bounded round of everything that needs no asking: completions, control messages, posts and
    /// acknowledgements that are due. How much was done; after 0 the caller may wait a little.
    pub fn progress(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        if !F::DIRECT {
            work += self.poll_completions(fabric);
            if self.sender.has_unposted() {
                if self.sender.post(fabric, &mut self.link) {
                    work += 1;
                } else {
                    self.counters.sq_full += 1;
                }
            }
        }
        work += self.poll_mailbox(fabric);
        if self.wants_ack && self.refill(fabric) {
            work += 1;
        }
        if self.receiver.is_draining() && self.receiver.open().is_some_and(|open| open.discarding) {
            work += usize::from(self.drain(fabric));
        }
        work += self.flush_controls(fabric);
        if work > 0 {
            self.idle_rounds = 0;
        } else if self.idle_rounds < IDLE_ROUNDS {
            self.idle_rounds += 1;
        } else if self.owes_ack() {
            self.write_ack(fabric);
        }
        if work > 0 || !F::DIRECT {
            fabric.ring_doorbell(&mut self.link);
        }
        if self.closed.is_none()
            && let Some(reason) = self.receiver.closed()
        {
            self.closed = Some(Closed::ByPeer(reason));
        }
        work
    }

    /// Whether the peer has written something that no call has looked at yet: the last question before a sleep. A
    /// message that the application leaves there is told of once, so that waiting for something else can sleep.
    #[must_use]
    pub fn has_arrivals(&self, fabric: &F) -> bool {
        let acked = fabric.flag(&self.link, self.seat, seat::ACK);
        let next = self.receiver.next_arrival(fabric, &self.link, self.config.arrival);
        let noticed = next.is_some() && self.noticed.replace(next) != next;
        noticed
            || self.inbox.has_arrivals(fabric, &self.link, self.seat, self.config.arrival)
            || self.sender.has_news(acked)
    }

    /// Takes the oldest event out.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Looks at what is not looked at on every round: the peer's acknowledgements and signs of life. Every thousand
    /// empty rounds or so.
    pub fn look(&mut self, fabric: &mut F) {
        self.refill(fabric);
    }

    /// Shows the peer that this end lives, and writes the acknowledgements again, which heals one that was
    /// overtaken by an older one. A few times a second.
    pub fn show_life(&mut self, fabric: &mut F) {
        self.acked.life = self.acked.life.wrapping_add(1);
        self.write_ack(fabric);
    }

    /// Counts everything that was ever heard of the peer: while it stands still, the peer is silent.
    #[must_use]
    pub const fn heard(&self) -> u64 {
        self.heard
    }

    /// Closes this end. The peer takes out what was sent before, unless the reason is other than
    /// [`Reason::DONE`]. An open transfer is cancelled with the same reason. The mailbox may be full: call
    /// [`progress`](Self::progress) until [`is_told`](Self::is_told).
    pub fn close(&mut self, fabric: &mut F, reason: Reason) {
        if matches!(self.closed, None | Some(Closed::ByPeer(_))) {
            self.sender.abandon(reason);
            self.say_close(reason);
            if self.closed.is_none() {
                self.closed = Some(Closed::Here(reason));
            }
            self.flush_controls(fabric);
            fabric.ring_doorbell(&mut self.link);
        }
    }

    /// Whether the peer was told of everything, the close included.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.owes_no_control() && !self.sender.has_unposted()
    }

    /// Whether every control message was consumed by the peer.
    pub fn controls_delivered(&mut self) -> bool {
        let idle = self.outbox.is_idle();
        self.wants_ack |= !idle;
        idle && self.owes_no_control()
    }

    /// Whether the peer has said that it closes; what it sent before may still be here.
    #[must_use]
    pub const fn peer_closes(&self) -> bool {
        self.receiver.is_closing()
    }

    /// Why nothing moves any more, if so.
    #[must_use]
    #[inline]
    pub const fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// What was done so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters {
            inline_received: self.receiver.inlines,
            chunks_received: self.receiver.chunks,
            check_misses: self.receiver.check_misses,
            ..self.counters
        }
    }

    /// The flight recorder.
    pub const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// The policy.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The connection on the fabric.
    #[must_use]
    pub const fn link(&self) -> &F::Link {
        &self.link
    }

    /// The connection on the fabric.
    pub const fn link_mut(&mut self) -> &mut F::Link {
        &mut self.link
    }

    // What the above is made of.

    /// Whether every control message that is due went out.
    const fn owes_no_control(&self) -> bool {
        self.pending_cts.is_none()
            && self.pending_reject.is_none()
            && self.pending_close.is_none()
            && !self.sender.owes_cancel()
    }

    #[inline]
    const fn may_send(&self) -> bool {
        self.closed.is_none()
    }

    /// Whether a transfer may go on: a rejection is told before a close.
    fn check(&mut self, id: TransferId) -> Result<(), RefusedSend> {
        match self.sender.check(id) {
            Err(RefusedSend::Rejected(reason)) => Err(RefusedSend::Rejected(reason)),
            // Closing ends the open transfer, too.
            _ if !self.may_send() => Err(RefusedSend::Closed),
            checked => checked,
        }
    }

    #[cold]
    const fn why_not(&self) -> RefusedSend {
        if self.may_send() { RefusedSend::Busy } else { RefusedSend::Closed }
    }

    /// The result, or nothing and a closed connection.
    #[inline]
    fn judged<T>(&mut self, fabric: &mut F, result: Result<T, ProtocolError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(fabric, Failure::Protocol(error));
                None
            }
        }
    }

    /// CLOSE is said once.
    const fn say_close(&mut self, reason: Reason) {
        if !self.said_close {
            self.said_close = true;
            self.pending_close = Some(reason);
        }
    }

    #[cold]
    fn fail(&mut self, fabric: &mut F, failure: Failure) {
        if !matches!(self.closed, Some(Closed::Failed(_))) {
            self.closed = Some(Closed::Failed(failure));
            self.say_close(Reason::PROTOCOL);
            self.flush_controls(fabric);
        }
    }

    /// How large the next chunk may be, after looking for acknowledgements if it takes that.
    fn next_chunk(&mut self, fabric: &mut F, wanted: u64) -> Option<u32> {
        match self.sender.next(&self.config, wanted) {
            Next::Chunk(bytes) => return Some(bytes),
            Next::NoCredit => {
                if !self.refill(fabric) {
                    self.counters.credit_waits += 1;
                    self.recorder.record(fabric, Step::NoCredit, [self.sender.last(), wanted]);
                    return None;
                }
            }
            Next::NoCts => {
                if self.poll_mailbox(fabric) == 0 {
                    self.counters.cts_waits += 1;
                    return None;
                }
            }
        }
        match self.sender.next(&self.config, wanted) {
            Next::Chunk(bytes) => Some(bytes),
            Next::NoCredit | Next::NoCts => None,
        }
    }

    fn emit(&mut self, fabric: &mut F, payload: Payload<'_, '_>, bytes: u32, end: bool) {
        let sequence = crate::sequence::after(self.sender.last());
        self.recorder.record(fabric, Step::CopyIn, [sequence, u64::from(bytes)]);
        self.sender.emit(fabric, &mut self.link, self.config.arrival, payload, bytes, end);
        self.recorder.record(fabric, Step::Post, [sequence, u64::from(bytes)]);
        self.counters.chunks_sent += 1;
        self.counters.bytes_sent += u64::from(bytes);
    }

    /// Reads the peer's acknowledgements. Whether blocks became free.
    #[cold]
    fn refill(&mut self, fabric: &mut F) -> bool {
        let line = fabric.take_line(&self.link, self.seat, seat::ACK);
        let Some(ack) = Ack::parse(fabric, self.config.arrival, &line) else { return false };
        let blocks = self.sender.handle_ack(ack.blocks);
        let blocks = self.judged(fabric, blocks).unwrap_or(false);
        let controls = self.outbox.handle_ack(ack.controls);
        let controls = self.judged(fabric, controls).unwrap_or(false);
        if blocks || controls || ack.life != self.peer_life {
            self.peer_life = ack.life;
            self.heard = self.heard.wrapping_add(1);
        }
        self.wants_ack = self.sender.wants_ack_for_cancel();
        blocks
    }

    fn poll_completions(&mut self, fabric: &mut F) -> usize {
        let mut work = 0;
        while let Some(completion) = fabric.poll_cq(&mut self.link) {
            work += 1;
            self.sender.handle_completion(completion.wr);
            self.recorder.record(fabric, Step::Complete, [completion.wr.0, 0]);
            if let Err(error) = completion.result {
                self.fail(fabric, Failure::Device(error));
            }
            if work == 16 {
                break;
            }
        }
        work
    }

    #[inline]
    fn poll_mailbox(&mut self, fabric: &mut F) -> usize {
        let polled = self.inbox.poll(fabric, &self.link, self.seat, self.config.arrival);
        match polled {
            None => 0,
            Some(control) => {
                self.handle_control(fabric, control);
                1
            }
        }
    }

    #[cold]
    fn handle_control(&mut self, fabric: &mut F, control: Result<Control, ProtocolError>) {
        self.counters.controls_received += 1;
        self.heard = self.heard.wrapping_add(1);
        let handled = control.and_then(|control| {
            self.recorder.record(fabric, Step::ControlIn, [control.kind() as u64, 0]);
            match control {
                Control::Cts { transfer } => self.sender.handle_cts(transfer),
                Control::Cancel { transfer, last, reason } => {
                    self.receiver.handle_cancel(transfer, last, reason)
                }
                Control::Reject { transfer, reason } => {
                    self.sender.handle_reject(transfer, reason)?;
                    if self.events.is_full() {
                        self.events.pop_front();
                    }
                    let kept = self.events.push_back(Event::Rejected { transfer, reason });
                    debug_assert!(kept.is_ok(), "there is room");
                    Ok(())
                }
                Control::Close { last, reason } => self.receiver.handle_close(last, reason),
            }
        });
        self.judged(fabric, handled);
        if self.inbox.consumed().wrapping_sub(self.acked.controls) >= CONTROLS_PER_ACK {
            self.write_ack(fabric);
        }
    }

    /// Sends the control messages that are due, as far as there is room. How many.
    #[inline]
    fn flush_controls(&mut self, fabric: &mut F) -> usize {
        let idle = self.owes_no_control();
        if idle { 0 } else { self.flush_due(fabric) }
    }

    fn flush_due(&mut self, fabric: &mut F) -> usize {
        let mut sent = 0;
        if let Some(transfer) = self.pending_cts
            && self.post_control(fabric, Control::Cts { transfer })
        {
            self.pending_cts = None;
            sent += 1;
        }
        if let Some((transfer, reason)) = self.pending_reject
            && self.post_control(fabric, Control::Reject { transfer, reason })
        {
            self.pending_reject = None;
            sent += 1;
        }
        // One that has to wait for the last CANCEL waits for an acknowledgement.
        self.wants_ack |= self.sender.wants_ack_for_cancel();
        if let Some(cancelled) = self.sender.untold() {
            let crate::send::Cancelled { transfer, last, reason } = cancelled;
            if self.post_control(fabric, Control::Cancel { transfer, last, reason }) {
                self.sender.told();
                sent += 1;
            }
        }
        if let Some(reason) = self.pending_close
            && self.settles_acks(fabric)
            && self.post_control(fabric, Control::Close { last: self.sender.last(), reason })
        {
            self.pending_close = None;
            sent += 1;
        }
        sent
    }

    fn post_control(&mut self, fabric: &mut F, control: Control) -> bool {
        if !self.outbox.has_room(control.kind()) {
            self.wants_ack = true;
            return false;
        }
        let posted = self.outbox.post(fabric, &mut self.link, self.peer_seat, self.config.arrival, control);
        if posted {
            self.counters.controls_sent += 1;
            self.recorder.record(fabric, Step::ControlOut, [control.kind() as u64, 0]);
        } else {
            self.counters.sq_full += 1;
        }
        posted
    }

    /// Answers the RTS of the head transfer, once.
    #[inline]
    fn answer_rts(&mut self, fabric: &mut F) {
        let Some(open) = self.receiver.open_mut() else { return };
        open.shown = true;
        if open.want_cts && self.pending_cts.is_none() {
            open.want_cts = false;
            self.pending_cts = Some(open.transfer);
            self.flush_controls(fabric);
            fabric.ring_doorbell(&mut self.link);
        }
    }

    /// Payload was taken out: counts it, and acknowledges if enough blocks were consumed.
    #[inline]
    fn took(&mut self, fabric: &mut F, bytes: usize) {
        self.heard = self.heard.wrapping_add(1);
        self.counters.bytes_received += bytes as u64;
        if self.receiver.consumed().wrapping_sub(self.acked.blocks) >= self.ack_every {
            self.write_ack(fabric);
        }
    }

    fn owes_ack(&self) -> bool {
        self.acked.blocks != self.receiver.consumed() || self.acked.controls != self.inbox.consumed()
    }

    /// Whether the peer was told of all that was consumed: it may wait for that.
    fn settles_acks(&mut self, fabric: &mut F) -> bool {
        if self.owes_ack() {
            self.write_ack(fabric);
        }
        !self.owes_ack()
    }

    fn write_ack(&mut self, fabric: &mut F) {
        let ack =
            Ack { blocks: self.receiver.consumed(), controls: self.inbox.consumed(), life: self.acked.life };
        let line = ack.line(fabric, self.config.arrival);
        fabric.write_line(&mut self.link, self.peer_seat, seat::ACK, &line);
        if !F::DIRECT
            && fabric.post_write(&mut self.link, self.peer_seat, seat::ACK, LINE_BYTES, None).is_err()
        {
            self.counters.sq_full += 1;
            self.idle_rounds = IDLE_ROUNDS;
            return;
        }
        fabric.ring_doorbell(&mut self.link);
        self.acked = ack;
        self.counters.acks_sent += 1;
        self.recorder.record(fabric, Step::Ack, [ack.blocks, 0]);
    }

    /// Throws away what came of a transfer that is not wanted. Whether it is gone.
    fn drain(&mut self, fabric: &mut F) -> bool {
        self.drain_for_caller(fabric);
        !self.receiver.is_draining()
    }

    fn drain_for_caller(&mut self, fabric: &mut F) -> Pulled {
        let consumed = self.receiver.consumed();
        let drained = self.receiver.drain(fabric, &self.link, self.config.arrival);
        let drained = self.judged(fabric, drained).unwrap_or(Pulled::NOTHING);
        if consumed != self.receiver.consumed() {
            self.took(fabric, 0);
        }
        drained
    }
}

const _: () = assert!(Kind::Close.outstanding_max() == 1);
