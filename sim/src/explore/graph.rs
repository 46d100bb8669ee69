//! The states by number, how each was reached first, and from which the wanted end can be reached.

use super::step::Step;

/// The explored states; numbers grow with the fewest steps that lead to a state.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// How each state was reached first.
    came: Vec<Option<(u32, Step)>>,
    /// How many steps that takes, at the most.
    depths: Vec<u32>,
    /// From and to, of the steps that happen in the end.
    edges: Vec<(u32, u32)>,
    ends: Vec<u32>,
}

impl Graph {
    /// A new state. Its number.
    #[expect(clippy::cast_possible_truncation, reason = "the search ends far below 2^32 states")]
    pub(super) fn add(&mut self, came: Option<(u32, Step)>, is_end: bool) -> u32 {
        let number = self.came.len() as u32;
        self.depths.push(came.map_or(0, |(from, _)| self.depths[from as usize] + 1));
        self.came.push(came);
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

    /// The steps from the first state to this one.
    pub(super) fn way_to(&self, mut number: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((from, step)) = self.came[number as usize] {
            steps.push(step);
            number = from;
        }
        steps.reverse();
        steps
    }

    /// The first state from which no end can be reached: backwards from the ends, every state that leads to one is marked.
    pub(super) fn first_without_end(&mut self) -> Option<u32> {
        self.edges.sort_unstable_by_key(|(_, to)| *to);
        let mut reaches = vec![false; self.came.len()];
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
