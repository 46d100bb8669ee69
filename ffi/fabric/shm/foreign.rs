//! Memfds as a peer might make them, for tests.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};

/// Makes a memfd of `bytes` with these flags and seals.
pub(crate) fn foreign(flags: MemfdFlags, bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create(c"foreign", MemfdFlags::CLOEXEC | flags).unwrap();
    ftruncate(&fd, bytes).unwrap();
    assert!(seals.is_empty() || fcntl_add_seals(&fd, seals).is_ok());
    fd
}

/// Makes a memfd that permits seals.
pub(crate) fn sealable(bytes: u64, seals: SealFlags) -> OwnedFd {
    foreign(MemfdFlags::ALLOW_SEALING, bytes, seals)
}

/// Returns the bytes that the kernel has allocated for a file.
pub(crate) fn allocated_bytes(fd: impl AsFd) -> u64 {
    fstat(fd).unwrap().st_blocks.cast_unsigned() * 512
}
