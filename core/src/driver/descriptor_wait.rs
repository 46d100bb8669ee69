//! Waits for a descriptor of the caller, which is the source or sink of a stream. The connection is kept alive meanwhile.

use super::{Driver, Ended, SLEEP_MAX_NS};
use crate::fabric::Fabric;
use crate::nanos::Nanos;
use crate::send::TransferId;

/// Longest time for which a sink may accept nothing while data of a dead peer are left. A reader that is alive takes them sooner.
/// Without a bound, one that has stopped reading would keep the dead connection open.
const LEFT_NS: u64 = 1_000_000_000;

/// State of a wait for a descriptor of the caller. The peer may be silent meanwhile.
#[derive(Clone, Debug)]
pub struct DescriptorWait {
    /// Stream that the source is for; `None` for a sink.
    sending: Option<TransferId>,
    /// Time of the last poll of the sink since the peer is gone, and the time waited until then.
    gone: Option<(Nanos, u64)>,
}

/// Next step of the wait, after a poll of the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorWaitNext {
    /// Wait for the descriptor or the peer's end, then poll the descriptor again.
    Wait,
    /// Poll the descriptor again, without waiting.
    Poll,
    /// Go on with the stream: the descriptor is ready, or the stream was rejected.
    Ready,
    /// Give up: the connection has ended.
    Ended(Ended),
}

impl DescriptorWait {
    /// Waits for the source of a stream. The wait ends when the stream is rejected, and fails when the peer is gone.
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
    /// Makes one round of a wait for a descriptor, which `is_ready` or not.
    pub fn descriptor_round(
        &mut self,
        fabric: &mut F,
        wait: &mut DescriptorWait,
        is_ready: bool,
        now: Nanos,
    ) -> DescriptorWaitNext {
        // A peer that closed sends and takes nothing more. One that did not close is lost, and its transfer with it.
        let is_losing = self.peer_is_gone
            && wait.count_gone(now)
            && (wait.sending.is_some() || self.end_of_gone_peer(fabric) == Ended::Lost);
        self.tick(fabric, now);
        let has_moved = self.progress(fabric);
        if wait.sending.is_some_and(|id| self.endpoint.is_rejected(id)) {
            return DescriptorWaitNext::Ready;
        }
        if let Some(closed) = self.endpoint.closed() {
            return DescriptorWaitNext::Ended(Ended::Closed(closed));
        }
        if is_ready && (wait.sending.is_none() || !is_losing) {
            return DescriptorWaitNext::Ready;
        }
        match (is_losing, has_moved) {
            (true, false) => DescriptorWaitNext::Ended(self.end_of_gone_peer(fabric)),
            (true, true) => DescriptorWaitNext::Poll,
            // A round discards a bounded part, and there may be more.
            (false, true) if self.endpoint.is_discarding() => DescriptorWaitNext::Poll,
            (false, _) => DescriptorWaitNext::Wait,
        }
    }
}

impl DescriptorWait {
    /// Counts the time since the last poll, and returns true if a peer that is gone has left nothing worth waiting for. The time
    /// between two polls counts as at most [`SLEEP_MAX_NS`], since this process may have been stopped.
    fn count_gone(&mut self, now: Nanos) -> bool {
        let (at, waited_ns) = self.gone.unwrap_or((now, 0));
        let waited_ns = waited_ns.saturating_add(now.0.saturating_sub(at.0).min(SLEEP_MAX_NS));
        self.gone = Some((now, waited_ns));
        self.sending.is_some() || waited_ns >= LEFT_NS
    }
}
