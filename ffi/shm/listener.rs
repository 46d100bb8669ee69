//! A path where peers connect.
//!
//! At most one process listens at a path: whoever wants it holds the path's lock while it looks whether the socket
//! there still answers, and replaces it only when it does not. The lock is a file of our user's beside the path, which
//! others cannot open (0600), and which is there for as long as the bind takes. Where somebody else has that name there is
//! no lock, and where our user has a file of that name that is not empty, the path is taken. Nothing is ever removed but a dead
//! socket and an empty lock, both of our own user. The socket is open to its user only (0600),
//! whatever the umask.

use super::rights::pass_rights;
use super::socket::{Socket, connect_raw, new_socket, too_many_files, wait_readable};
use super::socket_error::SocketError;
use super::sun::{PathError, SunAddress};
use crate::os::OsError;
use crate::os::clock::monotonic_ns;
use crate::os::closer::{check_closer, close_elsewhere, close_own_elsewhere};
use crate::os::error::{last_errno, retry};
use crate::os::owner::Owner;
use crate::os::poll::{PollFd, poll_now};
use crate::os::user::{effective_uid, is_ambiguous};
use core::mem::ManuallyDrop;
use core::time::Duration;
use core::{error, fmt, ptr};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::thread;

/// Connections that the kernel holds for us until they are accepted.
const BACKLOG: i32 = 16;
/// How long another process of this user may hold the path's lock, which takes it microseconds.
const LOCK_WAIT_NS: u64 = 2_000_000_000;

/// A bound socket. Dropped, it takes its path away, if that is still its own; in a child of fork only the descriptor is closed.
/// A child that has the socket, too, can still accept whoever connected before.
#[derive(Debug)]
pub struct Listener {
    fd: ManuallyDrop<OwnedFd>,
    owner: Owner,
    /// absolute: the program may change its directory
    path: PathBuf,
    /// device and inode of our socket; None once it was unlinked
    identity: Option<(u64, u64)>,
}

/// Why there is no listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindError {
    /// A living process listens there.
    InUse(PathBuf),
    /// Something is there that is no socket; it is left alone.
    NotASocket(PathBuf),
    /// Somebody else's socket is there; it is left alone.
    ForeignOwner {
        /// the socket
        path: PathBuf,
        /// its owner
        owner: u32,
    },
    /// This user has a file in place of the path's lock that is no lock, for it is not empty; it is left alone.
    NotALock(PathBuf),
    /// Another process of this user holds the path's lock for longer than a bind takes.
    Locked(PathBuf),
    /// No socket can have this path.
    Path(PathError),
    /// The system refused.
    Os(OsError),
}

impl Listener {
    /// Listens at `path`, in place of a socket there that nobody answers.
    ///
    /// # Errors
    /// Why not, in a variant each. Nothing was changed then.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let address = SunAddress::new(path).map_err(BindError::Path)?;
        let _lock = lock(path)?;
        make_room(path, &address)?;
        let fd = new_socket().map_err(BindError::Os)?;
        // HELLO, which whoever connects may send at once, has no descriptor.
        pass_rights(fd.as_fd(), false);
        // The mode that bind gives the path is this one, less the umask; so others never see it open.
        // SAFETY: the descriptor is ours; the call takes integers only.
        unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) };
        let (raw, len) = address.as_raw();
        // SAFETY: the address and its length come together and outlive the call.
        if unsafe { libc::bind(fd.as_raw_fd(), raw, len) } != 0 {
            return Err(match last_errno() {
                libc::EADDRINUSE => BindError::InUse(path.to_owned()),
                errno => BindError::Os(OsError::new(errno, format!("cannot listen at {}", path.display()))),
            });
        }
        let found = look(path)?.ok_or_else(|| BindError::Os(OsError::new(libc::ENOENT, doing(path))))?;
        let listener = Self {
            fd: ManuallyDrop::new(fd),
            owner: Owner::current(),
            // Without a directory there is none to change.
            path: absolute(path).unwrap_or_else(|_| path.to_owned()),
            identity: Some(identity(&found)),
        };
        if found.mode() & 0o777 != 0o600 {
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| os(&error, path))?;
        }
        // SAFETY: the descriptor is ours; the call takes integers only.
        if unsafe { libc::listen(listener.fd.as_raw_fd(), BACKLOG) } != 0 {
            return Err(BindError::Os(OsError::last(doing(path))));
        }
        Ok(listener)
    }

    /// The next connection, waiting for it until `deadline_ns`. It may be closed already: another listener's look
    /// whether we live is such a one.
    ///
    /// # Errors
    /// [`SocketError::TimedOut`], [`SocketError::Interrupted`], or the system's refusal.
    pub fn accept(&self, deadline_ns: u64) -> Result<Socket, SocketError> {
        loop {
            check_closer("cannot accept a connection").map_err(SocketError::Os)?;
            match self.accept_one() {
                Ok(socket) => return Ok(socket),
                Err(libc::EAGAIN) => wait_readable(self.fd.as_fd(), deadline_ns)?,
                Err(libc::ECONNABORTED) => {}
                Err(_) => return Err(SocketError::Os(too_many_files("cannot accept a connection"))),
            }
        }
    }

    /// A connection that waits, or the errno.
    fn accept_one(&self) -> Result<Socket, i32> {
        const FLAGS: i32 = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: null pointers mean that we don't ask for the peer's address.
        let fd =
            retry(|| unsafe { libc::accept4(self.fd.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), FLAGS) });
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
        Ok(Socket::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The socket's path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the path away, if it is still ours; connections that are made or waiting stay. Once only, and never fails:
    /// what cannot be removed is the next listener's to replace. A child of fork takes nothing away.
    pub fn unlink(&mut self) {
        // While our socket listens no other listener replaces it, so between this look and the removal it stays ours.
        let Some(ours) = self.identity.take().filter(|_| self.owner.is_current()) else { return };
        if look(&self.path).is_ok_and(|found| found.is_some_and(|found| identity(&found) == ours)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
        // Clients that were not accepted are refused by the last close, here or in a child that goes on accepting. What they
        // sent may be long to close. No shutdown: that would end the child's listening, too.
        let is_asked = poll_now(&mut [PollFd::new(self.fd.as_fd(), libc::POLLIN)]);
        // SAFETY: it is taken once: nobody has `self` any more.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if is_asked { close_elsewhere(fd) } else { close_own_elsewhere(fd) }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl BindError {
    /// Returns true if something is at the path that stays there, so that another path may do.
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

/// A path that is locked. Dropped, the lock's file is removed, and then unlocked: a child that was forked meanwhile has the open
/// file, too.
#[derive(Debug)]
struct Locked {
    file: File,
    path: PathBuf,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // While it is locked no other process of ours puts another in its place. What was written to it is not ours to remove.
        if self.is_empty() && self.has_its_name() {
            let _ = fs::remove_file(&self.path);
        }
        // SAFETY: the descriptor is ours; the call takes integers only.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

impl Locked {
    fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|ours| ours.len() == 0)
    }

    /// False where the process that had the lock before removed the file.
    fn has_its_name(&self) -> bool {
        let named = fs::symlink_metadata(&self.path);
        self.file.metadata().is_ok_and(|ours| named.is_ok_and(|named| identity(&named) == identity(&ours)))
    }
}

/// Name of the lock of a path.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("socket")));
    name.push(".superpipe-lock");
    path.with_file_name(name)
}

/// The lock that every listener of this path holds while it binds. `None` where it cannot be had, because somebody else has its
/// name, this user cannot be told from others, or the file system has no locks: then two that start at once are not kept apart.
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
            Err(error) if is_no_bar(&error) => return Ok(None),
            Err(error) => return Err(os(&error, path)),
        };
        let found = file.metadata().map_err(|error| os(&error, path))?;
        if !found.is_file() || found.uid() != own {
            return Ok(None);
        }
        if found.len() > 0 {
            return Err(BindError::NotALock(path.to_owned()));
        }
        // SAFETY: the descriptor is ours; the call takes integers only.
        if retry(|| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) == 0 {
            let locked = Locked { file, path: lock_path.clone() };
            if locked.has_its_name() {
                return Ok(Some(locked));
            }
            // It was removed meanwhile. In a directory that is not sticky anybody can do that, again and again.
            if monotonic_ns() < give_up_ns {
                continue;
            }
            return Err(BindError::Locked(path.to_owned()));
        }
        match last_errno() {
            libc::EWOULDBLOCK if monotonic_ns() < give_up_ns => thread::sleep(Duration::from_millis(1)),
            libc::EWOULDBLOCK => return Err(BindError::Locked(path.to_owned())),
            libc::ENOLCK | libc::EOPNOTSUPP => return Ok(None),
            errno => return Err(BindError::Os(OsError::new(errno, doing(path)))),
        }
    }
}

/// Returns true if a bind may come about all the same, or else says better what is wrong.
fn is_no_bar(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::EMFILE | libc::ENFILE))
}

/// Removes a socket that nobody answers, and nothing else.
fn make_room(path: &Path, address: &SunAddress) -> Result<(), BindError> {
    let Some(found) = look(path)? else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    let own = effective_uid();
    if found.uid() != own || is_ambiguous(own) {
        return Err(BindError::ForeignOwner { path: path.to_owned(), owner: found.uid() });
    }
    let probe = Socket::from_fd(new_socket().map_err(BindError::Os)?);
    match connect_raw(probe.as_fd(), address) {
        Err(libc::ECONNREFUSED) => fs::remove_file(path).map_err(|error| os(&error, path)),
        Err(libc::ENOENT) => Ok(()),
        // It answers, it is too busy to, or it speaks another protocol: it lives.
        Ok(()) | Err(libc::EAGAIN | libc::EPROTOTYPE) => Err(BindError::InUse(path.to_owned())),
        Err(errno) => Err(BindError::Os(OsError::new(errno, doing(path)))),
    }
}

/// What is at the path itself, not at what a link points to.
fn look(path: &Path) -> Result<Option<Metadata>, BindError> {
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
#[path = "listener_tests.rs"]
mod tests;
