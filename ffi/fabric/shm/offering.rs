//! Trusted buffers of this end: when one is exposed to the peer, offered to it for the next message, and withdrawn.
//!
//! ```text
//! not exposed --offer--> pending --the peer has mapped it--> ready --offer--> offered --the next message is received--> ready
//!      ^  ^                  \--either end refused--> refused  |
//!      |  +---- after a number of offers -------------+        |
//!      +---- dropped by its owner; least recently used, and another needs the place; asked back
//! ```
//!
//! A buffer that goes while it is offered stays until the next message was received: its memory belongs to the connection by then.

use std::sync::Arc;

use superpipe_core::{Buffer, Endpoint, Exposed, ExposedState, Protocol};

use super::exposing::Exposing;
use super::fabric::Shm;
use super::own_buffers::MayGo;
use crate::fabric::TrustedMemory;

impl Shm {
    /// Offers a buffer for the next message, or begins to expose it. Returns true if nothing more is to be done for that message.
    pub(super) fn offer_buffer(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<TrustedMemory>,
    ) -> bool {
        // By another protocol no memory is mapped for writing, so nothing is to be waited for.
        if endpoint.config().protocol != Protocol::RegisterCached {
            return true;
        }
        let Some(exposing) = exposing(endpoint) else { return true };
        if u32::try_from(memory.exposed().bytes()).is_err() {
            return true;
        }
        let (id, exposed) = match exposing.trusted.of(memory) {
            Some((id, Some(exposed))) => (id, exposed),
            Some((id, None)) => return !self.expose_trusted(endpoint, id),
            None => return !self.expose_new_trusted(endpoint, memory),
        };
        let state = endpoint.exposed_state(exposed);
        let has_no_room = state == ExposedState::Ready && !endpoint.has_room_for_offer();
        if state == ExposedState::Pending || has_no_room {
            return false;
        }
        self.tend_trusted(endpoint);
        if let Some(exposing) = self::exposing(endpoint) {
            exposing.trusted.count_use(id);
            if state == ExposedState::Refused && exposing.trusted.is_retry_due(id) {
                endpoint.withdraw_exposed(self, exposed);
                self.expose_trusted(endpoint, id);
            }
        }
        if state == ExposedState::Ready {
            // What has arrived already, or goes into another buffer, has no use of it.
            endpoint.offer(self, exposed, 0);
        }
        true
    }

    /// Returns true while the peer may write a part of a message into a buffer.
    pub(super) fn is_buffer_offered(endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        let entry = exposing(endpoint).and_then(|exposing| exposing.trusted.of(memory));
        entry.and_then(|(_, exposed)| exposed).is_some_and(|exposed| endpoint.is_offered(exposed))
    }

    /// Withdraws buffers that their owners have dropped, and, of those that are not offered, as many as others wait for. Forgets those that
    /// have left. What was refused is not counted any more.
    pub(super) fn tend_trusted(&mut self, endpoint: &mut Endpoint<Self>) {
        while let Some(id) = exposing(endpoint).and_then(|exposing| exposing.trusted.dropped()) {
            self.withdraw_trusted(endpoint, id);
        }
        let charged = exposing(endpoint).map(|exposing| exposing.trusted.charged()).unwrap_or_default();
        for (id, exposed) in charged {
            if endpoint.exposed_state(exposed) == ExposedState::Refused
                && let Some(entry) = exposing(endpoint).and_then(|exposing| exposing.trusted.named(id))
            {
                entry.charge = None;
            }
        }
        while exposing(endpoint).is_some_and(|exposing| exposing.share.cached_excess_bytes() > 0)
            && let Some(id) = oldest(endpoint)
        {
            self.withdraw_trusted(endpoint, id);
            // It counts until it is forgotten.
            self.forget_left(endpoint);
        }
        self.forget_left(endpoint);
    }

    /// Exposes a buffer that is not in the table, in the place of another one if there are too many. Returns false if there is no place.
    fn expose_new_trusted(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<TrustedMemory>) -> bool {
        self.tend_trusted(endpoint);
        let enter = |endpoint: &mut Endpoint<Self>| exposing(endpoint)?.trusted.enter(memory);
        let mut entered = enter(endpoint);
        if entered.is_none() {
            self.withdraw_oldest_trusted(endpoint);
            entered = enter(endpoint);
        }
        let Some(id) = entered else { return false };
        if let Some(exposing) = exposing(endpoint) {
            exposing.trusted.count_use(id);
        }
        self.expose_trusted(endpoint, id)
    }

    /// Exposes a buffer of the table. Returns false if core has no place: the next offer tries again, by which time a buffer that messages were
    /// sent out of has left.
    fn expose_trusted(&mut self, endpoint: &mut Endpoint<Self>, id: u64) -> bool {
        let Some(trusted) = exposing(endpoint).map(|exposing| &mut exposing.trusted) else { return false };
        let new_id = trusted.next_id();
        let Some(entry) = trusted.named(id) else { return false };
        (entry.id, entry.exposed, entry.charge) = (new_id, None, None);
        let exposed = endpoint.expose_writable(self, Buffer(new_id));
        if exposed.is_none()
            && self.make_place(endpoint, MayGo::Old)
            && let Some(exposing) = exposing(endpoint)
        {
            exposing.own.count_wish();
        }
        if let Some(entry) = exposing(endpoint).and_then(|exposing| exposing.trusted.named(new_id)) {
            entry.exposed = exposed;
        }
        exposed.is_some()
    }

    /// Withdraws the buffer that was used least recently, of those that are not offered.
    pub(super) fn withdraw_oldest_trusted(&mut self, endpoint: &mut Endpoint<Self>) {
        if let Some(id) = oldest(endpoint) {
            self.withdraw_trusted(endpoint, id);
            self.forget_left(endpoint);
        }
    }

    fn withdraw_trusted(&mut self, endpoint: &mut Endpoint<Self>, id: u64) {
        let exposed = exposing(endpoint).and_then(|exposing| exposing.trusted.leave(id));
        if let Some(exposed) = exposed {
            endpoint.withdraw_exposed(self, exposed);
        }
    }

    /// Forgets the buffers that have left.
    fn forget_left(&mut self, endpoint: &mut Endpoint<Self>) {
        let Some(mut trusted) = exposing(endpoint).map(|exposing| core::mem::take(&mut exposing.trusted))
        else {
            return;
        };
        trusted.remove_left(|exposed| {
            endpoint.is_offered(exposed) || endpoint.exposed_state(exposed) != ExposedState::Gone
        });
        if let Some(exposing) = exposing(endpoint) {
            exposing.trusted = trusted;
        }
    }
}

fn exposing(endpoint: &mut Endpoint<Shm>) -> Option<&mut Exposing> {
    endpoint.link_mut().exposing()
}

/// Returns the least recently used buffer that is not offered.
fn oldest(endpoint: &mut Endpoint<Shm>) -> Option<u64> {
    let endpoint = &*endpoint;
    let may_go = |exposed: Exposed| !endpoint.is_offered(exposed);
    endpoint.link().exposing_ref()?.trusted.oldest(may_go)
}
