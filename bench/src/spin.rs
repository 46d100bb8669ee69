//! Polling of a word that the other process writes, with a timeout.

use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use superpipe::os::monotonic_ns;

use crate::failure::Failure;

/// Empty polls between two checks of the clock and of the other process, so that these cost the hot path nothing.
const POLLS_PER_CHECK: u32 = 1 << 16;

/// The end of a wait: after some seconds, or with another process.
pub struct Timeout {
    seconds: u64,
    child: Option<Pid>,
}

impl Timeout {
    /// Ends waits after `seconds` without progress, and at once when `child` has ended.
    #[must_use]
    pub const fn new(seconds: u64, child: Option<Pid>) -> Self {
        Self { seconds, child }
    }

    #[cold]
    fn check(&self, since_ns: &mut Option<u64>) -> Result<(), Failure> {
        let now_ns = monotonic_ns();
        let since_ns = *since_ns.get_or_insert(now_ns);
        if self.child.is_some_and(has_ended) {
            return Err(Failure::PeerLost);
        }
        if now_ns - since_ns > self.seconds * 1_000_000_000 {
            return Err(Failure::Timeout(self.seconds));
        }
        Ok(())
    }
}

/// Polls `word` until it is `wanted`. With `PAUSE` the loop has the CPU's pause instruction, which leaves the
/// line to its writer for longer.
///
/// # Errors
/// [`Failure::Timeout`] or [`Failure::PeerLost`].
#[inline]
pub fn await_word<const PAUSE: bool>(
    word: &AtomicU64,
    wanted: u64,
    timeout: &Timeout,
) -> Result<(), Failure> {
    await_where::<PAUSE>(word, |value| value == wanted, timeout).map(|_| ())
}

/// Polls `word`, a count that only grows, until it is at least `wanted`, and returns it.
///
/// # Errors
/// [`Failure::Timeout`] or [`Failure::PeerLost`].
#[inline]
pub fn await_count(word: &AtomicU64, wanted: u64, timeout: &Timeout) -> Result<u64, Failure> {
    await_where::<true>(word, |value| value >= wanted, timeout)
}

/// The Acquire pairs with the Release store of the word's writer.
#[inline]
fn await_where<const PAUSE: bool>(
    word: &AtomicU64,
    is_wanted: impl Fn(u64) -> bool,
    timeout: &Timeout,
) -> Result<u64, Failure> {
    let mut since_ns = None;
    loop {
        for _ in 0..POLLS_PER_CHECK {
            let value = word.load(Ordering::Acquire);
            if is_wanted(value) {
                return Ok(value);
            }
            if PAUSE {
                hint::spin_loop();
            }
        }
        timeout.check(&mut since_ns)?;
    }
}

/// Returns whether a child has ended, and leaves it to be reaped by its owner.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), options), Ok(None))
}
