//! The word by which an end says that it sleeps, and its peer wakes it: wire/shm.md 7.2.
//!
//! ```text
//! sleeper                                    sender, after the stores of a call
//!   fall_asleep: the sleep's number            the payload's flag
//!   barrier on both                            (the sleeper's barrier)
//!   look once more                             sleep_of: none? done
//!   wait for a wake-up                         take: send the wake-up, unless another one did
//!   wake_up
//! ```
//!
//! The orderings are here, so that the loom models check the ones that are shipped. The barrier is not: it is one system call for both ends (membarrier(2)), and comes
//! between the sleeper's store and its look, and between the sender's store and its load. So either the look finds what was sent, or the load finds the sleep. Where a host has no such
//! barrier, a wake-up can be missed, and the sleeper looks again after 1 ms.

use core::sync::atomic::Ordering;

use super::word::{ExchangeWord, Word};

/// Value of the word while its end polls.
pub const AWAKE: u64 = 0;

/// Says that this end sleeps. `number` is not [`AWAKE`], and another one than that of the last sleep. A barrier on both ends has to follow, and then a look.
#[inline]
pub fn fall_asleep(word: &impl Word, number: u64) {
    word.store(number, Ordering::Relaxed);
}

/// Says that this end polls.
#[inline]
pub fn wake_up(word: &impl Word) {
    word.store(AWAKE, Ordering::Relaxed);
}

/// Returns true if a sender has ended the sleep, or there is none.
#[inline]
pub fn is_awake(word: &impl Word) -> bool {
    word.load(Ordering::Relaxed) == AWAKE
}

/// Returns the number of the peer's sleep. `None`: it polls.
#[inline]
pub fn sleep_of(word: &impl Word) -> Option<u64> {
    let number = word.load(Ordering::Relaxed);
    (number != AWAKE).then_some(number)
}

/// Ends the sleep of this number. Returns true if the caller has to send the wake-up: false if the sleep is over already, or another sender ended it.
#[inline]
pub fn take(word: &impl ExchangeWord, number: u64) -> bool {
    word.compare_exchange(number, AWAKE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}
