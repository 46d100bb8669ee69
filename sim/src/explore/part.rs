//! Parts of a state: shared by all the states that have one in common, and fingerprinted once.

use core::cell::Cell;
use core::hash::Hash;
use core::ops::Deref;
use std::rc::Rc;

use rustc_stable_hash::FromStableHash;
use rustc_stable_hash::hashers::{SipHasher128Hash, StableSipHasher128};

/// 128 bits that stand for a value. Among n states two share theirs with a probability of about n^2 / 2^129: for ten
/// million, 1.5e-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Print(u128);

impl FromStableHash for Print {
    type Hash = SipHasher128Hash;

    fn from(SipHasher128Hash([low, high]): SipHasher128Hash) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }
}

impl Print {
    /// Of a value's `Hash`.
    pub(super) fn of(value: &impl Hash) -> Self {
        let mut hasher = StableSipHasher128::new();
        value.hash(&mut hasher);
        hasher.finish()
    }
}

/// A part that is copied when it is changed.
#[derive(Clone, Debug)]
pub(super) struct Part<T> {
    value: Rc<T>,
    print: Cell<Option<Print>>,
}

impl<T: Clone + Hash> Part<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Rc::new(value), print: Cell::new(None) }
    }

    pub(super) fn change(&mut self) -> &mut T {
        self.print.set(None);
        Rc::make_mut(&mut self.value)
    }

    pub(super) fn print(&self) -> Print {
        let print = self.print.get().unwrap_or_else(|| Print::of(&*self.value));
        self.print.set(Some(print));
        print
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
