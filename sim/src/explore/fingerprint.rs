//! Fingerprints, and the parts of states, which states share and which are fingerprinted once.

use core::cell::Cell;
use core::hash::Hash;
use core::ops::Deref;
use std::rc::Rc;

use rustc_stable_hash::FromStableHash;
use rustc_stable_hash::hashers::{SipHasher128Hash, StableSipHasher128};

/// 128 bits that stand for a value. Two of n states share theirs with a probability of n^2 / 2^129, which is 1.5e-25 for ten
/// million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint(u128);

impl FromStableHash for Fingerprint {
    type Hash = SipHasher128Hash;

    fn from(SipHasher128Hash([low, high]): SipHasher128Hash) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }
}

impl Fingerprint {
    /// Returns the fingerprint of a value by its `Hash`.
    pub(super) fn of(value: &impl Hash) -> Self {
        let mut hasher = StableSipHasher128::new();
        value.hash(&mut hasher);
        hasher.finish()
    }
}

/// A value that is copied when it is changed, with its fingerprint.
#[derive(Clone, Debug)]
pub(super) struct CopyOnWrite<T> {
    value: Rc<T>,
    fingerprint: Cell<Option<Fingerprint>>,
}

impl<T: Clone + Hash> CopyOnWrite<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Rc::new(value), fingerprint: Cell::new(None) }
    }

    pub(super) fn change(&mut self) -> &mut T {
        self.fingerprint.set(None);
        Rc::make_mut(&mut self.value)
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        let fingerprint = self.fingerprint.get().unwrap_or_else(|| Fingerprint::of(&*self.value));
        self.fingerprint.set(Some(fingerprint));
        fingerprint
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
