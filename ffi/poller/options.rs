//! Options of a poller.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use crate::os::WaitStrategy;

/// Options of a [`Poller`](super::Poller).
#[derive(Clone, Copy, Debug)]
pub struct PollerOptions {
    /// Connections that it has at most, those that are being made included: at least 1, and with `listeners_max` at most 65,536; [`Poller::new`](super::Poller::new) refuses others. Default: 1,024. A listener accepts no one while there is no place: clients wait.
    pub connections_max: u32,
    /// Listeners that it has at most, 65,536 with the connections. Default: 8.
    pub listeners_max: u32,
    /// Rest of [`Poller::poll`](super::Poller::poll) while nothing happens. [`WaitStrategy::Sleep`] leaves the core to others after some two hundred rounds, and costs the peer that wakes it
    /// a system call. [`Options::wait`](crate::Options::wait) of a connection is for its own calls that wait. Default: sleep.
    pub wait: WaitStrategy,
    /// Shortest time without movement after which a connection is armed in a round; 256 looks at which the time was known must have found nothing, too, and one connection is armed
    /// per 16 µs on average. An armed connection is not polled: its peer wakes it, which costs both ends system calls. Before the poller itself sleeps, it arms all connections that have no work,
    /// whatever this is. Longer, and connections that are used now and then stay fast; shorter, and few connections make the others slower. Zero: after one look, at that rate. Default: 1 ms.
    pub quiet_after: Duration,
    /// Flag that a call checks while it waits: once it is true, the wait ends with [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted). A poller with a flag wakes every 50 ms. Default: none.
    pub interrupt: Option<&'static AtomicBool>,
}

impl Default for PollerOptions {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            listeners_max: 8,
            wait: WaitStrategy::default(),
            quiet_after: Duration::from_millis(1),
            interrupt: None,
        }
    }
}

impl PollerOptions {
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
