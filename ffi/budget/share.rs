//! A connection's share of the budget.
//!
//! A share has a minimum from the beginning, [`open`](BudgetShare::open) or [`take`](BudgetShare::take), and returns everything when it is
//! dropped. `take` is for a connection whose landing buffer is granted while connecting: its whole share is the minimum. What is
//! [grown](BudgetShare::grow) and [cached](BudgetShare::cache) is lent: it can be refused, and asked back. `superpipe_core::budget` has the
//! rules.
//!
//! # How a fabric and its driver use it
//!
//! | when | call |
//! |---|---|
//! | before both ends agree | `open` with the control page, its image, and the receive pool; `OverBudget` refuses the peer |
//! | `Job::ProvisionLanding` or `Job::ProvisionImage` begins | `grow` by all that the job makes this process pay for: over shared memory both ends pay for a landing buffer, since a write may allocate its pages again; over RDMA each end pays for what it registers |
//! | that is refused | the job fails with `JobFailed::OverBudget`, whose `bytes_max` is that of [`Refused`] divided by what the process pays for a byte of the ring. Core answers GROW-REFUSED or gives the grant back, and the transfer goes on in the blocks that exist |
//! | that job fails later | `shrink` by the same bytes, once nothing of it is left |
//! | `Job::ReleaseLanding` or `Job::ReleaseImage` has finished | `shrink` by the same bytes. Not when it begins: the memory is in use until then |
//! | each tick | [`must_shrink`](BudgetShare::must_shrink), then `Endpoint::shrink()`. It may be called again while it is under way |
//! | each tick, with a cache | [`cached_excess_bytes`](BudgetShare::cached_excess_bytes): deregister so much, the least recently used first, then `uncache` |
//! | nothing was received for a while, and again at the first chunk | [`note_idle`](BudgetShare::note_idle). `grow` ends idleness, too |
//! | the link is dropped | drop the share after all memory is released |
//!
//! Two epochs of a direction can live at a time, and both count. So the next size must fit beside the present one; an end that has no room for
//! both can give the present one back first.
//!
//! An end cannot ask for the release of an image, since its peer owns the landing buffer. These bytes come back when the peer shrinks, or
//! when the connection ends. If they were asked back, the share counts until then as one that withholds.
//!
//! No call allocates or takes a lock. `must_shrink`, `excess_bytes` and `cached_excess_bytes` are one relaxed load if there is nothing to
//! give back.
//!
//! **After fork** the child has a copy of all counts, with the shares that it inherited. A share that is dropped there returns its bytes to
//! the copy; one that is not stays counted in the child. The parent's counts do not change. If another thread was in a call at that time,
//! its bytes may stay counted in the child as well. No call there can block or fail because of it.

use core::{error, fmt};

use superpipe_core::budget::{Member, Refusal, RefusalCause, reserve};

use super::{Limit, MemoryKind, OverBudget, PLACES, ProcessPool, write_remedy};
use crate::os::{Bytes, monotonic_ns};

/// A connection's share of the budget. Dropping it returns the bytes.
#[derive(Debug)]
pub struct BudgetShare {
    kind: MemoryKind,
    member: Member,
}

/// Refusal of growth. The connection goes on with what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    kind: MemoryKind,
    bytes: u64,
    limit: Limit,
    refusal: Refusal,
}

impl BudgetShare {
    /// Takes a share of the memory of this kind, which never grows.
    pub(crate) fn take(kind: MemoryKind, bytes: u64) -> Result<Self, OverBudget> {
        let limit = kind.limit();
        let member = kind.pool().open_fixed(bytes, limit.terms());
        let member = member.map_err(|no_room| OverBudget::new(kind, bytes, limit, no_room))?;
        Ok(Self { kind, member })
    }

    /// Opens a share of the memory of this kind, which has `minimum_bytes` and may grow.
    ///
    /// # Errors
    /// There is no room. If it makes room, connections that have grown are asked to give back, so another attempt after some milliseconds may succeed.
    pub fn open(kind: MemoryKind, minimum_bytes: u64) -> Result<Self, OverBudget> {
        let limit = kind.limit();
        let member = kind.pool().open(minimum_bytes, limit.terms());
        let member = member.map_err(|no_room| OverBudget::new(kind, minimum_bytes, limit, no_room))?;
        Ok(Self { kind, member })
    }

    /// Adds to the minimum.
    ///
    /// # Errors
    /// As [`open`](Self::open). The share has what it had.
    pub fn raise(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let (kind, limit) = (self.kind, self.kind.limit());
        let raised = kind.pool().raise(&mut self.member, bytes, limit.terms());
        raised.map_err(|no_room| OverBudget::new(kind, bytes, limit, no_room))
    }

    /// Takes a part out of the minimum, for memory that is released before the rest. Dropping the part returns its bytes.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        Self { kind: self.kind, member: ProcessPool::split(&mut self.member, bytes) }
    }

    /// Returns all bytes of this share.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kind.pool().bytes(&self.member)
    }

    /// Takes bytes for a landing buffer or an image, including what is paid for the peer. Ends idleness.
    ///
    /// # Errors
    /// [`Refused`]. Others are asked to give back where this connection has a right to it.
    pub fn grow(&self, bytes: u64) -> Result<(), Refused> {
        let limit = self.kind.limit();
        let grown = self.kind.pool().grow(&self.member, bytes, limit.terms());
        grown.map_err(|refusal| self.refused(bytes, limit, refusal))
    }

    /// Returns bytes that were grown by, once they are released.
    pub fn shrink(&self, bytes: u64) {
        self.kind.pool().shrink(&self.member, bytes);
    }

    /// Takes bytes for a registration that is kept for its next use.
    ///
    /// # Errors
    /// [`Refused`]. Nobody is asked to give back for it.
    pub fn cache(&self, bytes: u64) -> Result<(), Refused> {
        let limit = self.kind.limit();
        let cached = self.kind.pool().cache(&self.member, bytes, limit.terms());
        cached.map_err(|refusal| self.refused(bytes, limit, refusal))
    }

    /// Returns bytes of registrations that were kept, once they are deregistered.
    pub fn uncache(&self, bytes: u64) {
        self.kind.pool().uncache(&self.member, bytes);
    }

    /// Returns true if others wait for what this share has grown by.
    #[inline]
    #[must_use]
    pub fn must_shrink(&self) -> bool {
        self.excess_bytes() > 0
    }

    /// Returns the bytes of growth to give back.
    #[inline]
    #[must_use]
    pub fn excess_bytes(&self) -> u64 {
        self.kind.pool().excess(&self.member)
    }

    /// Returns the bytes of kept registrations to give back.
    #[inline]
    #[must_use]
    pub fn cached_excess_bytes(&self) -> u64 {
        self.kind.pool().cached_excess(&self.member)
    }

    /// Notes that the connection moves no data, or moves some again. What an idle one has grown by is asked back first.
    pub fn note_idle(&self, is_idle: bool) {
        self.kind.pool().set_idle(&self.member, is_idle, monotonic_ns());
    }

    const fn refused(&self, bytes: u64, limit: Limit, refusal: Refusal) -> Refused {
        Refused { kind: self.kind, bytes, limit, refusal }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.kind.pool().close(&mut self.member);
    }
}

impl Refused {
    /// Bytes by which the share can grow now.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.refusal.bytes_max
    }

    /// Cause.
    #[must_use]
    pub const fn cause(&self) -> RefusalCause {
        self.refusal.cause
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, bytes, limit, refusal: Refusal { cause, used, members, .. } } = *self;
        write!(f, "cannot provision {} more of {} for a connection: ", Bytes(bytes), kind.name())?;
        match cause {
            RefusalCause::Limit => {
                write!(f, "{} are kept for connections that begin, and ", Bytes(reserve(limit.bytes)))?;
            }
            RefusalCause::FairShare { fair_bytes } => {
                write!(f, "others wait for theirs, its fair share is {}, and ", Bytes(fair_bytes))?;
            }
            RefusalCause::GiveBack { excess_bytes } => {
                write!(f, "others wait, for whom it has to give back {} first, and ", Bytes(excess_bytes))?;
            }
            RefusalCause::NoPlace => write!(f, "it is none of the {PLACES} that can grow, and ")?,
        }
        let plural = if members == 1 { "" } else { "s" };
        write!(
            f,
            "{} of the process's {} are in use by {members} connection{plural}",
            Bytes(used),
            Bytes(limit.bytes)
        )?;
        f.write_str("; close connections, make landing buffers smaller, or raise ")?;
        write_remedy(f, kind, limit)
    }
}

impl error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_to_grow_names_limit_use_and_remedy() {
        let limit = Limit { bytes: 8 << 20, is_memlock: false };
        let text = |kind, cause| {
            let refusal = Refusal { cause, bytes_max: 5, used: 7 << 20, members: 12 };
            let refused = Refused { kind, bytes: 1 << 20, limit, refusal };
            assert_eq!((refused.bytes_max(), refused.cause()), (5, cause));
            refused.to_string()
        };
        assert_eq!(
            text(MemoryKind::Shared, RefusalCause::Limit),
            "cannot provision 1 MiB more of shared memory for a connection: 2 MiB are kept for connections that begin, and \
             7 MiB of the process's 8 MiB are in use by 12 connections; close connections, make landing buffers smaller, or \
             raise the limit with Budget::set_shared_max"
        );
        for (cause, words) in [
            (
                RefusalCause::FairShare { fair_bytes: 3 << 20 },
                "others wait for theirs, its fair share is 3 MiB, and ",
            ),
            (
                RefusalCause::GiveBack { excess_bytes: 2 << 20 },
                "for whom it has to give back 2 MiB first, and ",
            ),
            (RefusalCause::NoPlace, "it is none of the 16384 that can grow, and "),
        ] {
            let text = text(MemoryKind::Registered, cause);
            assert!(text.contains(words), "{text}");
            assert!(text.ends_with("raise the limit with Budget::set_registered_max"), "{text}");
        }
        let memlock = Limit { is_memlock: true, ..limit };
        let refusal = Refusal { cause: RefusalCause::Limit, bytes_max: 0, used: 0, members: 1 };
        let refused = Refused { kind: MemoryKind::Registered, bytes: 1, limit: memlock, refusal };
        assert!(refused.to_string().contains("raise RLIMIT_MEMLOCK (now 8 MiB): ulimit -l"), "{refused}");
    }
}
