//! What tells two states of one end apart.

use core::hash::{Hash, Hasher};

use super::Endpoint;
use crate::ack::Ack;
use crate::fabric::Fabric;

impl<F: Fabric> Endpoint<F> {
    /// Feeds all that decides what this end does next to `hasher`: for whoever explores its states, and must know which of
    /// them it has seen.
    ///
    /// Left out is what never changes, what is only counted for reports, how many signs of life there were, and how many
    /// rounds were idle. Of two ends that differ in idle rounds only, either may be driven through more of them until both
    /// have written the acknowledgement that they owe; so can what comes of one come of the other.
    pub fn fingerprint(&self, hasher: &mut impl Hasher) {
        let Self {
            link: _,
            seat: _,
            peer_seat: _,
            config,
            sender,
            receiver,
            outbox,
            inbox,
            notices,
            acked: Ack { blocks, controls, life: _ },
            ack_line_is_there,
            peer_life: _,
            ack_every: _,
            idle_rounds: _,
            noticed,
            wants_ack,
            pending_cts,
            pending_close,
            said_close,
            events,
            missed,
            closed,
            heard: _,
            counters: _,
        } = self;
        (config.protocol, sender, receiver, outbox, inbox, notices).hash(hasher);
        (blocks, controls, ack_line_is_there, noticed.get(), wants_ack).hash(hasher);
        (pending_cts, pending_close, said_close, closed).hash(hasher);
        (missed, events.len()).hash(hasher);
        events.iter().for_each(|event| event.hash(hasher));
    }
}
