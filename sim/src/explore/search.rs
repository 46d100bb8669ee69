//! Breadth-first search through all reachable states, so that the steps to a violation are as few as possible.

use core::fmt;
use core::panic::AssertUnwindSafe;
use std::collections::{HashMap, VecDeque};
use std::panic::catch_unwind;
use std::rc::Rc;

use super::cases::Case;
use super::fingerprint::Fingerprint;
use super::graph::Graph;
use super::state::State;
use super::step::Step;
use crate::panic_text::panic_text;

/// Most states of a case: five times as many as all cases have together.
const STATES_MAX: usize = 20_000_000;

/// Counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps between states.
    pub transitions: usize,
    /// Steps from the first state to the last new one.
    pub depth: usize,
    /// States that are a wanted end.
    pub ends: usize,
}

/// A wrong state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the case.
    pub case: &'static str,
    /// Description.
    pub description: String,
    /// Fewest steps to the state.
    pub steps: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}; {} steps:", self.case, self.description, self.steps.len())?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// Explores a case to its end.
///
/// # Errors
/// [`Violation`]: a panic of core or of a checker, a state without a next one that is not the wanted end, or a state from which
/// the wanted end is unreachable.
pub fn explore(case: &Case) -> Result<Explored, Violation> {
    let case = Rc::new(case.clone());
    if case.direct { Search::<true>::new(&case).run() } else { Search::<false>::new(&case).run() }
}

struct Search<const DIRECT: bool> {
    case: Rc<Case>,
    known: HashMap<Fingerprint, u32>,
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

    fn run(mut self) -> Result<Explored, Violation> {
        let first = State::new(&self.case);
        self.known.insert(first.fingerprint(), 0);
        self.graph.add(None, first.is_over());
        self.queue.push_back((0, first));
        while let Some((number, state)) = self.queue.pop_front() {
            let before = state.fingerprint();
            let mut has_successor = state.is_over();
            let mut steps = state.steps().into_iter();
            let mut unused = Some(state);
            while let Some(step) = steps.next() {
                // The last step needs no copy.
                let state = if steps.len() == 0 { unused.take() } else { unused.clone() };
                let Some(mut next) = state else { break };
                // The state is not used after a panic.
                let taken = catch_unwind(AssertUnwindSafe(|| next.take(step)));
                match taken {
                    Err(panic) => return Err(self.violation(number, Some(step), &panic_text(&*panic))),
                    Ok(false) => continue,
                    Ok(true) => {}
                }
                let fingerprint = next.fingerprint();
                if fingerprint == before {
                    continue;
                }
                has_successor |= !step.is_optional();
                self.transitions += 1;
                let to = self.number(fingerprint, number, step, next);
                if !step.is_optional() {
                    self.graph.edge(number, to);
                }
            }
            if !has_successor {
                return Err(self.violation(number, None, "nothing more happens, and it is not over"));
            }
            if self.known.len() > STATES_MAX {
                return Err(self.violation(0, None, "more than 20 million states"));
            }
        }
        if let Some(stuck) = self.graph.first_without_end() {
            return Err(self.violation(stuck, None, "from here on the end cannot be reached"));
        }
        Ok(Explored {
            states: self.known.len(),
            transitions: self.transitions,
            depth: self.graph.depth(),
            ends: self.graph.ends(),
        })
    }

    /// Returns the number of a state, and adds it if it is new.
    fn number(&mut self, fingerprint: Fingerprint, from: u32, step: Step, state: State<DIRECT>) -> u32 {
        if let Some(number) = self.known.get(&fingerprint) {
            return *number;
        }
        let number = self.graph.add(Some((from, step)), state.is_over());
        self.known.insert(fingerprint, number);
        self.queue.push_back((number, state));
        number
    }

    /// Repeats the steps to a state, and describes them.
    fn violation(&self, number: u32, last: Option<Step>, what: &str) -> Violation {
        let mut steps = Vec::new();
        let mut state = State::<DIRECT>::new(&self.case);
        for step in self.graph.steps_to(number) {
            steps.push(state.describe(step));
            state.take(step);
        }
        steps.extend(last.map(|step| state.describe(step)));
        let what = what.lines().next().unwrap_or_default().to_owned();
        Violation { case: self.case.name, description: what, steps }
    }
}
