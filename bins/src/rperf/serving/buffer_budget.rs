//! Limit on the memory of the buffers of all clients together.

use crate::exit::{Code, Failure};
use core::cell::Cell;
use std::rc::Rc;
use superpipe::os::Bytes;

/// Most bytes of the buffers of several clients: two that measure messages of 1 GiB both ways. One that is alone may have whatever its PLAN allows.
const BYTES_MAX: u64 = 4 << 30;

/// Bytes of the buffers of all clients.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferBudget(Rc<Cell<u64>>);

/// Share of one client. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct BufferShare {
    budget: BufferBudget,
    bytes: u64,
}

impl BufferBudget {
    /// Returns an empty share.
    pub(super) fn share(&self) -> BufferShare {
        BufferShare { budget: self.clone(), bytes: 0 }
    }
}

impl BufferShare {
    /// Makes this the share of a client whose buffers have so many bytes.
    ///
    /// # Errors
    /// Others have buffers, and there is no room for so many beside.
    pub(super) fn set(&mut self, bytes: u64) -> Result<(), Failure> {
        let BufferBudget(total) = &self.budget;
        let others = total.get() - self.bytes;
        if others > 0 && others.saturating_add(bytes) > BYTES_MAX {
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

impl Drop for BufferShare {
    fn drop(&mut self) {
        let BufferBudget(total) = &self.budget;
        total.set(total.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clients_have_no_more_than_the_limit() {
        let budget = BufferBudget::default();
        let (mut one, mut two) = (budget.share(), budget.share());
        one.set(u64::MAX / 2).unwrap();
        assert!(two.set(1).unwrap_err().text.contains("the limit is 4 GiB"));
        one.set(BYTES_MAX - 5).unwrap();
        two.set(5).unwrap();
        assert!(two.set(6).is_err() && two.set(4).is_ok());
        drop(one);
        two.set(BYTES_MAX + 1).unwrap();
        drop(two);
        assert_eq!(budget.0.get(), 0);
    }
}
