//! Jobs that provision and release registered memory: made resident in slabs, registered, deregistered, given back. Each is in short
//! steps, but for the calls of the device, which take a whole region.

use super::reserve::Part;
use crate::budget::Charge;
use crate::os::jobs::{Step, Steps};
use core::ops::Range;
use superpipe_core::JobFailed;
use superpipe_verbs::{Access, Memory, Mr, Pd};

/// Bytes of one step that makes pages resident, or gives them back (35 and 18 µs for shared memory: fabric/shm/sparse.rs).
pub(super) const SLAB_BYTES: usize = 64 << 10;

/// Registered memory, which counts against the budget.
#[derive(Debug)]
pub(super) struct Region {
    // Fields are dropped in this order.
    pub(super) mr: Mr<Part>,
    charge: Charge,
}

/// Makes a part resident and registers it. An error, or dropping it before it is done, leaves nothing.
#[derive(Debug)]
pub(super) struct Provision {
    // Fields are dropped in this order.
    part: Option<Part>,
    charge: Option<Charge>,
    pd: Pd,
    access: Access,
    /// Bytes that are not resident yet, or those to be given back.
    rest: Range<usize>,
    has_failed: bool,
}

/// Deregisters a region and gives its pages back. Dropping it before it is done does the rest at once.
#[derive(Debug)]
pub(super) struct Release {
    // Fields are dropped in this order.
    region: Option<Mr<Part>>,
    part: Option<Part>,
    charge: Option<Charge>,
    rest: Range<usize>,
}

/// The device or the kernel does not give memory up. It counts against the budget until the connection ends.
#[derive(Debug)]
pub(super) struct Lost {
    _charge: Option<Charge>,
}

impl Region {
    /// Makes the region of memory that is registered, for which `charge` was taken.
    pub(super) const fn new(mr: Mr<Part>, charge: Charge) -> Self {
        Self { mr, charge }
    }

    /// Returns the bytes of the budget.
    pub(super) fn charge_bytes(&self) -> u64 {
        self.charge.bytes()
    }
}

impl Provision {
    /// Begins to provision `part`, for which `charge` was taken.
    pub(super) fn new(pd: &Pd, part: Part, access: Access, charge: Charge) -> Self {
        let rest = 0..part.len();
        Self { part: Some(part), charge: Some(charge), pd: pd.clone(), access, rest, has_failed: false }
    }

    fn populate(&mut self, part: Part) -> Step<Result<Region, JobFailed>> {
        if self.rest.start == 0 {
            part.advise();
        }
        let slab = slab(&self.rest);
        self.rest.start = slab.end;
        if part.populate(slab).is_err() {
            (self.rest, self.has_failed) = (0..self.rest.start, true);
        }
        self.part = Some(part);
        Step::More
    }

    fn register(&mut self, part: Part) -> Step<Result<Region, JobFailed>> {
        // Registering fails where RLIMIT_MEMLOCK or the device has no room: the part is then given back at once.
        match (Mr::register(&self.pd, part, self.access), self.charge.take()) {
            (Ok(mr), Some(charge)) => Step::Done(Ok(Region { mr, charge })),
            _ => Step::Done(Err(JobFailed::Refused)),
        }
    }
}

impl Steps for Provision {
    type Output = Result<Region, JobFailed>;

    fn step(&mut self) -> Step<Self::Output> {
        match self.part.take() {
            Some(part) if self.has_failed => {
                let slab = slab(&self.rest);
                self.rest.start = slab.end;
                // Nobody wrote there: what stays resident reads as zero.
                let _ = part.discard(&slab);
                if self.rest.is_empty() {
                    return Step::Done(Err(JobFailed::Refused));
                }
                self.part = Some(part);
                Step::More
            }
            Some(part) if self.rest.is_empty() => self.register(part),
            Some(part) => self.populate(part),
            None => Step::Done(Err(JobFailed::Refused)),
        }
    }
}

impl Release {
    /// Begins to release a region.
    pub(super) fn new(Region { mr, charge }: Region) -> Self {
        Self { rest: 0..mr.len(), region: Some(mr), part: None, charge: Some(charge) }
    }

    /// Returns the region, if no step was made.
    pub(super) fn undo(self) -> Option<Region> {
        let Self { region, charge, .. } = self;
        region.zip(charge).map(|(mr, charge)| Region { mr, charge })
    }

    fn lose(&mut self) -> Step<Result<(), Lost>> {
        Step::Done(Err(Lost { _charge: self.charge.take() }))
    }
}

impl Steps for Release {
    type Output = Result<(), Lost>;

    fn step(&mut self) -> Step<Self::Output> {
        if let Some(mr) = self.region.take() {
            return match mr.deregister() {
                Ok(part) => {
                    self.part = Some(part);
                    Step::More
                }
                // The drop of the region tries it once more; if that fails, the memory is never used again.
                Err(_) => self.lose(),
            };
        }
        let slab = slab(&self.rest);
        self.rest.start = slab.end;
        match &self.part {
            Some(part) if part.discard(&slab).is_err() => self.lose(),
            Some(_) if !self.rest.is_empty() => Step::More,
            _ => Step::Done(Ok(())),
        }
    }
}

/// Returns the first slab of `rest`.
fn slab(rest: &Range<usize>) -> Range<usize> {
    rest.start..rest.end.min((rest.start / SLAB_BYTES + 1) * SLAB_BYTES)
}
