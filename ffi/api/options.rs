//! Options of connections and listeners.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use super::address::Address;
use super::error::{Error, ErrorKind};
use crate::os::WaitStrategy;
#[cfg(feature = "verbs")]
use crate::rdma::Route;
use crate::tuning::{Terms, Tuning};

/// Options of a connection or listener.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Wait strategy. Default: spin a little, yield a little, then sleep.
    pub wait: WaitStrategy,
    /// Time for which the peer may be silent while this end waits for it. A peer whose own source or disk is slow is not silent.
    /// Default: 30 s. While a connection is being made, the deadline of that call holds instead.
    pub idle_timeout: Duration,
    /// Bounds a handshake that a listener makes, warm-up included. During the warm-up only the peer's silence counts. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Time for which a connection that is dropped may wait until its data have left this end. Default: 1 s. Over shared memory
    /// nothing is waited for.
    pub linger: Duration,
    /// Way out of this host: the RDMA device and its GID. Default: those that have the way to the peer.
    #[cfg(feature = "verbs")]
    pub route: Route,
    /// User whom the peer must belong to, over shared memory; root is no exception. Default: the user of this process. The kernel
    /// names the peer's user: whoever connected, or began to listen. Over RDMA nobody does, and the option is refused.
    pub peer_uid: Option<u32>,
    /// Wishes, which either end may have.
    pub tuning: Tuning,
    /// The most that a peer may make the landing buffer, slot lines included, whichever end connects: a larger one is refused
    /// before anything is provisioned. As much as [`Tuning::landing_bytes`] of this end makes, with its own block length, is allowed
    /// as well. Default: 64 MiB.
    pub landing_bytes_max: u32,
    /// Looked at in every wait; once it is true, the wait ends with
    /// [`ErrorKind::Interrupted`].
    pub interrupt: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: WaitStrategy::default(),
            idle_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            linger: Duration::from_secs(1),
            #[cfg(feature = "verbs")]
            route: Route::default(),
            peer_uid: None,
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

    pub(super) fn idle_timeout_ns(&self) -> u64 {
        u64::try_from(self.idle_timeout.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Time when a handshake that begins now must be over.
    pub(super) fn handshake_deadline_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(u64::try_from(self.handshake_timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Checks the wishes that hold whichever the fabric.
    ///
    /// # Errors
    /// `Usage`: what is wished for cannot be.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.idle_timeout.is_zero() {
            return usage(Err("an idle timeout of zero ends every wait: make it longer"));
        }
        usage(self.tuning.validate())
    }

    /// Checks what concerns shared memory, to reach `address` by.
    ///
    /// # Errors
    /// `Usage`: what is wished for cannot be there, or is for RDMA.
    pub(super) fn check_shm(&self, address: &Address) -> Result<(), Error> {
        usage(self.tuning.settle(&Tuning::default(), &Terms::SHM).map(|_| ()))?;
        if self.has_route() {
            return usage(Err(format!(
                "{address} is on this host, by shared memory, which has no device and no GID: leave those out, or \
                 write verbs:HOST:PORT"
            )));
        }
        Ok(())
    }

    /// Checks what concerns RDMA, to reach `address` by.
    ///
    /// # Errors
    /// `Usage`: a user is asked for, whom nobody tells there.
    pub(super) fn check_verbs(&self, address: &Address) -> Result<(), Error> {
        usage(match self.peer_uid {
            None => Ok(()),
            Some(uid) => Err(format!(
                "over RDMA nobody tells the peer's user, and uid {uid} is asked for: leave --peer-uid out, or use \
                 shm:PATH instead of {address}"
            )),
        })
    }

    /// Returns true if a device or GID is named, which asks for RDMA.
    #[cfg(feature = "verbs")]
    pub(super) fn has_route(&self) -> bool {
        self.route != Route::default()
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(super) const fn has_route(&self) -> bool {
        false
    }
}

fn usage(checked: Result<(), impl ToString>) -> Result<(), Error> {
    checked.map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))
}
