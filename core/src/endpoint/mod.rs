//! One end of a connection: both halves, mailbox, acknowledgements and notifications.

mod acknowledging;
mod building;
mod counters;
mod driving;
mod exposing;
mod fingerprint;
mod growing;
mod job_times;
mod loans;
mod mailbox;
mod notifications;
mod planning;
mod provisioning;
mod readiness;
mod receiving;
mod sending;
mod sending_at_once;
mod splitting;
mod zero_copy;

pub use building::RefusedReserve;
pub use counters::Counters;
pub(crate) use exposing::ExposedSend;
pub use loans::RefusedLoan;
pub use zero_copy::REMOTE_WRITE_BYTES_MAX;
pub(crate) use zero_copy::Remote;

use crate::config::{Config, ConfigError, Origin};
use crate::copying::{KernelSet, WindowReason};
use crate::error::{Closed, Reason};
use crate::exposing::Exposing;
use crate::fabric::{Fabric, times_copies};
use crate::memory::{Growth, GrowthTerms, Provider, Tally};
use crate::receive::{Loans, Receiver};
use crate::send::{NotificationCredits, REMOTE_ENDS_MAX, Sender};
use crate::state::{Phase, State};
use crate::wire::ack::Ack;
use crate::wire::grant::DestinationClaim;
use crate::wire::header::Length;
use crate::wire::layout::Landing;
use crate::wire::timing::Timing;
use crate::zero_copy::ZeroCopy;
use core::cell::Cell;
use mailbox::{Inbox, Outbox};

/// Rounds of [`Endpoint::progress`] since payload was taken out, after which acknowledgements that are due go out: with posted writes,
/// and with direct store. With posted writes the answer to a short message comes first, since an acknowledgement costs a packet, and
/// in the transport another one (docs/architecture/rdma.md, "Notify mode").
const IDLE_ROUNDS: [u32; 2] = [128, 8];

/// Control messages consumed after which the acknowledgement goes out: one less than the five CTS that may be unacknowledged, so the peer
/// need not wait for a place. With fewer there would be more acknowledgements; with five or more the peer would wait until this end has
/// been idle for [`IDLE_ROUNDS`].
const CONTROLS_PER_ACK: u64 = 4;

/// Most events that wait to be taken; older ones are dropped and counted. The only event is a rejection, so a program that takes events
/// once per 16 transfers misses none.
const EVENTS_MAX: usize = 16;

/// Link and memory of a connection.
pub struct Attachment<F: Fabric> {
    /// Link of the connection.
    pub link: F::Link,
    /// Control page of this end, which the peer writes: [`CONTROL_PAGE_BYTES`](crate::CONTROL_PAGE_BYTES), all zero.
    pub control_page: F::Region,
    /// Control page of the peer.
    pub peer_control_page: F::Remote,
    /// Landing buffer of this end, all zero, with its layout.
    pub landing: Landing<F::Region>,
    /// Landing buffer of the peer, with its layout.
    pub peer_landing: Landing<F::Remote>,
    /// Terms of growth. `None`: both landing buffers stay as they are.
    pub growth: Option<GrowthTerms<F>>,
}

/// Event that no call asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The receiver rejected this transfer, which may have been sent completely already.
    Rejected {
        /// Number of the transfer.
        transfer: u64,
        /// Reason of the receiver.
        reason: Reason,
    },
    /// Older events were dropped, because they were not taken out in time.
    Missed {
        /// Count of the dropped events.
        count: u64,
    },
}

/// Incoming transfer at the head of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incoming {
    /// Number of the transfer.
    pub transfer: u64,
    /// Tag of the sender.
    pub tag: u64,
    /// Length of the transfer.
    pub length: Length,
}

/// One end of a connection, driven from outside. It keeps no memory of the caller between calls, never waits and never
/// allocates.
///
/// ```text
///           close
///   OPEN ---------------------------------------------> CLOSED-HERE
///    |      peer's CLOSE, and all that it sent before is taken out
///    +------------------------------------------------> CLOSED-BY-PEER
///    |      a broken rule, a failed work request: from any state
///    +------------------------------------------------> FAILED
/// ```
///
/// Three kinds of methods. *Sending*: [`try_send`](Self::try_send) for what fits at once;
/// [`start`](Self::start), then [`push`](Self::push) or [`reserve`](Self::reserve) and [`commit`](Self::commit), then
/// for a stream [`finish`](Self::finish); [`cancel`](Self::cancel); [`reserve_message`](Self::reserve_message), then
/// [`commit_message`](Self::commit_message). *Receiving*: [`incoming`](Self::incoming), then
/// [`pull`](Self::pull), or [`readable`](Self::readable) and [`consume`](Self::consume), or [`reject`](Self::reject).
/// *Driving*: [`progress`](Self::progress) whenever no other call makes headway, then
/// [`poll_event`](Self::poll_event); now and then [`poll_acknowledgements`](Self::poll_acknowledgements) and
/// [`send_keepalive`](Self::send_keepalive).
///
/// Transfers of one direction form one sequence. A sending call that is refused with
/// [`RefusedSend::NoCredit`](crate::RefusedSend::NoCredit), and a receiving call that finds nothing, can succeed after any
/// `progress`.
///
/// Clones serve state exploration only. Two clones that use one connection destroy each other's blocks.
#[derive(Clone)]
pub struct Endpoint<F: Fabric> {
    link: F::Link,
    control_page: F::Region,
    peer_control_page: F::Remote,
    config: Config,
    sender: Sender<F>,
    receiver: Receiver<F>,
    loans: Loans<F::Region>,
    growth: Option<Growth<F>>,
    outbox: Outbox,
    inbox: Inbox,
    /// Counts of the acknowledgement that was written last.
    acked: Ack,
    /// The complete line of acknowledgements was written to the peer at least once.
    ack_line_is_there: bool,
    peer_keepalives: u64,
    /// Rounds of progress since payload was consumed.
    idle_rounds: u32,
    /// Arrival that [`has_arrivals`](Self::has_arrivals) reported last: sequence and block.
    reported: Cell<Option<(u64, u32)>>,
    /// Acknowledgements are awaited, and polled each round.
    wants_ack: bool,
    /// Transfer of the CTS that is due, and the claim in it.
    pending_cts: Option<(u64, Option<DestinationClaim>)>,
    zero_copy: ZeroCopy,
    exposing: Exposing<F::Region, F::Remote>,
    pending_close: Option<Reason>,
    has_sent_close: bool,
    events: heapless::Deque<Event, EVENTS_MAX>,
    /// Events dropped since the last [`Event::Missed`].
    missed: u64,
    closed: Option<Closed>,
    /// Count of acknowledgements, control messages and notifications of the peer.
    activity: u64,
    counters: Counters,
    /// Numbers of the transfers, sent and received, before those that the counters count.
    counted_from: [u64; 2],
}

impl<F: Fabric> Endpoint<F> {
    const IDLE_ROUNDS: u32 = IDLE_ROUNDS[F::DIRECT as usize];

    /// Makes an endpoint on memory that both ends have agreed on. Both ends count from `origin`.
    ///
    /// # Errors
    /// [`ConfigError`]: a field is out of range, or the fabric does not support the arrival mode or layout.
    pub fn new(
        fabric: &F,
        attachment: Attachment<F>,
        config: Config,
        origin: Origin,
    ) -> Result<Self, ConfigError> {
        let Attachment { link, control_page, peer_control_page, landing, peer_landing, growth } = attachment;
        let caps = fabric.caps(&link);
        config.validate(F::DIRECT, caps, [landing.layout, peer_landing.layout])?;
        let Origin { blocks, transfers, controls, keepalives, notifications, .. } = origin;
        let credits = NotificationCredits::new(config.arrival, caps.notifications_max, notifications);
        let inbox = Inbox::new(controls);
        let kernels = if times_copies::<F>() { fabric.copy_kernels(&link) } else { KernelSet::PLAIN };
        Ok(Self {
            link,
            control_page,
            peer_control_page,
            config,
            sender: Sender::new(peer_landing, &config, kernels, credits, &origin),
            receiver: Receiver::new(landing, &config, kernels, &origin),
            loans: Loans::new(),
            growth: growth.map(|terms| Growth::new(&terms, landing, peer_landing.memory)),
            outbox: Outbox::new(controls),
            acked: Ack { blocks, controls: inbox.consumed(), keepalives, timing: Timing::NONE },
            ack_line_is_there: false,
            inbox,
            peer_keepalives: keepalives,
            idle_rounds: 0,
            reported: Cell::new(None),
            wants_ack: false,
            pending_cts: None,
            zero_copy: ZeroCopy::new(usize::from(caps.notifications_max) >= REMOTE_ENDS_MAX),
            exposing: Exposing::new(if F::DIRECT { config.protocol.peer_access() } else { None }),
            pending_close: None,
            has_sent_close: false,
            events: heapless::Deque::new(),
            missed: 0,
            closed: None,
            activity: 0,
            counters: Counters::default(),
            counted_from: [transfers; 2],
        })
    }

    /// Returns how the connection ended, once it has.
    #[must_use]
    #[inline]
    pub const fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Returns the state of this end.
    #[must_use]
    pub fn state(&self) -> State {
        let phase = match self.closed {
            Some(Closed::Here(_)) => Phase::ClosedHere,
            Some(Closed::ByPeer(_)) => Phase::ClosedByPeer,
            Some(Closed::Failed(_)) => Phase::Failed,
            None if self.receiver.is_closing() => Phase::PeerCloses,
            None => Phase::Open,
        };
        let growth = self.growth.as_ref().map(Growth::state).unwrap_or_default();
        State { sending: self.sender.state(), receiving: self.receiver.state(), growth, phase }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let provider = self.growth.as_ref().map(|growth| &growth.provider);
        let Tally { growths, refusals, shrinks, reclaims, releases, bytes_peak } =
            provider.map(Provider::tally).unwrap_or_default();
        let ((copy_in, timed_in), (copy_out, timed_out)) = (self.sender.kernels(), self.receiver.kernels());
        let window = self.sender.window_choice();
        let [sent_from, received_from] = self.counted_from;
        Counters {
            transfers_sent: self.sender.newest_transfer().wrapping_sub(sent_from),
            transfers_received: self.receiver.transfers().wrapping_sub(received_from),
            cancels_received: self.receiver.cancels,
            window_bytes: self.sender.chosen_window_bytes(),
            window_reason: if F::DIRECT { window.reason() } else { WindowReason::Start },
            window_changes: window.changes(),
            copy_in: copy_in.all_chosen(),
            copy_out: copy_out.all_chosen(),
            copies_timed: [timed_in, timed_out],
            copy_changes: [copy_in.changes(), copy_out.changes()],
            landing_bytes: provider.map(Provider::landing_bytes).unwrap_or_default(),
            landing_bytes_peak: bytes_peak,
            growths,
            refusals,
            shrinks,
            reclaims,
            releases,
            inline_received: self.receiver.inlines,
            chunks_received: self.receiver.chunks,
            check_misses: self.receiver.check_misses,
            exposed_bytes_received: self.receiver.exposed_bytes,
            split_bytes_received: self.receiver.split_bytes,
            mapped_bytes: self.receiver.sources().bytes(),
            maps_refused: self.exposing.mapper.refusals,
            ..self.counters
        }
    }

    /// Counts everything that this end has sent and received. While it grows at either end, the connection makes progress. Control messages
    /// about growth do not count: an end can ask for memory, and be refused, for ever.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        let Counters { inline_sent, chunks_sent, bytes_sent, bytes_received, .. } = self.counters;
        let Counters { controls_sent, controls_received, growth_controls, .. } = self.counters;
        inline_sent
            + chunks_sent
            + bytes_sent
            + self.receiver.inlines
            + self.receiver.chunks
            + bytes_received
            + self.sender.prepared() as u64
            + (controls_sent + controls_received - growth_controls)
    }

    /// Sets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.counted_from = [self.sender.newest_transfer(), self.receiver.transfers()];
        if let Some(growth) = &mut self.growth {
            growth.provider.reset_tally();
        }
        self.receiver.inlines = 0;
        self.receiver.cancels = 0;
        self.receiver.chunks = 0;
        self.receiver.check_misses = 0;
        self.receiver.exposed_bytes = 0;
        self.receiver.split_bytes = 0;
        self.exposing.mapper.refusals = [0; 3];
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the link.
    #[must_use]
    pub const fn link(&self) -> &F::Link {
        &self.link
    }

    /// Returns the link.
    pub const fn link_mut(&mut self) -> &mut F::Link {
        &mut self.link
    }
}
