//! One end of one connection.

mod driving;
mod fingerprint;
mod notified;
mod receiving;
mod sending;
mod telling;

use crate::ack::Ack;
use crate::config::{Config, ConfigError, Origin};
use crate::counters::Counters;
use crate::error::{Closed, Reason};
use crate::fabric::Fabric;
use crate::header::Length;
use crate::layout::Landing;
use crate::mailbox::{Inbox, Outbox};
use crate::notice::Notices;
use crate::receive::Receiver;
use crate::send::Sender;
use crate::state::{Phase, State};
use core::cell::Cell;

/// Rounds of [`Endpoint::progress`] since something was taken out, after which acknowledgements that are due go out. Where they have to be posted, so
/// many that the answer to a short message comes first: each is a packet, and its own acknowledgement another.
const IDLE_ROUNDS: [u32; 2] = [128, 8];

/// Acknowledgements while the ring's blocks are consumed once, of short messages and of long ones. Where they have to be
/// posted, as few as keep the sender going.
const ACKS_PER_RING: [[u32; 2]; 2] = [[2, 4], [8, 8]];

/// Bytes that one call of a longer transfer moves at most, about: a peer that is as fast as this end, or a vast ring, must not
/// keep a caller from its deadline. 100 µs, and more than the default ring.
const CALL_BYTES: u32 = 1 << 20;

/// Control messages consumed after which the acknowledgement goes out.
const CONTROLS_PER_ACK: u64 = 4;

/// Events that can wait to be taken: as many as one mailbox has rejections. Older ones are dropped and counted.
const EVENTS_MAX: usize = 16;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The receiver does not want this transfer; it may have been sent whole already.
    Rejected {
        /// Its number.
        transfer: u64,
        /// The receiver's reason.
        reason: Reason,
    },
    /// Older events were dropped, since nobody took them out in time.
    Missed {
        /// Count of the dropped events.
        count: u64,
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
/// [`RefusedSend::NoCredit`](crate::RefusedSend::NoCredit) can succeed after any `progress`; what a receiving call
/// has nothing to give for, too.
///
/// A clone is for whoever explores what can come of a state: two that use one connection destroy each other's blocks.
#[derive(Clone)]
pub struct Endpoint<F: Fabric> {
    link: F::Link,
    seat: F::Region,
    peer_seat: F::Remote,
    config: Config,
    sender: Sender<F>,
    receiver: Receiver<F>,
    outbox: Outbox,
    inbox: Inbox,
    notices: Notices,
    /// The counts of the acknowledgement written last, and the peer's newest.
    acked: Ack,
    /// The peer's line of acknowledgements was written as a whole.
    ack_line_is_there: bool,
    peer_life: u64,
    /// Blocks of a transfer of each [`Size`](receiving::Size) after which an acknowledgement goes out.
    ack_every: [u64; 2],
    /// Rounds since something was taken out.
    idle_rounds: u32,
    /// What [`has_arrivals`](Self::has_arrivals) told of last: sequence and block.
    noticed: Cell<Option<(u64, u32)>>,
    /// Acknowledgements are awaited: look at them each round.
    wants_ack: bool,
    pending_cts: Option<u64>,
    pending_close: Option<Reason>,
    said_close: bool,
    events: heapless::Deque<Event, EVENTS_MAX>,
    /// Events dropped since the last [`Event::Missed`].
    missed: u64,
    closed: Option<Closed>,
    /// What was heard of the peer but for data.
    heard: u64,
    counters: Counters,
}

impl<F: Fabric> Endpoint<F> {
    const IDLE_ROUNDS: u32 = IDLE_ROUNDS[F::DIRECT as usize];
    const ACKS_PER_RING: [u32; 2] = ACKS_PER_RING[F::DIRECT as usize];

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
        let caps = fabric.caps(&link);
        config.validate(F::DIRECT, caps, [landing.layout, peer_landing.layout])?;
        let Origin { sequence, blocks, controls, transfers, life, notices } = origin;
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
            ack_line_is_there: false,
            inbox,
            notices: Notices::new(config.arrival, caps.notices, notices),
            peer_life: life,
            ack_every: Self::ACKS_PER_RING.map(|acks| u64::from(landing.layout.block_count / acks).max(1)),
            idle_rounds: 0,
            noticed: Cell::new(None),
            wants_ack: false,
            pending_cts: None,
            pending_close: None,
            said_close: false,
            events: heapless::Deque::new(),
            missed: 0,
            closed: None,
            heard: 0,
            counters: Counters::default(),
        })
    }

    /// Why nothing moves any more, if so.
    #[must_use]
    #[inline]
    pub const fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Where this end stands.
    #[must_use]
    pub fn state(&self) -> State {
        let phase = match self.closed {
            Some(Closed::Here(_)) => Phase::ClosedHere,
            Some(Closed::ByPeer(_)) => Phase::ClosedByPeer,
            Some(Closed::Failed(_)) => Phase::Failed,
            None if self.receiver.is_closing() => Phase::PeerCloses,
            None => Phase::Open,
        };
        State { sending: self.sender.state(), receiving: self.receiver.state(), phase }
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

    /// Counts from here on.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.receiver.inlines = 0;
        self.receiver.chunks = 0;
        self.receiver.check_misses = 0;
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
}
