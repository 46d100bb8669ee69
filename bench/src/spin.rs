//! Polling a word that the other process writes, with an end to every wait.

use core::hint;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::clock::now_ns;
use crate::failure::Failure;

/// Empty rounds between two looks at the clock and at the other process: they cost the hot path nothing.
const ROUNDS_BETWEEN_LOOKS: u32 = 1 << 16;

/// How long a wait may last, and on whom.
pub struct Patience {
    seconds: u64,
    child: Option<libc::pid_t>,
}

impl Patience {
    /// Waits end after `seconds` without progress, and at once when `child` has ended.
    #[must_use]
    pub const fn new(seconds: u64, child: Option<libc::pid_t>) -> Self {
        Self { seconds, child }
    }

    #[cold]
    fn look(&self, since_ns: &mut Option<u64>) -> Result<(), Failure> {
        let now_ns = now_ns();
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

/// Polls `word` until it is `wanted`; with `PAUSE` the loop has the CPU's pause instruction, which leaves the
/// line to its writer for longer.
///
/// # Errors
/// [`Failure::Timeout`] or [`Failure::PeerLost`].
#[inline]
pub fn await_word<const PAUSE: bool>(
    word: &AtomicU64,
    wanted: u64,
    patience: &Patience,
) -> Result<(), Failure> {
    await_where::<PAUSE>(word, |value| value == wanted, patience).map(|_| ())
}

/// Polls `word`, a count that only grows, until it is at least `wanted`, and gives what it is then.
///
/// # Errors
/// [`Failure::Timeout`] or [`Failure::PeerLost`].
#[inline]
pub fn await_count(word: &AtomicU64, wanted: u64, patience: &Patience) -> Result<u64, Failure> {
    await_where::<true>(word, |value| value >= wanted, patience)
}

/// The Acquire pairs with the Release store of whoever writes the word.
#[inline]
fn await_where<const PAUSE: bool>(
    word: &AtomicU64,
    is_wanted: impl Fn(u64) -> bool,
    patience: &Patience,
) -> Result<u64, Failure> {
    let mut since_ns = None;
    loop {
        for _ in 0..ROUNDS_BETWEEN_LOOKS {
            let value = word.load(Ordering::Acquire);
            if is_wanted(value) {
                return Ok(value);
            }
            if PAUSE {
                hint::spin_loop();
            }
        }
        patience.look(&mut since_ns)?;
    }
}

fn has_ended(child: libc::pid_t) -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is writable and of the right type; WNOWAIT leaves the child to be reaped by its owner.
    let status = unsafe { libc::waitid(libc::P_PID, child.unsigned_abs(), info.as_mut_ptr(), flags) };
    // SAFETY: zeros are a valid siginfo_t, and waitid writes a valid one.
    let info = unsafe { info.assume_init() };
    // SAFETY: si_pid reads the union member that waitid fills, which stays zero if no child has changed state.
    status != 0 || unsafe { info.si_pid() } != 0
}
