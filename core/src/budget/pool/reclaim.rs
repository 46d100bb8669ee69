//! Reclaim: which members a refused demand asks to give back, and for how long others wait for it.

use core::sync::atomic::Ordering;

use super::{Pool, Terms};
use crate::atomics::word::ExchangeWord;
use crate::budget::fair::{growth_max, reserve};
use crate::budget::place::{PATIENCE_NS, Place, PlaceState, ReclaimClass, is_recent};

/// All places, seen at one time.
pub(super) struct Census {
    pub(super) fair_bytes: u64,
    /// A demand of another member was refused lately, and is not met yet.
    pub(super) is_other_waiting: bool,
    /// Bytes that were asked back, and will soon come.
    pub(super) coming: u64,
}

impl<W: ExchangeWord, const N: usize> Pool<W, N> {
    /// Has the others give back what a refused demand lacks.
    pub(super) fn note_refused(
        &self,
        (index, place): (usize, &Place<W>),
        bytes: u64,
        census: &Census,
        terms: Terms,
    ) {
        let (has, fair_bytes) = (place.grown.bytes.load(Ordering::Relaxed), census.fair_bytes);
        let room = self.room(terms);
        // Sizes double: a member that has a landing buffer can use the rest of its fair share only if the next size fits.
        let is_below = has == 0 || has.saturating_add(bytes) <= fair_bytes;
        let fairly = if is_below { bytes.min(fair_bytes.saturating_sub(has)) } else { 0 };
        if fairly > room {
            let now_ns = terms.now_ns.max(1);
            place.note_demand(now_ns);
            self.refused_at.store(now_ns, Ordering::Relaxed);
        }
        let [any, fairly] = [bytes, fairly].map(|it| it.saturating_sub(room));
        self.reclaim(Some(index), [any, any, fairly], census, terms.now_ns);
    }

    /// Asks the others for the bytes that are lacking, by class.
    pub(super) fn reclaim(&self, me: Option<usize>, lacking: [u64; 3], census: &Census, now_ns: u64) {
        let mut coming = census.coming;
        for (class, lacking) in ReclaimClass::ORDER.into_iter().zip(lacking) {
            for (index, place) in self.taken() {
                if coming >= lacking {
                    break;
                }
                let is_own_landing = Some(index) == me && class != ReclaimClass::CachedRegistration;
                let Some(state) = place.read(now_ns).filter(|_| !is_own_landing) else { continue };
                let bytes = match (state.reclaimable(class, census.fair_bytes), class) {
                    (0, _) => continue,
                    // A landing buffer goes as a whole. Of registrations as many go as are needed.
                    (bytes, ReclaimClass::CachedRegistration) => bytes.min(lacking - coming),
                    (bytes, ReclaimClass::IdleLanding | ReclaimClass::AboveFairShare) => bytes,
                };
                let loan = match class {
                    ReclaimClass::CachedRegistration => &place.cached,
                    ReclaimClass::IdleLanding | ReclaimClass::AboveFairShare => &place.grown,
                };
                loan.ask(bytes, now_ns);
                coming = coming.saturating_add(bytes);
            }
        }
    }

    pub(super) fn census(&self, me: Option<usize>, terms: Terms) -> Census {
        let (mut count, mut withheld, mut is_other_waiting) = (u64::from(me.is_none()), 0_u64, false);
        for (index, place) in self.taken() {
            let Some(state) = place.read(terms.now_ns) else { continue };
            let PlaceState { grown, cached, .. } = state;
            count += u64::from(Some(index) == me || state.has_demand());
            is_other_waiting |= Some(index) != me && state.waits;
            withheld = withheld.saturating_add(grown.withheld()).saturating_add(cached.withheld());
        }
        let reserved = reserve(terms.limit_bytes).max(self.usage().reserved).saturating_add(withheld);
        let fair_bytes = growth_max(terms.limit_bytes, reserved, count, u64::MAX);
        Census { fair_bytes, is_other_waiting, coming: self.coming(terms.now_ns) }
    }

    /// Returns true if a demand below its fair share was refused lately.
    pub(super) fn has_waiting(&self, now_ns: u64) -> bool {
        is_recent(self.refused_at.load(Ordering::Relaxed), now_ns)
    }

    /// Returns true if a demand that was refused still counts.
    pub(super) fn is_awaited(&self, now_ns: u64) -> bool {
        self.has_waiting(now_ns) || self.kept(now_ns) > 0
    }

    /// Returns the bytes that are kept for a minimum that was refused a moment ago.
    pub(super) fn kept(&self, now_ns: u64) -> u64 {
        let is_recent = || now_ns.saturating_sub(self.wanted_at.load(Ordering::Relaxed)) < PATIENCE_NS;
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted != 0 && is_recent() { wanted } else { 0 }
    }
}
