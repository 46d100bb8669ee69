//! Every state that can be reached, breadth first, so that what leads to a failure is as short as can be.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::collections::{HashMap, VecDeque};
use std::panic::catch_unwind;
use std::rc::Rc;

use super::case::Case;
use super::graph::Graph;
use super::part::Print;
use super::state::State;
use super::step::Step;

/// States of a case, at most: it would not be a small one.
const STATES_MAX: usize = 20_000_000;

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// States that differ.
    pub states: usize,
    /// Steps from one to another.
    pub transitions: usize,
    /// Steps from the first state to the last that was new.
    pub depth: usize,
    /// States that are a wanted end.
    pub ends: usize,
}

/// A state that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// In which case.
    pub case: &'static str,
    /// What is wrong.
    pub what: String,
    /// The fewest steps that lead there.
    pub steps: Vec<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}; {} steps:", self.case, self.what, self.steps.len())?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// Explores a case to its end.
///
/// # Errors
/// [`Wrong`]: a panic of core or of a checker, a state without a next one that is not the wanted end, or one from which
/// that cannot be reached.
pub fn explore(case: &Case) -> Result<Explored, Wrong> {
    let case = Rc::new(case.clone());
    if case.direct { Search::<true>::new(&case).run() } else { Search::<false>::new(&case).run() }
}

struct Search<const DIRECT: bool> {
    case: Rc<Case>,
    known: HashMap<Print, u32>,
    graph: Graph,
    /// States whose steps were not tried yet, with their numbers.
    queue: VecDeque<(u32, State<DIRECT>)>,
    transitions: usize,
}

impl<const DIRECT: bool> Search<DIRECT> {
    fn new(case: &Rc<Case>) -> Self {
        Self {
            case: Rc::clone(case),
            known: HashMap::new(),
            graph: Graph::default(),
            queue: VecDeque::new(),
            transitions: 0,
        }
    }

    fn run(mut self) -> Result<Explored, Wrong> {
        let first = State::new(&self.case);
        self.known.insert(first.print(), 0);
        self.graph.add(None, first.is_over());
        self.queue.push_back((0, first));
        while let Some((number, state)) = self.queue.pop_front() {
            let before = state.print();
            let mut moved = state.is_over();
            for step in state.steps() {
                let mut next = state.clone();
                // The state is not used after a panic.
                let taken = catch_unwind(AssertUnwindSafe(|| next.take(step)));
                match taken {
                    Err(panic) => return Err(self.wrong(number, Some(step), &text(&*panic))),
                    Ok(false) => continue,
                    Ok(true) => {}
                }
                let print = next.print();
                if print == before {
                    continue;
                }
                moved |= !step.is_optional();
                self.transitions += 1;
                let to = self.meet(print, number, step, next);
                if !step.is_optional() {
                    self.graph.edge(number, to);
                }
            }
            if !moved {
                return Err(self.wrong(number, None, "nothing more happens, and it is not over"));
            }
            if self.known.len() > STATES_MAX {
                return Err(self.wrong(0, None, "more than 20 million states"));
            }
        }
        if let Some(stuck) = self.graph.first_without_end() {
            return Err(self.wrong(stuck, None, "from here on the end cannot be reached"));
        }
        Ok(Explored {
            states: self.known.len(),
            transitions: self.transitions,
            depth: self.graph.depth(),
            ends: self.graph.ends(),
        })
    }

    /// The number of a state, which may be new.
    fn meet(&mut self, print: Print, from: u32, step: Step, state: State<DIRECT>) -> u32 {
        if let Some(number) = self.known.get(&print) {
            return *number;
        }
        let number = self.graph.add(Some((from, step)), state.is_over());
        self.known.insert(print, number);
        self.queue.push_back((number, state));
        number
    }

    /// Goes the way to a state again, and tells it.
    fn wrong(&self, number: u32, last: Option<Step>, what: &str) -> Wrong {
        let mut steps = Vec::new();
        let mut state = State::<DIRECT>::new(&self.case);
        for step in self.graph.way_to(number) {
            steps.push(state.describe(step));
            state.take(step);
        }
        steps.extend(last.map(|step| state.describe(step)));
        let what = what.lines().next().unwrap_or_default().to_owned();
        Wrong { case: self.case.name, what, steps }
    }
}

fn text(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}
