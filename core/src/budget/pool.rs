//! A pool: one limit, and the members that share it.

mod reclaim;

use core::array;
use core::sync::atomic::{AtomicU64, Ordering};

use super::fair::reserve;
use super::place::{Loan, Place, PlaceState, add, subtract, update};
use crate::atomics::word::ExchangeWord;
use reclaim::Census;

/// A limit, and what is used of it by at most `N` members that can grow.
///
/// ```text
///       open                 grow, cache                        close
/// ------------> minimum ---------------------> with loans ------------------> (all is given back)
///   NoRoom        ^  ^                            |  ^  \
///                 |  +---- shrink, uncache -------+  |   excess > 0: give back, and grow no more while others wait
///                 +--------- Refusal ----------------+
/// ```
///
/// | call | steps | changes |
/// |---|---|---|
/// | `excess`, `cached_excess` | one load | nothing |
/// | `shrink`, `uncache`, `close` | bounded | `excess` of this member |
/// | `grow`, `cache`, `set_idle` | bounded; a walk over all places if it is refused, or another was lately | `excess` of other members, and with `set_idle` of this one |
/// | `open`, `raise` | a search for a free place; the same walk if refused | `excess` of other members |
///
/// All of them may be called by several threads at a time, also for the same member. A thread that is stopped in the middle of a call, or
/// missing in a child of fork, stops no other; in the child the bytes of that call may stay counted.
#[derive(Debug)]
pub struct Pool<W, const N: usize> {
    /// All bytes that are used. Never above the limit.
    used: W,
    /// Those of them that were grown or cached. Never above the limit without its reserve. At least the loans in `used`, at every moment.
    lent: W,
    /// Those of them that are cached.
    cached: W,
    members: W,
    /// Time of the last refusal of a demand below its fair share; 0: none.
    refused_at: W,
    /// Minimum for which there was no room, and the time of that; 0: none. Its member asks again at short intervals.
    wanted: W,
    wanted_at: W,
    /// Count of the places that were ever taken.
    top: W,
    /// Place at which the search for a free one begins.
    free: W,
    places: [Place<W>; N],
}

/// A member of a pool. It must be given back by [`Pool::close`].
#[derive(Debug)]
#[must_use]
pub struct Member {
    minimum: u64,
    place: Option<usize>,
    /// 1, or 0 for a part of another member.
    count: u64,
}

/// The limit at the time of a call.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The limit.
    pub limit_bytes: u64,
    /// The time, of a monotonic clock, which need not be exact to the millisecond.
    pub now_ns: u64,
}

/// There is no room for a minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes in use.
    pub used: u64,
}

/// Refusal of growth. Nothing has changed for the member but that it may be granted more once others have given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Cause.
    pub cause: RefusalCause,
    /// Bytes by which the member could grow now.
    pub bytes_max: u64,
    /// Bytes in use.
    pub used: u64,
    /// Count of members.
    pub members: u64,
}

/// Cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// So much of the limit is in use or kept for minimums.
    Limit,
    /// A demand below its fair share was refused lately, and this one would exceed its own.
    FairShare {
        /// Bytes of the fair share.
        fair_bytes: u64,
    },
    /// The member was asked to give back, and has not yet.
    GiveBack {
        /// Bytes that are asked back.
        excess_bytes: u64,
    },
    /// The member has no place, since there are as many others as the pool has places, or it was opened without one.
    NoPlace,
}

/// What is used of a pool, by its kind. Exact while no call is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// All bytes.
    pub used: u64,
    /// Minimums.
    pub reserved: u64,
    /// Landing buffers and images that have grown.
    pub grown: u64,
    /// Registrations that are kept.
    pub cached: u64,
    /// Count of members.
    pub members: u64,
}

/// Kind of a loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Grown,
    Cached,
}

impl<const N: usize> Pool<AtomicU64, N> {
    /// Makes an empty pool.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is large, and made in a static")]
    pub const fn new() -> Self {
        Self {
            used: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            cached: AtomicU64::new(0),
            members: AtomicU64::new(0),
            refused_at: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            wanted_at: AtomicU64::new(0),
            top: AtomicU64::new(0),
            free: AtomicU64::new(0),
            places: [const { Place::<AtomicU64>::new() }; N],
        }
    }
}

impl<W: ExchangeWord, const N: usize> Pool<W, N> {
    /// Makes an empty pool of words that are 0.
    pub fn of(mut word: impl FnMut() -> W) -> Self {
        Self {
            used: word(),
            lent: word(),
            cached: word(),
            members: word(),
            refused_at: word(),
            wanted: word(),
            wanted_at: word(),
            top: word(),
            free: word(),
            places: array::from_fn(|_| Place::of(&mut word)),
        }
    }

    /// Returns what is used.
    pub fn usage(&self) -> Use {
        let [used, lent, cached, members] =
            [&self.used, &self.lent, &self.cached, &self.members].map(|it| it.load(Ordering::Relaxed));
        let (reserved, grown) = (used.saturating_sub(lent), lent.saturating_sub(cached));
        Use { used, reserved, grown, cached, members }
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes that members were asked to give back, and have time left to do so.
    pub fn coming(&self, now_ns: u64) -> u64 {
        let states = self.taken().filter_map(|(_, place)| place.read(now_ns));
        states.fold(0, |sum, PlaceState { grown, cached, .. }| {
            sum.saturating_add(grown.coming()).saturating_add(cached.coming())
        })
    }

    /// Opens a member that has `minimum` bytes until it is closed, and never grows.
    ///
    /// # Errors
    /// There is no room. Loans are asked back, if they make room.
    pub fn open_fixed(&self, minimum: u64, terms: Terms) -> Result<Member, NoRoom> {
        self.take(minimum, terms)?;
        add(&self.members, 1);
        Ok(Member { minimum, place: None, count: 1 })
    }

    /// Opens a member that has `minimum` bytes until it is closed, and may grow.
    ///
    /// # Errors
    /// There is no room. Loans are asked back, if they make room.
    pub fn open(&self, minimum: u64, terms: Terms) -> Result<Member, NoRoom> {
        let member = self.open_fixed(minimum, terms)?;
        Ok(Member { place: self.claim(), ..member })
    }

    /// Adds to a member's minimum.
    ///
    /// # Errors
    /// There is no room. Loans are asked back, if they make room.
    pub fn raise(&self, member: &mut Member, bytes: u64, terms: Terms) -> Result<(), NoRoom> {
        self.take(bytes, terms)?;
        member.minimum = member.minimum.saturating_add(bytes);
        Ok(())
    }

    /// Takes bytes out of a member's minimum, at most all. They are given back when the part is closed, which does not count as a member.
    pub const fn split(member: &mut Member, bytes: u64) -> Member {
        let bytes = if bytes < member.minimum { bytes } else { member.minimum };
        member.minimum -= bytes;
        Member { minimum: bytes, place: None, count: 0 }
    }

    /// Closes a member. All that it has is given back.
    pub fn close(&self, member: &mut Member) {
        if let Some((index, place)) = self.place(member) {
            self.give_back(place, Kind::Grown, u64::MAX);
            self.give_back(place, Kind::Cached, u64::MAX);
            place.leave();
            // A search that begins too late finds the place in its second half.
            let _ = update(&self.free, Ordering::Relaxed, |free| Some(free.min(index as u64)));
        }
        subtract(&self.used, member.minimum);
        subtract(&self.members, member.count);
        *member = Member { minimum: 0, place: None, count: 0 };
    }

    /// Returns the bytes that a member has.
    pub fn bytes(&self, member: &Member) -> u64 {
        let lent = self.place(member).map_or(0, |(_, place)| {
            place.grown.bytes.load(Ordering::Relaxed) + place.cached.bytes.load(Ordering::Relaxed)
        });
        member.minimum + lent
    }

    /// Lends bytes for a landing buffer, or for an image of the peer's. Ends idleness.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn grow(&self, member: &Member, bytes: u64, terms: Terms) -> Result<(), Refusal> {
        self.lend(member, Kind::Grown, bytes, terms)
    }

    /// Gives bytes back that `grow` has lent, at most all.
    pub fn shrink(&self, member: &Member, bytes: u64) {
        if let Some((_, place)) = self.place(member) {
            self.give_back(place, Kind::Grown, bytes);
        }
    }

    /// Lends bytes for a registration that is kept for its next use.
    ///
    /// # Errors
    /// [`Refusal`]. Somebody waits, or the limit is reached; nothing is asked back for a registration.
    pub fn cache(&self, member: &Member, bytes: u64, terms: Terms) -> Result<(), Refusal> {
        self.lend(member, Kind::Cached, bytes, terms)
    }

    /// Gives bytes back that `cache` has lent, at most all.
    pub fn uncache(&self, member: &Member, bytes: u64) {
        if let Some((_, place)) = self.place(member) {
            self.give_back(place, Kind::Cached, bytes);
        }
    }

    /// Returns the bytes of what the member has grown by that it has to give back.
    #[inline]
    pub fn excess(&self, member: &Member) -> u64 {
        self.place(member).map_or(0, |(_, place)| place.grown.excess())
    }

    /// Returns the bytes of cached registrations that the member has to give back.
    #[inline]
    pub fn cached_excess(&self, member: &Member) -> u64 {
        self.place(member).map_or(0, |(_, place)| place.cached.excess())
    }

    /// Notes that a member moves no data, or moves some again. An idle one has no fair share. While somebody waits it has to give all back
    /// at once. One that is no longer idle may keep what it has.
    pub fn set_idle(&self, member: &Member, is_idle: bool, now_ns: u64) {
        let Some((_, place)) = self.place(member) else { return };
        if place.is_idle() == is_idle {
            return;
        }
        place.set_idle(is_idle);
        if !is_idle {
            place.grown.forgive();
            return;
        }
        place.note_demand(0);
        let grown = place.grown.bytes.load(Ordering::Relaxed);
        if grown > 0 && self.has_waiting(now_ns) {
            place.grown.ask(grown, now_ns);
        }
    }

    #[inline]
    fn place(&self, member: &Member) -> Option<(usize, &Place<W>)> {
        let index = member.place?;
        Some((index, self.places.get(index)?))
    }

    /// The places that were ever taken.
    fn taken(&self) -> impl Iterator<Item = (usize, &Place<W>)> {
        let top = usize::try_from(self.top.load(Ordering::Relaxed)).unwrap_or(N);
        self.places.iter().enumerate().take(top)
    }

    fn claim(&self) -> Option<usize> {
        let first = usize::try_from(self.free.load(Ordering::Relaxed)).unwrap_or(0).min(N);
        let index =
            (first..N).chain(0..first).find(|index| self.places.get(*index).is_some_and(Place::claim))?;
        let next = index as u64 + 1;
        self.free.store(next, Ordering::Relaxed);
        let _ = update(&self.top, Ordering::Relaxed, |top| (top < next).then_some(next));
        Some(index)
    }

    /// Takes bytes for a minimum.
    fn take(&self, bytes: u64, terms: Terms) -> Result<(), NoRoom> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= terms.limit_bytes);
        match update(&self.used, Ordering::Relaxed, fits) {
            Ok(_) => {
                if self.wanted.load(Ordering::Relaxed) != 0 {
                    self.wanted.store(0, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(used) => {
                // Nobody is asked to give back for a minimum that no loan makes room for: anyone may ask for that, again and again.
                let minimums = used.saturating_sub(self.lent.load(Ordering::Relaxed));
                if bytes > terms.limit_bytes.saturating_sub(minimums) {
                    return Err(NoRoom { used });
                }
                self.wanted_at.store(terms.now_ns, Ordering::Relaxed);
                self.wanted.store(bytes, Ordering::Relaxed);
                let lacking = bytes.saturating_sub(terms.limit_bytes.saturating_sub(used));
                self.reclaim(None, [lacking; 3], &self.census(None, terms), terms.now_ns);
                Err(NoRoom { used })
            }
        }
    }

    fn lend(&self, member: &Member, kind: Kind, bytes: u64, terms: Terms) -> Result<(), Refusal> {
        let refuse = |cause, bytes_max| {
            let Use { used, members, .. } = self.usage();
            Refusal { cause, bytes_max, used, members }
        };
        let Some((index, place)) = self.place(member) else { return Err(refuse(RefusalCause::NoPlace, 0)) };
        if kind == Kind::Grown {
            self.set_idle(member, false, terms.now_ns);
        }
        let loan = loan(place, kind);
        let excess_bytes = loan.excess();
        if excess_bytes > 0 {
            if self.is_awaited(terms.now_ns) || loan.read(terms.now_ns).withheld() == 0 {
                return Err(refuse(RefusalCause::GiveBack { excess_bytes }, 0));
            }
            // Nobody waits for what it could not give back.
            loan.forgive();
        }
        let growth_max = |census: &Census| match kind {
            // It would take the room that others are making for whoever waits.
            Kind::Cached if census.is_other_waiting => 0,
            Kind::Grown | Kind::Cached => census.fair_bytes,
        };
        let has = loan.bytes.load(Ordering::Relaxed);
        let is_fair = !self.has_waiting(terms.now_ns)
            || has.saturating_add(bytes) <= growth_max(&self.census(Some(index), terms));
        let is_kept = self.kept(terms.now_ns) > 0 && self.room(terms) < bytes;
        if is_fair && !is_kept && self.borrow(bytes, terms.limit_bytes) {
            if kind == Kind::Cached {
                add(&self.cached, bytes);
            }
            add(&loan.bytes, bytes);
            // A mark that is left is one of an earlier member, or of before the last release.
            loan.forgive();
            if kind == Kind::Grown {
                place.note_demand(0);
            }
            return Ok(());
        }
        let census = self.census(Some(index), terms);
        if kind == Kind::Grown {
            self.note_refused((index, place), bytes, &census, terms);
        }
        let room = self.room(terms);
        let fair_bytes = growth_max(&census);
        let bytes_max =
            if self.has_waiting(terms.now_ns) { room.min(fair_bytes.saturating_sub(has)) } else { room };
        let cause = if is_fair { RefusalCause::Limit } else { RefusalCause::FairShare { fair_bytes } };
        Err(refuse(cause, bytes_max))
    }

    /// Returns the bytes that can be lent.
    fn room(&self, Terms { limit_bytes, now_ns }: Terms) -> u64 {
        let lendable = limit_bytes - reserve(limit_bytes);
        let [used, lent] = [&self.used, &self.lent].map(|it| it.load(Ordering::Relaxed));
        let left = limit_bytes.saturating_sub(used).saturating_sub(self.kept(now_ns));
        lendable.saturating_sub(lent).min(left)
    }

    /// Counts a loan in both sums, if it fits. First in `lent`: so the loans in `used` never exceed what can be lent, and no loan that is refused
    /// can have a minimum refused as well.
    fn borrow(&self, bytes: u64, limit_bytes: u64) -> bool {
        let fits = |max: u64| move |sum: u64| sum.checked_add(bytes).filter(|sum| *sum <= max);
        // pairs with the Release in `repay`: the bytes that make room here are no longer in `used`
        if update(&self.lent, Ordering::Acquire, fits(limit_bytes - reserve(limit_bytes))).is_err() {
            return false;
        }
        if update(&self.used, Ordering::Relaxed, fits(limit_bytes)).is_err() {
            subtract(&self.lent, bytes);
            return false;
        }
        true
    }

    fn repay(&self, bytes: u64) {
        subtract(&self.used, bytes);
        // pairs with the Acquire in `borrow`
        let _ = update(&self.lent, Ordering::Release, |lent| Some(lent.saturating_sub(bytes)));
    }

    fn give_back(&self, place: &Place<W>, kind: Kind, bytes: u64) {
        let given = loan(place, kind).give_back(bytes);
        if kind == Kind::Cached {
            subtract(&self.cached, given);
        }
        self.repay(given);
    }
}

const fn loan<W>(place: &Place<W>, kind: Kind) -> &Loan<W> {
    match kind {
        Kind::Grown => &place.grown,
        Kind::Cached => &place.cached,
    }
}

#[cfg(test)]
mod tests;
