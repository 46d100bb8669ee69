//! One connection with the applications at its ends.

use superpipe_core::recorder::Step;
use superpipe_core::{Arrival, Closed, Failure, Nanos, Reason};
use superpipe_testkit::Pair;

use super::patience::{Advice, Patience};
use crate::case::{Case, Closing, Plan};
use crate::fabric::{Flags, Sim};
use crate::faults::Fault;
use crate::nic::{NotRegistered, World};
use crate::torn::Torn;
use crate::trace::What;

/// Faults that can overtake an acknowledgement, which then needs a sign of life (wire.md 7.3): elsewhere none may be needed, and
/// nobody waits so long.
const NEED_LIFE: [Fault; 3] = [Fault::TornPacket, Fault::OvertakenWrite, Fault::LateAcknowledgement];

pub(super) struct Connection<const DIRECT: bool> {
    number: usize,
    pub(super) hosts: [usize; 2],
    pair: Pair<Sim<DIRECT>>,
    patience: [Patience; 2],
    /// Both ends were told to close in good order.
    is_closed: bool,
    closing: Closing,
    /// What went wrong may end the connection.
    may_fail: bool,
    /// What each end recorded last.
    steps: [Option<Step>; 2],
}

impl<const DIRECT: bool> Connection<DIRECT> {
    /// Registers memory, connects, and makes an endpoint at each end.
    pub(super) fn open(
        world: &mut World,
        case: &Case,
        plan: &Plan,
        recorded: bool,
    ) -> Result<Self, NotRegistered> {
        world.states = [None; 2];
        let arrival = plan.script.configs[0].arrival;
        let (checked, notify) = (arrival == Arrival::CheckedFlag, arrival == Arrival::Notify);
        let flags = Flags { checked, notify, crc_bits: case.crc_bits };
        let mut fabric = Sim::connect(world, plan.hosts, &plan.script.setup, flags)?;
        if recorded {
            fabric.recorders = [Some(Box::default()), Some(Box::default())];
        }
        let pair = Pair::over(fabric, plan.script.clone());
        let patience = [Patience::new(1); 2];
        let Plan { number, hosts, closing, .. } = *plan;
        Ok(Self {
            number,
            hosts,
            pair,
            patience,
            is_closed: false,
            closing,
            may_fail: false,
            steps: [None; 2],
        })
    }

    /// So many ends share a CPU: each of them waits for the others.
    pub(super) fn be_patient(&mut self, crowd: u64) {
        self.patience = [Patience::new(crowd); 2];
    }

    pub(super) const fn is_gone(&self, side: usize) -> bool {
        self.patience[side].gone
    }

    pub(super) const fn nap_ns(&self, side: usize) -> u64 {
        self.patience[side].nap_ns
    }

    pub(super) fn state(&self) -> String {
        self.pair.state()
    }

    pub(super) fn torn(&self) -> Torn {
        self.pair.fabric.looks.borrow().torn
    }

    /// How each end ended, as one says it.
    pub(super) fn endings(&self) -> [String; 2] {
        [0, 1].map(|side| match self.pair.ends[side].endpoint().closed() {
            None => "killed, or vanished".to_owned(),
            Some(Closed::Here(Reason::DONE)) => "closed in good order".to_owned(),
            Some(Closed::Here(_)) => "given up: nothing moved, or the peer died".to_owned(),
            Some(Closed::ByPeer(_)) => "closed by the peer".to_owned(),
            Some(Closed::Failed(Failure::Protocol(rule))) => rule.to_string(),
            Some(Closed::Failed(Failure::Device(error))) => error.to_string(),
        })
    }

    /// The world, if it is here: a turn did not end.
    pub(super) fn world_lent(&mut self) -> Option<World> {
        let lent = &mut self.pair.fabric.world;
        (!lent.is_nowhere()).then(|| core::mem::replace(lent, World::nowhere()))
    }

    /// An end acts. Whether it did anything.
    pub(super) fn turn(&mut self, world: &mut World, side: usize, now_ns: u64) -> Result<bool, String> {
        world.states = [side, 1 - side].map(|side| Some(self.pair.ends[side].endpoint().state()));
        core::mem::swap(world, &mut self.pair.fabric.world);
        let turned = self.turn_here(side, now_ns);
        core::mem::swap(world, &mut self.pair.fabric.world);
        turned
    }

    fn turn_here(&mut self, side: usize, now_ns: u64) -> Result<bool, String> {
        let both = !self.is_gone(1 - side);
        let world = &mut self.pair.fabric.world;
        let host = self.hosts[side];
        if world.strikes(Fault::StalledPeer) {
            let ns = world.late_ns();
            world.spend(host, ns);
            world.note_here(host, What::Stall { ns });
        }
        let killed = both && world.strikes(Fault::KilledProcess);
        if killed || both && world.strikes(Fault::VanishedPeer) {
            let connection = self.number;
            world.note_here(
                host,
                if killed { What::Killed { connection } } else { What::Vanished { connection } },
            );
            let told_ns = world.clock_ns(host) + 2 * world.profile.latency_ns;
            if killed {
                self.patience[1 - side].death_ns = Some(told_ns);
            }
            self.mind_faults();
            self.let_go(side);
            return Ok(true);
        }
        if self.patience[side].death_ns.is_some_and(|at_ns| now_ns >= at_ns) {
            self.pair.ends[side].peer_is_gone();
        }
        let moved = self.pair.moved(side);
        self.pair.fabric.acting = side;
        self.pair.turn(side);
        self.mind_faults();
        self.note_steps(side);
        self.heed(side, now_ns)?;
        self.mind_faults();
        Ok(moved != self.pair.moved(side))
    }

    /// Ends what can end, and what must.
    fn heed(&mut self, side: usize, now_ns: u64) -> Result<(), String> {
        let is_whole = !self.is_gone(1 - side);
        if is_whole && !self.is_closed && self.pair.is_exchanged() {
            self.pair.close();
            self.is_closed = true;
        }
        let closed = self.pair.ends[side].endpoint().closed();
        if closed.is_none() && self.pair.has_sent(side) {
            match self.closing {
                Closing::WhenSent => self.pair.leave(side),
                Closing::WhenDone if self.pair.has_taken(side) => self.pair.leave(side),
                Closing::WhenDone | Closing::Together => {}
            }
        }
        if is_whole && self.pair.is_over() {
            self.pair.check_oracle();
            self.let_go(0);
            self.let_go(1);
            return Ok(());
        }
        let closed = self.pair.ends[side].endpoint().closed();
        if let (Some(Closed::Failed(Failure::Protocol(rule))), false) = (closed, self.pair.fabric.lied) {
            return Err(format!("nobody lied, and {rule}: {}", self.state()));
        }
        let moved = self.pair.moved(0) + self.pair.moved(1);
        let patience = &mut self.patience[side];
        let mut advice = patience.note(now_ns, moved, closed);
        if advice == Advice::GoOn
            && let Some(next) = self.pair.next(side)
        {
            let next = if patience.is_closing() { self.pair.drive_close(side) } else { next };
            advice = patience.heed(next);
        }
        match advice {
            Advice::GoOn => Ok(()),
            Advice::Close(reason) => {
                self.pair.give_up(side, reason);
                Ok(())
            }
            Advice::Look => self.look(side, now_ns),
        }
    }

    /// An end looks at the time: it may have waited enough.
    fn look(&mut self, side: usize, now_ns: u64) -> Result<(), String> {
        let needs_life = self.pair.fabric.world.faults.any(&NEED_LIFE);
        let patience = &mut self.patience[side];
        let deadline = patience.deadline(self.may_fail, needs_life);
        if !patience.looked(self.pair.look(side, Nanos(now_ns), deadline)) {
            return Ok(());
        }
        if !self.may_fail {
            return Err(format!("nothing moves any more: {}", self.state()));
        }
        if self.patience[side].is_closing() {
            self.let_go(side);
        } else {
            self.pair.give_up(side, Reason::GIVEN_UP);
        }
        Ok(())
    }

    /// What struck in this turn decides what is asked of the next ones.
    fn mind_faults(&mut self) {
        if core::mem::take(&mut self.pair.fabric.world.broken) {
            self.may_fail = true;
            self.pair.expect_failure();
        }
        if self.pair.fabric.lied {
            self.pair.distrust();
        }
    }

    /// An end is gone, with its QP and its memory.
    fn let_go(&mut self, side: usize) {
        if !core::mem::replace(&mut self.patience[side].gone, true) {
            self.pair.fabric.let_go(side);
        }
    }

    /// What the endpoint recorded goes into the trace; of a wait that goes on, its begin.
    fn note_steps(&mut self, side: usize) {
        let fabric = &mut self.pair.fabric;
        let Some(recorder) = fabric.recorders[side].as_deref_mut() else { return };
        while let Some(record) = recorder.take() {
            let (connection, begin_ns, step) = (self.number, record.begin.0, record.step);
            let is_wait = matches!(step, Step::NoCredit { .. } | Step::NoCts { .. });
            if self.steps[side].replace(step) == Some(step) && is_wait {
                continue;
            }
            let at_ns = if is_wait { begin_ns } else { record.end.0 };
            fabric.world.note(at_ns, self.hosts[side], What::Core { connection, begin_ns, step });
        }
    }
}
