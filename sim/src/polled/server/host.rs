//! The program's poller in a call: the virtual clock, and a set that the simulated network reports by.

use superpipe_core::polling::{CallHost, Naps, PollerClock, Reports, Woken};

use super::super::coverage::{PollCase, PolledState};
use super::super::net::Net;
use super::{Places, ROUND_NS, Server};

/// A poller in a call.
pub(super) struct Host<'a> {
    pub(super) server: &'a mut Server,
    pub(super) net: &'a mut Net,
}

impl CallHost for Host<'_> {
    fn clock(&mut self) -> &mut PollerClock {
        &mut self.server.clock
    }

    fn active_count(&self) -> u32 {
        self.server.places.active_count()
    }

    fn armed_count(&self) -> u32 {
        self.server.places.armed_count()
    }

    fn earliest_ns(&self) -> u64 {
        self.server.places.earliest_ns()
    }

    fn deadline_ns(&mut self) -> u64 {
        self.server.deadline_ns
    }

    fn has_reports(&self) -> bool {
        !self.server.events.reports.is_empty()
    }

    fn is_full(&self) -> bool {
        !self.server.events.has_room()
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn look_at_clock(&mut self) {
        self.server.clock.note(self.net.world.clock_ns(0));
    }

    fn look_at_active(&mut self) {
        let Server { places, clock, events, .. } = &mut *self.server;
        places.round(self.net, clock.fresh_ns(), events);
        self.net.world.spend(0, ROUND_NS);
    }

    fn take_ready(&mut self) {
        let Self { server, net } = self;
        server.clock.note_set();
        let now_ns = net.world.clock_ns(0);
        for number in net.take_reports(0, now_ns) {
            let key = server.keys.iter().copied().find(|key| Places::number(*key) == number);
            let case = if key.is_some() { PollCase::Reported } else { PollCase::ReportedStale };
            let state = key.map_or_else(|| server.state_of_number(number), |key| server.state(key));
            net.coverage.count(case, state);
            let woken = server.places.wake(number, net, server.clock.now_ns());
            assert!(key.is_some() || woken == Woken::Stale, "a stale report wakes another connection");
            assert!(key.is_none() || matches!(woken, Woken::Armed | Woken::Polled), "a report is for nobody");
        }
        // What became visible meanwhile is there for the looks that follow.
        while net.world.run_events(net.world.clock_ns(0)).is_some() {}
    }

    fn look_at_due(&mut self) {
        let Self { server, net } = self;
        let now_ns = server.clock.now_ns();
        while let Some(key) = server.places.take_due(now_ns, server.events.has_room()) {
            let before = server.state(key);
            server.places.tend(key, net, now_ns, &mut server.events);
            net.coverage.count(PollCase::Tended, before);
            if before == PolledState::Armed && server.state(key) == PolledState::Active {
                net.coverage.count(PollCase::FoundByLook, before);
            }
        }
    }

    fn prepare_sleep(&mut self, naps: &mut Naps) -> u64 {
        let Server { places, clock, .. } = &mut *self.server;
        places.sleep_ns(self.net, clock.now_ns(), naps)
    }
}
