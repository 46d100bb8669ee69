//! A socket that peers connect to, at a path.
//!
//! At most one process listens at a path. A process that binds holds the path's lock while it checks that a socket at the path
//! has no listener, and replaces it only then. The lock is a file of our user beside the path, which others cannot open (0600),
//! and which exists only during the bind. If another user has a file of that name, there is no lock; if our user has one that
//! is not empty, the path is taken. Only a dead socket and an empty lock are ever removed, both of our own user. The socket is
//! accessible to its user only (0600), whatever the umask.

use super::descriptor_passing::set_descriptor_passing;
use super::socket::{Socket, connect_raw, new_socket, too_many_files, wait_readable};
use super::socket_error::SocketError;
use super::unix_address::{PathError, unix_address};
use crate::os::OsError;
use crate::os::clock::monotonic_ns;
use crate::os::closer::{check_closer, close_in_background, close_own_in_background};
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, poll_now};
use crate::os::user::{effective_uid, is_ambiguous};
use core::mem::ManuallyDrop;
use core::time::Duration;
use core::{error, fmt};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, listen};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::thread;

/// Limit of connections that wait to be accepted: as many as a listener makes at a time. Further clients try again.
const BACKLOG: i32 = 16;
/// Limit on the time that another process of this user may hold the path's lock. A bind takes microseconds.
const LOCK_WAIT_NS: u64 = 2_000_000_000;

/// A bound socket. Dropping removes its path, if that is still its own; in a child of fork it only closes the descriptor.
/// A child that has the socket, too, can still accept clients that connected before.
#[derive(Debug)]
pub struct Listener {
    fd: ManuallyDrop<OwnedFd>,
    owner: Owner,
    /// absolute, since the program may change its working directory
    path: PathBuf,
    /// device and inode of our socket; none once it is unlinked
    identity: Option<(u64, u64)>,
}

/// A failure to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindError {
    /// A process listens there.
    InUse(PathBuf),
    /// The path is no socket, and is left as it is.
    NotASocket(PathBuf),
    /// The socket there belongs to another user, and is left as it is.
    ForeignOwner {
        /// the socket
        path: PathBuf,
        /// its owner
        owner: u32,
    },
    /// The lock's file is not empty, so it is no lock, and is left as it is.
    NotALock(PathBuf),
    /// Another process of this user keeps the path's lock for longer than a bind takes.
    Locked(PathBuf),
    /// The path cannot be a socket's.
    Path(PathError),
    /// The system refused.
    Os(OsError),
}

impl Listener {
    /// Listens at `path`; replaces a socket there that has no listener.
    ///
    /// # Errors
    /// One variant per cause. Nothing was changed then.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let address = unix_address(path).map_err(BindError::Path)?;
        let _lock = lock(path)?;
        remove_dead_socket(path, &address)?;
        let fd = new_socket().map_err(BindError::Os)?;
        // A client may send HELLO at once, which has no descriptor.
        set_descriptor_passing(fd.as_fd(), false);
        // bind gives the path this mode, less the umask, so it is never accessible to others.
        let _ = fchmod(&fd, Mode::RUSR | Mode::WUSR);
        bind(&fd, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => BindError::InUse(path.to_owned()),
            errno => BindError::Os(OsError::of(errno, doing(path))),
        })?;
        let found = inspect(path)?.ok_or_else(|| BindError::Os(OsError::new(libc::ENOENT, doing(path))))?;
        let listener = Self {
            fd: ManuallyDrop::new(fd),
            owner: Owner::current(),
            // It fails only if the process has no working directory.
            path: absolute(path).unwrap_or_else(|_| path.to_owned()),
            identity: Some(identity(&found)),
        };
        if found.mode() & 0o777 != 0o600 {
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| os(&error, path))?;
        }
        listen(&listener, BACKLOG).map_err(|errno| BindError::Os(OsError::of(errno, doing(path))))?;
        Ok(listener)
    }

    /// Accepts the next connection; waits for it until `deadline_ns`. It may be closed already, as that of another process
    /// that checks whether this path has a listener.
    ///
    /// # Errors
    /// [`SocketError::TimedOut`], [`SocketError::Interrupted`], or the system's refusal.
    pub fn accept(&self, deadline_ns: u64) -> Result<Socket, SocketError> {
        loop {
            check_closer("cannot accept a connection").map_err(SocketError::Os)?;
            match self.accept_one() {
                Ok(socket) => return Ok(socket),
                Err(Errno::AGAIN) => wait_readable(self.fd.as_fd(), deadline_ns)?,
                Err(Errno::CONNABORTED) => {}
                Err(errno) => {
                    return Err(SocketError::Os(too_many_files(errno, "cannot accept a connection")));
                }
            }
        }
    }

    /// Accepts a connection that waits.
    fn accept_one(&self) -> Result<Socket, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        retry_on_intr(|| accept_with(self, flags)).map(Socket::from_fd)
    }

    /// Returns the socket's path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the path, if it is still ours; established and waiting connections stay. Works once, and never fails: the next
    /// listener replaces a path that cannot be removed. Does nothing in a child of fork.
    pub fn unlink(&mut self) {
        // While our socket listens no other listener replaces it, so it stays ours between this check and the removal.
        let Some(ours) = self.identity.take().filter(|_| self.owner.is_current()) else { return };
        if inspect(&self.path).is_ok_and(|found| found.is_some_and(|found| identity(&found) == ours)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
        // The last close, here or in a child that goes on accepting, refuses clients that were not accepted. It may take long
        // because of descriptors that they sent. No shutdown: that would end the child's listening, too.
        let has_clients = poll_now(&mut [PollFd::new(self.fd.as_fd(), libc::POLLIN)]);
        // SAFETY: it is taken once, since `self` is not used afterwards.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if has_clients { close_in_background(fd) } else { close_own_in_background(fd) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl BindError {
    /// Returns true if the path is in use, so that another path may work.
    #[must_use]
    pub const fn is_taken(&self) -> bool {
        matches!(self, Self::InUse(_) | Self::NotASocket(_) | Self::NotALock(_) | Self::ForeignOwner { .. })
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, why) = match self {
            Self::InUse(path) => (path, "another process listens there; stop it or choose another address"),
            Self::NotASocket(path) => (path, "there is something that is no socket; choose another path"),
            Self::Locked(path) => {
                let lock = lock_path(path);
                let (path, lock) = (path.display(), lock.display());
                return write!(
                    f,
                    "cannot listen at {path}: another process of yours keeps {lock} locked; end it, or choose another path"
                );
            }
            Self::NotALock(path) => {
                let lock = lock_path(path);
                let (path, lock) = (path.display(), lock.display());
                return write!(
                    f,
                    "cannot listen at {path}: {lock}, whose name is that of its lock, is not empty; move that file away, or \
                     choose another path"
                );
            }
            Self::ForeignOwner { path, owner } => {
                let path = path.display();
                return write!(
                    f,
                    "cannot listen at {path}: uid {owner} has a socket there; choose another path"
                );
            }
            Self::Path(error) => return write!(f, "cannot listen: {error}"),
            Self::Os(error) => return error.fmt(f),
        };
        write!(f, "cannot listen at {}: {why}", path.display())
    }
}

impl error::Error for BindError {}

/// A lock on a path. Dropping removes the lock's file and then unlocks it: a child that was forked meanwhile has the open
/// file, too.
#[derive(Debug)]
struct Locked {
    file: File,
    path: PathBuf,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // While it is locked, no other process of ours replaces it. A file that is not empty is not ours to remove.
        if self.is_empty() && self.has_its_name() {
            let _ = fs::remove_file(&self.path);
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Locked {
    fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|ours| ours.len() == 0)
    }

    /// Returns false if the previous holder of the lock removed the file.
    fn has_its_name(&self) -> bool {
        let named = fs::symlink_metadata(&self.path);
        self.file.metadata().is_ok_and(|ours| named.is_ok_and(|named| identity(&named) == identity(&ours)))
    }
}

/// Returns the path of the lock of a path.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("socket")));
    name.push(".superpipe-lock");
    path.with_file_name(name)
}

/// Locks a path, as every listener does while it binds. None if there can be no lock, because another user has a file of its
/// name, this user's number stands for several users, or the file system has no locks: then two binds can overlap.
fn lock(path: &Path) -> Result<Option<Locked>, BindError> {
    let (own, lock_path) = (effective_uid(), lock_path(path));
    if is_ambiguous(own) {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let give_up_ns = monotonic_ns() + LOCK_WAIT_NS;
    loop {
        let file = match options.open(&lock_path) {
            Ok(file) => file,
            Err(error) if is_lock_optional(&error) => return Ok(None),
            Err(error) => return Err(os(&error, path)),
        };
        let found = file.metadata().map_err(|error| os(&error, path))?;
        if !found.is_file() || found.uid() != own {
            return Ok(None);
        }
        if found.len() > 0 {
            return Err(BindError::NotALock(path.to_owned()));
        }
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {
                let locked = Locked { file, path: lock_path.clone() };
                if locked.has_its_name() {
                    return Ok(Some(locked));
                }
                // It was removed meanwhile. In a directory that is not sticky anybody can do that, again and again.
                if monotonic_ns() >= give_up_ns {
                    return Err(BindError::Locked(path.to_owned()));
                }
            }
            Err(Errno::AGAIN) if monotonic_ns() < give_up_ns => thread::sleep(Duration::from_millis(1)),
            Err(Errno::AGAIN) => return Err(BindError::Locked(path.to_owned())),
            Err(Errno::NOLCK | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(BindError::Os(OsError::of(errno, doing(path)))),
        }
    }
}

/// Returns true if a bind may succeed without the lock, or fails with a better error.
fn is_lock_optional(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::EMFILE | libc::ENFILE))
}

/// Removes a socket that has no listener, and nothing else.
fn remove_dead_socket(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    let Some(found) = inspect(path)? else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    let own = effective_uid();
    if found.uid() != own || is_ambiguous(own) {
        return Err(BindError::ForeignOwner { path: path.to_owned(), owner: found.uid() });
    }
    let probe = Socket::from_fd(new_socket().map_err(BindError::Os)?);
    match connect_raw(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(|error| os(&error, path)),
        Err(Errno::NOENT) => Ok(()),
        // It accepts, its backlog is full, or it speaks another protocol: it has a listener.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(BindError::InUse(path.to_owned())),
        Err(errno) => Err(BindError::Os(OsError::of(errno, doing(path)))),
    }
}

/// Returns the metadata of the path itself, not those of a link's target.
fn inspect(path: &Path) -> Result<Option<Metadata>, BindError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(os(&error, path)),
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn doing(path: &Path) -> String {
    format!("cannot listen at {}", path.display())
}

fn os(error: &io::Error, path: &Path) -> BindError {
    BindError::Os(OsError::new(error.raw_os_error().unwrap_or(libc::EIO), doing(path)))
}

#[cfg(test)]
mod tests;
