//! One connection with the applications at its ends.

use superpipe_core::recorder::Step;
use superpipe_core::{Arrival, Closed, Driver, Failure, Nanos, Reason};
use superpipe_testkit::Pair;

use super::scripted::Scripted;
use crate::case::{Case, ConnectionPlan};
use crate::client::{CallCoverage, ClientPair, TurnOutcome};
use crate::fabric::{ArrivalFlags, PartialBlocks, SimFabric};
use crate::faults::Fault;
use crate::lenders::LenderPair;
use crate::nic::{NotRegistered, TraceEvent, World};

/// Faults that can overtake an acknowledgement, which then needs a keepalive (wire.md 7.3). Without them no keepalive may be needed, and
/// the timeouts are short.
const NEED_KEEPALIVE: [Fault; 3] = [Fault::SplitPacket, Fault::OvertakenWrite, Fault::LateAcknowledgement];

/// One registration of memory that applications lend in so many fails.
const REGISTRATION_REFUSED_ONE_IN: usize = 8;

/// Applications at both ends.
enum Applications<const DIRECT: bool> {
    /// A script, which must be carried out to its end.
    Script(Box<Scripted<DIRECT>>),
    /// Two clients, which make any call at any time.
    Clients(Box<ClientPair<SimFabric<DIRECT>>>),
    /// Two programs that lend memory for their messages.
    Lenders(Box<LenderPair<DIRECT>>),
}

pub(super) struct Connection<const DIRECT: bool> {
    number: usize,
    pub(super) hosts: [usize; 2],
    applications: Applications<DIRECT>,
    /// Landing buffers grow.
    grows: bool,
    gone: [bool; 2],
    /// Time at which each end learns that its peer has died.
    death_known_ns: [Option<u64>; 2],
    /// A fault may end the connection.
    may_fail: bool,
    /// Last step that each end recorded.
    steps: [Option<Step>; 2],
}

impl<const DIRECT: bool> Connection<DIRECT> {
    /// Registers memory, connects, and makes an endpoint at each end.
    pub(super) fn open(
        world: &mut World,
        case: &Case,
        plan: &ConnectionPlan,
        recorded: bool,
    ) -> Result<Self, NotRegistered> {
        world.states = [None; 2];
        let arrival = plan.script.configs[0].arrival;
        let (checked, notify) = (arrival == Arrival::CheckedFlag, arrival == Arrival::Notify);
        let lends = plan.lenders.is_some() && !DIRECT;
        let flags = ArrivalFlags {
            checked,
            notify,
            lends,
            refuses_one_in: REGISTRATION_REFUSED_ONE_IN,
            crc_bits: case.crc_bits,
        };
        let mut fabric = SimFabric::connect(world, plan.hosts, &plan.script.setup, flags)?;
        if recorded {
            fabric.recorders = [Some(Box::default()), Some(Box::default())];
        }
        fabric.planners = case.planners(plan);
        let applications = match (plan.programs, &plan.lenders) {
            (_, Some(plans)) => {
                Applications::Lenders(Box::new(LenderPair::over(fabric, &plan.script, plans.clone())))
            }
            (Some(programs), None) => {
                Applications::Clients(Box::new(ClientPair::over(fabric, &plan.script, programs)))
            }
            (None, None) => {
                let pair = Pair::over(fabric, plan.script.clone());
                Applications::Script(Box::new(Scripted::new(pair, plan.close_policy)))
            }
        };
        Ok(Self {
            number: plan.number,
            hosts: plan.hosts,
            applications,
            grows: plan.script.setup.growth.is_some(),
            gone: [false; 2],
            death_known_ns: [None; 2],
            may_fail: false,
            steps: [None; 2],
        })
    }

    /// Notes the number of ends per CPU, and whether distances decide what copies take: both stretch the timeouts.
    pub(super) fn share_cpu(&mut self, ends_per_cpu: u64, has_distances: bool) {
        match &mut self.applications {
            Applications::Script(scripted) => scripted.share_cpu(ends_per_cpu),
            Applications::Clients(clients) => {
                (clients.ends_per_cpu, clients.has_distances) = (ends_per_cpu, has_distances);
            }
            Applications::Lenders(lenders) => lenders.share_cpu(ends_per_cpu),
        }
    }

    pub(super) const fn is_gone(&self, side: usize) -> bool {
        self.gone[side]
    }

    pub(super) fn state(&self) -> String {
        match &self.applications {
            Applications::Script(scripted) => scripted.pair.state(),
            Applications::Clients(clients) => clients.state(),
            Applications::Lenders(lenders) => lenders.state(),
        }
    }

    /// Returns the transfers of clients. Those of scripts are counted from the plan.
    pub(super) fn transfers(&self) -> u64 {
        match &self.applications {
            Applications::Script(_) => 0,
            Applications::Clients(clients) => clients.transfers(),
            Applications::Lenders(lenders) => lenders.transfers(),
        }
    }

    /// Returns the bytes that the sender wrote into memory that was offered.
    pub(super) fn split_bytes(&self) -> u64 {
        match &self.applications {
            Applications::Script(_) | Applications::Clients(_) => 0,
            Applications::Lenders(lenders) => lenders.split_bytes(),
        }
    }

    /// Returns the bytes that came by remote writes.
    pub(super) fn remote_bytes(&self) -> u64 {
        match &self.applications {
            Applications::Script(_) | Applications::Clients(_) => 0,
            Applications::Lenders(lenders) => lenders.remote_bytes(),
        }
    }

    /// Returns how often an end chose another kernel.
    pub(super) fn copy_changes(&self) -> u64 {
        let changes = |side| self.driver(side).endpoint().counters().copy_changes;
        [0, 1].into_iter().flat_map(changes).map(u64::from).sum()
    }

    /// Returns how often an end chose another window.
    pub(super) fn window_changes(&self) -> u64 {
        let changes = |side| self.driver(side).endpoint().counters().window_changes;
        [0, 1].into_iter().map(changes).map(u64::from).sum()
    }

    /// Returns the payload bytes that both ends have received in chunks.
    pub(super) fn received_bytes(&self) -> u64 {
        [0, 1].into_iter().map(|side| self.driver(side).endpoint().counters().bytes_received).sum()
    }

    pub(super) fn call_coverage(&self) -> Option<&CallCoverage> {
        match &self.applications {
            Applications::Script(_) | Applications::Lenders(_) => None,
            Applications::Clients(clients) => Some(&clients.call_coverage),
        }
    }

    pub(super) fn partial_blocks(&self) -> PartialBlocks {
        match &self.applications {
            Applications::Script(scripted) => scripted.pair.fabric.partial_blocks.borrow().blocks,
            Applications::Clients(clients) => clients.fabric.partial_blocks.borrow().blocks,
            Applications::Lenders(lenders) => lenders.fabric.partial_blocks.borrow().blocks,
        }
    }

    fn fabric(&mut self) -> &mut SimFabric<DIRECT> {
        match &mut self.applications {
            Applications::Script(scripted) => &mut scripted.pair.fabric,
            Applications::Clients(clients) => &mut clients.fabric,
            Applications::Lenders(lenders) => &mut lenders.fabric,
        }
    }

    fn driver(&self, side: usize) -> &Driver<SimFabric<DIRECT>> {
        match &self.applications {
            Applications::Script(scripted) => &scripted.pair.ends[side],
            Applications::Clients(clients) => &clients.clients[side].driver,
            Applications::Lenders(lenders) => &lenders.ends[side].driver,
        }
    }

    fn driver_mut(&mut self, side: usize) -> &mut Driver<SimFabric<DIRECT>> {
        match &mut self.applications {
            Applications::Script(scripted) => &mut scripted.pair.ends[side],
            Applications::Clients(clients) => &mut clients.clients[side].driver,
            Applications::Lenders(lenders) => &mut lenders.ends[side].driver,
        }
    }

    fn moved(&self, side: usize) -> u64 {
        self.driver(side).endpoint().moved()
    }

    /// Returns how each end ended, for the report.
    pub(super) fn endings(&self) -> [String; 2] {
        [0, 1].map(|side| match self.driver(side).endpoint().closed() {
            None => "killed, or vanished".to_owned(),
            Some(Closed::Here(Reason::DONE)) => "closed in good order".to_owned(),
            Some(Closed::Here(Reason::GIVEN_UP)) => "given up: nothing moved, or the peer died".to_owned(),
            Some(Closed::Here(_)) => "closed with a reason".to_owned(),
            Some(Closed::ByPeer(_)) => "closed by the peer".to_owned(),
            Some(Closed::Failed(Failure::Protocol(rule))) => rule.to_string(),
            Some(Closed::Failed(Failure::Device(error))) => error.to_string(),
        })
    }

    /// Returns the world if a turn panicked while it was lent to this connection.
    pub(super) fn take_lent_world(&mut self) -> Option<Box<World>> {
        let lent = &mut self.fabric().world;
        (!lent.has_no_hosts()).then(|| core::mem::replace(lent, Box::new(World::without_hosts())))
    }

    /// Gives an end its turn. Returns whether it did anything, and the time that it may sleep.
    pub(super) fn turn(
        &mut self,
        world: &mut Box<World>,
        side: usize,
        now_ns: u64,
    ) -> Result<(bool, u64), String> {
        let states = [side, 1 - side].map(|side| self.driver(side).endpoint().state());
        world.states = states.map(Some);
        world.growth_coverage.note(states);
        core::mem::swap(world, &mut self.fabric().world);
        let outcome = self.turn_in_world(side, now_ns);
        core::mem::swap(world, &mut self.fabric().world);
        outcome
    }

    fn turn_in_world(&mut self, side: usize, now_ns: u64) -> Result<(bool, u64), String> {
        if self.strikes(side) {
            return Ok((true, 0));
        }
        if self.death_known_ns[side].is_some_and(|at_ns| now_ns >= at_ns) {
            self.driver_mut(side).note_peer_gone();
        }
        let moved = self.moved(side);
        self.fabric().acting = side;
        let has_both_ends = !self.gone[1 - side];
        let (may_fail, needs_keepalive) = (self.may_fail, self.fabric().world.faults.any(&NEED_KEEPALIVE));
        let outcome = match &mut self.applications {
            Applications::Script(scripted) => {
                scripted.pair.turn(side);
                TurnOutcome::default()
            }
            Applications::Clients(clients) => clients.turn(side, Nanos(now_ns)),
            Applications::Lenders(lenders) => lenders.turn(side, Nanos(now_ns)),
        };
        self.note_faults();
        self.note_steps(side);
        let may_fail = may_fail || self.may_fail;
        let outcome = match &mut self.applications {
            Applications::Script(scripted) => {
                scripted.after_turn(side, now_ns, has_both_ends, may_fail, needs_keepalive)?
            }
            Applications::Clients(_) | Applications::Lenders(_) => outcome,
        };
        self.note_faults();
        self.check_failure(side)?;
        let has_moved = moved != self.moved(side);
        for side in (0..2).filter(|side| outcome.releases[*side]) {
            self.release(side);
        }
        Ok((has_moved, outcome.sleep_ns))
    }

    /// Lets faults strike an end before its turn. Returns true if it is gone.
    fn strikes(&mut self, side: usize) -> bool {
        let both = !self.gone[1 - side];
        let (host, connection) = (self.hosts[side], self.number);
        let world = &mut self.fabric().world;
        if world.strikes(Fault::StalledPeer) {
            let ns = world.late_ns();
            world.spend(host, ns);
            world.note_here(host, TraceEvent::Stall { ns });
        }
        if self.grows {
            self.reclaim(side);
        }
        let world = &mut self.fabric().world;
        let killed = both && world.strikes(Fault::KilledProcess);
        if !(killed || both && world.strikes(Fault::VanishedPeer)) {
            return false;
        }
        world.note_here(
            host,
            if killed { TraceEvent::Killed { connection } } else { TraceEvent::Vanished { connection } },
        );
        if killed {
            self.report_death(side);
        }
        self.note_faults();
        self.release(side);
        true
    }

    /// Lets an end need the memory of its landing buffer elsewhere.
    fn reclaim(&mut self, side: usize) {
        if self.fabric().world.strikes(Fault::ReclaimedMemory) {
            self.driver_mut(side).release_memory();
        }
    }

    /// Tells the peer that this end is gone.
    fn report_death(&mut self, side: usize) {
        let host = self.hosts[side];
        let world = &self.fabric().world;
        self.death_known_ns[1 - side] = Some(world.clock_ns(host) + 2 * world.profile.latency_ns);
    }

    fn check_failure(&mut self, side: usize) -> Result<(), String> {
        match self.driver(side).endpoint().closed() {
            Some(Closed::Failed(Failure::Protocol(rule))) if !self.fabric().is_forged => {
                Err(format!("no line was forged, and {rule}: {}", self.state()))
            }
            _ => Ok(()),
        }
    }

    /// Adapts the checks to the faults of this turn.
    fn note_faults(&mut self) {
        let is_forged = self.fabric().is_forged;
        let is_broken = core::mem::take(&mut self.fabric().world.broken);
        self.may_fail |= is_broken;
        match &mut self.applications {
            Applications::Script(scripted) => {
                if is_broken {
                    scripted.pair.expect_failure();
                }
                if is_forged {
                    scripted.pair.stop_checking();
                }
            }
            Applications::Clients(clients) => {
                if is_broken {
                    clients.expect_failure();
                }
                if is_forged {
                    clients.stop_checking();
                }
            }
            Applications::Lenders(lenders) => {
                if is_broken {
                    lenders.expect_failure();
                }
                if is_forged {
                    lenders.stop_checking();
                }
            }
        }
    }

    /// Releases an end with its QP and its memory. An end that has closed has delivered CLOSE or waited long enough, so its peer may lose
    /// it.
    fn release(&mut self, side: usize) {
        if core::mem::replace(&mut self.gone[side], true) {
            return;
        }
        self.fabric().release(side);
        if let Applications::Lenders(lenders) = &mut self.applications {
            if self.gone[1 - side] {
                lenders.check_oracle();
            } else if self.may_fail || !lenders.is_over() {
                lenders.expect_failure();
                self.may_fail = true;
                let is_closing = lenders.ends[side].driver.is_closing();
                if self.death_known_ns[1 - side].is_none() && is_closing {
                    self.report_death(side);
                }
            }
        } else if let Applications::Clients(clients) = &mut self.applications {
            if self.gone[1 - side] {
                clients.check_oracle();
            } else if self.may_fail || !clients.is_over() {
                clients.expect_failure();
                self.may_fail = true;
                let has_left = clients.clients[side].has_dropped || clients.clients[side].driver.is_closing();
                if self.death_known_ns[1 - side].is_none() && has_left {
                    self.report_death(side);
                }
            }
        }
    }

    /// Moves the recorded steps into the trace. A wait is noted once, with its begin.
    fn note_steps(&mut self, side: usize) {
        let (host, connection) = (self.hosts[side], self.number);
        let mut last = self.steps[side];
        let fabric = self.fabric();
        let Some(recorder) = fabric.recorders[side].as_deref_mut() else { return };
        while let Some(record) = recorder.take() {
            let (begin_ns, step) = (record.begin.0, record.step);
            let is_wait = matches!(step, Step::NoCredit { .. } | Step::NoCts { .. });
            if last.replace(step) == Some(step) && is_wait {
                continue;
            }
            let at_ns = if is_wait { begin_ns } else { record.end.0 };
            fabric.world.note(at_ns, host, TraceEvent::Core { connection, begin_ns, step });
        }
        self.steps[side] = last;
    }
}
