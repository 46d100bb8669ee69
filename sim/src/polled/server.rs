//! A program with a poller. It answers each message, in core's [`Call`], and now and then does something else with its connections.

mod acts;
mod host;

use superpipe_core::driver::{Interest, WaitStrategy};
use superpipe_core::polling::{Call, CallRest, CallStep, Key, Member, PollerClock, Report, Rounds, Slot};

use super::case::PolledCase;
use super::coverage::{PollCase, PolledState};
use super::end::{End, Place};
use super::fairness::{Events, Fairness};
use super::net::{Net, SERVER};
use super::turns::Next;
use host::Host;

/// Time of a round, besides its looks.
const ROUND_NS: u64 = 40;
/// Longest yield to another thread: by a poller that yields for ever, and by one that sleeps after some yields.
const YIELD_NS: [usize; 2] = [1_000_000, 20_000];
/// Calls after which what was narrowed is widened, and what has ended is removed, at most.
const LATER_CALLS: usize = 6;
/// Longest work of the program between two calls of which the first had nothing to report.
const OTHER_WORK_NS: usize = 100_000;
/// Deadlines of calls, from their begin on.
const DEADLINES_NS: [u64; 3] = [0, 1_000_000, 200_000_000];

type Places = Rounds<Place, Vec<Slot<Place>>, Vec<u32>, Vec<u64>>;

/// The program's view of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    /// Answers that are due.
    answers: u32,
    /// Calls in which the next message is left there.
    left_calls: u32,
    interest: Interest,
    /// Calls until messages are wanted again, and until it is removed, since it has ended.
    widen_in: Option<usize>,
    remove_in: Option<usize>,
}

/// The program.
pub(super) struct Server {
    case: PolledCase,
    pub(super) places: Places,
    clock: PollerClock,
    /// The call under way, and when it ends.
    call: Option<Call>,
    deadline_ns: u64,
    has_slept: bool,
    events: Events,
    fairness: Fairness,
    /// Connections that had something when the call began.
    ready: Vec<usize>,
    served: Vec<Served>,
    keys: Vec<Key>,
    stale: Vec<Key>,
    /// The next client to be taken in.
    next_pair: usize,
}

impl Server {
    pub(super) fn new(case: &PolledCase) -> Self {
        let count = case.places as usize;
        let memory = ((0..count).map(|_| Slot::default()).collect(), vec![0; count], vec![0; count]);
        Self {
            places: Rounds::new(0, case.quiet_ns, memory),
            clock: PollerClock::new(0),
            call: None,
            deadline_ns: 0,
            has_slept: false,
            events: Events { reports: Vec::new(), room: case.room },
            fairness: Fairness::new(case.clients.len()),
            ready: Vec::new(),
            served: case
                .clients
                .iter()
                .map(|plan| Served { left_calls: plan.left_calls, ..Served::default() })
                .collect(),
            keys: Vec::new(),
            stale: Vec::new(),
            next_pair: 0,
            case: case.clone(),
        }
    }

    /// Makes one step of a call: a round, and the rest after it.
    pub(super) fn turn(&mut self, net: &mut Net) -> Next {
        let mut call = match self.call.take() {
            Some(call) => call,
            None => self.begin_call(net),
        };
        let has_slept = core::mem::take(&mut self.has_slept);
        let mut host = Host { server: self, net };
        if has_slept {
            call.woken(&mut host);
        }
        let step = call.round(&mut host);
        self.call = Some(call);
        let now_ns = net.world.clock_ns(0);
        match step {
            CallStep::Return | CallStep::Interrupted => {
                self.call = None;
                self.end_call(net)
            }
            CallStep::Round | CallStep::Rest(CallRest::Spin) => Next::At(now_ns),
            CallStep::Rest(CallRest::Yield) => {
                let most_ns = YIELD_NS[usize::from(self.case.wait == WaitStrategy::Sleep)];
                Next::At(now_ns + net.rng.below(most_ns) as u64)
            }
            CallStep::Rest(CallRest::Sleep(sleep_ns)) => {
                self.has_slept = true;
                Next::Sleep(now_ns + sleep_ns)
            }
        }
    }

    fn begin_call(&mut self, net: &mut Net) -> Call {
        self.take_in(net);
        let now_ns = net.world.clock_ns(0);
        self.ready.clear();
        for key in &self.keys {
            let Some(place) = self.places.get(*key) else { continue };
            let (pair, is_active) = (place.end.pair, place.member.is_active());
            let is_wanted = self.served[pair].interest.readable;
            if is_active && is_wanted && net.pairs[pair].flows[SERVER].has_untaken(now_ns) {
                self.ready.push(pair);
            }
        }
        self.events.reports.clear();
        let timeout_ns = DEADLINES_NS[net.rng.below(DEADLINES_NS.len())];
        self.deadline_ns = now_ns + timeout_ns;
        let wait = self.case.wait;
        Call::begin(&mut Host { server: self, net }, wait, timeout_ns == 0)
    }

    /// Returns the state of a connection.
    fn state(&self, key: Key) -> PolledState {
        self.places.get(key).map_or(PolledState::Empty, |place| PolledState::of(&place.member))
    }

    /// Returns the state of the slot that a number of the set has.
    fn state_of_number(&self, number: u64) -> PolledState {
        let slot = |number: u64| number & u64::from(u32::MAX);
        let here = self.keys.iter().find(|key| slot(Places::number(**key)) == slot(number));
        here.map_or(PolledState::Empty, |key| self.state(*key))
    }

    /// Counts something that happens to the connection of a client.
    pub(super) fn count(&self, net: &mut Net, case: PollCase, pair: usize) {
        let is_its = |place: &Place| place.end.pair == pair;
        let key = self.keys.iter().find(|key| self.places.get(**key).is_some_and(is_its));
        if let Some(key) = key {
            net.coverage.count(case, self.state(*key));
        }
    }

    /// Takes clients in while there are places, but leaves some free for a while.
    fn take_in(&mut self, net: &mut Net) {
        while self.next_pair < net.pairs.len() && self.keys.len() < self.case.places as usize {
            if self.case.acts_one_in > 0 && !self.keys.is_empty() && net.rng.one_in(3) {
                return;
            }
            let pair = self.next_pair;
            self.next_pair += 1;
            let now_ns = net.world.clock_ns(0);
            net.pairs[pair].flows[SERVER].note_blind(now_ns, "it was not taken in");
            net.note_taken_in(pair);
            let place = Place { member: Member::new(now_ns), end: End { pair, side: SERVER } };
            let key = self.places.insert(place).unwrap_or_else(|_| panic!("a slot was lost"));
            assert!(!self.stale.contains(&key), "{key:?} is used again");
            assert!(self.places.establish(key, net, now_ns).is_ok());
            self.keys.push(key);
        }
    }

    /// Handles the reports of a call, and does something else now and then.
    fn end_call(&mut self, net: &mut Net) -> Next {
        let reports = core::mem::take(&mut self.events.reports);
        self.check_fairness(net, &reports);
        if reports.is_empty() && self.case.acts_one_in > 0 {
            let other_ns = net.rng.below(OTHER_WORK_NS) as u64;
            net.world.spend(0, other_ns);
        }
        for (key, report) in &reports {
            let (key, report) = (*key, *report);
            let Some(place) = self.places.get(key) else { panic!("{key:?} is reported, and names nothing") };
            let pair = place.end.pair;
            match report {
                Report::Readable => self.answer(net, key, pair),
                Report::Writable => self.send_answers(net, key, pair),
                Report::Silent => self.note_silent(net, key, pair),
                Report::Ended => self.note_end(net, pair),
            }
        }
        self.replace_silent(net, &reports);
        self.check_silence(net);
        self.do_later(net);
        if self.case.acts_one_in > 0 && net.rng.one_in(self.case.acts_one_in) {
            self.act(net);
        }
        net.world.spend(0, ROUND_NS);
        if self.keys.is_empty() && self.next_pair == net.pairs.len() {
            return Next::Over;
        }
        Next::At(net.world.clock_ns(0))
    }

    fn note_silent(&self, net: &mut Net, key: Key, pair: usize) {
        // It may have ended later in the same call.
        if self.state(key) != PolledState::Ended {
            net.coverage.count(PollCase::Silent, self.state(key));
        }
        let idle_timeout_ns = net.pairs[pair].idle_timeout_ns;
        net.pairs[pair].life.note_told(self.clock.now_ns(), idle_timeout_ns);
    }

    /// Puts another connection in the place of a silent one, now and then.
    fn replace_silent(&mut self, net: &mut Net, reports: &[(Key, Report)]) {
        for (key, report) in reports {
            let has_ended = self.state(*key) == PolledState::Ended;
            if *report == Report::Silent && !has_ended && net.rng.one_in(2) {
                let Some(place) = self.places.get(*key) else { continue };
                self.exchange(net, *key, place.end.pair);
            }
        }
    }

    /// Checks that each peer that is silent was reported.
    fn check_silence(&self, net: &mut Net) {
        for key in &self.keys {
            let Some(place) = self.places.get(*key) else { continue };
            if PolledState::of(&place.member) != PolledState::Ended {
                let pair = &mut net.pairs[place.end.pair];
                pair.life.check(self.clock.now_ns(), pair.idle_timeout_ns);
            }
        }
    }

    fn check_fairness(&mut self, net: &mut Net, reports: &[(Key, Report)]) {
        let now_ns = net.world.clock_ns(0);
        let mut told = vec![false; net.pairs.len()];
        for (key, report) in reports {
            let Some(place) = self.places.get(*key) else { continue };
            if matches!(report, Report::Readable | Report::Ended) {
                told[place.end.pair] = true;
            }
            if *report == Report::Readable {
                net.pairs[place.end.pair].flows[SERVER].note_seen(now_ns);
            }
        }
        for (pair, told) in told.iter().enumerate() {
            if !*told && !reports.is_empty() && self.ready.contains(&pair) {
                net.coverage.count(PollCase::LeftOut, PolledState::Active);
                self.fairness.note_left_out(pair, self.places.active_count(), self.events.room);
            } else {
                self.fairness.note_told(pair);
            }
        }
    }

    /// Takes messages of a connection, and answers them.
    fn answer(&mut self, net: &mut Net, key: Key, pair: usize) {
        if let Some(left) = self.served[pair].left_calls.checked_sub(1) {
            self.served[pair].left_calls = left;
            return;
        }
        let now_ns = self.clock.now_ns();
        let end = *self.places.touch(key, net, now_ns).unwrap_or_else(|| panic!("{key:?} is stale"));
        assert_eq!(end.pair, pair, "{key:?} names another connection");
        let most = 1 + net.rng.below(3);
        for _ in 0..most {
            if !net.take(end.name()) {
                break;
            }
            self.served[pair].answers += 1;
            self.served[pair].left_calls = self.case.clients[pair].left_calls;
        }
        self.send_answers(net, key, pair);
    }

    fn send_answers(&mut self, net: &mut Net, key: Key, pair: usize) {
        while self.served[pair].answers > 0 && net.send((pair, SERVER)) {
            self.served[pair].answers -= 1;
        }
        self.set_writable(net, key, pair);
    }

    fn set_writable(&mut self, net: &mut Net, key: Key, pair: usize) {
        let writable = self.served[pair].answers > 0;
        if writable != self.served[pair].interest.writable {
            self.served[pair].interest.writable = writable;
            self.set_interest(net, key, pair);
        }
    }

    fn set_interest(&mut self, net: &mut Net, key: Key, pair: usize) {
        let interest = self.served[pair].interest;
        assert!(self.places.set_interest(key, interest, net, self.clock.now_ns()), "{key:?} is stale");
    }

    /// Takes what is left of a connection that has ended.
    fn note_end(&mut self, net: &mut Net, pair: usize) {
        while net.take((pair, SERVER)) {}
        let flow = &net.pairs[pair].flows[SERVER];
        assert!(flow.is_empty(), "connection {pair} has ended, and not all was taken");
        self.served[pair].remove_in = Some(net.rng.below(LATER_CALLS));
    }

    /// Does what was put off.
    fn do_later(&mut self, net: &mut Net) {
        for key in self.keys.clone() {
            let Some(place) = self.places.get(key) else { continue };
            let pair = place.end.pair;
            let is_due = |calls: &mut Option<usize>| match calls {
                Some(0) => calls.take().is_some(),
                Some(calls) => {
                    *calls -= 1;
                    false
                }
                None => false,
            };
            if is_due(&mut self.served[pair].widen_in) {
                self.widen(net, key, pair);
            }
            if is_due(&mut self.served[pair].remove_in) {
                self.remove(net, key);
            }
        }
    }

    fn widen(&mut self, net: &mut Net, key: Key, pair: usize) {
        net.coverage.count(PollCase::InterestWidened, self.state(key));
        net.pairs[pair].flows[SERVER].note_blind(net.world.clock_ns(0), "nothing was wanted");
        self.served[pair].interest.readable = true;
        self.set_interest(net, key, pair);
    }
}
