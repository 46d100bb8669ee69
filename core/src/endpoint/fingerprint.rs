//! Fingerprint of an endpoint, which tells two of its states apart.

use core::hash::{Hash, Hasher};

use super::Endpoint;
use crate::fabric::Fabric;
use crate::wire::ack::Ack;

impl<F: Fabric> Endpoint<F> {
    /// Feeds all that decides what this end does next to `hasher`, for a state explorer that must recognize states it has seen.
    ///
    /// Left out are constants, counters for reports, the count of keepalives, what only hints depend on, and the count of idle rounds. Two ends that differ in
    /// idle rounds only reach the same states: either can be driven through more idle rounds until both have written the
    /// acknowledgement that is due. Of memory that grows, the layout and the number of the epoch are in it: with the places that are
    /// taken, which are in it as well, these say which memory it is.
    pub fn fingerprint(&self, hasher: &mut impl Hasher) {
        let Self {
            link: _,
            control_page: _,
            peer_control_page: _,
            config,
            sender,
            receiver,
            loans,
            growth,
            outbox,
            inbox,
            acked: Ack { blocks, controls, keepalives: _, timing: _ },
            ack_line_is_there,
            peer_keepalives: _,
            idle_rounds: _,
            reported,
            wants_ack,
            pending_cts,
            zero_copy,
            exposing,
            pending_close,
            has_sent_close,
            events,
            missed,
            closed,
            activity: _,
            counters: _,
            counted_from: _,
        } = self;
        (config.protocol, sender, receiver, loans, outbox, inbox).hash(hasher);
        (blocks, controls, ack_line_is_there, reported.get(), wants_ack).hash(hasher);
        (pending_cts, zero_copy, exposing, pending_close, has_sent_close, closed).hash(hasher);
        (missed, events.len(), growth).hash(hasher);
        events.iter().for_each(|event| event.hash(hasher));
    }
}
