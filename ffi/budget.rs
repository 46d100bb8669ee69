//! The budget of provisioned memory: two limits per process, for registered and for shared memory.

use core::sync::atomic::{AtomicU64, Ordering};
use core::{error, fmt};

use crate::os::Bytes;
use crate::os::limits::memlock;

/// Limit of either kind unless the program or the system sets another: about a thousand connections of the default sizes.
const MAX_BYTES: u64 = 1 << 30;
/// Value of a limit that the program has not set.
const UNSET: u64 = u64::MAX;

static REGISTERED: Account = Account::new();
static SHARED: Account = Account::new();

/// The budget of this process: the limits of the memory that all its connections provision together.
///
/// Registered memory is that of connections over RDMA: the landing buffer, the image of the peer's, and the buffers for control messages.
/// Its limit is by default the soft limit RLIMIT_MEMLOCK, by which the kernel bounds the registered memory of a process; 1 GiB if that is
/// unlimited, or if the calling thread has CAP_IPC_LOCK in the initial user namespace, as root has. It is read again for each connection.
///
/// Shared memory is that of connections over shared memory: both segments, since this process also fills the holes of the peer's. Its limit
/// is 1 GiB by default.
///
/// A connection takes its share before it provisions memory, and before both ends agree; it fails with
/// [`Limit`](crate::ErrorKind::Limit) if there is no room.
#[derive(Debug)]
pub enum Budget {}

/// Kind of memory that a connection provisions. Each has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Memory that is registered with an RDMA device.
    Registered,
    /// Segments that two processes share.
    Shared,
}

/// A connection's share of the budget. Dropping it returns the bytes.
#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "`fabric` shows it with `internals`")
)]
#[derive(Debug)]
pub struct BudgetShare {
    kind: MemoryKind,
    bytes: u64,
}

/// Refusal of a share that exceeds the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverBudget {
    kind: MemoryKind,
    bytes: u64,
    used: u64,
    limit: Limit,
}

/// Limit of one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// The limit is RLIMIT_MEMLOCK, which the program cannot exceed.
    is_memlock: bool,
}

/// Limit and use of one kind of memory.
#[derive(Debug)]
struct Account {
    max: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// Sets the limit for memory that is registered from now on. The kernel refuses more than RLIMIT_MEMLOCK, also if this limit is higher.
    pub fn set_registered_max(bytes: u64) {
        REGISTERED.set_max(bytes);
    }

    /// Sets the limit for memory that is shared from now on.
    pub fn set_shared_max(bytes: u64) {
        SHARED.set_max(bytes);
    }

    /// Returns the bytes that connections have registered.
    #[must_use]
    pub fn registered_bytes() -> u64 {
        REGISTERED.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes that connections share with their peers.
    #[must_use]
    pub fn shared_bytes() -> u64 {
        SHARED.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes of a kind that can still be provisioned.
    pub(crate) fn left_bytes(kind: MemoryKind) -> u64 {
        kind.limit().bytes.saturating_sub(kind.account().used.load(Ordering::Relaxed))
    }
}

impl MemoryKind {
    /// Both kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Registered, Self::Shared];

    const fn account(self) -> &'static Account {
        match self {
            Self::Registered => &REGISTERED,
            Self::Shared => &SHARED,
        }
    }

    fn limit(self) -> Limit {
        match (self.account().max.load(Ordering::Relaxed), self) {
            (UNSET, Self::Registered) => Limit::of_registered(memlock()),
            (UNSET, Self::Shared) => Limit { bytes: MAX_BYTES, is_memlock: false },
            (bytes, _) => Limit { bytes, is_memlock: false },
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered memory",
            Self::Shared => "shared memory",
        }
    }

    /// Returns the function that sets the limit.
    const fn setter(self) -> &'static str {
        match self {
            Self::Registered => "Budget::set_registered_max",
            Self::Shared => "Budget::set_shared_max",
        }
    }
}

impl Limit {
    /// Returns the default for registered memory, of the bytes that the process may pin; none: all.
    fn of_registered(memlock: Option<u64>) -> Self {
        Self { bytes: memlock.unwrap_or(MAX_BYTES), is_memlock: memlock.is_some() }
    }
}

impl Account {
    const fn new() -> Self {
        Self { max: AtomicU64::new(UNSET), used: AtomicU64::new(0) }
    }

    fn set_max(&self, bytes: u64) {
        self.max.store(bytes.min(UNSET - 1), Ordering::Relaxed);
    }

    /// Takes bytes if all that are used do not exceed the limit.
    ///
    /// # Errors
    /// There is no room. Returns the bytes in use.
    fn take(&self, bytes: u64, limit_bytes: u64) -> Result<(), u64> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map(drop)
    }
}

#[cfg_attr(
    not(feature = "internals"),
    expect(unreachable_pub, reason = "`fabric` shows it with `internals`")
)]
impl BudgetShare {
    /// Takes a share of the memory of this kind.
    pub(crate) fn take(kind: MemoryKind, bytes: u64) -> Result<Self, OverBudget> {
        let limit = kind.limit();
        match kind.account().take(bytes, limit.bytes) {
            Ok(()) => Ok(Self { kind, bytes }),
            Err(used) => Err(OverBudget { kind, bytes, used, limit }),
        }
    }

    /// Returns the bytes of this share.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl OverBudget {
    /// Bytes that were requested.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Text for the peer, short enough for a REFUSED.
    pub(crate) fn text_for_the_peer(&self) -> String {
        let Self { kind, bytes, used, limit } = *self;
        format!(
            "its budget of {}{} has no room for {}: {} of {} are in use",
            kind.name(),
            if limit.is_memlock { " (RLIMIT_MEMLOCK)" } else { "" },
            Bytes(bytes),
            Bytes(used),
            Bytes(limit.bytes)
        )
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, used, limit } = *self;
        write!(
            f,
            "cannot provision {} of {} for a connection: {} of the process's {} are in use; close connections, make \
             landing buffers smaller, or raise ",
            Bytes(bytes),
            kind.name(),
            Bytes(used),
            Bytes(limit.bytes)
        )?;
        if limit.is_memlock {
            let now = Bytes(limit.bytes);
            write!(f, "RLIMIT_MEMLOCK (now {now}): ulimit -l, or LimitMEMLOCK= of its service")
        } else {
            write!(f, "the limit with {}", kind.setter())
        }
    }
}

impl error::Error for OverBudget {}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.kind.account().used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe_core::driver::setup::{TEXT_BYTES, Text};

    const MIB: u64 = 1 << 20;

    fn over(kind: MemoryKind, limit: Limit) -> OverBudget {
        OverBudget { kind, bytes: 1044 << 10, used: 7308 << 10, limit }
    }

    #[test]
    fn the_default_for_registered_memory_is_memlock() {
        for (memlock, bytes, is_memlock) in [
            (Some(8 * MIB), 8 * MIB, true),
            (Some(0), 0, true),
            (Some(4 << 30), 4 << 30, true),
            (None, 1 << 30, false),
        ] {
            assert_eq!(Limit::of_registered(memlock), Limit { bytes, is_memlock });
        }
    }

    #[test]
    fn an_account_gives_all_and_no_more() {
        let account = Account::new();
        assert_eq!(account.take(3, 10), Ok(()));
        assert_eq!(account.take(7, 10), Ok(()));
        assert_eq!(account.take(1, 10), Err(10));
        assert_eq!(account.take(u64::MAX, u64::MAX), Err(10), "the sum does not wrap");
        assert_eq!(account.take(0, 9), Err(10), "the limit was lowered");
    }

    #[test]
    fn a_limit_of_all_bytes_is_a_limit_that_was_set() {
        let account = Account::new();
        assert_eq!(account.max.load(Ordering::Relaxed), UNSET);
        account.set_max(u64::MAX);
        assert_eq!(account.max.load(Ordering::Relaxed), u64::MAX - 1);
    }

    #[test]
    fn a_refusal_names_its_kind_and_the_remedy() {
        let memlock = over(MemoryKind::Registered, Limit::of_registered(Some(8 * MIB)));
        assert_eq!(
            memlock.to_string(),
            "cannot provision 1044 KiB of registered memory for a connection: 7308 KiB of the process's 8 MiB are in use; \
             close connections, make landing buffers smaller, or raise RLIMIT_MEMLOCK (now 8 MiB): ulimit -l, or \
             LimitMEMLOCK= of its service"
        );
        let set = Limit { bytes: 8 * MIB, is_memlock: false };
        let [registered, shared] = MemoryKind::ALL.map(|kind| over(kind, set).to_string());
        assert!(registered.ends_with("or raise the limit with Budget::set_registered_max"), "{registered}");
        assert!(
            shared.starts_with("cannot provision 1044 KiB of shared memory for a connection"),
            "{shared}"
        );
        assert!(shared.ends_with("or raise the limit with Budget::set_shared_max"), "{shared}");
    }

    #[test]
    fn a_refusal_fits_the_packet_to_the_peer() {
        let refusal = over(MemoryKind::Registered, Limit::of_registered(Some(7309 << 10)));
        let text = refusal.text_for_the_peer();
        assert_eq!(
            text,
            "its budget of registered memory (RLIMIT_MEMLOCK) has no room for 1044 KiB: 7308 KiB of 7309 KiB are in use"
        );
        assert!(text.len() < TEXT_BYTES);
        assert_eq!(Text::of(&text).to_string(), text);
    }
}
