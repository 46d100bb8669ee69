//! One connection with the applications at its ends.

use superpipe_core::recorder::Step;
use superpipe_core::{Arrival, Closed, Driver, Failure, Nanos, Reason};
use superpipe_testkit::Pair;

use super::scripted::Scripted;
use crate::calls::Calls;
use crate::case::{Case, Plan};
use crate::client::Talk;
use crate::fabric::Sim;
use crate::faults::Fault;
use crate::flags::Flags;
use crate::nic::What;
use crate::nic::{NotRegistered, World};
use crate::torn::Torn;
use crate::turned::Turned;

/// Faults that can overtake an acknowledgement, which then needs a sign of life (wire.md 7.3): elsewhere none may be needed, and
/// nobody waits so long.
const NEED_LIFE: [Fault; 3] = [Fault::TornPacket, Fault::OvertakenWrite, Fault::LateAcknowledgement];

/// What the applications at both ends do.
enum Play<const DIRECT: bool> {
    /// What a script says, of which nothing may be left.
    Script(Box<Scripted<DIRECT>>),
    /// Any call, at any time.
    Talk(Box<Talk<Sim<DIRECT>>>),
}

pub(super) struct Connection<const DIRECT: bool> {
    number: usize,
    pub(super) hosts: [usize; 2],
    play: Play<DIRECT>,
    gone: [bool; 2],
    /// When each end is told that its peer has died.
    death_ns: [Option<u64>; 2],
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
        let play = match plan.programs {
            Some(programs) => Play::Talk(Box::new(Talk::over(fabric, &plan.script, programs))),
            None => {
                let pair = Pair::over(fabric, plan.script.clone());
                Play::Script(Box::new(Scripted::new(pair, plan.closing)))
            }
        };
        Ok(Self {
            number: plan.number,
            hosts: plan.hosts,
            play,
            gone: [false; 2],
            death_ns: [None; 2],
            may_fail: false,
            steps: [None; 2],
        })
    }

    /// So many ends share a CPU: each of them waits for the others.
    pub(super) fn be_patient(&mut self, crowd: u64) {
        match &mut self.play {
            Play::Script(scripted) => scripted.be_patient(crowd),
            Play::Talk(talk) => talk.crowd = crowd,
        }
    }

    pub(super) const fn is_gone(&self, side: usize) -> bool {
        self.gone[side]
    }

    pub(super) fn state(&self) -> String {
        match &self.play {
            Play::Script(scripted) => scripted.pair.state(),
            Play::Talk(talk) => talk.state(),
        }
    }

    /// Transfers that programs made; those of a script are counted before.
    pub(super) fn transfers(&self) -> u64 {
        match &self.play {
            Play::Script(_) => 0,
            Play::Talk(talk) => talk.transfers(),
        }
    }

    pub(super) fn calls(&self) -> Option<&Calls> {
        match &self.play {
            Play::Script(_) => None,
            Play::Talk(talk) => Some(&talk.calls),
        }
    }

    pub(super) fn torn(&self) -> Torn {
        match &self.play {
            Play::Script(scripted) => scripted.pair.fabric.looks.borrow().torn,
            Play::Talk(talk) => talk.fabric.looks.borrow().torn,
        }
    }

    fn fabric(&mut self) -> &mut Sim<DIRECT> {
        match &mut self.play {
            Play::Script(scripted) => &mut scripted.pair.fabric,
            Play::Talk(talk) => &mut talk.fabric,
        }
    }

    fn driver(&self, side: usize) -> &Driver<Sim<DIRECT>> {
        match &self.play {
            Play::Script(scripted) => &scripted.pair.ends[side],
            Play::Talk(talk) => &talk.clients[side].driver,
        }
    }

    fn driver_mut(&mut self, side: usize) -> &mut Driver<Sim<DIRECT>> {
        match &mut self.play {
            Play::Script(scripted) => &mut scripted.pair.ends[side],
            Play::Talk(talk) => &mut talk.clients[side].driver,
        }
    }

    fn moved(&self, side: usize) -> u64 {
        match &self.play {
            Play::Script(scripted) => scripted.pair.moved(side),
            Play::Talk(talk) => talk.moved(side),
        }
    }

    /// How each end ended, as one says it.
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

    /// The world, if it is here: a turn did not end.
    pub(super) fn world_lent(&mut self) -> Option<Box<World>> {
        let lent = &mut self.fabric().world;
        (!lent.is_nowhere()).then(|| core::mem::replace(lent, Box::new(World::nowhere())))
    }

    /// An end acts. Whether it did anything, and how long it may sleep.
    pub(super) fn turn(
        &mut self,
        world: &mut Box<World>,
        side: usize,
        now_ns: u64,
    ) -> Result<(bool, u64), String> {
        world.states = [side, 1 - side].map(|side| Some(self.driver(side).endpoint().state()));
        core::mem::swap(world, &mut self.fabric().world);
        let turned = self.turn_here(side, now_ns);
        core::mem::swap(world, &mut self.fabric().world);
        turned
    }

    fn turn_here(&mut self, side: usize, now_ns: u64) -> Result<(bool, u64), String> {
        if self.strikes(side) {
            return Ok((true, 0));
        }
        if self.death_ns[side].is_some_and(|at_ns| now_ns >= at_ns) {
            self.driver_mut(side).peer_is_gone();
        }
        let moved = self.moved(side);
        self.fabric().acting = side;
        let is_whole = !self.gone[1 - side];
        let (may_fail, needs_life) = (self.may_fail, self.fabric().world.faults.any(&NEED_LIFE));
        let turned = match &mut self.play {
            Play::Script(scripted) => {
                scripted.pair.turn(side);
                Turned::default()
            }
            Play::Talk(talk) => {
                talk.needs_life = needs_life;
                talk.turn(side, Nanos(now_ns))
            }
        };
        self.mind_faults();
        self.note_steps(side);
        let may_fail = may_fail || self.may_fail;
        let turned = match &mut self.play {
            Play::Script(scripted) => scripted.heed(side, now_ns, is_whole, may_fail, needs_life)?,
            Play::Talk(_) => turned,
        };
        self.mind_faults();
        self.judge(side)?;
        let has_moved = moved != self.moved(side);
        for side in (0..2).filter(|side| turned.lets_go[*side]) {
            self.let_go(side);
        }
        Ok((has_moved, turned.nap_ns))
    }

    /// What can strike an end before its turn. Returns true if it is gone.
    fn strikes(&mut self, side: usize) -> bool {
        let both = !self.gone[1 - side];
        let (host, connection) = (self.hosts[side], self.number);
        let world = &mut self.fabric().world;
        if world.strikes(Fault::StalledPeer) {
            let ns = world.late_ns();
            world.spend(host, ns);
            world.note_here(host, What::Stall { ns });
        }
        let killed = both && world.strikes(Fault::KilledProcess);
        if !(killed || both && world.strikes(Fault::VanishedPeer)) {
            return false;
        }
        world.note_here(
            host,
            if killed { What::Killed { connection } } else { What::Vanished { connection } },
        );
        if killed {
            self.tell_death(side);
        }
        self.mind_faults();
        self.let_go(side);
        true
    }

    /// The peer is told that this end is gone.
    fn tell_death(&mut self, side: usize) {
        let host = self.hosts[side];
        let world = &self.fabric().world;
        self.death_ns[1 - side] = Some(world.clock_ns(host) + 2 * world.profile.latency_ns);
    }

    fn judge(&mut self, side: usize) -> Result<(), String> {
        match self.driver(side).endpoint().closed() {
            Some(Closed::Failed(Failure::Protocol(rule))) if !self.fabric().lied => {
                Err(format!("nobody lied, and {rule}: {}", self.state()))
            }
            _ => Ok(()),
        }
    }

    /// What struck in this turn decides what is asked of the next ones.
    fn mind_faults(&mut self) {
        let lied = self.fabric().lied;
        let is_broken = core::mem::take(&mut self.fabric().world.broken);
        self.may_fail |= is_broken;
        match &mut self.play {
            Play::Script(scripted) => {
                if is_broken {
                    scripted.pair.expect_failure();
                }
                if lied {
                    scripted.pair.distrust();
                }
            }
            Play::Talk(talk) => {
                if is_broken {
                    talk.expect_failure();
                }
                if lied {
                    talk.distrust();
                }
            }
        }
    }

    /// An end is gone, with its QP and its memory. One that has closed has told so, or waited long enough: the other one may find
    /// nobody any more.
    fn let_go(&mut self, side: usize) {
        if core::mem::replace(&mut self.gone[side], true) {
            return;
        }
        self.fabric().let_go(side);
        if let Play::Talk(talk) = &mut self.play {
            if self.gone[1 - side] {
                talk.check_oracle();
            } else if self.may_fail || !talk.is_over() {
                talk.expect_failure();
                self.may_fail = true;
                let has_left = talk.clients[side].has_dropped || talk.clients[side].driver.is_closing();
                if self.death_ns[1 - side].is_none() && has_left {
                    self.tell_death(side);
                }
            }
        }
    }

    /// What the endpoint recorded goes into the trace; of a wait that goes on, its begin.
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
            fabric.world.note(at_ns, host, What::Core { connection, begin_ns, step });
        }
        self.steps[side] = last;
    }
}
