//! A connection as its user sees it, without I/O, clock or waiting: tries, operations, and timers.
//!
//! ```text
//!            try_send, try_recv, try_peek: done at once, or refused
//!  user  --- SendOperation, RecvOperation, streams, close ------->  Driver  --->  Endpoint
//!            Wait: next step after each round                           ^
//!  shell --- check_time(now), tick(now), note_peer_gone() --------------+
//! ```
//!
//! [`setup`] negotiates a connection.

mod closing;
mod descriptor_wait;
mod fingerprint;
mod half_open;
mod keepalive;
mod lent;
mod looking;
mod pace;
mod receiving;
mod releasing;
mod sending;
pub mod setup;
mod streaming;
mod wait;
mod warming;
mod zero_copy;

use core::fmt;

use crate::endpoint::{Counters, Endpoint, Event};
use crate::error::{Closed, Reason};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::protocol::Protocol;
use keepalive::Keepalive;
use pace::Pace;
use releasing::Releasing;

pub use descriptor_wait::{DescriptorWait, DescriptorWaitNext};
pub use half_open::{EVICTION_SILENCE_NS, HalfOpenTable};
pub use keepalive::{KEEPALIVE_NS, LIVENESS_CHECK_NS, SLEEP_MAX_NS, Silence};
pub use looking::{Interest, Look, Seen, Tended};
pub use pace::{Rest, SPIN_ROUNDS, WaitStrategy, WaitStrategyParseError, YIELD_ROUNDS};
pub use receiving::{Received, RecvFailed, RecvOperation, RefusedRecv};
pub use releasing::RELEASE_AFTER_NS;
pub use sending::{SendFailed, SendOperation};
pub use streaming::{IncomingStream, OutgoingStream, StreamRead};
pub use wait::{ATTEMPTS_PER_ROUND, BUSY_ROUNDS_PER_CHECK, Next, Wait, WaitFailed};
pub use warming::{WarmUp, WarmUpFailed, WarmUpPlan};

/// Tries without a result between two [`Driver::tick`]s, in a loop of tries. A tick reads the clock, which costs as much as a few tries,
/// and so less than 1 % here. With more, a program that tries every 200 µs would send its keepalives late
/// ([`KEEPALIVE_NS`] is 1,000 times as long).
pub const TRIES_PER_TICK: u32 = 1024;

/// Result of driving an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Drive<T> {
    /// The operation has ended.
    Done(T),
    /// A part of the operation was done, and more may be possible at once.
    Moved,
    /// No part of the operation could be done.
    Idle,
}

impl<T> Drive<T> {
    /// Maps the result of an operation that has ended.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Drive<U> {
        match self {
            Self::Done(value) => Drive::Done(f(value)),
            Self::Moved => Drive::Moved,
            Self::Idle => Drive::Idle,
        }
    }
}

impl<T> From<Option<T>> for Drive<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Idle, Self::Done)
    }
}

/// End of a connection, as its user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The connection was closed, or has failed.
    Closed(Closed),
    /// The peer is gone without closing, and all that arrived from it was taken.
    Lost,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(Closed::Here(Reason(reason))) => {
                write!(f, "the connection was closed here (reason {reason})")
            }
            Self::Closed(Closed::ByPeer(Reason::PROTOCOL)) => {
                f.write_str("the peer says that this end broke the protocol")
            }
            Self::Closed(Closed::ByPeer(Reason(reason))) => {
                write!(f, "the peer closed the connection (reason {reason})")
            }
            Self::Closed(Closed::Failed(failure)) => failure.fmt(f),
            Self::Lost => {
                f.write_str("the peer is gone: it ended or was killed without closing the connection")
            }
        }
    }
}

/// One end of a connection with its timers, driven from outside. It keeps no memory of the caller between calls, never waits, never
/// allocates, and reads no clock.
///
/// Three kinds of methods:
///
/// - *Tries* do at once what they can: [`try_send`](Self::try_send), [`try_recv`](Self::try_recv),
///   [`try_peek`](Self::try_peek). After a number of them that found nothing, [`count_empty`](Self::count_empty) asks for a
///   [`progress`](Self::progress), and [`is_tick_due`](Self::is_tick_due) for a [`tick`](Self::tick).
/// - *Operations* are values that the caller keeps: [`SendOperation`], [`RecvOperation`], [`OutgoingStream`], [`IncomingStream`] and
///   [`WarmUp`]. Each is driven until it is [`Drive::Done`], or cancelled.
/// - *Waiting* is [`Wait`]: [`round`](Self::round) after attempts, then the step that it returns: rest, or
///   [`check_time`](Self::check_time) with the time. The caller reports the peer's death by [`note_peer_gone`](Self::note_peer_gone).
///
/// A call that needs no timer and no operation passes on to the [`Endpoint`]. It is here so that a user calls one object.
pub struct Driver<F: Fabric> {
    endpoint: Endpoint<F>,
    keepalive: Keepalive,
    releasing: Releasing,
    pace: Pace,
    /// Tries without a result since the last tick.
    empty: u32,
    /// The peer is known to be gone. What it wrote before may not be consumed yet.
    peer_is_gone: bool,
    /// This end has closed.
    is_closing: bool,
    /// The newest transfer that an operation or a stream has begun to take.
    claimed: Option<Claimed>,
    /// Number of this connection, which operations are bound to.
    id: u64,
}

/// A transfer that is being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Claimed {
    number: u64,
    /// Bytes that its operation has taken.
    taken: usize,
}

impl<F: Fabric> Driver<F> {
    /// Makes a driver of an endpoint from `now` on. In a wait, a peer may be silent for `idle_timeout_ns`. `id` must be unique among the
    /// connections whose operations could be mixed up: a driver refuses operations of another connection by it.
    #[must_use]
    pub const fn new(
        endpoint: Endpoint<F>,
        id: u64,
        wait: WaitStrategy,
        idle_timeout_ns: u64,
        now: Nanos,
    ) -> Self {
        Self {
            keepalive: Keepalive::new(idle_timeout_ns, endpoint.acknowledged(), now),
            endpoint,
            releasing: Releasing::new(now),
            pace: Pace::new(wait),
            empty: 0,
            peer_is_gone: false,
            is_closing: false,
            claimed: None,
            id,
        }
    }

    /// Returns the endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint<F> {
        &self.endpoint
    }

    /// Returns the endpoint, for streams and its link.
    pub const fn endpoint_mut(&mut self) -> &mut Endpoint<F> {
        &mut self.endpoint
    }

    /// Makes one bounded round of progress, as [`Endpoint::progress`]. Returns true if anything was done.
    #[inline]
    pub fn progress(&mut self, fabric: &mut F) -> bool {
        self.endpoint.progress(fabric) > 0
    }

    /// Returns true while a job of the fabric is under way. Nothing wakes a caller when it ends, and rounds may have to make its steps: so
    /// pauses between them should be short.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        self.endpoint.has_jobs()
    }

    /// Returns why the connection has ended, if it has, after a round in which nothing moved, and once the memory of messages that are over is
    /// released: their operations are done before. A CTS or REJECT that is due to a peer
    /// that is gone is dropped first: if a REJECT was, transfers that arrived behind it can be taken, and the result is `None`.
    pub fn ended(&mut self, fabric: &F) -> Option<Ended> {
        if self.endpoint.is_releasing() {
            return None;
        }
        if let Some(closed) = self.endpoint.closed() {
            return Some(Ended::Closed(closed));
        }
        (self.peer_is_gone && !self.endpoint.drop_replies()).then(|| self.end_of_gone_peer(fabric))
    }

    /// Returns the same as [`ended`](Self::ended), for a try that left an incomplete message at the head. Returns `None` if the last
    /// chunk or the CANCEL of that message is here, which an operation would still receive.
    pub fn ended_in_message(&mut self, fabric: &F) -> Option<Ended> {
        if self.endpoint.has_end_of_head(fabric) { None } else { self.ended(fabric) }
    }

    /// Returns how a peer that is gone has ended. It has closed if its CLOSE and all chunks that the CLOSE names are here, or were
    /// taken out, also while some of them wait to be taken. It is lost if any is missing.
    fn end_of_gone_peer(&self, fabric: &F) -> Ended {
        if self.endpoint.has_all_before_close(fabric) {
            Ended::Closed(Closed::ByPeer(Reason::DONE))
        } else {
            Ended::Lost
        }
    }

    /// Returns true if [`ended`](Self::ended) may return an end.
    #[inline]
    pub(crate) const fn may_have_ended(&self) -> bool {
        self.peer_is_gone || self.endpoint.closed().is_some()
    }

    /// Notes that the peer's end does not exist any more. What the peer wrote before can still be received.
    pub const fn note_peer_gone(&mut self) {
        self.peer_is_gone = true;
        self.endpoint.note_peer_gone();
    }

    /// Returns true if the peer is known to be gone.
    #[must_use]
    pub const fn is_peer_gone(&self) -> bool {
        self.peer_is_gone
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// Sets the protocol of the transfers started from now on.
    pub const fn set_protocol(&mut self, protocol: Protocol) {
        self.endpoint.set_protocol(protocol);
    }

    /// [`Endpoint::set_window`]
    pub fn set_window(&mut self, bytes: Option<u32>) {
        self.endpoint.set_window(bytes);
    }

    /// Sets the strategy of later waits.
    pub const fn set_wait(&mut self, wait: WaitStrategy) {
        self.pace = Pace::new(wait);
    }

    /// Sets for how long the peer may be silent in later waits.
    pub const fn set_idle_timeout(&mut self, idle_timeout_ns: u64) {
        self.keepalive.set_idle_timeout(idle_timeout_ns);
    }

    /// Sets for how long the peer lets this end be silent, as the handshake tells ([`Established`](setup::Established)). While the connection is idle, four keepalives are sent in this time, and not one
    /// every 200 ms, as without this call.
    pub fn set_peer_idle_timeout(&mut self, timeout: Nanos) {
        self.keepalive.set_peer_idle_timeout(timeout.0);
    }

    /// Returns the wait strategy.
    #[must_use]
    pub const fn wait_strategy(&self) -> WaitStrategy {
        self.pace.strategy()
    }

    /// Returns the counters of this end.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    /// Counts a try without a result. Returns true every few tries, when a round of [`progress`](Self::progress) is due, and always if the
    /// connection may have ended.
    #[inline]
    pub const fn count_empty(&mut self) -> bool {
        self.empty = self.empty.wrapping_add(1);
        self.empty.is_multiple_of(ATTEMPTS_PER_ROUND) || self.may_have_ended()
    }

    /// Returns true if a [`tick`](Self::tick) is due, which is after [`TRIES_PER_TICK`] tries without a result.
    pub const fn is_tick_due(&mut self) -> bool {
        let is_due = self.empty >= TRIES_PER_TICK;
        if is_due {
            self.empty = 0;
        }
        is_due
    }
}

/// For state exploration only, as with an [`Endpoint`].
impl<F: Fabric> Clone for Driver<F>
where
    Endpoint<F>: Clone,
{
    fn clone(&self) -> Self {
        let Self { endpoint, keepalive, releasing, pace, empty, peer_is_gone, is_closing, claimed, id } =
            self;
        Self {
            endpoint: endpoint.clone(),
            keepalive: keepalive.clone(),
            releasing: releasing.clone(),
            pace: pace.clone(),
            empty: *empty,
            peer_is_gone: *peer_is_gone,
            is_closing: *is_closing,
            claimed: *claimed,
            id: *id,
        }
    }
}

impl<F: Fabric> fmt::Debug for Driver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("state", &self.endpoint.state())
            .field("peer_is_gone", &self.peer_is_gone)
            .finish_non_exhaustive()
    }
}
