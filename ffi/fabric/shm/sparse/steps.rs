//! The jobs on a sparse segment, in short steps: pages that come, go, and are mapped.

use super::{CLEAR_BYTES, FREE, PROVISIONED, Phase, Populate, Provision, Release, SLAB_BYTES};
use crate::os::OsError;
use crate::os::jobs::{Step, Steps};
use core::ops::Range;

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
                let slab = slab(&(self.part.start..self.at), self.memory.removed_bytes());
                self.part.start = slab.end;
                // What cannot be removed now is removed by the next provision, or with the segment.
                let _ = self.memory.remove(slab);
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
        let slab = slab(&self.rest, self.memory.removed_bytes());
        let next = slab.end;
        let removed = self.memory.remove(slab);
        if removed.is_err() {
            // The slot keeps its state, and may be released once more.
            self.is_over = true;
            self.memory.end_change(self.slot, PROVISIONED);
            return Step::Done(removed);
        }
        self.rest.start = next;
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
        let slab = slab(&self.rest, SLAB_BYTES);
        self.rest.start = slab.end;
        match self.memory.populate(slab) {
            Ok(()) if !self.rest.is_empty() => Step::More,
            result => Step::Done(result),
        }
    }
}

/// Returns the first part of `rest`, up to a multiple of `bytes` from the beginning of the mapping.
fn slab(rest: &Range<usize>, bytes: usize) -> Range<usize> {
    rest.start..rest.end.min((rest.start / bytes + 1) * bytes)
}
