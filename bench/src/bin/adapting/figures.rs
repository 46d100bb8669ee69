//! What the turns show: at each distance, how fast the connections that choose are beside the pinned one that is best there.

use serde_json::{Value, json};
use superpipe_bench::probe::Distance;
use superpipe_bench::stats::{Spread, median};

use crate::contestant::{ADAPTING, ALL};

/// Share of the best pinned connection's rate that is wanted.
const WANTED: f64 = 0.9;

/// A slice of each connection, one after the other, while the cores stayed where they were.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) bytes: usize,
    pub(crate) distance: Distance,
    /// Turns since the cores moved, or since the begin.
    pub(crate) age: u64,
    /// GB/s of each contestant.
    pub(crate) rates: [f64; ALL.len()],
}

#[derive(Default)]
pub(crate) struct Figures {
    turns: Vec<Turn>,
    pub(crate) moves: u64,
    pub(crate) left_out: u64,
}

impl Figures {
    pub(crate) fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// Prints a line for each size, distance and contestant. After a move a choice has `settled` turns to be right again.
    pub(crate) fn print(&self, json: bool, sizes: &[usize], settled: u64) {
        for bytes in sizes {
            for distance in Distance::ALL {
                let is_here = |turn: &&Turn| turn.bytes == *bytes && turn.distance == distance;
                let turns: Vec<&Turn> = self.turns.iter().filter(is_here).collect();
                if !turns.is_empty() {
                    print_turns(json, &turns, settled);
                }
            }
        }
        let (moves, left_out) = (self.moves, self.left_out);
        if json {
            println!("{}", json!({ "event": "moves", "moves": moves, "left_out": left_out }));
        } else {
            println!("the cores moved {moves} times; {left_out} turns in which they did are left out");
        }
    }
}

/// Returns the pinned contestant that is best in these turns.
fn best_pinned(turns: &[&Turn]) -> usize {
    let rate = |place: usize| median(&turns.iter().map(|turn| turn.rates[place]).collect::<Vec<_>>());
    (ADAPTING..ALL.len()).max_by(|one, other| rate(*one).total_cmp(&rate(*other))).unwrap_or(ADAPTING)
}

/// Returns the shares of the best one's rate, formed inside turns.
fn shares(turns: &[&Turn], place: usize, best: usize) -> Vec<f64> {
    turns.iter().map(|turn| turn.rates[place] / turn.rates[best]).collect()
}

fn print_turns(json: bool, turns: &[&Turn], settled: u64) {
    let (bytes, distance) = (turns[0].bytes, turns[0].distance.name());
    let best = best_pinned(turns);
    let (late, early): (Vec<&Turn>, Vec<&Turn>) = turns.iter().partition(|turn| turn.age >= settled);
    if !json {
        println!(
            "{bytes} B, {distance}, {} turns, {} of them soon after a move; the best pinned one is {}",
            turns.len(),
            early.len(),
            ALL[best].name
        );
    }
    for (place, contestant) in ALL.iter().enumerate() {
        let rate = Spread::new(&turns.iter().map(|turn| turn.rates[place]).collect::<Vec<_>>());
        let [late, early] = [&late, &early].map(|turns| shares(turns, place, best));
        let reached = late.iter().filter(|share| **share >= WANTED).count();
        let share = Spread::new(&late);
        if json {
            let early = if early.is_empty() { Value::Null } else { json!(median(&early)) };
            println!(
                "{}",
                json!({
                    "event": "median", "kind": "adapting", "bytes": bytes, "distance": distance, "contestant": contestant.name,
                    "turns": turns.len(), "late": late.len(), "is_best_pinned": place == best,
                    "gb_per_s": rate.to_json(), "share": if late.is_empty() { Value::Null } else { share.to_json() },
                    "share_early": early, "reached": reached,
                })
            );
        } else {
            println!(
                "  {:<26} GB/s {}  share {}  at least {WANTED} in {reached} of {}, median soon after a move {:.2}",
                contestant.name,
                rate.to_text(),
                share.to_text(),
                late.len(),
                median(&early),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(first: f64, rates: [f64; 2]) -> Turn {
        let mut all = [1.0; ALL.len()];
        (all[0], all[ADAPTING], all[ADAPTING + 1]) = (first, rates[0], rates[1]);
        Turn { bytes: 64, distance: Distance::Near, age: 9, rates: all }
    }

    #[test]
    fn the_best_one_is_pinned_and_best_by_its_median() {
        let turns = [turn(9.0, [2.0, 3.0]), turn(9.0, [8.0, 3.0]), turn(9.0, [2.0, 4.0])];
        let turns: Vec<&Turn> = turns.iter().collect();
        assert_eq!(best_pinned(&turns), ADAPTING + 1);
        assert_eq!(shares(&turns, 0, ADAPTING + 1), [3.0, 3.0, 2.25]);
    }
}
