//! Landing buffers and images that come and go while a connection whose landing is on demand is in use. wire.md 2.5, 5.4, 10.3. The small
//! buffer of the provision protocol and its image are there from the beginning, and go like the others.
//!
//! ```text
//! reserve   address space of all of them, for the life of the connection
//! steps     the jobs: made resident in slabs, registered; deregistered, given back
//!
//!          begin: a share of the budget      job done              begin             job done
//! FREE ------------------------> PROVISIONING --------> LIVE ------------> RELEASING --------> FREE
//!   \-- no share --> REFUSED                                                   \-- the device keeps it --> LOST
//! ```

mod reserve;
pub(super) mod small;
mod steps;

use crate::budget::{Budget, BudgetShare, Charge, MemoryKind, Refused};
use crate::fabric::Span;
use crate::fabric::rdma::image::Image;
use crate::os::jobs::{Busy as JobsBusy, Jobs, Ticket as JobTicket};
use crate::os::{MemoryPlacement, OsError};
use core::{fmt, mem};
use reserve::{PLACES, Part, Reserve};
use std::sync::Arc;
use steps::{Lost, Provision, Region, Release};
use superpipe_core::driver::setup::GROWTH_SLAB_BYTES;
use superpipe_core::{Busy, Finished, Job, JobFailed, JobOutcome, JobResult, Layout, RemoteClaim, Ticket};
use superpipe_verbs::{Access, Pd, RemoteAddr, Rkey, Sge};

/// Position of the two upper bits of an offset. 0: it counts from the control page, 1: in the small buffer, 2 and 3: in a landing buffer that
/// was grown. wire.md 10.3.
const PLACE_SHIFT: u32 = 30;
const SMALL_BITS: u32 = 1;
const GROWN_BITS: u32 = 2;
/// The small buffer; the others come before.
const SMALL: usize = 2;
/// The first image; landing buffers come before.
const IMAGES: usize = 3;

/// What a connection provisions on demand. Dropping it waits for the jobs under way; the QP is gone by then.
pub(in crate::fabric::rdma) struct Growth {
    /// Landing buffers 0 and 1, the small one, and the image of each.
    places: [Place; PLACES],
    reserve: Arc<Reserve>,
    share: Arc<BudgetShare>,
    pd: Pd,
    jobs: &'static Jobs,
    /// Time until which a drop waits for jobs.
    end_by_ns: u64,
}

/// A landing buffer, or an image.
enum Place {
    Free,
    Provisioning {
        ticket: Ticket,
        work: JobTicket<Provision>,
        terms: Terms,
    },
    /// The job could not begin, which is to be reported. What was there before comes back.
    Refused {
        ticket: Ticket,
        failed: JobFailed,
        before: Option<Lost>,
    },
    Live {
        region: Region,
        terms: Terms,
    },
    Releasing {
        ticket: Ticket,
        work: JobTicket<Release>,
    },
    /// Memory that is not given up; it is never used again.
    Lost(Lost),
}

/// Bytes of a ring, and where they are at the peer, if this is an image that is bound.
#[derive(Clone, Copy, Debug)]
struct Terms {
    bytes: u32,
    remote: Option<RemoteAddr>,
}

impl Growth {
    /// Reserves address space for landing buffers and images of at most this layout, by which `share` grows, and for small ones.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(in crate::fabric::rdma) fn new(
        pd: &Pd,
        largest: Layout,
        small: Option<Layout>,
        jobs: &'static Jobs,
        share: &Arc<BudgetShare>,
        placement: MemoryPlacement,
    ) -> Result<Self, OsError> {
        let small_bytes = small.map_or(0, |small| small.bytes() as usize);
        Ok(Self {
            places: [const { Place::Free }; PLACES],
            reserve: Reserve::new(largest.bytes() as usize, small_bytes, placement)?,
            share: Arc::clone(share),
            pd: pd.clone(),
            jobs,
            end_by_ns: 0,
        })
    }

    /// Begins a job of core.
    pub(in crate::fabric::rdma) fn begin(
        &mut self,
        ticket: Ticket,
        job: Job<Span, Image>,
    ) -> Result<(), Busy> {
        match job {
            Job::ProvisionLanding { place, layout } => {
                let terms = Terms { bytes: layout.bytes(), remote: None };
                self.provision(ticket, usize::from(place), Access::RemoteWrite, terms)
            }
            // The claim comes later, by `bind`.
            Job::ProvisionImage { place, layout, claim: _ } => {
                let terms = Terms { bytes: layout.bytes(), remote: None };
                self.provision(ticket, IMAGES + usize::from(place), Access::Local, terms)
            }
            Job::ReleaseLanding(span) => self.release(ticket, self.reserve.place_of(span.at(0, 0))),
            Job::ReleaseImage(image) => {
                self.release(ticket, place_at(image.base).map(|(place, _)| IMAGES + place))
            }
            Job::RegisterSource { .. }
            | Job::RegisterDestination { .. }
            | Job::Deregister(_)
            | Job::Expose { .. }
            | Job::Map { .. }
            | Job::Unmap(_)
            | Job::UnmapWritable(_)
            | Job::EndLink => Err(Busy),
        }
    }

    /// Binds an image to the landing buffer that the peer has granted. Returns false if the claim is wrong.
    pub(in crate::fabric::rdma) fn bind(&mut self, image: Image, claim: RemoteClaim) -> bool {
        let place = place_at(image.base).and_then(|(place, _)| self.places.get_mut(IMAGES + place));
        let Some(Place::Live { terms, .. }) = place else { return false };
        terms.remote = remote_of(claim, terms.bytes);
        terms.remote.is_some()
    }

    /// Takes the end of a job, in any order. Makes at most one step of each.
    pub(in crate::fabric::rdma) fn finished(&mut self) -> Option<Finished<Span, Image>> {
        (0..PLACES).find_map(|place| self.poll(place))
    }

    /// Returns true if a job is under way, or has ended and was not reported.
    pub(in crate::fabric::rdma) fn has_jobs(&self) -> bool {
        self.places.iter().any(|place| {
            matches!(place, Place::Provisioning { .. } | Place::Refused { .. } | Place::Releasing { .. })
        })
    }

    /// Returns true while others wait for memory of this connection.
    pub(in crate::fabric::rdma) fn must_shrink(&self) -> bool {
        self.share.must_shrink()
    }

    /// Notes whether the connection is used.
    pub(in crate::fabric::rdma) fn note_idle(&self, is_idle: bool) {
        self.share.note_idle(is_idle);
    }

    /// Bounds the drop.
    pub(in crate::fabric::rdma) const fn end_by(&mut self, by_ns: u64) {
        self.end_by_ns = by_ns;
    }

    /// Returns what a posted write reads in an image of a landing buffer that comes and goes, and where it goes.
    pub(in crate::fabric::rdma) fn outlet(&self, at: u32, bytes: u32) -> Option<(Sge<'_>, RemoteAddr)> {
        let (place, at) = place_at(at)?;
        let Some(Place::Live { region, terms: Terms { remote: Some(remote), .. } }) =
            self.places.get(IMAGES + place)
        else {
            return None;
        };
        let to = RemoteAddr { addr: remote.addr.wrapping_add(u64::from(at)), ..*remote };
        Some((region.mr.sge(at as usize, bytes)?, to))
    }

    /// Returns the landing buffer that comes and goes which an enclosed write goes to, and the offset there.
    pub(in crate::fabric::rdma) fn inlet(&self, offset: u32, bytes: u64) -> Option<(Span, u32)> {
        let (place, at) = place_at(offset)?;
        let Some(Place::Live { region, terms }) = self.places.get(place) else { return None };
        (u64::from(at) + bytes <= u64::from(terms.bytes)).then(|| (span_of(region, terms.bytes), at))
    }

    fn provision(&mut self, ticket: Ticket, place: usize, access: Access, terms: Terms) -> Result<(), Busy> {
        match self.places.get(place) {
            Some(Place::Free) => {}
            Some(Place::Lost(_)) => return self.refuse(ticket, place, JobFailed::Refused),
            _ => return Err(Busy),
        }
        let Some(part) = self.reserve.part(place, terms.bytes as usize) else {
            return self.refuse(ticket, place, JobFailed::Refused);
        };
        let charge = match self.charge(&part) {
            Ok(charge) => charge,
            Err(failed) => return self.refuse(ticket, place, failed),
        };
        match self.jobs.begin(Provision::new(&self.pd, part, access, charge)) {
            Ok(work) => {
                self.places[place] = Place::Provisioning { ticket, work, terms };
                Ok(())
            }
            Err(JobsBusy(_)) => Err(Busy),
        }
    }

    /// Takes the bytes of a part out of the budget. All memory that grows passes here.
    fn charge(&self, part: &Part) -> Result<Charge, JobFailed> {
        let bytes = superpipe_verbs::Memory::len(part) as u64;
        let bytes_max = |refused: Refused| u32::try_from(refused.bytes_max()).unwrap_or(u32::MAX);
        Charge::grow(&self.share, bytes)
            .map_err(|refused| JobFailed::OverBudget { bytes_max: bytes_max(refused) })
    }

    /// Reports later that a job failed.
    fn refuse(&mut self, ticket: Ticket, place: usize, failed: JobFailed) -> Result<(), Busy> {
        let Some(place) = self.places.get_mut(place) else { return Err(Busy) };
        let before = match mem::replace(place, Place::Free) {
            Place::Free => None,
            Place::Lost(lost) => Some(lost),
            other => {
                *place = other;
                return Err(Busy);
            }
        };
        *place = Place::Refused { ticket, failed, before };
        Ok(())
    }

    fn release(&mut self, ticket: Ticket, place: Option<usize>) -> Result<(), Busy> {
        let Some(place) = place.and_then(|place| self.places.get_mut(place)) else { return Err(Busy) };
        match mem::replace(place, Place::Free) {
            Place::Live { region, terms } => match self.jobs.begin(Release::new(region)) {
                Ok(work) => {
                    *place = Place::Releasing { ticket, work };
                    Ok(())
                }
                Err(JobsBusy(release)) => {
                    *place = release.undo().map_or(Place::Free, |region| Place::Live { region, terms });
                    Err(Busy)
                }
            },
            other => {
                *place = other;
                Err(Busy)
            }
        }
    }

    /// Polls the job of a place.
    fn poll(&mut self, number: usize) -> Option<Finished<Span, Image>> {
        let place = &mut self.places[number];
        match place {
            Place::Free | Place::Live { .. } | Place::Lost(_) => None,
            Place::Provisioning { ticket, work, terms } => {
                let (ticket, terms, made) = (*ticket, *terms, work.poll()?);
                let (next, result) = match made {
                    Ok(Ok(region)) => {
                        let outcome = outcome(number, &region, terms);
                        (Place::Live { region, terms }, Ok(outcome))
                    }
                    Ok(Err(failed)) => (Place::Free, Err(failed)),
                    Err(_) => (Place::Free, Err(JobFailed::Refused)),
                };
                *place = next;
                Some((ticket, result))
            }
            Place::Releasing { ticket, work } => {
                let (ticket, released) = (*ticket, work.poll()?);
                *place = match released {
                    Ok(Err(lost)) => Place::Lost(lost),
                    Ok(Ok(())) | Err(_) => Place::Free,
                };
                Some((ticket, Ok(JobOutcome::Released)))
            }
            Place::Refused { ticket, failed, before } => {
                let (ticket, result): (_, JobResult<Span, Image>) = (*ticket, Err(*failed));
                *place = before.take().map_or(Place::Free, Place::Lost);
                Some((ticket, result))
            }
        }
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        for place in &mut self.places {
            // A step that outlives the deadline keeps what it uses until it is over.
            let _ = match mem::replace(place, Place::Free) {
                Place::Provisioning { work, .. } => work.wait(self.end_by_ns),
                Place::Releasing { work, .. } => work.wait(self.end_by_ns),
                Place::Free | Place::Refused { .. } | Place::Live { .. } | Place::Lost(_) => true,
            };
        }
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |place: &Place| match place {
            Place::Free => "FREE",
            Place::Provisioning { .. } => "PROVISIONING",
            Place::Refused { .. } => "REFUSED",
            Place::Live { .. } => "LIVE",
            Place::Releasing { .. } => "RELEASING",
            Place::Lost(_) => "LOST",
        };
        f.debug_tuple("Growth").field(&self.places.each_ref().map(state)).finish()
    }
}

/// Returns true if the budget has no room for the first landing buffer that another connection grows to, and for an image.
pub(in crate::fabric::rdma) fn is_memory_short() -> bool {
    Budget::left_bytes(MemoryKind::Registered) < 2 * u64::from(GROWTH_SLAB_BYTES)
}

/// Returns the place of a landing buffer and the offset in it, of an offset into one that comes and goes.
const fn place_at(at: u32) -> Option<(usize, u32)> {
    let place = match at >> PLACE_SHIFT {
        0 => return None,
        SMALL_BITS => SMALL,
        grown => (grown - GROWN_BITS) as usize,
    };
    Some((place, at & ((1 << PLACE_SHIFT) - 1)))
}

/// Returns the offset of the begin of a landing buffer.
const fn offset_of(place: usize) -> u32 {
    let bits = match place {
        0 => GROWN_BITS,
        SMALL => SMALL_BITS,
        _ => GROWN_BITS + 1,
    };
    bits << PLACE_SHIFT
}

/// Checks a peer's claim, as that of a packet is checked (wire.md 10.2): aligned, and without a wrap. Its device checks the key.
fn remote_of(claim: RemoteClaim, bytes: u32) -> Option<RemoteAddr> {
    let RemoteClaim { address: addr, key } = claim;
    let is_good = addr.is_multiple_of(64) && addr.checked_add(u64::from(bytes)).is_some();
    is_good.then_some(RemoteAddr { addr, rkey: Rkey(key) })
}

fn span_of(region: &Region, bytes: u32) -> Span {
    assert!(bytes as usize <= region.mr.len(), "the region was made to hold it");
    // SAFETY: 1. The assertion keeps the span inside the region, whose addresses stay mapped for as long as the link lives, also after the
    // region was released. 2. A region gives out no reference.
    unsafe { Span::new(region.mr.as_ptr(), bytes) }
}

/// Returns what core gets for a region that was provisioned.
fn outcome(place: usize, region: &Region, terms: Terms) -> JobOutcome<Span, Image> {
    let span = span_of(region, terms.bytes);
    if place < IMAGES {
        let claim = RemoteClaim { address: region.mr.remote_addr(), key: region.mr.rkey().0 };
        return JobOutcome::Landing(span, claim);
    }
    JobOutcome::Image(Image { span, base: offset_of(place - IMAGES) })
}

#[cfg(test)]
mod tests;
