//! Options of connections and listeners.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use crate::address::Address;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "verbs")]
use crate::fabric::rdma::{AckTimeout, RdmaDevice};
use crate::os::{MemoryNode, WaitStrategy};
use superpipe_core::driver::setup::{Defaults, Tuning};

/// Options of a connection or listener. Set the fields that matter and take the others from the default, since later versions add some:
///
/// ```
/// # use core::time::Duration;
/// # use superpipe::{Options, WaitStrategy};
/// let options = Options { wait: WaitStrategy::Spin, idle_timeout: Duration::from_secs(5), ..Options::default() };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Wait strategy. Default: spin a little, yield a little, then sleep.
    pub wait: WaitStrategy,
    /// Time for which the peer may be silent while this end waits for it. A peer that waits for its own source or disk sends keepalives
    /// and is not silent. Default: 30 s. While a connection is being made, the deadline of that call applies instead.
    pub idle_timeout: Duration,
    /// Bounds a handshake that a listener makes, warm-up included. During the warm-up only the peer's silence counts. Default: 5 s.
    pub handshake_timeout: Duration,
    /// Time for which a connection that is dropped may wait until its data have left this end, and over RDMA for the answer to its disconnect: 100 ms at most on InfiniBand and RoCE once
    /// all is delivered. Default: 1 s. Over shared memory a drop does not wait.
    pub linger: Duration,
    /// RDMA device and GID of this host to use. Default: those that the kernel's routing table gives for the peer.
    #[cfg(feature = "verbs")]
    pub rdma_device: RdmaDevice,
    /// Time after which this end's RDMA device sends again what the peer's has not acknowledged. Default: 67 ms. A packet that is lost comes that
    /// much later, so `idle_timeout`, `handshake_timeout` and `linger` should be several times as long: what a dropped connection has not sent by the
    /// end of `linger` is lost. Over shared memory and iWARP it has no effect.
    #[cfg(feature = "verbs")]
    pub rdma_ack_timeout: AckTimeout,
    /// Uid that the peer's process must have, over shared memory; root is no exception. Default: the uid of this process. The kernel
    /// reports the uid of the process that connected, or began to listen. Over RDMA no one reports it, and the option is refused.
    pub peer_uid: Option<u32>,
    /// Trust in the peer. Default: none. See [`PeerTrust`].
    pub peer_trust: PeerTrust,
    /// Proposals for the settings that both ends negotiate. Default: none.
    pub tuning: Tuning,
    /// Largest landing buffer that a peer may propose, slot lines included, whichever end connects. A larger one is refused before any
    /// memory is provisioned. The size that [`Tuning::landing_bytes`] of this end makes, with its own block length, is always allowed.
    /// Default: 64 MiB.
    pub landing_bytes_max: u32,
    /// Memory node that the memory of connections comes from. Default: that of the thread's memory policy, or of its core.
    pub memory_node: MemoryNode,
    /// Flag that every wait checks: once it is true, the wait ends with [`ErrorKind::Interrupted`]. Default: none.
    pub interrupt: Option<&'static AtomicBool>,
}

/// Trust in the peer of a connection: what it can do with a buffer that messages of it are received into.
///
/// Over shared memory a peer that is trusted can write to a [`TrustedBuf`](crate::TrustedBuf) for ever. Without trust there is no access to one.
///
/// Over RDMA it is about a [`RegisteredBuf`](crate::RegisteredBuf). Without trust, the peer can write to the buffer only while a call
/// receives a message into it: the buffer is registered for each message, and deregistered before the call returns. With trust, the
/// registration is kept with the buffer, which saves both for the next message. The peer can then write to the buffer at any time, until
/// the buffer or the connection is dropped, or a call that receives into it fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTrust {
    is_declared: bool,
}

impl PeerTrust {
    /// No trust.
    pub const NONE: Self = Self { is_declared: false };

    /// Declares that the peer is trusted.
    ///
    /// # Safety
    /// 1. The peer writes to a [`RegisteredBuf`](crate::RegisteredBuf) only while a call of this process receives a message into it, as a superpipe
    ///    without defects does. A write at another time would change bytes behind references of this process. (A
    ///    [`TrustedBuf`](crate::TrustedBuf) has no safe references.)
    #[must_use]
    pub const unsafe fn declare() -> Self {
        Self { is_declared: true }
    }

    /// Returns true if the peer is trusted.
    #[must_use]
    pub const fn is_declared(self) -> bool {
        self.is_declared
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wait: WaitStrategy::default(),
            idle_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            linger: Duration::from_secs(1),
            #[cfg(feature = "verbs")]
            rdma_device: RdmaDevice::default(),
            #[cfg(feature = "verbs")]
            rdma_ack_timeout: AckTimeout::default(),
            peer_uid: None,
            peer_trust: PeerTrust::default(),
            tuning: Tuning::default(),
            landing_bytes_max: 64 << 20,
            memory_node: MemoryNode::default(),
            interrupt: None,
        }
    }
}

impl Options {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(core::sync::atomic::Ordering::Relaxed))
    }

    pub(crate) fn idle_timeout_ns(&self) -> u64 {
        u64::try_from(self.idle_timeout.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the time until which something that begins now may linger.
    pub(crate) fn linger_end_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(u64::try_from(self.linger.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time when a handshake that begins now must be over.
    pub(crate) fn handshake_deadline_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(u64::try_from(self.handshake_timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Checks the options that apply to every fabric.
    ///
    /// # Errors
    /// `Usage`: an option is out of its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.idle_timeout.is_zero() {
            return usage(Err("an idle timeout of zero ends every wait: make it longer"));
        }
        usage(self.memory_node.check())?;
        usage(Defaults::validate(&self.tuning))
    }

    /// Checks the options for shared memory, which is the fabric to `address`.
    ///
    /// # Errors
    /// `Usage`: shared memory cannot do what is proposed, or an option is for RDMA.
    pub(crate) fn check_shm(&self, address: &Address) -> Result<(), Error> {
        usage(Defaults::SHM.negotiate(&self.tuning, &Tuning::default()).map(|_| ()))?;
        if self.has_rdma_device() {
            return usage(Err(format!(
                "{address} is on this host, by shared memory, which has no device and no GID: leave those out, or \
                 write verbs:HOST:PORT"
            )));
        }
        Ok(())
    }

    /// Checks the options for RDMA, which is the fabric to `address`.
    ///
    /// # Errors
    /// `Usage`: a uid is asked for, which RDMA does not report.
    pub(crate) fn check_rdma(&self, address: &Address) -> Result<(), Error> {
        usage(match self.peer_uid {
            None => Ok(()),
            Some(uid) => Err(format!(
                "over RDMA nobody tells the peer's user, and uid {uid} is asked for: leave peer_uid out, or use \
                 shm:PATH instead of {address}"
            )),
        })
    }

    /// Returns true if a device or GID is named, which asks for RDMA.
    #[cfg(feature = "verbs")]
    pub(crate) fn has_rdma_device(&self) -> bool {
        self.rdma_device != RdmaDevice::default()
    }

    #[cfg(not(feature = "verbs"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn has_rdma_device(&self) -> bool {
        false
    }
}

fn usage(checked: Result<(), impl ToString>) -> Result<(), Error> {
    checked.map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))
}
