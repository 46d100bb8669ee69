//! Resource limits of this process (getrlimit(2)).
//!
//! By libc: rustix relies on the call not failing, and a seccomp filter can make it fail.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::thread::{CapabilitySet, capabilities};

/// Inode number of the initial user namespace, which never changes (`PROC_USER_INIT_INO` of Linux).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// A resource that a process may use up to a limit.
#[derive(Debug, Clone, Copy)]
pub enum Resource {
    /// Open files, which are also the places of a poll.
    OpenFiles,
    /// Bytes of a file.
    FileBytes,
    /// Bytes of memory that is pinned, as registered memory is.
    PinnedBytes,
}

/// Returns the soft limit of a resource, `RLIM_INFINITY` if there is none. None if the kernel does not tell.
#[must_use]
pub fn soft_limit(resource: Resource) -> Option<u64> {
    let resource = match resource {
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileBytes => libc::RLIMIT_FSIZE,
        Resource::PinnedBytes => libc::RLIMIT_MEMLOCK,
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local.
    let refused = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (refused == 0).then_some(limit.rlim_cur)
}

/// Returns the bytes that this process may register, by the rules of the kernel's `ib_umem_get`; none if there is no limit, or the kernel
/// does not tell.
pub(crate) fn memlock() -> Option<u64> {
    soft_limit(Resource::PinnedBytes).filter(|bytes| *bytes != libc::RLIM_INFINITY && !may_exceed_memlock())
}

/// Returns true if RLIMIT_MEMLOCK does not bind this thread: it has CAP_IPC_LOCK in the initial user namespace. The root of another
/// namespace, as of a rootless container, has the capability there only.
fn may_exceed_memlock() -> bool {
    let has_capability =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    has_capability && fs::metadata("/proc/self/ns/user").is_ok_and(|it| it.ino() == INITIAL_USER_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_lock_counts_in_the_initial_namespace_only() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let has_capability = u64::from_str_radix(effective.trim(), 16).unwrap() & (1 << 14) != 0;
        let namespace = fs::read_link("/proc/self/ns/user").unwrap();
        let is_initial = namespace.to_str() == Some("user:[4026531837]");
        assert_eq!(may_exceed_memlock(), has_capability && is_initial);
        assert!(!may_exceed_memlock() || memlock().is_none());
    }
}
