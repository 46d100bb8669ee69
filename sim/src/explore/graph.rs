//! Graph of the explored states: how each was reached first, and from which the wanted end is reachable.

use super::step::Step;

/// Explored states. Their numbers grow with the fewest steps to them.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Predecessor and step by which each state was reached first.
    predecessors: Vec<Option<(u32, Step)>>,
    /// Number of steps to each state.
    depths: Vec<u32>,
    /// Steps that must happen eventually, as pairs of states.
    edges: Vec<(u32, u32)>,
    ends: Vec<u32>,
}

impl Graph {
    /// Adds a state, and returns its number.
    #[expect(clippy::cast_possible_truncation, reason = "the search ends far below 2^32 states")]
    pub(super) fn add(&mut self, predecessors: Option<(u32, Step)>, is_end: bool) -> u32 {
        let number = self.predecessors.len() as u32;
        self.depths.push(predecessors.map_or(0, |(from, _)| self.depths[from as usize] + 1));
        self.predecessors.push(predecessors);
        if is_end {
            self.ends.push(number);
        }
        number
    }

    pub(super) fn edge(&mut self, from: u32, to: u32) {
        self.edges.push((from, to));
    }

    pub(super) fn depth(&self) -> usize {
        self.depths.last().map_or(0, |depth| *depth as usize)
    }

    pub(super) const fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Returns the steps from the first state to this one.
    pub(super) fn steps_to(&self, mut number: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((from, step)) = self.predecessors[number as usize] {
            steps.push(step);
            number = from;
        }
        steps.reverse();
        steps
    }

    /// Returns the first state from which no end is reachable. It marks predecessors, beginning with the ends.
    pub(super) fn first_without_end(&mut self) -> Option<u32> {
        self.edges.sort_unstable_by_key(|(_, to)| *to);
        let mut reaches = vec![false; self.predecessors.len()];
        let mut next = self.ends.clone();
        while let Some(number) = next.pop() {
            if core::mem::replace(&mut reaches[number as usize], true) {
                continue;
            }
            let begin = self.edges.partition_point(|(_, to)| *to < number);
            let into = self.edges[begin..].iter().take_while(|(_, to)| *to == number);
            next.extend(into.map(|(from, _)| *from).filter(|from| !reaches[*from as usize]));
        }
        reaches.iter().position(|reaches| !reaches).and_then(|number| u32::try_from(number).ok())
    }
}
