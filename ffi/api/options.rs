//! What a connection can be told.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use crate::os::WaitStrategy;
use crate::tuning::Tuning;

/// Options of a connection or listener.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How to wait. Default: spin a little, yield a little, then sleep.
    pub wait: WaitStrategy,
    /// How long the peer may be silent while it is waited for. A peer whose own source or disk is slow is not silent.
    /// Default: 30 s.
    pub idle_timeout: Duration,
    /// Bounds a handshake. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Wishes, which either end may have.
    pub tuning: Tuning,
    /// The most that a peer's wishes may make the landing buffer. Default: 64 MiB.
    pub landing_bytes_max: u32,
    /// Looked at in every wait; once it is true, the wait ends with
    /// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted).
    pub interrupt: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: WaitStrategy::default(),
            idle_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            tuning: Tuning::default(),
            landing_bytes_max: 64 << 20,
            interrupt: None,
        }
    }
}

impl Options {
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(core::sync::atomic::Ordering::Relaxed))
    }
}
