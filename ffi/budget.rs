//! The budget of provisioned memory: two limits per process, for registered and for shared memory. `superpipe_core::budget` counts;
//! [`BudgetShare`] is what a connection has of it.

mod charge;
mod share;

use core::sync::atomic::{AtomicU64, Ordering};
use core::{error, fmt};

use superpipe_core::budget::{NoRoom, Pool, Terms, Use};

use crate::os::limits::memlock;
use crate::os::{Bytes, monotonic_ns};

pub(crate) use charge::Charge;
pub use share::{BudgetShare, Refused};

/// Limit of either kind unless the program or the system sets another: about a thousand connections of the default sizes.
const MAX_BYTES: u64 = 1 << 30;
/// Value of a limit that the program has not set.
const UNSET: u64 = u64::MAX;
/// Connections per kind of memory that can grow at a time. Others connect, and stay as they begin. A place is 64 bytes, in pages that are
/// not touched before.
const PLACES: usize = 1 << 14;

type ProcessPool = Pool<AtomicU64, PLACES>;

// Apart from the limits: they are all zero, so they take no room in a program's file.
static REGISTERED_POOL: ProcessPool = Pool::new();
static SHARED_POOL: ProcessPool = Pool::new();
static REGISTERED: Account = Account::new(&REGISTERED_POOL);
static SHARED: Account = Account::new(&SHARED_POOL);

/// The budget of this process: the limits of the memory that all its connections provision together.
///
/// Registered memory is that of connections over RDMA: landing buffers, images of the peer's, the buffers for control messages, and memory of
/// the program while it is registered ([`RegisteredBuf`](crate::RegisteredBuf), or with
/// [`Protocol::Register`](superpipe_core::Protocol::Register) the slices of a call). Its limit is by default the soft limit RLIMIT_MEMLOCK,
/// by which the kernel bounds the registered memory of a process; 1 GiB if that is unlimited, or if the calling thread has CAP_IPC_LOCK in
/// the initial user namespace, as root has. It is read again for each connection.
///
/// Shared memory is that of connections over shared memory: both segments, since this process also fills the holes of the peer's, and
/// registered and trusted buffers of either end while a connection has them. Its limit is 1 GiB by default.
///
/// A connection takes its share before it provisions memory, and before both ends agree; it fails with
/// [`Limit`](crate::ErrorKind::Limit) if there is no room. A quarter of each limit is kept for that, and never lent to what is provisioned
/// while communicating: landing buffers that grow, and registrations. What finds no room there fails nothing: the messages go through the
/// blocks that exist, and are slower.
#[derive(Debug)]
pub enum Budget {}

/// Bytes of one kind of memory in use, by their purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BudgetUse {
    /// What connections took when they began, and keep until they end.
    pub reserved_bytes: u64,
    /// What they have grown by while communicating.
    pub grown_bytes: u64,
    /// Registered buffers whose registrations are kept for their next use, and trusted buffers that are exposed; over shared memory those of both
    /// ends.
    pub cached_bytes: u64,
    /// Count of connections, including those that are being made.
    pub connections: u64,
}

/// Kind of memory that a connection provisions. Each has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory that is registered with an RDMA device.
    Registered,
    /// Segments that two processes share.
    Shared,
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
    pool: &'static ProcessPool,
}

impl Budget {
    /// Sets the limit, in bytes, for memory that is registered from now on. What is in use stays, also above the limit. The kernel refuses
    /// more than RLIMIT_MEMLOCK where that binds the process, also if this limit is higher. A connection that is being made has 8 KiB
    /// registered for the handshake before it takes its share.
    pub fn set_registered_max(bytes: u64) {
        REGISTERED.set_max(bytes);
    }

    /// Sets the limit, in bytes, for memory that is shared from now on. What is in use stays, also above the limit.
    pub fn set_shared_max(bytes: u64) {
        SHARED.set_max(bytes);
    }

    /// Returns the bytes that connections have registered.
    #[must_use]
    pub fn registered_bytes() -> u64 {
        REGISTERED.pool.used()
    }

    /// Returns the bytes that connections share with their peers.
    #[must_use]
    pub fn shared_bytes() -> u64 {
        SHARED.pool.used()
    }

    /// Returns the registered memory in use, by its purpose.
    #[must_use]
    pub fn registered_use() -> BudgetUse {
        REGISTERED.pool.usage().into()
    }

    /// Returns the shared memory in use, by its purpose.
    #[must_use]
    pub fn shared_use() -> BudgetUse {
        SHARED.pool.usage().into()
    }

    /// Returns the bytes of a kind that can still be provisioned.
    pub(crate) fn left_bytes(kind: MemoryKind) -> u64 {
        kind.limit().bytes.saturating_sub(kind.pool().used())
    }

    /// Returns the bytes of a kind that connections were asked to give back, and have some milliseconds left to do so.
    pub(crate) fn coming_bytes(kind: MemoryKind) -> u64 {
        kind.pool().coming(monotonic_ns())
    }
}

impl From<Use> for BudgetUse {
    fn from(Use { used: _, reserved, grown, cached, members }: Use) -> Self {
        Self { reserved_bytes: reserved, grown_bytes: grown, cached_bytes: cached, connections: members }
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

    const fn pool(self) -> &'static ProcessPool {
        self.account().pool
    }

    fn limit(self) -> Limit {
        match (self.account().max.load(Ordering::Relaxed), self) {
            (UNSET, Self::Registered) => Limit::of_registered(memlock()),
            (UNSET, Self::Shared) => Limit { bytes: MAX_BYTES, is_memlock: false },
            (bytes, _) => Limit { bytes, is_memlock: false },
        }
    }

    /// Returns the limit of this kind.
    pub(crate) fn limit_bytes(self) -> u64 {
        self.limit().bytes
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

    /// Returns the terms of a call that is made now.
    fn terms(self) -> Terms {
        Terms { limit_bytes: self.bytes, now_ns: monotonic_ns() }
    }
}

impl Account {
    const fn new(pool: &'static ProcessPool) -> Self {
        Self { max: AtomicU64::new(UNSET), pool }
    }

    fn set_max(&self, bytes: u64) {
        self.max.store(bytes.min(UNSET - 1), Ordering::Relaxed);
    }
}

impl OverBudget {
    const fn new(kind: MemoryKind, bytes: u64, limit: Limit, NoRoom { used }: NoRoom) -> Self {
        Self { kind, bytes, used, limit }
    }

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
        write_remedy(f, kind, limit)
    }
}

/// Writes how to raise the limit, behind "raise ".
fn write_remedy(f: &mut fmt::Formatter<'_>, kind: MemoryKind, limit: Limit) -> fmt::Result {
    if limit.is_memlock {
        let now = Bytes(limit.bytes);
        write!(f, "RLIMIT_MEMLOCK (now {now}): ulimit -l, or LimitMEMLOCK= of its service")
    } else {
        write!(f, "the limit with {}", kind.setter())
    }
}

impl error::Error for OverBudget {}

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
    fn a_limit_of_all_bytes_is_a_limit_that_was_set() {
        let account = Account::new(&SHARED_POOL);
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
