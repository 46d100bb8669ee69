//! Resource limits of this process (getrlimit(2)).
//!
//! By libc: rustix relies on the call not failing, and a seccomp filter can make it fail.

/// A resource that a process may use up to a limit.
#[derive(Debug, Clone, Copy)]
pub enum Resource {
    /// Open files, which are also the places of a poll.
    OpenFiles,
    /// Bytes of a file.
    FileBytes,
}

/// Returns the soft limit of a resource, `RLIM_INFINITY` if there is none. None if the kernel does not tell.
#[must_use]
pub fn soft_limit(resource: Resource) -> Option<u64> {
    let resource = match resource {
        Resource::OpenFiles => libc::RLIMIT_NOFILE,
        Resource::FileBytes => libc::RLIMIT_FSIZE,
    };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a local.
    let refused = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (refused == 0).then_some(limit.rlim_cur)
}
