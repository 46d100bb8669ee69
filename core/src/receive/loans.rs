//! Messages that the application reads in place: the table of loans. It has a fixed capacity, and names each loan by a place and a generation.
//!
//! The receiving half goes on behind a message that it lends. Its blocks are consumed once the application gives the loan back, in any order. Blocks
//! are acknowledged in the order of the ring, so the acknowledgement stops before the oldest loan that is held ([`Loans::held_from`]).

use core::hash::{Hash, Hasher};

use super::laps::Size;
use crate::wire::part::Part;

/// Most loans of a connection at a time. Each takes about 100 bytes in every endpoint.
pub const LOANS_MAX: usize = 16;

/// A message that is read in place: it lies in the landing buffer until [`Endpoint::give_back`](crate::Endpoint::give_back). Clones name the same
/// loan. A stale one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Loan {
    /// The sender's tag.
    pub tag: u64,
    /// Bytes of the message.
    pub bytes: u32,
    place: u8,
    generation: u32,
}

/// A message that was taken off the head, to be read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaned<M> {
    pub(crate) bytes: u32,
    /// A message around the end of a lap, or of a landing buffer that was left, has two parts.
    pub(super) parts: [Option<Part<M>>; 2],
    /// Blocks that were taken before it, and the sequence of its first chunk.
    pub(crate) begin: u64,
    pub(crate) sequence: u64,
}

/// A loan that is held.
#[derive(Clone, Copy, Debug)]
struct Held<M> {
    loaned: Loaned<M>,
    size: Size,
}

/// A place of the table.
#[derive(Clone, Copy, Debug)]
struct Place<M> {
    generation: u32,
    held: Option<Held<M>>,
}

/// The loans that are held.
#[derive(Clone, Debug)]
pub(crate) struct Loans<M> {
    places: [Place<M>; LOANS_MAX],
    /// The oldest loan's first block, counted over the connection, and the sequence of its first chunk.
    oldest: Option<(u64, u64)>,
    count: u8,
}

impl<M: Copy> Loans<M> {
    pub(crate) const fn new() -> Self {
        Self { places: [const { Place { generation: 0, held: None } }; LOANS_MAX], oldest: None, count: 0 }
    }

    /// Returns the count of the blocks before the oldest loan, which may be acknowledged. `None` if no loan is held.
    #[inline]
    pub(crate) const fn held_from(&self) -> Option<u64> {
        match self.oldest {
            None => None,
            Some((begin, _)) => Some(begin),
        }
    }

    /// Returns the sequence of the oldest loan's first chunk.
    pub(crate) const fn oldest_sequence(&self) -> Option<u64> {
        match self.oldest {
            None => None,
            Some((_, sequence)) => Some(sequence),
        }
    }

    /// Returns the number of loans that are held.
    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.count() == LOANS_MAX
    }

    /// Returns a loan that is held.
    fn held(&self, loan: Loan) -> Option<Held<M>> {
        let place = self.places.get(usize::from(loan.place))?;
        planted!(StaleLoanTaken => return place.held);
        place.held.filter(|_| place.generation == loan.generation)
    }

    /// Forgets that the oldest loan holds acknowledgements: a bug that can be planted.
    pub(crate) const fn forget_oldest(&mut self) {
        self.oldest = None;
    }

    /// Adds the newest message. Returns `None` if the table is full.
    pub(crate) fn add(&mut self, tag: u64, loaned: Loaned<M>, size: Size) -> Option<Loan> {
        let index = self.places.iter().position(|place| place.held.is_none())?;
        let place = self.places.get_mut(index)?;
        place.held = Some(Held { loaned, size });
        self.count += 1;
        self.oldest = self.oldest.or(Some((loaned.begin, loaned.sequence)));
        let generation = place.generation;
        Some(Loan { tag, bytes: loaned.bytes, place: index.to_le_bytes()[0], generation })
    }

    /// Takes a loan back. `consumed` blocks were taken over the connection. Returns the size class of its message; `None` if the loan is stale.
    pub(crate) fn take_back(&mut self, loan: Loan, consumed: u64) -> Option<Size> {
        let Held { loaned, size } = self.held(loan)?;
        let place = self.places.get_mut(usize::from(loan.place))?;
        *place = Place { generation: place.generation.wrapping_add(1), held: None };
        self.count -= 1;
        planted!(LoanOutOfOrder => self.oldest = None);
        if self.held_from() == Some(loaned.begin) {
            let held = self.places.iter().filter_map(|place| place.held.as_ref());
            let oldest = held.max_by_key(|held| consumed.wrapping_sub(held.loaned.begin));
            self.oldest = oldest.map(|held| (held.loaned.begin, held.loaned.sequence));
        }
        Some(size)
    }

    /// Returns the span (memory, offset, bytes) that has the payload of a loan from its byte `offset` on, as far as it is contiguous; `None` if the
    /// loan is stale, or has no such byte.
    pub(crate) fn span_at(&self, loan: Loan, offset: u32) -> Option<(M, u32, u32)> {
        let mut skip = offset;
        for part in self.held(loan)?.loaned.parts.into_iter().flatten() {
            if skip < part.bytes {
                let (at, bytes) = part.span_at(skip);
                return Some((part.memory, at, bytes));
            }
            skip -= part.bytes;
        }
        None
    }

    /// Returns true if the loan is held.
    pub(crate) fn is_held(&self, loan: Loan) -> bool {
        self.held(loan).is_some()
    }
}

impl<M> Hash for Loans<M> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { places, oldest, count } = self;
        (oldest, count).hash(hasher);
        for place in places {
            place.held.as_ref().map(|held| (held.loaned.begin, held.loaned.sequence)).hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaned(begin: u64) -> Loaned<()> {
        Loaned { bytes: 0, parts: [None; 2], begin, sequence: begin + 1 }
    }

    #[test]
    fn the_oldest_loan_holds_the_acknowledgement() {
        for origin in [0, u64::MAX - 4] {
            let at = |blocks: u64| origin.wrapping_add(blocks);
            let mut loans = Loans::new();
            let [a, b, c] = [2, 3, 7].map(|blocks| {
                let loaned = Loaned { begin: at(blocks), ..loaned(0) };
                loans.add(9, loaned, Size::Short).unwrap()
            });
            assert_eq!(loans.held_from(), Some(at(2)));
            assert!(loans.take_back(b, at(9)).is_some());
            assert_eq!(loans.held_from(), Some(at(2)));
            assert!(loans.take_back(a, at(9)).is_some());
            assert_eq!((loans.held_from(), loans.count()), (Some(at(7)), 1));
            assert!(loans.take_back(c, at(9)).is_some());
            assert_eq!((loans.held_from(), loans.oldest_sequence(), loans.count()), (None, None, 0));
        }
    }

    #[test]
    fn a_stale_loan_names_nothing() {
        let mut loans = Loans::new();
        let old = loans.add(0, loaned(0), Size::Short).unwrap();
        assert!(loans.take_back(old, 1).is_some());
        let new = loans.add(0, loaned(1), Size::Short).unwrap();
        assert!(loans.take_back(old, 2).is_none() && !loans.is_held(old));
        assert!(loans.is_held(new) && loans.held_from() == Some(1));
    }

    #[test]
    fn a_full_table_refuses() {
        let mut loans = Loans::new();
        for begin in 0..LOANS_MAX as u64 {
            assert!(!loans.is_full() && loans.add(0, loaned(begin), Size::Short).is_some());
        }
        assert!(loans.is_full() && loans.add(0, loaned(99), Size::Short).is_none());
    }
}
