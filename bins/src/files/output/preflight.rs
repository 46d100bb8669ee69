//! Checks before anything is received: that a file can be replaced, and that there is room for the announced bytes.

use super::directory::Directory;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, StatxAttributes, StatxFlags, fcntl_getfl, fstat, fstatvfs, statx, tell,
};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use superpipe::os::Bytes;
use superpipe::os::limits::{Resource, soft_limit};

/// Checks that a file of the user `uid` may be replaced.
///
/// # Errors
/// The file is a mount point, or belongs to another user in a directory where only owners may remove files.
pub(super) fn check_replaceable(directory: &Directory, name: &OsStr, uid: u32) -> io::Result<()> {
    if is_mounted(directory, name) {
        return Err(io::Error::other("it is a mount point, which cannot be replaced; use rrecv > FILE"));
    }
    let location = fstat(directory)?;
    let us = geteuid().as_raw();
    let is_sticky = Mode::from_raw_mode(location.st_mode).contains(Mode::SVTX);
    if is_sticky && ![uid, location.st_uid].contains(&us) && !may_act_for_owners() {
        return Err(io::Error::other(format!(
            "it belongs to uid {uid}, and its directory (mode {:o}) lets only owners replace files; use rrecv > FILE",
            location.st_mode & 0o7777
        )));
    }
    Ok(())
}

/// Returns true if the file itself is a mount point. If the kernel does not report this, the rename fails later.
fn is_mounted(directory: &Directory, name: &OsStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    statx(directory, name, flags, StatxFlags::TYPE)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Returns true if this process may act as the owner of every file.
fn may_act_for_owners() -> bool {
    capabilities(None).map_or(geteuid().is_root(), |sets| sets.effective.contains(CapabilitySet::FOWNER))
}

/// Checks that there is room for `bytes` more at the write position of a regular file. It reserves no room, which would fill the
/// holes of a sparse file.
///
/// # Errors
/// The file would be longer than this process may write, or the file system has less room, unless the data are `sparse`.
pub(super) fn check_room(file: &File, bytes: u64, sparse: bool) -> io::Result<()> {
    let Some((start, is_at_end)) = start(file)? else { return Ok(()) };
    let announced = Bytes(bytes);
    let length = start.saturating_add(bytes);
    if let Some(most) = soft_limit(Resource::FileBytes).filter(|&most| length > most) {
        return Err(io::Error::other(format!(
            "file too large: with the announced {announced} it would have {}, and this process may write at most {}; \
             raise the limit with ulimit -f",
            Bytes(length),
            Bytes(most)
        )));
    }
    if !is_at_end {
        return Ok(());
    }
    let system = fstatvfs(file)?;
    // only the superuser may use reserved blocks
    let blocks = if geteuid().is_root() { system.f_bfree } else { system.f_bavail };
    let free = blocks.saturating_mul(system.f_frsize);
    // a file system without blocks does not report its free space
    if system.f_blocks > 0 && bytes > free && !sparse {
        return Err(io::Error::other(format!(
            "no space left on device: {announced} were announced, and {} are free; make room, or see --sparse",
            Bytes(free)
        )));
    }
    Ok(())
}

/// Returns the offset of the next write to a regular file, and true if that is its end, so that every byte makes it longer.
fn start(file: &File) -> io::Result<Option<(u64, bool)>> {
    let found = fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let end = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    let start = if fcntl_getfl(file)?.contains(OFlags::APPEND) { end } else { tell(file)? };
    Ok(Some((start, start >= end)))
}
