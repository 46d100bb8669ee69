//! Pauses of a half that the other keeps from the transport.

use core::hint;
use core::time::Duration;
use std::thread;

/// Moments in which the lock was not free, before the core is given to the other half.
const MOMENTS_SPUN: u32 = 4;
/// Moments after which yielding has not helped: the other half may have a lower priority, and needs this one to sleep.
const MOMENTS_YIELDED: u32 = 256;
/// A sleep for that. Each time after as many moments again it is so much longer: a wait costs little, however long the other half gets no core.
const PAUSE: Duration = Duration::from_micros(50);
/// The longest sleep is so many pauses: a millisecond.
const PAUSES_MAX: u32 = 20;

/// Pauses after a number of refused moments. Returns true if another thread may have had the core meanwhile.
pub(super) fn pause(refused: u32) -> bool {
    match refused {
        0..MOMENTS_SPUN => hint::spin_loop(),
        MOMENTS_SPUN..MOMENTS_YIELDED => thread::yield_now(),
        _ => thread::sleep(PAUSE * (refused / MOMENTS_YIELDED).min(PAUSES_MAX)),
    }
    refused >= MOMENTS_SPUN
}
