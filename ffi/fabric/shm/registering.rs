//! Registered buffers of this end: when one is exposed to the peer, and when it is withdrawn.
//!
//! ```text
//! not exposed --long message, or `register`-------------> pending --the peer has mapped it--> ready --+
//!      ^  ^                                                 \--either end refused--> refused         |
//!      |  +---- after a number of messages, or `register` -------------------------------+           |
//!      +---- dropped by its owner; least recently used, and another needs the place; asked back -----+
//! ```

use core::ops::Range;
use std::sync::Arc;

use superpipe_core::{Buffer, Endpoint, Exposed, ExposedState, Protocol, SendMemory};

use super::exposing::Exposing;
use super::fabric::Shm;
use super::own_buffers::{Full, MayGo};
use crate::fabric::{Registered, RegisteredMemory};

impl Shm {
    /// Returns core's name of a part of a buffer, if the peer has mapped it and the message is long enough for one copy. If it is long enough and
    /// the buffer is not exposed, or a refused one is due again, begins to expose it, for later messages.
    pub(super) fn source_of_message(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        part: &Range<usize>,
    ) -> Option<SendMemory> {
        endpoint.link_mut().exposing()?;
        if !is_for_one_copy(endpoint, part.len()) {
            return None;
        }
        let offset = u32::try_from(part.start).ok()?;
        self.tend_buffers(endpoint);
        let is_auto = endpoint.config().protocol == Protocol::Auto;
        let known = exposing(endpoint)?.own.of(memory).map(|entry| (entry.id, entry.exposed));
        match known {
            // A buffer that is sent once is copied sooner than mapped. One that comes again may come often.
            None if is_auto && !exposing(endpoint)?.unexposed.note(memory) => {}
            None => self.expose_new(endpoint, memory, MayGo::Old),
            Some((id, None)) => self.expose_as(endpoint, id, MayGo::Old),
            Some((id, Some(exposed))) => match endpoint.exposed_state(exposed) {
                ExposedState::Ready => return Some(SendMemory::Exposed(exposed, offset)),
                // Gone with the connection: the handle still says whether the buffer is shared.
                ExposedState::Pending | ExposedState::Gone => {}
                ExposedState::Refused => {
                    if exposing(endpoint)?.own.is_retry_due(id) {
                        self.expose_again(endpoint, id, exposed, MayGo::Old);
                    }
                }
            },
        }
        None
    }

    /// Counts a message of `bytes` bytes that was sent out of a buffer, unless length or protocol are not for one copy.
    pub(super) fn count_message(
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        bytes: usize,
        is_hit: bool,
    ) {
        if is_for_one_copy(endpoint, bytes)
            && let Some(exposing) = exposing(endpoint)
        {
            exposing.own.count_message(memory, is_hit);
        }
    }

    /// Counts a try that has sent nothing since its message is too long to go at once through the ring: the buffer's place is all that the next
    /// try waits for. One that has long had none takes that of a buffer in use.
    pub(super) fn count_try(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        bytes: usize,
    ) {
        if !is_for_one_copy(endpoint, bytes) {
            return;
        }
        let Some(own) = exposing(endpoint).map(|exposing| &mut exposing.own) else { return };
        if own.count_try(memory) {
            match own.of(memory).map(|entry| entry.id) {
                None => self.expose_new(endpoint, memory, MayGo::OldOrUnawaited),
                Some(id) => self.expose_as(endpoint, id, MayGo::OldOrUnawaited),
            }
            if let Some(exposing) = exposing(endpoint) {
                exposing.own.await_place(memory);
            }
        }
    }

    /// Exposes a buffer, for a call of `register`. In the call's first round, which `is_new`, also one that was refused before. Returns the outcome
    /// once there is one.
    pub(super) fn register_buffer(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
        is_new: bool,
    ) -> Option<Registered> {
        let Some(exposing) = endpoint.link_mut().exposing() else { return Some(Registered::Refused) };
        if u32::try_from(memory.exposed().bytes()).is_err() {
            return Some(Registered::Refused);
        }
        let known = exposing.own.of(memory).map(|entry| (entry.id, entry.exposed));
        match known {
            None => {
                self.tend_buffers(endpoint);
                self.expose_new(endpoint, memory, MayGo::All);
            }
            Some((id, None)) => self.expose_as(endpoint, id, MayGo::All),
            Some((id, Some(exposed))) => match endpoint.exposed_state(exposed) {
                ExposedState::Ready => return Some(Registered::Ready),
                // Gone with the connection: the handle still says whether the buffer is shared.
                ExposedState::Pending | ExposedState::Gone => {}
                ExposedState::Refused if is_new => self.expose_again(endpoint, id, exposed, MayGo::All),
                ExposedState::Refused => return Some(Registered::Refused),
            },
        }
        None
    }

    /// Returns true while the peer may read a buffer for a message that was sent.
    pub(super) fn is_buffer_shared(
        &mut self,
        endpoint: &mut Endpoint<Self>,
        memory: &Arc<RegisteredMemory>,
    ) -> bool {
        let entry = exposing(endpoint).and_then(|exposing| exposing.own.of(memory));
        let Some(exposed) = entry.and_then(|entry| entry.exposed) else { return false };
        endpoint.poll_acknowledgements(self);
        endpoint.is_shared(exposed)
    }

    /// Withdraws buffers that their owners have dropped, and, of those that are not shared, as many as others wait for. What was refused is
    /// not counted any more.
    pub(super) fn tend_buffers(&mut self, endpoint: &mut Endpoint<Self>) {
        while let Some((id, exposed)) = exposing(endpoint).and_then(|exposing| exposing.own.dropped()) {
            self.withdraw(endpoint, id, exposed);
        }
        let charged = exposing(endpoint).map(|exposing| exposing.own.charged()).unwrap_or_default();
        for (id, exposed) in charged {
            if endpoint.exposed_state(exposed) == ExposedState::Refused
                && let Some(entry) = exposing(endpoint).and_then(|exposing| exposing.own.named(id))
            {
                entry.charge = None;
            }
        }
        while exposing(endpoint).is_some_and(|exposing| exposing.share.cached_excess_bytes() > 0)
            && let Some((id, exposed)) = oldest(endpoint, MayGo::All)
        {
            self.withdraw(endpoint, id, exposed);
        }
    }

    /// Exposes a buffer that is not in the table, if there is a place or one can be made: that of a buffer that is not shared and `may_go`.
    fn expose_new(&mut self, endpoint: &mut Endpoint<Self>, memory: &Arc<RegisteredMemory>, may_go: MayGo) {
        let Some(own) = exposing(endpoint).map(|exposing| &mut exposing.own) else { return };
        match own.enter(memory) {
            Ok(id) => self.expose_as(endpoint, id, may_go),
            Err(Full) => {
                // Nothing else needs to have polled for them, and they say what the peer has read.
                endpoint.poll_acknowledgements(self);
                if let Some((id, exposed)) = oldest(endpoint, may_go) {
                    self.withdraw(endpoint, id, exposed);
                    if let Some(Ok(id)) = exposing(endpoint).map(|exposing| exposing.own.enter(memory)) {
                        self.expose_as(endpoint, id, may_go);
                    }
                }
            }
        }
    }

    fn expose_again(&mut self, endpoint: &mut Endpoint<Self>, id: u64, exposed: Exposed, may_go: MayGo) {
        endpoint.withdraw_exposed(self, exposed);
        self.expose_as(endpoint, id, may_go);
    }

    /// Exposes a buffer of the table. If core has no place, or only places that buffers wait for which tries have made them for, the next message,
    /// or the next round of `register`, tries again.
    fn expose_as(&mut self, endpoint: &mut Endpoint<Self>, id: u64, may_go: MayGo) {
        let Some(exposing) = exposing(endpoint) else { return };
        let free_places = exposing.free_places();
        let own = &mut exposing.own;
        if may_go == MayGo::Old && own.are_kept_from(id, free_places) {
            return;
        }
        let new_id = own.next_id();
        let Some(entry) = own.named(id) else { return };
        (entry.id, entry.exposed, entry.charge) = (new_id, None, None);
        let exposed = endpoint.expose(self, Buffer(new_id));
        if exposed.is_none() {
            self.make_place(endpoint, may_go);
        }
        if let Some(entry) = self::exposing(endpoint).and_then(|exposing| exposing.own.named(new_id)) {
            entry.exposed = exposed;
        }
    }

    /// Withdraws a buffer that `may_go`, so that another one gets its place: trusted buffers take some of the eight. If all may go, it withdraws
    /// a trusted one where there is no other. Returns false, and does nothing, while the place of another buffer becomes free.
    pub(super) fn make_place(&mut self, endpoint: &mut Endpoint<Self>, may_go: MayGo) -> bool {
        if exposing(endpoint).is_none_or(|exposing| exposing.free_places() > 0) {
            return false;
        }
        endpoint.poll_acknowledgements(self);
        let old = {
            let endpoint = &*endpoint;
            let is_free =
                |exposed: Option<Exposed>| exposed.is_some_and(|exposed| !endpoint.is_shared(exposed));
            endpoint.link().exposing_ref().and_then(|exposing| exposing.own.oldest(may_go, is_free))
        };
        if let Some((id, exposed)) = old {
            self.withdraw(endpoint, id, exposed);
        } else if may_go == MayGo::All {
            self.withdraw_oldest_trusted(endpoint);
        }
        true
    }

    fn withdraw(&mut self, endpoint: &mut Endpoint<Self>, id: u64, exposed: Option<Exposed>) {
        if let Some(exposed) = exposed {
            endpoint.withdraw_exposed(self, exposed);
        }
        if let Some(exposing) = exposing(endpoint) {
            exposing.own.remove(id);
        }
    }
}

/// Returns true if messages of so many bytes out of mapped memory are copied once.
fn is_for_one_copy(endpoint: &Endpoint<Shm>, bytes: usize) -> bool {
    let config = endpoint.config();
    config.protocol.uses_registered() && bytes >= config.one_copy_bytes as usize
}

fn exposing(endpoint: &mut Endpoint<Shm>) -> Option<&mut Exposing> {
    endpoint.link_mut().exposing()
}

/// Returns the least recently used buffer that is not shared and `may_go`.
fn oldest(endpoint: &mut Endpoint<Shm>, may_go: MayGo) -> Option<(u64, Option<Exposed>)> {
    let endpoint = &*endpoint;
    let is_free = |exposed: Option<Exposed>| exposed.is_none_or(|exposed| !endpoint.is_shared(exposed));
    endpoint.link().exposing_ref()?.own.oldest(may_go, is_free)
}
