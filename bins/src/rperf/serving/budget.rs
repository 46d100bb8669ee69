//! Limits on the buffers of all clients together, and on the connections that they have beside their control connections.

use crate::exit::{Code, Failure};
use core::cell::Cell;
use std::rc::Rc;
use superpipe::os::Bytes;

/// Most bytes of the buffers of several clients: two that measure messages of 1 GiB both ways. One that is alone may have whatever its PLAN allows.
const BYTES_MAX: u64 = 4 << 30;

/// Buffers and connections of all clients.
#[derive(Debug, Clone)]
pub(super) struct Budget(Rc<Taken>);

#[derive(Debug)]
struct Taken {
    bytes: Cell<u64>,
    places: Cell<u32>,
    places_max: u32,
    /// a client was refused for want of either
    is_short: Cell<bool>,
}

/// Share of one client. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    bytes: u64,
    places: u32,
}

impl Budget {
    /// Makes one for so many connections beside control connections.
    pub(super) fn new(places_max: u32) -> Self {
        Self(Rc::new(Taken {
            bytes: Cell::new(0),
            places: Cell::new(0),
            places_max,
            is_short: Cell::new(false),
        }))
    }

    /// Returns true if a client was refused since the last call, since others have too much.
    pub(super) fn was_short(&self) -> bool {
        self.0.is_short.take()
    }

    /// Returns an empty share.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0, places: 0 }
    }
}

impl Share {
    /// Returns true if it is empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0 && self.places == 0
    }

    /// Reserves connections for a client.
    ///
    /// # Errors
    /// There are not so many.
    pub(super) fn reserve(&mut self, places: u32) -> Result<(), Failure> {
        let Budget(taken) = &self.budget;
        let others = taken.places.get() - self.places;
        let left = taken.places_max.saturating_sub(others);
        if places > left {
            taken.is_short.set(true);
            let text = format!(
                "cannot have {places} further connections of one client: {left} of {} are left; measure later or with fewer, or raise \
                 --connections-max of rperf serve",
                taken.places_max
            );
            return Err(Failure::new(Code::Device, text));
        }
        taken.places.set(others + places);
        self.places = places;
        Ok(())
    }

    /// Makes this the share of a client whose buffers have so many bytes.
    ///
    /// # Errors
    /// Others have buffers, and there is no room for so many beside.
    pub(super) fn set(&mut self, bytes: u64) -> Result<(), Failure> {
        let total = &self.budget.0.bytes;
        let others = total.get() - self.bytes;
        if others > 0 && others.saturating_add(bytes) > BYTES_MAX {
            self.budget.0.is_short.set(true);
            let text = format!(
                "cannot make buffers of {}: those of other clients have {}, and the limit is {}; measure later, or shorter messages",
                Bytes(bytes),
                Bytes(others),
                Bytes(BYTES_MAX)
            );
            return Err(Failure::new(Code::Device, text));
        }
        total.set(others + bytes);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Budget(taken) = &self.budget;
        taken.bytes.set(taken.bytes.get() - self.bytes);
        taken.places.set(taken.places.get() - self.places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clients_have_no_more_than_the_limit() {
        let budget = Budget::new(10);
        let (mut one, mut two) = (budget.share(), budget.share());
        one.set(u64::MAX / 2).unwrap();
        assert!(two.set(1).unwrap_err().text.contains("the limit is 4 GiB"));
        one.set(BYTES_MAX - 5).unwrap();
        two.set(5).unwrap();
        assert!(two.set(6).is_err() && two.set(4).is_ok());
        drop(one);
        two.set(BYTES_MAX + 1).unwrap();
        drop(two);
        assert_eq!(budget.0.bytes.get(), 0);
    }

    #[test]
    fn several_clients_have_no_more_connections_than_the_limit() {
        let budget = Budget::new(10);
        let (mut one, mut two) = (budget.share(), budget.share());
        one.reserve(7).unwrap();
        assert!(two.reserve(4).unwrap_err().text.contains("3 of 10 are left"));
        two.reserve(3).unwrap();
        drop(one);
        two.reserve(10).unwrap();
        assert!(two.reserve(11).is_err());
        drop(two);
        assert_eq!(budget.0.places.get(), 0);
    }
}
