//! The long work on slots, in steps of a slab.

use super::{CLEAR_BYTES, FREE, Memory, PROVISIONED, SLAB_BYTES, Slot, slab};
use crate::os::OsError;
use crate::os::jobs::{Step, Steps};
use core::ops::Range;
use std::sync::Arc;

/// Makes the first bytes of a slot resident and zero. An error, or dropping it before it is done, removes its pages again.
#[derive(Debug)]
pub struct Provision {
    pub(super) memory: Arc<Memory>,
    pub(super) slot: Slot,
    pub(super) part: Range<usize>,
    pub(super) phase: Phase,
    pub(super) at: usize,
}

/// Removes all pages of a slot. Dropping it before it is done removes the rest at once.
#[derive(Debug)]
pub struct Release {
    pub(super) memory: Arc<Memory>,
    pub(super) slot: Slot,
    pub(super) rest: Range<usize>,
    pub(super) is_over: bool,
}

/// Maps the pages of a peer's slot for writing, so that no write has a page fault. An error, or dropping it before it is done, removes them.
#[derive(Debug)]
pub struct Populate {
    pub(super) memory: Arc<Memory>,
    pub(super) part: Range<usize>,
    pub(super) phase: Phase,
    pub(super) at: usize,
}

/// Removes the pages of a peer's slot that this process does not write any more. Dropping it before it is done removes the rest at once.
#[derive(Debug)]
pub struct Vacate {
    pub(super) memory: Arc<Memory>,
    pub(super) rest: Range<usize>,
}

/// Phases of a provision, in order; a failure skips to `GiveBack`.
#[derive(Debug)]
pub(super) enum Phase {
    /// Removes what a peer may have put there.
    Clear,
    Populate,
    GiveBack(OsError),
    Over,
}

impl Steps for Provision {
    type Output = Result<(), OsError>;

    fn step(&mut self) -> Step<Self::Output> {
        match &self.phase {
            Phase::Clear => {
                let slab = slab(&(self.at..self.part.end), CLEAR_BYTES);
                self.at = slab.end;
                if let Err(error) = self.memory.remove(slab) {
                    self.phase = Phase::GiveBack(error);
                } else if self.at == self.part.end {
                    self.memory.advise_huge(&self.part);
                    (self.at, self.phase) = (self.part.start, Phase::Populate);
                }
                Step::More
            }
            Phase::Populate => {
                let slab = slab(&(self.at..self.part.end), SLAB_BYTES);
                // Also those that fail: some of their pages may be there.
                self.at = slab.end;
                if let Err(error) = self.memory.populate(slab) {
                    self.phase = Phase::GiveBack(error);
                } else if self.at == self.part.end {
                    return self.end(PROVISIONED, Ok(()));
                }
                Step::More
            }
            Phase::GiveBack(error) => {
                // What cannot be removed now is removed by the next provision, or with the segment.
                let _ = self.memory.remove_first(&mut self.part, self.at);
                if self.part.start < self.at {
                    return Step::More;
                }
                let error = error.clone();
                self.end(FREE, Err(error))
            }
            Phase::Over => Step::Done(Ok(())),
        }
    }
}

impl Provision {
    fn end(&mut self, state: u8, result: Result<(), OsError>) -> Step<Result<(), OsError>> {
        self.phase = Phase::Over;
        self.memory.end_change(self.slot, state);
        Step::Done(result)
    }
}

impl Drop for Provision {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Over) {
            let _ = self.memory.remove(self.part.start..self.at);
            self.memory.end_change(self.slot, FREE);
        }
    }
}

impl Steps for Release {
    type Output = Result<(), OsError>;

    fn step(&mut self) -> Step<Self::Output> {
        let end = self.rest.end;
        let removed = self.memory.remove_first(&mut self.rest, end);
        if removed.is_err() {
            // The slot keeps its state, and may be released once more.
            self.is_over = true;
            self.memory.end_change(self.slot, PROVISIONED);
            return Step::Done(removed);
        }
        if !self.rest.is_empty() {
            return Step::More;
        }
        self.is_over = true;
        self.memory.end_change(self.slot, FREE);
        Step::Done(Ok(()))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.memory.remove(self.rest.clone());
            self.memory.end_change(self.slot, FREE);
        }
    }
}

impl Steps for Populate {
    type Output = Result<(), OsError>;

    fn step(&mut self) -> Step<Self::Output> {
        match &self.phase {
            Phase::Clear | Phase::Populate => {
                let slab = slab(&(self.at..self.part.end), SLAB_BYTES);
                self.at = slab.end;
                if let Err(error) = self.memory.populate(slab) {
                    self.phase = Phase::GiveBack(error);
                } else if self.at == self.part.end {
                    self.phase = Phase::Over;
                    return Step::Done(Ok(()));
                }
                Step::More
            }
            Phase::GiveBack(error) => {
                // What cannot be removed now goes with the segment.
                let _ = self.memory.remove_first(&mut self.part, self.at);
                if self.part.start < self.at {
                    return Step::More;
                }
                let error = error.clone();
                self.phase = Phase::Over;
                Step::Done(Err(error))
            }
            Phase::Over => Step::Done(Ok(())),
        }
    }
}

impl Drop for Populate {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Over) {
            let _ = self.memory.remove(self.part.start..self.at);
        }
    }
}

impl Steps for Vacate {
    type Output = Result<(), OsError>;

    fn step(&mut self) -> Step<Self::Output> {
        let end = self.rest.end;
        match self.memory.remove_first(&mut self.rest, end) {
            Ok(()) if !self.rest.is_empty() => Step::More,
            result => Step::Done(result),
        }
    }
}

impl Drop for Vacate {
    fn drop(&mut self) {
        let _ = self.memory.remove(self.rest.clone());
    }
}
