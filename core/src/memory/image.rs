//! The next image of a sender. It is provisioned beside the owner's landing buffer, or once that is granted, and released if it is not used.
//!
//! ```text
//!          begin            job done                taken
//! NOTHING -------> PROVISIONING --------> PROVISIONED -------> NOTHING
//!    ^                  | failed               | not wanted, or another layout is
//!    +------------------+                      v
//!    +------------------------------------ RELEASING
//! ```

use core::hash::{Hash, Hasher};

use super::begin;
use super::jobs::{Jobs, Purpose};
use crate::fabric::Fabric;
use crate::job::{Job, JobOutcome, JobResult};
use crate::wire::grant::RemoteClaim;
use crate::wire::layout::{Landing, Layout};

/// An image that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) layout: Layout,
    /// Claim of the owner, if the job needs it.
    pub(super) claim: Option<RemoteClaim>,
}

#[derive(Clone, Copy, Debug)]
enum Step<R> {
    Nothing,
    Provisioning(Layout),
    Provisioned(Landing<R>),
    Releasing,
}

/// The next image.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextImage<R> {
    /// Its place: not that of the image in use.
    place: u8,
    step: Step<R>,
}

impl<R: Copy> NextImage<R> {
    pub(super) const fn new() -> Self {
        Self { place: 0, step: Step::Nothing }
    }

    /// Begins the job that is due: to provision the image that is wanted, if its place is free, or to release one that is not wanted. Returns
    /// true if one was begun.
    pub(super) fn begin_job<F: Fabric<Remote = R>>(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        jobs: &mut Jobs,
        wanted: Option<Wanted>,
        is_free: bool,
    ) -> bool {
        planted!(UnusedImageKept => if wanted.is_none() && matches!(self.step, Step::Provisioned(_)) {
            self.step = Step::Nothing;
        });
        let (purpose, job, next) = match (self.step, wanted) {
            (Step::Nothing, Some(Wanted { layout, claim })) if is_free => {
                let job = Job::ProvisionImage { place: self.place, layout, claim };
                (Purpose::Image, job, Step::Provisioning(layout))
            }
            (Step::Provisioned(image), wanted) if wanted.is_none_or(|it| it.layout != image.layout) => {
                (Purpose::UnusedImageRelease, Job::ReleaseImage(image.memory), Step::Releasing)
            }
            _ => return false,
        };
        let has_begun = begin(fabric, link, jobs, purpose, job).is_ok();
        if has_begun {
            self.step = next;
        }
        has_begun
    }

    /// Handles the end of the job that provisions. Returns the layout of an image that cannot be had.
    pub(super) fn handle_provisioned<M>(&mut self, result: JobResult<M, R>) -> Option<Layout> {
        let Step::Provisioning(layout) = self.step else { return None };
        if let Ok(JobOutcome::Image(memory)) = result {
            self.step = Step::Provisioned(Landing { memory, layout });
            None
        } else {
            self.step = Step::Nothing;
            Some(layout)
        }
    }

    /// Handles the end of the release of an image that was not used.
    pub(super) const fn handle_released(&mut self) {
        self.step = Step::Nothing;
    }

    /// Returns the image, if it is provisioned and has this layout.
    pub(super) fn provisioned(&self, layout: Layout) -> Option<R> {
        match self.step {
            Step::Provisioned(image) if image.layout == layout => Some(image.memory),
            _ => None,
        }
    }

    /// Takes the image, which is used from now on.
    pub(super) const fn take(&mut self) -> Option<R> {
        let Step::Provisioned(Landing { memory, .. }) = self.step else { return None };
        self.step = Step::Nothing;
        self.place ^= 1;
        Some(memory)
    }

    /// Place of the next image.
    pub(super) const fn place(&self) -> u8 {
        self.place
    }

    /// Returns true if there is no image, and no job makes one.
    pub(super) const fn is_absent(&self) -> bool {
        matches!(self.step, Step::Nothing | Step::Releasing)
    }

    /// Returns true if there is no image, and no job is under way.
    pub(super) const fn is_steady(&self) -> bool {
        matches!(self.step, Step::Nothing)
    }
}

impl<R> Hash for NextImage<R> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let (number, layout) = match &self.step {
            Step::Nothing => (0, None),
            Step::Provisioning(layout) => (1, Some(*layout)),
            Step::Provisioned(image) => (2, Some(image.layout)),
            Step::Releasing => (3, None),
        };
        (self.place, number, layout).hash(hasher);
    }
}
