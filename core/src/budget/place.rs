//! The place of a member in a pool: what it was lent, and the marks by which others ask it to give back.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::atomics::word::ExchangeWord;

/// Time for which a refused demand counts: the room that is made for it is kept, and its member has a fair share. A sender asks again after
/// 64 occasions at first (wire.md 5.4), which a busy one has in milliseconds.
pub const DEMAND_NS: u64 = 1_000_000_000;
/// Time that a member has to give back what it was asked for. Leaving an epoch and releasing it takes a millisecond or two where both ends
/// drive. Three classes in turn take less than the 100 ms within which shares are to be fair.
pub const PATIENCE_NS: u64 = 20_000_000;

const TAKEN: u64 = 1;
const IDLE: u64 = 2;

/// Memory that is asked back for a demand that is not met, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReclaimClass {
    /// All that an idle member has grown by.
    IdleLanding,
    /// Registrations that are kept for the next use.
    CachedRegistration,
    /// What a member has grown by above its fair share, if the demand is of a member below its own.
    AboveFairShare,
}

impl ReclaimClass {
    /// All classes in their order.
    pub const ORDER: [Self; 3] = [Self::IdleLanding, Self::CachedRegistration, Self::AboveFairShare];
}

/// Replaces a number by what `change` makes of it, and returns the number before.
///
/// # Errors
/// `change` returned none for this number.
pub(super) fn update(
    count: &impl ExchangeWord,
    success: Ordering,
    change: impl Fn(u64) -> Option<u64>,
) -> Result<u64, u64> {
    let mut current = count.load(Ordering::Relaxed);
    loop {
        let new = change(current).ok_or(current)?;
        match count.compare_exchange(current, new, success, Ordering::Relaxed) {
            Ok(before) => return Ok(before),
            Err(other) => current = other,
        }
    }
}

pub(super) fn add(count: &impl ExchangeWord, bytes: u64) {
    let _ = update(count, Ordering::Relaxed, |it| Some(it.saturating_add(bytes)));
}

/// Subtracts `bytes`, or all that there are. Returns what was subtracted.
pub(super) fn subtract(count: &impl ExchangeWord, bytes: u64) -> u64 {
    match update(count, Ordering::Relaxed, |it| Some(it.saturating_sub(bytes))) {
        Ok(before) | Err(before) => before.min(bytes),
    }
}

/// Memory of one kind that was lent, and the mark.
#[derive(Debug)]
pub(super) struct Loan<W> {
    pub(super) bytes: W,
    /// Bytes that are asked back; 0: none.
    asked: W,
    /// Time at which they were asked for.
    asked_at: W,
}

impl Loan<AtomicU64> {
    const fn new() -> Self {
        Self { bytes: AtomicU64::new(0), asked: AtomicU64::new(0), asked_at: AtomicU64::new(0) }
    }
}

impl<W: ExchangeWord> Loan<W> {
    fn of(word: &mut impl FnMut() -> W) -> Self {
        Self { bytes: word(), asked: word(), asked_at: word() }
    }

    /// Returns the bytes that are asked back. One relaxed load, if there are none.
    #[inline]
    pub(super) fn excess(&self) -> u64 {
        match self.asked.load(Ordering::Relaxed) {
            0 => 0,
            asked => asked.min(self.bytes.load(Ordering::Relaxed)),
        }
    }

    /// Asks for bytes back.
    pub(super) fn ask(&self, bytes: u64, now_ns: u64) {
        self.asked_at.store(now_ns, Ordering::Relaxed);
        self.asked.store(bytes, Ordering::Release); // pairs with the Acquire in `read`
    }

    /// Takes back that bytes were asked for.
    pub(super) fn forgive(&self) {
        self.asked.store(0, Ordering::Relaxed);
    }

    /// Subtracts `bytes` that are given back, at most all. Returns them.
    pub(super) fn give_back(&self, bytes: u64) -> u64 {
        let given = subtract(&self.bytes, bytes);
        if self.asked.load(Ordering::Relaxed) != 0 {
            subtract(&self.asked, given);
        }
        given
    }

    pub(super) fn read(&self, now_ns: u64) -> LoanState {
        let asked = self.asked.load(Ordering::Acquire); // pairs with the Release in `ask`
        let bytes = self.bytes.load(Ordering::Relaxed);
        let asked_ns = now_ns.saturating_sub(self.asked_at.load(Ordering::Relaxed));
        LoanState { bytes, asked: asked.min(bytes), is_late: asked_ns >= PATIENCE_NS }
    }

    fn clear(&self) {
        for word in [&self.bytes, &self.asked, &self.asked_at] {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// A loan, read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoanState {
    pub(super) bytes: u64,
    /// Bytes that are asked back, not more than there are.
    asked: u64,
    /// They were asked for at least [`PATIENCE_NS`] ago.
    is_late: bool,
}

impl LoanState {
    /// Returns the bytes that will soon be given back.
    pub(super) const fn coming(self) -> u64 {
        if self.is_late { 0 } else { self.asked }
    }

    /// Returns the bytes that are not given back although they were asked for. If a member withholds some, it withholds all.
    pub(super) const fn withheld(self) -> u64 {
        if self.is_late && self.asked > 0 { self.bytes } else { 0 }
    }
}

/// The place of a member.
#[derive(Debug)]
pub(super) struct Place<W> {
    flags: W,
    pub(super) grown: Loan<W>,
    pub(super) cached: Loan<W>,
    /// Time of a demand below the fair share that was refused; 0: none.
    refused_at: W,
}

impl Place<AtomicU64> {
    pub(super) const fn new() -> Self {
        Self {
            flags: AtomicU64::new(0),
            grown: Loan::<AtomicU64>::new(),
            cached: Loan::<AtomicU64>::new(),
            refused_at: AtomicU64::new(0),
        }
    }
}

impl<W: ExchangeWord> Place<W> {
    pub(super) fn of(word: &mut impl FnMut() -> W) -> Self {
        Self { flags: word(), grown: Loan::of(word), cached: Loan::of(word), refused_at: word() }
    }

    /// Takes the place for a member. Returns false if another has it.
    pub(super) fn claim(&self) -> bool {
        // pairs with the Release in `leave`
        self.flags.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Leaves the place to the next member. Nothing is lent any more.
    pub(super) fn leave(&self) {
        self.grown.clear();
        self.cached.clear();
        self.refused_at.store(0, Ordering::Relaxed);
        self.flags.store(0, Ordering::Release); // pairs with the Acquire in `claim`
    }

    pub(super) fn is_idle(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & IDLE != 0
    }

    pub(super) fn set_idle(&self, is_idle: bool) {
        self.flags.store(if is_idle { TAKEN | IDLE } else { TAKEN }, Ordering::Relaxed);
    }

    /// Notes a demand that was refused, or with 0 that it is met.
    pub(super) fn note_demand(&self, now_ns: u64) {
        if self.refused_at.load(Ordering::Relaxed) != now_ns {
            self.refused_at.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Reads the place. None if no member has it.
    pub(super) fn read(&self, now_ns: u64) -> Option<PlaceState> {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & TAKEN == 0 {
            return None;
        }
        Some(PlaceState {
            grown: self.grown.read(now_ns),
            cached: self.cached.read(now_ns),
            is_idle: flags & IDLE != 0,
            waits: is_recent(self.refused_at.load(Ordering::Relaxed), now_ns),
        })
    }
}

/// Returns true if a demand at this time still counts.
pub(super) const fn is_recent(refused_ns: u64, now_ns: u64) -> bool {
    refused_ns != 0 && now_ns.saturating_sub(refused_ns) < DEMAND_NS
}

/// A place, read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceState {
    pub(super) grown: LoanState,
    pub(super) cached: LoanState,
    pub(super) is_idle: bool,
    /// A demand of its member was refused lately.
    pub(super) waits: bool,
}

impl PlaceState {
    /// Returns true if the member has a fair share: it has demand, and does not withhold what it was asked for.
    pub(super) const fn has_demand(self) -> bool {
        self.grown.withheld() == 0 && (self.waits || self.grown.bytes > 0 && !self.is_idle)
    }

    /// Returns the bytes that can be asked back, and were not.
    pub(super) const fn reclaimable(self, class: ReclaimClass, fair_bytes: u64) -> u64 {
        match class {
            ReclaimClass::IdleLanding if self.is_idle && self.grown.asked == 0 => self.grown.bytes,
            ReclaimClass::CachedRegistration if self.cached.asked == 0 => self.cached.bytes,
            ReclaimClass::AboveFairShare if !self.is_idle && self.grown.asked == 0 => {
                self.grown.bytes.saturating_sub(fair_bytes)
            }
            ReclaimClass::IdleLanding | ReclaimClass::CachedRegistration | ReclaimClass::AboveFairShare => 0,
        }
    }
}
