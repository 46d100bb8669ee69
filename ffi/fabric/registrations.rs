//! Registrations of a buffer with devices, which end with the buffer.

use core::any::Any;
use core::fmt;
use core::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Registration = Arc<dyn Any + Send + Sync>;

/// Registrations that a buffer owns. The drop of one deregisters.
#[derive(Default)]
pub(crate) struct Registrations(Mutex<Vec<Registration>>);

impl Registrations {
    /// Adds a registration.
    pub(crate) fn add(&self, registration: Registration) {
        self.lock().push(registration);
    }

    /// Removes a registration, which ends once nobody else has it.
    pub(crate) fn remove<T: Send + Sync + 'static>(&self, registration: &Arc<T>) {
        let address = Arc::as_ptr(registration).cast::<()>();
        let mut all = self.lock();
        let index = all.iter().position(|it| ptr::addr_eq(Arc::as_ptr(it), address));
        let removed = index.map(|index| all.swap_remove(index));
        // A drop takes as long as the device needs.
        drop(all);
        drop(removed);
    }

    /// Ends all registrations.
    pub(crate) fn end(&self) {
        let all = core::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registrations").field("count", &self.lock().len()).finish()
    }
}
