//! The owner's half of growth: it provisions what the peer asks for, grants it, and releases what the peer has retired. wire.md 5.4.
//!
//! ```text
//!           GROW              landing buffer is ready, GROWN            first chunk in it       RETIRED of the old
//! STEADY ---------> PROVISIONING ---------------------------> GRANTED --------------------> LEFT ------------------> STEADY
//!   ^                  |                                        |
//!   +-- GROW-REFUSED --+                                        +-- RETIRED of the new one, unused --> STEADY
//!
//! STEADY ---- SHRINK ----> SHRINKING (granted: the base) ---- as above ----> STEADY
//! ```
//!
//! A GROW that arrives while an epoch is granted or left waits until that is over. So at most two epochs live.

use core::hash::{Hash, Hasher};
use core::mem;

use super::jobs::{Jobs, Purpose};
use super::sizes::{layout_for, ring_bytes};
use super::{GrowthTerms, begin};
use crate::error::ProtocolError;
use crate::fabric::Fabric;
use crate::job::{Job, JobFailed, JobOutcome, JobResult};
use crate::state::Providing;
use crate::wire::control::Control;
use crate::wire::grant::{Grant, GrowCause};
use crate::wire::layout::{Landing, Layout};
use crate::wire::sequence::{before, is_before};

/// Landing buffers that wait for their release: one that was retired, and one that came back unused.
const RELEASES_MAX: usize = 2;

/// A GROW that was not answered.
#[derive(Clone, Copy, Debug, Hash)]
struct Asked {
    request: u32,
    bytes: u32,
}

/// Where the growth of this direction stands.
#[derive(Clone, Copy, Debug, Hash)]
enum Step {
    Steady,
    /// A landing buffer is being provisioned.
    Provisioning {
        request: u32,
        layout: Layout,
    },
    /// The epoch is granted, and no chunk was seen in it. GROWN or SHRINK may still have to be sent.
    Granted {
        epoch: u32,
        is_base: bool,
    },
    /// The receiver reads the new epoch. RETIRED of the old one is awaited.
    Left {
        epoch: u32,
        is_base: bool,
    },
}

/// What RETIRED means for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retired {
    /// It has read on in the new epoch already.
    Seen,
    /// It goes on in the new epoch.
    Moved,
    /// The new epoch is not used.
    Unused,
}

/// Counts for reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) growths: u64,
    /// By cause: budget, machine, large enough.
    pub(crate) refusals: [u64; 3],
    pub(crate) shrinks: u64,
    pub(crate) reclaims: u64,
    pub(crate) releases: u64,
    /// Most bytes of landing buffers beside the base at a time.
    pub(crate) bytes_peak: u64,
}

fn bytes_of<M>(landing: Option<&Landing<M>>) -> u64 {
    landing.map_or(0, |landing| u64::from(landing.layout.bytes()))
}

/// The owner's half of growth.
#[derive(Clone)]
pub(crate) struct Provider<F: Fabric> {
    base: Landing<F::Region>,
    largest: Layout,
    /// Number of the epoch that the receiver reads, and its memory unless that is the base.
    epoch: u32,
    current: Option<Landing<F::Region>>,
    /// Memory of the granted epoch, and of the one that was left.
    next: Option<Landing<F::Region>>,
    left: Option<Landing<F::Region>>,
    /// Newest number given.
    newest: u32,
    /// Place of the next landing buffer: not that of the current one.
    place: u8,
    step: Step,
    asked: Option<Asked>,
    /// Control message that is due.
    due: Option<Control>,
    /// This end wishes the peer to leave the current epoch.
    wants_shrink: bool,
    /// Others need its memory.
    is_reclaimed: bool,
    releases: heapless::Deque<Landing<F::Region>, RELEASES_MAX>,
    /// Releases under way, and the bytes of those that are not over.
    releasing: u32,
    releasing_bytes: u64,
    /// Counts for reports.
    tally: Tally,
}

impl<F: Fabric> Provider<F> {
    /// Makes the half of an end that reads the epoch 0: the base, or `first`.
    pub(crate) fn new(terms: &GrowthTerms<F>, first: Option<Landing<F::Region>>) -> Self {
        let bytes_peak = bytes_of(first.as_ref());
        Self {
            base: terms.base,
            largest: terms.largest,
            epoch: 0,
            current: first,
            next: None,
            left: None,
            newest: 0,
            place: 0,
            step: Step::Steady,
            asked: None,
            due: None,
            wants_shrink: false,
            is_reclaimed: false,
            releases: heapless::Deque::new(),
            releasing: 0,
            releasing_bytes: 0,
            tally: Tally { bytes_peak, ..Tally::default() },
        }
    }

    /// Handles GROW.
    pub(crate) const fn handle_grow(&mut self, request: u32, bytes: u32) -> Result<(), ProtocolError> {
        let is_answered = !matches!(self.due, Some(Control::Grown { .. } | Control::GrowRefused { .. }));
        if self.asked.is_some() || matches!(self.step, Step::Provisioning { .. }) || !is_answered {
            return Err(ProtocolError::GrowTwice);
        }
        self.asked = Some(Asked { request, bytes });
        Ok(())
    }

    /// Handles RETIRED, which names the last chunk of an epoch. `newest` is the sequence of the newest chunk consumed, which is
    /// `idle_at` as well unless the receiver has read the header behind it.
    pub(crate) fn handle_retired(
        &mut self,
        epoch: u32,
        last: u64,
        moved_at: u64,
        newest: u64,
        idle_at: Option<u64>,
    ) -> Result<Retired, ProtocolError> {
        if self.due.is_some() {
            // The peer cannot know of the epoch, or of the wish to shrink.
            return Err(ProtocolError::RetiredUnknown);
        }
        let retired = match self.step {
            Step::Left { epoch: old, .. } if old == epoch && last != 0 => Retired::Seen,
            Step::Granted { .. } if self.epoch == epoch && last != 0 => Retired::Moved,
            Step::Granted { epoch: new, is_base: false } if new == epoch && last == 0 => Retired::Unused,
            _ => return Err(ProtocolError::RetiredUnknown),
        };
        let is_consumed = match retired {
            Retired::Unused => true,
            // The peer's word alone releases nothing that is lent.
            Retired::Seen => !is_before(newest, last) && !is_before(newest, before(moved_at)),
            Retired::Moved => idle_at == Some(last),
        };
        if !is_consumed {
            return Err(ProtocolError::RetiredEarly);
        }
        match retired {
            Retired::Unused => {
                self.release(self.next);
                self.next = None;
                self.place ^= 1;
            }
            Retired::Moved => {
                self.handle_move();
                self.release_left();
            }
            Retired::Seen => self.release_left(),
        }
        self.step = Step::Steady;
        Ok(retired)
    }

    /// Notes that the receiver has seen a chunk in the granted epoch.
    pub(crate) fn handle_move(&mut self) {
        let Step::Granted { epoch, is_base } = self.step else { return };
        self.step = Step::Left { epoch: self.epoch, is_base };
        self.left = self.current.take();
        self.current = self.next.take();
        self.epoch = epoch;
    }

    /// Releases the memory that was left and retired.
    fn release_left(&mut self) {
        planted!(SmallBufferKept => if self.newest == 1 { self.left = None; });
        self.release(self.left);
        self.left = None;
    }

    fn release(&mut self, landing: Option<Landing<F::Region>>) {
        if let Some(landing) = landing {
            let kept = self.releases.push_back(landing);
            debug_assert!(kept.is_ok(), "two epochs live at most");
        }
    }

    /// Asks the peer to leave the current epoch for the base, as soon as that can be. Returns false at the base.
    pub(crate) const fn shrink(&mut self) -> bool {
        self.wants_shrink = self.current.is_some() || matches!(self.step, Step::Granted { .. });
        self.wants_shrink
    }

    /// [`shrink`](Self::shrink), because others need the memory.
    pub(crate) const fn reclaim(&mut self) {
        self.is_reclaimed |= self.shrink();
    }

    /// Returns true if the receiver reads memory that shrinking releases.
    pub(crate) const fn has_grown(&self) -> bool {
        self.current.is_some()
    }

    /// Begins the jobs that are due, and decides what is asked for. Returns the landing buffer that the receiver has to poll from now on
    /// besides the current one.
    pub(crate) fn begin_jobs(
        &mut self,
        fabric: &mut F,
        link: &mut F::Link,
        jobs: &mut Jobs,
        current: Layout,
    ) -> Option<Landing<F::Region>> {
        if let Some(landing) = self.releases.front().copied()
            && begin(fabric, link, jobs, Purpose::LandingRelease, Job::ReleaseLanding(landing.memory)).is_ok()
        {
            self.releases.pop_front();
            self.releasing += 1;
            self.releasing_bytes += bytes_of(Some(&landing));
        }
        let is_free = matches!(self.step, Step::Steady) && self.due.is_none();
        if !is_free || self.releasing > 0 || !self.releases.is_empty() {
            return None;
        }
        if self.wants_shrink {
            self.wants_shrink = false;
            let is_reclaimed = mem::take(&mut self.is_reclaimed);
            if self.current.is_some() {
                self.newest = self.newest.wrapping_add(1);
                self.tally.shrinks += 1;
                self.tally.reclaims += u64::from(is_reclaimed);
                self.due = Some(Control::Shrink { epoch: self.epoch, base: self.newest });
                self.step = Step::Granted { epoch: self.newest, is_base: true };
                return Some(self.base);
            }
        }
        let Asked { request, bytes } = self.asked?;
        let layout = layout_for(bytes, self.largest);
        if ring_bytes(layout) <= ring_bytes(current) {
            self.refuse(request, ring_bytes(current), GrowCause::LargeEnough);
            return None;
        }
        let job = Job::ProvisionLanding { place: self.place, layout };
        if begin(fabric, link, jobs, Purpose::Landing, job).is_ok() {
            self.asked = None;
            self.step = Step::Provisioning { request, layout };
        }
        None
    }

    /// Handles the end of the job that provisions. Returns the landing buffer that the receiver has to poll besides the current one.
    pub(crate) fn handle_provisioned(
        &mut self,
        result: JobResult<F::Region, F::Remote>,
    ) -> Option<Landing<F::Region>> {
        let Step::Provisioning { request, layout } = self.step else { return None };
        match result {
            Ok(JobOutcome::Landing(memory, claim)) => {
                self.newest = self.newest.wrapping_add(1);
                self.step = Step::Granted { epoch: self.newest, is_base: false };
                self.next = Some(Landing { memory, layout });
                self.tally.growths += 1;
                self.tally.bytes_peak = self.tally.bytes_peak.max(self.landing_bytes().iter().sum());
                self.place ^= 1;
                let grant = Grant { epoch: self.newest, layout, claim };
                self.due = Some(Control::Grown { request, grant });
                Some(Landing { memory, layout })
            }
            Err(JobFailed::OverBudget { bytes_max }) => {
                self.refuse(request, bytes_max, GrowCause::Budget);
                None
            }
            Ok(_) | Err(_) => {
                self.refuse(request, 0, GrowCause::Machine);
                None
            }
        }
    }

    fn refuse(&mut self, request: u32, bytes_max: u32, cause: GrowCause) {
        self.step = Step::Steady;
        self.asked = None;
        self.due = Some(Control::GrowRefused { request, bytes_max, cause });
        let [budget, machine, large_enough] = &mut self.tally.refusals;
        *match cause {
            GrowCause::Budget => budget,
            GrowCause::Machine => machine,
            GrowCause::LargeEnough => large_enough,
        } += 1;
    }

    /// Handles the end of a release.
    pub(crate) const fn handle_released(&mut self) {
        self.releasing = self.releasing.saturating_sub(1);
        self.tally.releases += 1;
        if self.releasing == 0 {
            self.releasing_bytes = 0;
        }
    }

    /// Returns the bytes of the landing buffers beside the base: in use; granted; left, and not released yet.
    pub(crate) fn landing_bytes(&self) -> [u64; 3] {
        let released: u64 = self.releases.iter().map(|landing| bytes_of(Some(landing))).sum();
        let left = bytes_of(self.left.as_ref()) + released + self.releasing_bytes;
        [bytes_of(self.current.as_ref()), bytes_of(self.next.as_ref()), left]
    }

    /// Returns the counts for reports.
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    /// Sets the counts for reports to zero, but for the most bytes.
    pub(crate) fn reset_tally(&mut self) {
        self.tally = Tally { bytes_peak: self.tally.bytes_peak, ..Tally::default() };
    }

    /// Returns true while a GROW waits, which a release may hold up.
    pub(crate) const fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the control message that is due.
    pub(crate) const fn due(&self) -> Option<Control> {
        self.due
    }

    /// Notes that the message that was due was sent.
    pub(crate) const fn note_sent(&mut self) {
        self.due = None;
    }

    /// Returns the state for reports.
    pub(crate) fn state(&self) -> Providing {
        match self.step {
            Step::Provisioning { .. } => Providing::Provisioning,
            Step::Granted { is_base: false, .. } => Providing::Granted,
            Step::Granted { is_base: true, .. } => Providing::Shrinking,
            Step::Left { .. } => Providing::Left,
            Step::Steady if self.releasing > 0 || !self.releases.is_empty() => Providing::Releasing,
            Step::Steady => Providing::Nothing,
        }
    }

    /// Returns true if nothing is under way.
    pub(crate) fn is_steady(&self) -> bool {
        matches!(self.step, Step::Steady)
            && self.asked.is_none()
            && self.due.is_none()
            && self.releases.is_empty()
            && self.releasing == 0
            && !self.wants_shrink
    }
}

impl<F: Fabric> Hash for Provider<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            base: _,
            largest: _,
            epoch,
            current,
            next,
            left,
            newest,
            place,
            step,
            asked,
            due,
            wants_shrink,
            is_reclaimed: _,
            releases,
            releasing,
            releasing_bytes: _,
            tally: _,
        } = self;
        (epoch, current.is_some(), next.is_some(), left.is_some(), newest, place, step).hash(hasher);
        (asked, due, wants_shrink, releases.len(), releasing).hash(hasher);
    }
}
