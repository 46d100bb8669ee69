//! Connections between a poller and its clients, and the sets that report which ends were woken.
//!
//! A sleep is that of wire/shm.md 7.2: the sleeper sets its word, has all stores of the other core become visible (the membarrier), and looks once more. The other loads the word after its stores, and sends
//! the wake-up if it is set. A set is edge-triggered, as epoll is: it reports each wake-up and each end of a peer once, by the number that the end was watched with.

use superpipe_core::driver::{Driver, WaitStrategy};
use superpipe_core::polling::Owner;
use superpipe_core::{Config, Endpoint, FlagPlace, Layout, Nanos, Origin};
use superpipe_testkit::{PairFabric, Rng, Setup};

use super::case::SleepFaults;
use super::coverage::PollCoverage;
use super::life::Life;
use super::seen::Flow;
use crate::fabric::{ArrivalFlags, SimFabric};
use crate::faults::Faults;
use crate::nic::{Profile, World};

/// Landing buffers: a burst does not fit into one.
const LAYOUT: Layout =
    Layout { block_bytes: 512, block_count: 6, flags: FlagPlace::Apart { group_blocks: 1 } };
/// Time from a system call that wakes to the report.
const WAKE_NS: u64 = 5_000;
/// Time from the end of a process to the report of it.
const HANG_UP_NS: u64 = 30_000;
/// Longest time from the request for a wake-up to the look that finds a lost one, with a membarrier and without.
const LOOK_AGAIN_NS: [u64; 2] = [1_000_000, 100_000_000];
/// Time after which the poller's first keepalive is there.
const FIRST_NS: u64 = 300_000_000;
/// Time of a system call.
const SYSTEM_CALL_NS: u64 = 300;

/// Side of the poller, and of the client.
pub(super) const SERVER: usize = 0;
pub(super) const CLIENT: usize = 1;

/// One end's view of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Socket {
    owner: Option<Owner>,
    /// Time of a wake-up that was not read, and time at which the peer's end is known.
    packet_ns: Option<u64>,
    hung_up_ns: Option<u64>,
}

/// A connection.
pub(super) struct Pair {
    fabric: SimFabric<true>,
    drivers: [Driver<SimFabric<true>>; 2],
    sockets: [Socket; 2],
    /// Ends that are gone.
    gone: [bool; 2],
    /// Messages that each end receives.
    pub(super) flows: [Flow; 2],
    /// The client's.
    pub(super) life: Life,
    /// Time from which on the poller serves it, while it does.
    served_from_ns: Option<u64>,
    pub(super) idle_timeout_ns: u64,
}

/// Reports of a set that were not taken: when, and the number.
#[derive(Default)]
struct WatchSet(Vec<(u64, u64)>);

/// Connections, sets, and the world. Set 0 is the poller's, set `n + 1` that of client `n`; their CPUs are the hosts of these numbers.
pub(super) struct Net {
    pub(super) world: Box<World>,
    pub(super) pairs: Vec<Pair>,
    pub(super) rng: Rng,
    faults: SleepFaults,
    sets: Vec<WatchSet>,
    /// Sets that got a report, and when it can be taken.
    pub(super) poked: Vec<(usize, u64)>,
    pub(super) coverage: PollCoverage,
    /// Looks at connections of the poller.
    pub(super) looks: u64,
    /// All processes were stopped at some time.
    has_stopped: bool,
}

impl Net {
    pub(super) fn new(clients: usize, seed: u64, faults: SleepFaults) -> Self {
        let profile = Profile::roce_100g();
        Self {
            world: Box::new(World::new(clients + 1, profile, Faults::default(), seed)),
            pairs: Vec::new(),
            rng: Rng::new(seed ^ 0x5e7),
            faults,
            sets: (0..=clients).map(|_| WatchSet::default()).collect(),
            poked: Vec::new(),
            coverage: PollCoverage::default(),
            looks: 0,
            has_stopped: false,
        }
    }

    /// Connects a client with the poller.
    pub(super) fn connect(&mut self, client: usize, idle_timeout_ns: u64) {
        let setup = Setup::new(LAYOUT, 1);
        let flags =
            ArrivalFlags { checked: false, notify: false, lends: false, refuses_one_in: 0, crc_bits: 32 };
        let hosts = [0, client + 1];
        let fabric = SimFabric::<true>::connect(&mut self.world, hosts, &setup, flags);
        let mut fabric = fabric.unwrap_or_else(|error| panic!("{error}"));
        fabric.start(0);
        let config = Config { c0_bytes: 400, one_copy_bytes: 201, ..Config::default() };
        let drivers = [SERVER, CLIENT].map(|side| {
            let end = Endpoint::new(&fabric, fabric.attachment(side), config, Origin::default())
                .unwrap_or_else(|error| panic!("{error}"));
            let number = 2 * client as u64 + 1 + side as u64;
            let mut driver = Driver::new(end, number, WaitStrategy::Sleep, idle_timeout_ns, Nanos(0));
            driver.set_peer_idle_timeout(Nanos(idle_timeout_ns));
            driver
        });
        let (sockets, gone, flows, life, served_from_ns) = Default::default();
        self.pairs.push(Pair {
            fabric,
            drivers,
            sockets,
            gone,
            flows,
            life,
            served_from_ns,
            idle_timeout_ns,
        });
    }

    /// Stops all processes for a time, as a machine does that sleeps.
    pub(super) fn stop_all(&mut self, stopped_ns: u64) {
        self.has_stopped = true;
        let begin_ns = self.world.clock_ns(0);
        for host in 0..=self.pairs.len() {
            self.world.spend(host, stopped_ns);
        }
        for pair in 0..self.pairs.len() {
            for side in [SERVER, CLIENT] {
                let now_ns = self.now_ns((pair, side));
                self.pairs[pair].flows[side].note_blind(now_ns, "all were stopped");
            }
            let Pair { life, idle_timeout_ns, .. } = &mut self.pairs[pair];
            life.note_stopped(begin_ns, stopped_ns, *idle_timeout_ns);
        }
    }

    /// Notes that the poller serves a connection from now on.
    pub(super) fn note_taken_in(&mut self, pair: usize) {
        let now_ns = self.world.clock_ns(0);
        self.pairs[pair].life.note_taken_in(now_ns);
        self.pairs[pair].served_from_ns = Some(now_ns);
    }

    /// Checks that a client does not find the poller silent that serves it: its keepalives come in time. After a stop of all processes they may not.
    pub(super) fn check_found_silent(&self, pair: usize) {
        let served_ns = self.pairs[pair]
            .served_from_ns
            .map(|from_ns| self.now_ns((pair, CLIENT)).saturating_sub(from_ns));
        let may_be = self.has_stopped || served_ns.is_none_or(|served_ns| served_ns < FIRST_NS);
        assert!(may_be, "client {pair} finds the poller silent, which serves it for {served_ns:?} ns");
    }

    /// Returns the clock of the CPU of an end.
    pub(super) fn now_ns(&self, (pair, side): (usize, usize)) -> u64 {
        self.world.clock_ns(if side == SERVER { 0 } else { pair + 1 })
    }

    /// Lets the driver of an end do something, and sends the wake-ups of that.
    #[inline]
    pub(super) fn with<R>(
        &mut self,
        (pair, side): (usize, usize),
        act: impl FnOnce(&mut Driver<SimFabric<true>>, &mut SimFabric<true>) -> R,
    ) -> R {
        let Self { world, pairs, .. } = self;
        let Pair { fabric, drivers, life, .. } = &mut pairs[pair];
        core::mem::swap(world, &mut fabric.world);
        fabric.acting = side;
        let before = drivers[side].endpoint().counters().acks_sent;
        let result = act(&mut drivers[side], fabric);
        if side == CLIENT && drivers[side].endpoint().counters().acks_sent != before {
            life.note_shown(fabric.stores_visible_ns(side));
        }
        core::mem::swap(world, &mut fabric.world);
        if fabric.sleep_words.take_woken(1 - side) {
            self.send_wake_up((pair, side));
        }
        result
    }

    /// Sends a wake-up to the peer of an end. That may take long, and the peer may be blind meanwhile.
    fn send_wake_up(&mut self, (pair, side): (usize, usize)) {
        let now_ns = self.now_ns((pair, side));
        let mut at_ns = now_ns + WAKE_NS;
        let SleepFaults { late_one_in, late_ns, .. } = self.faults;
        if late_one_in > 0 && self.rng.one_in(late_one_in) {
            at_ns += self.rng.next() % late_ns;
            self.pairs[pair].flows[1 - side].note_blind(at_ns, "a late wake-up");
        }
        let socket = &mut self.pairs[pair].sockets[1 - side];
        socket.packet_ns = Some(socket.packet_ns.map_or(at_ns, |before_ns| before_ns.min(at_ns)));
        if let Some(owner) = socket.owner {
            self.report(owner, at_ns);
        }
    }

    /// Has a set report a number from a time on.
    pub(super) fn report(&mut self, owner: Owner, at_ns: u64) {
        let set = owner.set as usize;
        self.sets[set].0.push((at_ns, owner.number));
        self.poked.push((set, at_ns));
    }

    /// Takes the reports of a set.
    pub(super) fn take_reports(&mut self, set: usize, now_ns: u64) -> Vec<u64> {
        let reports = &mut self.sets[set].0;
        let (mut due, later): (Vec<_>, Vec<_>) = reports.drain(..).partition(|(at_ns, _)| *at_ns <= now_ns);
        *reports = later;
        due.sort_unstable();
        due.dedup_by_key(|(_, number)| *number);
        due.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns when a set has something to report.
    pub(super) fn next_report_ns(&self, set: usize) -> u64 {
        self.sets[set].0.iter().map(|(at_ns, _)| *at_ns).min().unwrap_or(u64::MAX)
    }

    /// Returns true if the socket of an end is ready to read.
    fn is_ready(&self, (pair, side): (usize, usize)) -> bool {
        let now_ns = self.now_ns((pair, side));
        let Socket { packet_ns, hung_up_ns, .. } = self.pairs[pair].sockets[side];
        [packet_ns, hung_up_ns].into_iter().flatten().any(|at_ns| at_ns <= now_ns)
    }

    pub(super) fn owner(&self, (pair, side): (usize, usize)) -> Option<Owner> {
        self.pairs[pair].sockets[side].owner
    }

    /// Has a set watch an end, and report it if it is ready or will be.
    pub(super) fn watch(&mut self, (pair, side): (usize, usize), owner: Owner) {
        let socket = &mut self.pairs[pair].sockets[side];
        socket.owner = Some(owner);
        for at_ns in [socket.packet_ns, socket.hung_up_ns].into_iter().flatten() {
            self.report(owner, at_ns);
        }
    }

    /// Takes an end out of its set. Reports that were made stay, as those of a descriptor that a child has open.
    pub(super) fn forget(&mut self, (pair, side): (usize, usize)) {
        self.pairs[pair].sockets[side].owner = None;
    }

    /// Begins a sleep of an end, with the barrier. Returns the time after which it is to look again.
    pub(super) fn begin_sleep(&mut self, name @ (pair, side): (usize, usize)) -> u64 {
        let SleepFaults { has_barrier, lost_one_in, .. } = self.faults;
        let look_again_ns = LOOK_AGAIN_NS[usize::from(has_barrier)];
        let is_lost = !has_barrier || lost_one_in > 0 && self.rng.one_in(lost_one_in);
        let host = if side == SERVER { 0 } else { pair + 1 };
        self.world.spend(host, SYSTEM_CALL_NS);
        let now_ns = self.now_ns(name);
        let Pair { fabric, flows, .. } = &mut self.pairs[pair];
        fabric.sleep_words.set(side, true);
        if is_lost {
            flows[side].note_blind(now_ns + look_again_ns, "a wake-up was lost");
            return look_again_ns;
        }
        core::mem::swap(&mut self.world, &mut fabric.world);
        let visible_ns = fabric.stores_visible_ns(1 - side);
        core::mem::swap(&mut self.world, &mut fabric.world);
        self.world.wait(host, visible_ns.saturating_sub(now_ns));
        let now_ns = self.now_ns(name);
        while self.world.run_events(now_ns).is_some() {}
        look_again_ns
    }

    /// Returns true if nothing is ready that the set has reported already, so that an end may sleep.
    pub(super) fn may_sleep(&self, name: (usize, usize)) -> bool {
        !self.is_ready(name)
    }

    /// Ends a sleep of an end: clears its word, and reads the wake-ups.
    pub(super) fn end_sleep(&mut self, name @ (pair, side): (usize, usize)) {
        let host = if side == SERVER { 0 } else { pair + 1 };
        self.world.spend(host, SYSTEM_CALL_NS);
        let now_ns = self.now_ns(name);
        let Pair { fabric, sockets, .. } = &mut self.pairs[pair];
        fabric.sleep_words.set(side, false);
        if sockets[side].packet_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            sockets[side].packet_ns = None;
        }
        self.check_peer(name);
    }

    /// Tells the driver of an end that its peer is gone, if it is.
    pub(super) fn check_peer(&mut self, (pair, side): (usize, usize)) {
        let now_ns = self.now_ns((pair, side));
        let Pair { sockets, drivers, .. } = &mut self.pairs[pair];
        if sockets[side].hung_up_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            drivers[side].note_peer_gone();
        }
    }

    /// Returns true if an end is gone.
    pub(super) fn is_gone(&self, (pair, side): (usize, usize)) -> bool {
        self.pairs[pair].gone[side]
    }

    /// Ends the process of an end, or drops its connection.
    pub(super) fn leave(&mut self, name @ (pair, side): (usize, usize)) {
        if core::mem::replace(&mut self.pairs[pair].gone[side], true) {
            return;
        }
        let at_ns = self.now_ns(name) + HANG_UP_NS;
        if side == SERVER {
            self.pairs[pair].served_from_ns = None;
        }
        let Self { world, pairs, .. } = self;
        let Pair { fabric, sockets, .. } = &mut pairs[pair];
        core::mem::swap(world, &mut fabric.world);
        fabric.release(side);
        core::mem::swap(world, &mut fabric.world);
        fabric.sleep_words.set(side, false);
        sockets[side].owner = None;
        sockets[1 - side].hung_up_ns = Some(at_ns);
        if let Some(owner) = sockets[1 - side].owner {
            self.report(owner, at_ns);
        }
    }

    /// Sends the next message from an end to the other. Returns false if there is no room.
    pub(super) fn send(&mut self, name @ (pair, side): (usize, usize)) -> bool {
        let (tag, bytes) = Flow::message(pair, side, self.pairs[pair].flows[1 - side].next());
        let sent = self.with(name, |driver, fabric| {
            let sent = driver.try_send(fabric, tag, &[&bytes]).is_ok();
            if !sent {
                driver.progress(fabric);
            }
            sent.then(|| fabric.stores_visible_ns(side))
        });
        if let Some(visible_ns) = sent {
            self.pairs[pair].flows[1 - side].note_sent(visible_ns);
        }
        sent.is_some()
    }

    /// Takes a message at an end, if one is complete.
    pub(super) fn take(&mut self, name @ (pair, side): (usize, usize)) -> bool {
        let mut room = [0; super::seen::BYTES_MAX];
        let taken = self.with(name, |driver, fabric| driver.try_recv(fabric, &mut [&mut room]));
        let Ok(Some(received)) = taken else { return false };
        let now_ns = self.now_ns(name);
        let message = (received.tag, &room[..received.bytes]);
        self.pairs[pair].flows[side].take((pair, 1 - side), message, now_ns);
        true
    }
}
