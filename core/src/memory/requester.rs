//! The sender's half of growth: it asks for a larger landing buffer, moves over to it, and retires the one before. wire.md 5.4.
//!
//! ```text
//!            transfer held back            GROWN                  image is ready           chunk boundary
//! STEADY ------------------------> ASKING --------> MAKING-IMAGE ----------------> READY -------------------> STEADY
//!   ^                                 |                  | failed                    (SHRINK: READY for the base)
//!   |        GROW-REFUSED             |                  v
//!   +---------------------------------+             GIVING-BACK --- RETIRED of the new epoch ---> STEADY
//! ```
//!
//! The image of posted writes needs no grant, only the layout. So a transfer that goes on meanwhile has it made from GROW on, beside the
//! owner's landing buffer. The provision protocol makes it after the acknowledgement (wire.md 4.7), and so does direct store, whose image is the
//! memory that the owner grants. If the owner grants another layout, or the image could not be made or was given up, it is made
//! after the grant as well.
//!
//! Beside this, an epoch that was left is retired: once the peer has consumed all of it and the device has written all of it, RETIRED
//! goes out, and when that has completed, too, the image is released.

use core::hash::{Hash, Hasher};

use super::delay::{Delay, Wish};
use super::image::{NextImage, Wanted};
use super::jobs::{Jobs, Purpose};
use super::sizes::{bytes_for, bytes_to_ask, layout_for, ring_bytes};
use super::{GrowthTerms, begin};
use crate::error::ProtocolError;
use crate::fabric::{Fabric, WrId};
use crate::job::{Job, JobResult};
use crate::nanos::Nanos;
use crate::state::{Leaving, Requesting};
use crate::wire::control::Control;
use crate::wire::grant::{Grant, GrowReason, RemoteClaim};
use crate::wire::layout::{Landing, Layout};

/// Occasions to grow that pass after a refusal before this end asks again: first, and at most. They double with each refusal, since its cause
/// may go away, and each GROW costs the owner an attempt to provision.
const PATIENCE: [u32; 2] = [64, 64 << 10];

/// Work request of RETIRED. No chunk has this sequence.
pub(crate) const RETIRED_WR: WrId = WrId(0);

/// Where the growth of this direction stands.
#[derive(Clone, Copy, Debug, Hash)]
enum Step {
    Steady,
    /// GROW is due.
    Due {
        bytes: u32,
        reason: GrowReason,
        /// The image is made while the owner provisions.
        is_beside: bool,
    },
    /// GROW was sent. An image of this layout is made beside, or was.
    Asking {
        beside: Option<Layout>,
    },
    /// The image of a granted epoch is not ready.
    MakingImage(Grant),
    /// The image of a granted epoch is ready.
    Ready(Grant),
    /// RETIRED of a granted epoch is due, which this end cannot use.
    GivingBack(u32),
}

/// An epoch that this end has left.
#[derive(Clone, Copy, Debug, Hash)]
struct Left {
    epoch: u32,
    last: u64,
    stage: LeftStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LeftStage {
    /// Chunks of it are not consumed, or not written.
    InUse,
    /// RETIRED was sent, and its write has not completed.
    Retired,
    /// The release of its image is due, or under way.
    Releasing { begun: bool },
}

/// Answer to a demand for a larger landing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// There is no need for one, none can be had, or the peer refused one before: the current one must do.
    None,
    /// This end asks for it.
    Asked,
    /// Another growth is under way, which has to end first.
    Busy,
}

/// The sender's half of growth.
#[derive(Clone)]
pub(crate) struct Requester<F: Fabric> {
    base: Landing<F::Remote>,
    pub(crate) largest: Layout,
    slab_bytes: u32,
    delay: Delay,
    /// Number of the epoch that this end writes to, and its memory unless that is the base.
    epoch: u32,
    current: Option<F::Remote>,
    /// The epoch was granted by the owner: it is neither the base nor the first.
    is_granted: bool,
    /// Newest number that the owner gave.
    newest: u32,
    step: Step,
    image: NextImage<F::Remote>,
    /// Number that the base gets by the SHRINK that was received.
    shrink: Option<u32>,
    left: Option<Left>,
    left_image: Option<F::Remote>,
    /// Number of the last GROW.
    request: u32,
    /// Occasions to let pass now, and after the next refusal.
    patience: u32,
    next_patience: u32,
}

impl<F: Fabric> Requester<F> {
    /// Makes the half of an end that writes to the epoch 0: the base, or `first`.
    pub(crate) const fn new(terms: &GrowthTerms<F>, first: Option<F::Remote>) -> Self {
        Self {
            base: terms.peer_base,
            largest: terms.largest,
            slab_bytes: terms.slab_bytes,
            delay: Delay::new(terms.delay),
            epoch: 0,
            current: first,
            is_granted: false,
            newest: 0,
            step: Step::Steady,
            image: NextImage::new(),
            shrink: None,
            left: None,
            left_image: None,
            request: 0,
            patience: 0,
            next_patience: PATIENCE[0],
        }
    }

    /// Notes that a transfer is longer than the current landing buffer of this layout, and goes on meanwhile: a larger one would help, at the
    /// latest if the peer takes nothing.
    #[cold]
    pub(crate) fn want(&mut self, reason: GrowReason, layout: Layout, wish: Wish) {
        if !matches!(self.step, Step::Steady) || self.shrink.is_some() {
            return;
        }
        let is_due = if self.is_granted { wish.has_more } else { self.delay.is_over(layout, wish) };
        if !is_due {
            return;
        }
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        let bytes = bytes_to_ask(layout, wish.message_bytes, self.slab_bytes, self.largest);
        if ring_bytes(layout_for(bytes, self.largest)) > ring_bytes(layout) {
            self.step = Step::Due { bytes, reason, is_beside: !F::DIRECT };
        }
    }

    /// Notes that this end is about to rest. Returns true if it is to try once more first, and then asks for a larger landing buffer.
    pub(crate) const fn hurry(&mut self) -> bool {
        self.delay.hurry()
    }

    /// Notes the time, at a tick.
    pub(crate) fn note_time(&mut self, now: Nanos) {
        self.delay.note_time(now);
    }

    /// Demands a landing buffer that holds `payload` bytes at once. The current one has this layout.
    pub(crate) fn demand(&mut self, payload: u64, reason: GrowReason, layout: Layout) -> Demand {
        if self.has_room(payload, layout) {
            return Demand::None;
        }
        if self.is_awaited() {
            return Demand::Busy;
        }
        let Some(bytes) = self.bytes_to_demand(payload, layout) else { return Demand::None };
        if self.patience > 0 {
            self.patience -= 1;
            return Demand::None;
        }
        self.step = Step::Due { bytes, reason, is_beside: false };
        Demand::Asked
    }

    /// Returns true if [`demand`](Self::demand) would not return [`Demand::None`].
    pub(crate) fn can_demand(&self, payload: u64, layout: Layout) -> bool {
        let can_ask = self.patience == 0 && self.bytes_to_demand(payload, layout).is_some();
        !self.has_room(payload, layout) && (self.is_awaited() || can_ask)
    }

    /// Returns true while a landing buffer that this end has asked for may still come.
    pub(crate) const fn is_awaited(&self) -> bool {
        !matches!(self.step, Step::Steady | Step::GivingBack(_))
    }

    /// Returns true if the current landing buffer was granted, and holds `payload` bytes at once.
    fn has_room(&self, payload: u64, layout: Layout) -> bool {
        self.is_granted && payload <= u64::from(layout.capacity(layout.block_count))
    }

    /// Returns the bytes of a ring to ask for. `None` if none is larger, or if this end cannot ask now.
    fn bytes_to_demand(&self, payload: u64, layout: Layout) -> Option<u32> {
        let bytes = bytes_for(payload, layout, self.largest);
        let is_larger = ring_bytes(layout_for(bytes, self.largest)) > ring_bytes(layout);
        (is_larger && matches!(self.step, Step::Steady)).then_some(bytes)
    }

    /// Returns the control message that is due. `is_over`: all that was sent before the move was consumed, and written by the device.
    pub(crate) const fn due(&self, is_over: bool) -> Option<Control> {
        let mut is_unused = true;
        if let Some(Left { epoch, last, stage: LeftStage::InUse }) = self.left {
            if is_over {
                return Some(Control::Retired { epoch, last });
            }
            is_unused = false;
        }
        match self.step {
            Step::Due { bytes, reason, .. } => {
                Some(Control::Grow { request: self.request.wrapping_add(1), bytes, reason })
            }
            Step::GivingBack(epoch) if is_unused => Some(Control::Retired { epoch, last: 0 }),
            _ => None,
        }
    }

    /// Notes that the message that was due was sent.
    pub(crate) fn note_sent(&mut self, control: &Control) {
        match (control, &mut self.left) {
            (Control::Retired { epoch, .. }, Some(left)) if *epoch == left.epoch => {
                let is_written = F::DIRECT;
                left.stage =
                    if is_written { LeftStage::Releasing { begun: false } } else { LeftStage::Retired };
            }
            (Control::Retired { .. }, _) => {
                self.back_off();
            }
            _ => {
                self.request = self.request.wrapping_add(1);
                let beside = match self.step {
                    Step::Due { bytes, is_beside: true, .. } => Some(layout_for(bytes, self.largest)),
                    _ => None,
                };
                self.step = Step::Asking { beside };
                planted!(GrantNotAwaited => if let Control::Grow { bytes, .. } = control {
                    self.newest = self.newest.wrapping_add(1);
                    let layout = layout_for(*bytes, self.largest);
                    let claim = RemoteClaim { address: self.image.place() as u64, key: layout.block_count };
                    self.step = Step::MakingImage(Grant { epoch: self.newest, layout, claim });
                });
            }
        }
    }

    /// Notes that the write of RETIRED has completed, and with it all writes before.
    pub(crate) const fn handle_retired_written(&mut self) {
        if let Some(left) = &mut self.left
            && matches!(left.stage, LeftStage::Retired)
        {
            left.stage = LeftStage::Releasing { begun: false };
        }
    }

    /// Returns true while the next image waits for a release.
    pub(crate) fn awaits_release(&self) -> bool {
        self.image.is_absent() && self.wanted().is_some()
    }

    /// Returns the image that this end wants to have.
    fn wanted(&self) -> Option<Wanted> {
        match self.step {
            Step::Asking { beside } => beside.map(|layout| Wanted { layout, claim: None }),
            Step::MakingImage(Grant { layout, claim, .. }) | Step::Ready(Grant { layout, claim, .. }) => {
                Some(Wanted { layout, claim: F::DIRECT.then_some(claim) })
            }
            Step::Steady | Step::Due { .. } | Step::GivingBack(_) => None,
        }
    }

    /// Returns true while an image is made, or kept, for a GROW that is not answered.
    pub(crate) const fn has_image_beside(&self) -> bool {
        matches!(self.step, Step::Asking { beside: Some(_) })
    }

    /// Gives up that image, which nothing uses: only the peer knows when its answer comes. It is made again once the epoch is granted.
    pub(crate) const fn give_up_image_beside(&mut self) {
        if let Step::Asking { beside } = &mut self.step {
            *beside = None;
        }
    }

    /// Returns true while the device may read an image that this end has left.
    pub(crate) const fn awaits_completion(&self) -> bool {
        matches!(self.left, Some(Left { stage: LeftStage::Retired, .. }))
    }

    /// Handles GROWN.
    pub(crate) fn handle_grown(&mut self, request: u32, grant: Grant) -> Result<(), ProtocolError> {
        self.check_answer(request)?;
        let Grant { epoch, layout, .. } = grant;
        let is_valid = layout.validate().is_ok()
            && layout.flags == self.largest.flags
            && ring_bytes(layout) <= ring_bytes(self.largest)
            && layout.bytes() <= self.largest.bytes()
            && epoch == self.newest.wrapping_add(1);
        if !is_valid {
            return Err(ProtocolError::GrantInvalid);
        }
        self.newest = epoch;
        self.step = Step::MakingImage(grant);
        Ok(())
    }

    /// Handles a refusal.
    pub(crate) fn handle_refused(&mut self, request: u32) -> Result<(), ProtocolError> {
        self.check_answer(request)?;
        self.back_off();
        Ok(())
    }

    /// Waits for more occasions after each refusal.
    const fn back_off(&mut self) {
        self.step = Step::Steady;
        self.patience = self.next_patience;
        if self.next_patience < PATIENCE[1] {
            self.next_patience *= 2;
        }
    }

    fn check_answer(&self, request: u32) -> Result<(), ProtocolError> {
        if matches!(self.step, Step::Asking { .. }) && request == self.request {
            Ok(())
        } else {
            Err(ProtocolError::GrowAnswer)
        }
    }

    /// Handles SHRINK: this end moves to the base, which becomes the epoch `base`.
    pub(crate) const fn handle_shrink(&mut self, epoch: u32, base: u32) -> Result<(), ProtocolError> {
        let has_grant = matches!(self.step, Step::MakingImage(_) | Step::Ready(_) | Step::GivingBack(_));
        let is_here = epoch == self.epoch && self.current.is_some() && base == self.newest.wrapping_add(1);
        if !is_here
            || has_grant
            || self.shrink.is_some()
            || matches!(self.left, Some(Left { stage: LeftStage::InUse, .. }))
        {
            return Err(ProtocolError::ShrinkWrong);
        }
        self.newest = base;
        self.shrink = Some(base);
        Ok(())
    }

    /// Moves to the epoch that is ready, if there is one and the one before is gone. `last` is the sequence of the last chunk. The
    /// caller is at a chunk boundary.
    pub(crate) fn take_move(&mut self, last: u64) -> Option<Landing<F::Remote>> {
        if self.left.is_some() {
            return None;
        }
        let (epoch, landing, current) = if let Some(base) = self.shrink.take() {
            (base, self.base, None)
        } else if let Step::Ready(grant) = self.step
            && let Some(image) = self.image.take()
        {
            self.step = Step::Steady;
            (grant.epoch, Landing { memory: image, layout: grant.layout }, Some(image))
        } else {
            return None;
        };
        self.left = Some(Left { epoch: self.epoch, last, stage: LeftStage::InUse });
        self.left_image = self.current;
        self.delay.begin_anew();
        (self.epoch, self.current) = (epoch, current);
        self.is_granted = current.is_some();
        Some(landing)
    }

    /// Returns true if a move may be taken.
    #[inline]
    pub(crate) const fn has_move(&self) -> bool {
        self.left.is_none() && (self.shrink.is_some() || matches!(self.step, Step::Ready(_)))
    }

    /// Returns true while chunks of an epoch that this end has left may not be consumed.
    pub(crate) const fn has_left(&self) -> bool {
        matches!(self.left, Some(Left { stage: LeftStage::InUse, .. }))
    }

    /// Begins the jobs that are due. Returns true if one was begun.
    pub(crate) fn begin_jobs(&mut self, fabric: &mut F, link: &mut F::Link, jobs: &mut Jobs) -> bool {
        if let Step::MakingImage(grant) = self.step
            && let Some(image) = self.image.provisioned(grant.layout)
        {
            // With direct store the job had the claim.
            self.step = if F::DIRECT || fabric.bind_image(link, image, grant.claim) {
                self.next_patience = PATIENCE[0];
                Step::Ready(grant)
            } else {
                Step::GivingBack(grant.epoch)
            };
        }
        let wanted = self.wanted();
        let mut has_begun = self.image.begin_job(fabric, link, jobs, wanted, self.left.is_none());
        if let Some(Left { stage: LeftStage::Releasing { begun: begun @ false }, .. }) = &mut self.left {
            match self.left_image {
                None => self.left = None,
                Some(image) => {
                    *begun =
                        begin(fabric, link, jobs, Purpose::ImageRelease, Job::ReleaseImage(image)).is_ok();
                    has_begun |= *begun;
                }
            }
        }
        has_begun
    }

    /// Handles the end of the job that makes an image.
    pub(crate) fn handle_image(&mut self, result: JobResult<F::Region, F::Remote>) {
        let failed = self.image.handle_provisioned(result);
        match self.step {
            Step::MakingImage(grant) if failed == Some(grant.layout) => {
                self.step = Step::GivingBack(grant.epoch);
            }
            // It is tried again once the epoch is granted.
            Step::Asking { beside } if failed.is_some() && failed == beside => {
                self.step = Step::Asking { beside: None };
            }
            _ => {}
        }
    }

    /// Handles the end of the release of the image that was left.
    pub(crate) fn handle_released(&mut self) {
        self.left_image = None;
        self.left = None;
    }

    /// Handles the end of the release of an image that was not used.
    pub(crate) const fn handle_unused_released(&mut self) {
        self.image.handle_released();
    }

    /// Returns the state for reports.
    pub(crate) const fn state(&self) -> (Requesting, Leaving) {
        let requesting = match self.step {
            Step::Steady => Requesting::Nothing,
            Step::Due { .. } | Step::Asking { .. } => Requesting::Asking,
            Step::MakingImage(_) => Requesting::MakingImage,
            Step::Ready(_) => Requesting::Ready,
            Step::GivingBack(_) => Requesting::GivingBack,
        };
        let leaving = match self.left {
            None => Leaving::Nothing,
            Some(Left { stage: LeftStage::InUse, .. }) => Leaving::InUse,
            Some(Left { stage: LeftStage::Retired, .. }) => Leaving::Retired,
            Some(Left { stage: LeftStage::Releasing { .. }, .. }) => Leaving::Releasing,
        };
        (requesting, leaving)
    }

    /// Returns true if nothing is under way.
    pub(crate) const fn is_steady(&self) -> bool {
        matches!(self.step, Step::Steady)
            && self.image.is_steady()
            && self.left.is_none()
            && self.shrink.is_none()
    }
}

impl<F: Fabric> Hash for Requester<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            base: _,
            largest: _,
            slab_bytes: _,
            delay,
            epoch,
            current,
            is_granted,
            newest,
            step,
            image,
            shrink,
            left,
            left_image,
            request,
            patience,
            next_patience,
        } = self;
        (epoch, current.is_some(), is_granted, newest, step, image).hash(hasher);
        (shrink, left, left_image.is_some(), request, delay, patience, next_patience).hash(hasher);
    }
}
