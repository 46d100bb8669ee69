//! What a connection keeps for its line.

use superpipe_core::{Counters, Phase};

use super::connection_line::{ConnectionCounts, ConnectionLine, Role, State};
use super::current;
use super::page::{Page, Slot};
use crate::description::{Description, Peer};
use std::sync::Arc;

/// What does not change about a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) number: u64,
    pub(crate) role: Role,
    pub(crate) peer: Peer,
    pub(crate) description: Description,
    pub(crate) made_at_ns: u64,
}

/// What a connection looks like now.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) counters: Counters,
    pub(crate) phase: Phase,
    pub(crate) is_peer_gone: bool,
    pub(crate) activity: u64,
}

/// A connection's part in the page.
pub(crate) struct ConnectionReport {
    subject: Subject,
    /// The page that it is in, with the number of that, and its line there.
    page: Option<(Arc<Page>, u32)>,
    slot: Option<Slot>,
    /// The peer's activity at the last copy, and when that was first seen.
    activity: u64,
    active_at_ns: u64,
}

/// Copies the sums of the process when it is dropped.
pub(crate) struct LastCopy {
    page: Arc<Page>,
    now_ns: u64,
}

impl Drop for LastCopy {
    fn drop(&mut self) {
        if self.page.is_here() {
            self.page.copy_process(self.now_ns);
        }
    }
}

impl ConnectionReport {
    pub(crate) const fn new(subject: Subject) -> Self {
        Self { subject, page: None, slot: None, activity: 0, active_at_ns: subject.made_at_ns }
    }

    /// Returns true if there is a page to copy to, or one to leave.
    pub(crate) fn is_wanted(&self) -> bool {
        current::number() & 1 == 1 || self.page.is_some()
    }

    /// Copies what was observed to the page that is published now.
    pub(crate) fn copy(&mut self, observed: &Observed, now_ns: u64) {
        if observed.activity != self.activity {
            (self.activity, self.active_at_ns) = (observed.activity, now_ns);
        }
        if self.page.as_ref().is_some_and(|(_, number)| *number != current::number()) {
            (self.slot, self.page) = (None, None);
        }
        self.enter();
        let Some((page, _)) = &self.page else { return };
        if !page.is_here() {
            return;
        }
        if let Some(slot) = &self.slot {
            slot.write(&self.line(observed, now_ns).to_words());
        }
        page.copy_process(now_ns);
    }

    /// Leaves the page. The counts remain in its sums. Returns what copies these, to be dropped once the connection has given its memory back.
    pub(crate) fn end(&mut self, observed: &Observed, now_ns: u64) -> Option<LastCopy> {
        let slot = self.slot.take();
        let (page, _) = self.page.take().filter(|(page, _)| page.is_here())?;
        let Counters { transfers_sent, transfers_received, bytes_sent, bytes_received, .. } =
            observed.counters;
        page.count_ended([transfers_sent, transfers_received, bytes_sent, bytes_received], slot.is_some());
        drop(slot);
        Some(LastCopy { page, now_ns })
    }

    /// Enters the page, or takes a line there that has become free.
    fn enter(&mut self) {
        match &self.page {
            None => {
                let Some((page, number)) = current::page() else { return };
                self.slot = Slot::of_connection(&page);
                page.count_made(self.slot.is_some());
                self.page = Some((page, number));
            }
            Some((page, _)) if self.slot.is_none() && page.is_here() => {
                self.slot = Slot::of_connection(page);
                if self.slot.is_some() {
                    page.count_listed();
                }
            }
            Some(_) => {}
        }
    }

    fn line(&self, observed: &Observed, now_ns: u64) -> ConnectionLine {
        let Subject { number, role, peer, description, made_at_ns } = self.subject;
        let counters = &observed.counters;
        ConnectionLine {
            number,
            fabric: description.fabric,
            role,
            peer,
            state: observed.state(),
            protocol: description.protocol,
            arrival: description.arrival,
            made_at_ns,
            copied_at_ns: now_ns,
            active_at_ns: self.active_at_ns,
            provisioned_bytes: description.provisioned_bytes,
            landing_max_bytes: u64::from(description.landing_bytes),
            landing_bytes: counters.landing_bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            landing_peak_bytes: counters.landing_bytes_peak,
            mapped_bytes: counters.mapped_bytes,
            window_bytes: counters.window_bytes,
            counts: ConnectionCounts::from(counters),
        }
    }
}

impl Observed {
    /// Returns the state that a line shows.
    pub(crate) const fn state(&self) -> State {
        match self.phase {
            Phase::ClosedHere => State::ClosedHere,
            Phase::ClosedByPeer => State::ClosedByPeer,
            Phase::Failed => State::Failed,
            Phase::PeerCloses => State::PeerCloses,
            Phase::Open if self.is_peer_gone => State::PeerLost,
            Phase::Open => State::Open,
        }
    }
}
