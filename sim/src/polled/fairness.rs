//! Oracle of a poller's calls: nobody starves, and nothing is reported twice.

use superpipe_core::polling::{Key, Report, Reports};

/// Reports of one call.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) reports: Vec<(Key, Report)>,
    pub(super) room: usize,
}

impl Reports for Events {
    fn has_room(&self) -> bool {
        self.room - self.reports.len() >= 2
    }

    fn report(&mut self, key: Key, report: Report) {
        assert!(!self.reports.contains(&(key, report)), "reported twice in a call: {key:?} {report:?}");
        assert!(self.reports.len() < self.room, "more is reported than there is room for");
        self.reports.push((key, report));
    }
}

/// Calls in a row that left each connection out although it had something.
#[derive(Debug, Default)]
pub(super) struct Fairness {
    waits: Vec<u32>,
}

impl Fairness {
    pub(super) fn new(pairs: usize) -> Self {
        Self { waits: vec![0; pairs] }
    }

    /// Notes that a call told of a connection, or had nothing to tell.
    pub(super) fn note_told(&mut self, pair: usize) {
        self.waits[pair] = 0;
    }

    /// Notes that a call left out a connection that was active and had something when it began. A call reports at least half as many connections as there is room, and a round begins where
    /// the call before left off. A place that is given up may cost a turn.
    pub(super) fn note_left_out(&mut self, pair: usize, active: u32, room: usize) {
        self.waits[pair] += 1;
        let calls = active as usize / (room / 2) + 1;
        let most = 3 * calls + 3;
        assert!(
            self.waits[pair] as usize <= most,
            "connection {pair} starves: {} calls told of others, {active} are active",
            self.waits[pair]
        );
    }
}
