//! Acts of the program beside answers: anything that a program may do, now and then.

use superpipe_core::driver::Interest;
use superpipe_core::polling::{Key, Owner};

use super::super::coverage::PollCase;
use super::super::end::{End, Place};
use super::super::net::{Net, SERVER};
use super::{LATER_CALLS, Places, Server};

/// Longest stall, and longest stop of all processes.
const STALL_NS: usize = 20_000_000;
const STOP_NS: usize = 3_000_000_000;

impl Server {
    /// Does anything that a program may do.
    pub(super) fn act(&mut self, net: &mut Net) {
        let Some(&key) = self.keys.get(net.rng.below(self.keys.len().max(1))) else { return };
        let Some(place) = self.places.get(key) else { panic!("{key:?} is stale") };
        let (pair, state, now_ns) = (place.end.pair, self.state(key), self.clock.now_ns());
        match net.rng.below(10) {
            0 | 1 => {
                net.coverage.count(PollCase::Touched, state);
                let end = self.places.touch(key, net, now_ns).copied();
                assert_eq!(end, Some(End { pair, side: SERVER }), "{key:?} names another connection");
            }
            2 => {
                net.coverage.count(PollCase::InterestNarrowed, state);
                self.served[pair].interest.readable = false;
                self.served[pair].widen_in = Some(net.rng.below(LATER_CALLS));
                self.set_interest(net, key, pair);
            }
            3 => self.widen(net, key, pair),
            4 | 5 => self.use_stale_key(net),
            6 => {
                if !self.stale.is_empty() {
                    let stale = self.stale[net.rng.below(self.stale.len())];
                    net.report(Owner { set: 0, number: Places::number(stale) }, net.world.clock_ns(0));
                }
            }
            7 => self.exchange(net, key, pair),
            8 if net.rng.one_in(3) => self.remove(net, key),
            _ if net.rng.one_in(8) => {
                let stopped_ns = net.rng.below(STOP_NS) as u64;
                net.stop_all(stopped_ns);
                (0..net.pairs.len()).for_each(|pair| self.count(net, PollCase::Stopped, pair));
            }
            _ => {
                let stalled_ns = net.rng.below(STALL_NS) as u64;
                net.world.spend(0, stalled_ns);
                let now_ns = net.world.clock_ns(0);
                for pair in 0..net.pairs.len() {
                    net.pairs[pair].flows[SERVER].note_blind(now_ns, "the poller stalled");
                    self.count(net, PollCase::Stalled, pair);
                }
            }
        }
    }

    /// Uses a key of a connection that was removed, on purpose.
    fn use_stale_key(&mut self, net: &mut Net) {
        if self.stale.is_empty() {
            return;
        }
        let (stale, now_ns) = (self.stale[net.rng.below(self.stale.len())], self.clock.now_ns());
        net.coverage.count(PollCase::StaleKey, self.state_of_number(Places::number(stale)));
        let interest = Interest::NONE;
        let reached = match net.rng.below(4) {
            0 => self.places.get(stale).is_some(),
            1 => self.places.touch(stale, net, now_ns).is_some(),
            2 => self.places.set_interest(stale, interest, net, now_ns),
            _ => self.places.remove(stale).is_some(),
        };
        assert!(!reached, "a stale key reaches another connection: {stale:?}");
    }

    /// Puts the connection of the next client in the place of another one, which is dropped.
    pub(super) fn exchange(&mut self, net: &mut Net, key: Key, pair: usize) {
        if self.next_pair == net.pairs.len() {
            return;
        }
        net.coverage.count(PollCase::Exchanged, self.state(key));
        let new = self.next_pair;
        self.next_pair += 1;
        let interest = self.served[pair].interest;
        self.served[new].interest = interest;
        let now_ns = self.clock.now_ns();
        let place = self.places.touch(key, net, now_ns).unwrap_or_else(|| panic!("{key:?} is stale"));
        *place = End { pair: new, side: SERVER };
        net.leave((pair, SERVER));
        let now_ns = net.world.clock_ns(0);
        net.pairs[new].flows[SERVER].note_blind(now_ns, "it was not taken in");
        net.note_taken_in(new);
        self.widen(net, key, new);
        self.set_writable(net, key, new);
    }

    pub(super) fn remove(&mut self, net: &mut Net, key: Key) {
        net.coverage.count(PollCase::Removed, self.state(key));
        let removed = self.places.remove(key).unwrap_or_else(|| panic!("{key:?} is stale"));
        let Place { mut member, mut end } = removed;
        member.release(&mut end, net);
        net.leave(end.name());
        self.keys.retain(|known| *known != key);
        self.stale.push(key);
    }
}
