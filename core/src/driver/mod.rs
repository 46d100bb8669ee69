//! A connection as its user sees it, without I/O, clock or waiting: what can be tried at once, what is begun and driven, and
//! what time does to both.
//!
//! ```text
//!            try_send, try_recv, try_peek: at once, or refused
//!  user  --- Send, Receive, streams, close: begun, driven, finished or cancelled --->  Driver  --->  Endpoint
//!            Wait: after each round, what to do before the next                        ^
//!  shell --- look(now), tick(now), peer_is_gone() -------------------------------------+
//! ```
//!
//! [`setup`] is how two ends come to have one.

mod closing;
mod fingerprint;
mod half_open;
mod keepalive;
mod outside;
mod pace;
mod receiving;
mod sending;
pub mod setup;
mod wait;
mod warming;

use core::fmt;

use crate::config::Protocol;
use crate::counters::Counters;
use crate::endpoint::{Endpoint, Event};
use crate::error::{Closed, Reason};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use keepalive::Keepalive;
use pace::Pace;

pub use half_open::{HalfOpen, PATIENCE_NS};
pub use keepalive::{ALIVE_NS, KEEPALIVE_NS, NAP_NS};
pub use outside::{Outside, OutsideNext};
pub use pace::{Rest, SPIN_ROUNDS, UnknownStrategy, WaitStrategy, YIELD_ROUNDS};
pub use receiving::{Receive, ReceiveFailed, Received, RefusedRecv};
pub use sending::{Send, SendFailed};
pub use wait::{ATTEMPTS, BUSY_LOOK_ROUNDS, LookFailed, Next, Wait};
pub use warming::{WarmUp, WarmUpFailed, WarmUpPlan};

/// Tries that found nothing, between two [`Driver::tick`]s of a loop of tries.
pub const TRIES_PER_TICK: u32 = 1024;

/// Result of driving an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Drive<T> {
    /// It has ended.
    Done(T),
    /// A part of it was done: more may be possible at once.
    Moved,
    /// No part of it could be done.
    Idle,
}

impl<T> Drive<T> {
    /// Changes the result of one that has ended.
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

/// Reason why a connection moves nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It was closed, or has failed.
    Closed(Closed),
    /// The peer is gone without closing, and all that it left was taken.
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

/// One end of a connection with its timers, driven from outside. It keeps nothing of the caller's between calls, and neither
/// waits nor allocates nor reads a clock.
///
/// Three kinds of methods:
///
/// - *Tries* do at once what they can: [`try_send`](Self::try_send), [`try_recv`](Self::try_recv),
///   [`try_peek`](Self::try_peek). After a number of them that found nothing, [`count_empty`](Self::count_empty) asks for a
///   [`tick`](Self::tick).
/// - *Operations* are values that the caller keeps: [`Send`], [`Receive`] and [`WarmUp`], and the streams' calls on
///   [`endpoint`](Self::endpoint). Each is driven until it is [`Drive::Done`], or cancelled.
/// - *Waiting* is [`Wait`]: [`round`](Self::round) after attempts, then what it says: rest, or [`look`](Self::look) with the
///   time. The peer's death comes in by [`peer_is_gone`](Self::peer_is_gone).
pub struct Driver<F: Fabric> {
    endpoint: Endpoint<F>,
    keepalive: Keepalive,
    pace: Pace,
    /// Tries in a row that found nothing.
    empty: u32,
    /// The peer is known to be gone; what it wrote before may still be here.
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
    /// Drives an endpoint from `now` on. A peer that is waited for may be silent for `idle_timeout_ns`. The connection's number `id` is
    /// its own among all whose operations could be mixed up: an operation of another connection is refused by it.
    #[must_use]
    pub const fn new(
        endpoint: Endpoint<F>,
        id: u64,
        wait: WaitStrategy,
        idle_timeout_ns: u64,
        now: Nanos,
    ) -> Self {
        Self {
            endpoint,
            keepalive: Keepalive::new(idle_timeout_ns, now),
            pace: Pace::new(wait),
            empty: 0,
            peer_is_gone: false,
            is_closing: false,
            claimed: None,
            id,
        }
    }

    /// The endpoint: streams, and what is only read.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint<F> {
        &self.endpoint
    }

    /// The endpoint: streams, and its link.
    pub const fn endpoint_mut(&mut self) -> &mut Endpoint<F> {
        &mut self.endpoint
    }

    /// One bounded round of what needs no asking. Returns true if anything was done.
    #[inline]
    pub fn progress(&mut self, fabric: &mut F) -> bool {
        self.endpoint.progress(fabric) > 0
    }

    /// Returns why the connection has ended, if it has, after a round in which nothing moved. A CTS or REJECT that is due to a peer
    /// that is gone is dropped first: if a REJECT was, transfers that arrived behind it can be taken, and the result is `None`.
    pub fn ended(&mut self, fabric: &F) -> Option<Ended> {
        if let Some(closed) = self.endpoint.closed() {
            return Some(Ended::Closed(closed));
        }
        (self.peer_is_gone && !self.endpoint.forget_dues()).then(|| self.why_gone(fabric))
    }

    /// Returns the same as [`ended`](Self::ended), for a try that left an incomplete message at the head. Returns `None` if the last
    /// chunk or the CANCEL of that message is here, which an operation would still receive.
    pub fn ended_in_message(&mut self, fabric: &F) -> Option<Ended> {
        if self.endpoint.has_end_of_head(fabric) { None } else { self.ended(fabric) }
    }

    /// Returns how a peer that is gone has ended. It has closed if its CLOSE and all chunks that the CLOSE names are here, or were
    /// taken out, also while some of them wait to be taken. It is lost if any is missing.
    fn why_gone(&self, fabric: &F) -> Ended {
        if self.endpoint.has_all_before_close(fabric) {
            Ended::Closed(Closed::ByPeer(Reason::DONE))
        } else {
            Ended::Lost
        }
    }

    /// Returns true if [`ended`](Self::ended) may have something to say.
    #[inline]
    pub(crate) const fn may_have_ended(&self) -> bool {
        self.peer_is_gone || self.endpoint.closed().is_some()
    }

    /// Notes that the peer's end does not exist any more. What the peer wrote before can still be received.
    pub const fn peer_is_gone(&mut self) {
        self.peer_is_gone = true;
    }

    /// Returns true if the peer is known to be gone.
    #[must_use]
    pub const fn is_peer_gone(&self) -> bool {
        self.peer_is_gone
    }

    /// Takes the oldest event out.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// Sets the protocol of the transfers started from now on.
    pub const fn set_protocol(&mut self, protocol: Protocol) {
        self.endpoint.set_protocol(protocol);
    }

    /// Sets how to wait from now on.
    pub const fn set_wait(&mut self, wait: WaitStrategy) {
        self.pace = Pace::new(wait);
    }

    /// Sets for how long the peer may be silent while it is waited for, from now on.
    pub const fn set_idle_timeout(&mut self, idle_timeout_ns: u64) {
        self.keepalive.set_idle_timeout(idle_timeout_ns);
    }

    /// Wait strategy in use.
    #[must_use]
    pub const fn wait_strategy(&self) -> WaitStrategy {
        self.pace.strategy()
    }

    /// Counters of this end.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.endpoint.counters()
    }

    /// Counts a try that found nothing. Returns true, every few of them, if a round of [`progress`](Self::progress) is due. Always true
    /// of a connection that may have ended.
    #[inline]
    pub const fn count_empty(&mut self) -> bool {
        self.empty = self.empty.wrapping_add(1);
        self.empty.is_multiple_of(ATTEMPTS) || self.may_have_ended()
    }

    /// Returns true, after [`TRIES_PER_TICK`] tries that found nothing, if a [`tick`](Self::tick) is due.
    pub const fn is_tick_due(&mut self) -> bool {
        let is_due = self.empty >= TRIES_PER_TICK;
        if is_due {
            self.empty = 0;
        }
        is_due
    }
}

/// For a caller that explores what a state can lead to, as with an [`Endpoint`].
impl<F: Fabric> Clone for Driver<F>
where
    Endpoint<F>: Clone,
{
    fn clone(&self) -> Self {
        let Self { endpoint, keepalive, pace, empty, peer_is_gone, is_closing, claimed, id } = self;
        Self {
            endpoint: endpoint.clone(),
            keepalive: keepalive.clone(),
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
