//! Waiting for a source or sink outside of the connection, which lives on meanwhile.

use super::{Driver, Ended, NAP_NS};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::send::TransferId;

/// The longest time for which a sink may accept nothing while data of a dead peer are left.
const LEFT_NS: u64 = 1_000_000_000;

/// One wait for a descriptor of the caller's. The peer may be silent: it is not waited for.
#[derive(Clone, Debug)]
pub struct Outside {
    /// The stream that the source is for; none for a sink.
    sending: Option<TransferId>,
    /// Time of the last look at the sink since the peer is gone, and the time that was waited until then.
    gone: Option<(Nanos, u64)>,
}

/// Next step of the wait, after a look at the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideNext {
    /// Look at the descriptor again, after waiting for it or the peer's end.
    Wait,
    /// Look at the descriptor again, without waiting.
    Look,
    /// The descriptor is ready, or the stream was rejected: go on with it.
    Ready,
    /// The connection has ended: the wait is pointless.
    Ended(Ended),
}

impl Outside {
    /// Waits for the source of a stream. The wait is over once that is rejected, and fails when the peer is gone.
    #[must_use]
    pub const fn source(id: TransferId) -> Self {
        Self { sending: Some(id), gone: None }
    }

    /// Waits for a sink. Data that were received are still written when the peer is gone, unless the sink accepts none for a
    /// second.
    #[must_use]
    pub const fn sink() -> Self {
        Self { sending: None, gone: None }
    }
}

impl<F: Fabric> Driver<F> {
    /// One round of a wait for a descriptor that, when it was looked at, was ready or not.
    pub fn outside_round(
        &mut self,
        fabric: &mut F,
        outside: &mut Outside,
        is_ready: bool,
        now: Nanos,
    ) -> OutsideNext {
        // A peer that closed has sent all that it will, and takes nothing; one that did not is lost, and its transfer with it.
        let is_losing = self.peer_is_gone
            && outside.count_gone(now)
            && (outside.sending.is_some() || self.why_gone(fabric) == Ended::Lost);
        self.tick(fabric, now);
        let has_moved = self.progress(fabric);
        if outside.sending.is_some_and(|id| self.endpoint.is_rejected(id)) {
            return OutsideNext::Ready;
        }
        if let Some(closed) = self.endpoint.closed() {
            return OutsideNext::Ended(Ended::Closed(closed));
        }
        if is_ready && (outside.sending.is_none() || !is_losing) {
            return OutsideNext::Ready;
        }
        match (is_losing, has_moved) {
            (true, false) => OutsideNext::Ended(self.why_gone(fabric)),
            (true, true) => OutsideNext::Look,
            (false, _) => OutsideNext::Wait,
        }
    }
}

impl Outside {
    /// Counts the time since the last look, and returns true if a peer that is gone has left nothing worth waiting for. The time
    /// between two looks counts as [`NAP_NS`] at most: an end that was stopped has not waited for its sink.
    fn count_gone(&mut self, now: Nanos) -> bool {
        let (at, waited_ns) = self.gone.unwrap_or((now, 0));
        let waited_ns = waited_ns.saturating_add(now.0.saturating_sub(at.0).min(NAP_NS));
        self.gone = Some((now, waited_ns));
        self.sending.is_some() || waited_ns >= LEFT_NS
    }
}
