//! The path of a HOST:PORT's socket, in a directory that only its user can access.
//!
//! `$XDG_RUNTIME_DIR/superpipe/PORT.sock` if that variable names a directory that is absolute, ours and closed to
//! others; else `/tmp/superpipe-UID/PORT.sock`. A missing directory is made, and stays: it is the user's.
//! One that belongs to another user, or that others can access, is refused: a user who can write there could be our peer.

use super::unix_address::{self, PathError};
use crate::os::OsError;
use crate::os::user::{effective_uid, is_ambiguous};
use core::{error, fmt};
use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An address of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShmAddress {
    /// `shm:PATH`: the socket at this path.
    Path(PathBuf),
    /// `HOST:PORT` on this host: the user's socket of that port.
    Port(u16),
}

/// A failure to find a socket's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// The path cannot be a socket's.
    Path(PathError),
    /// The directory belongs to another user.
    ForeignOwner {
        /// the directory
        dir: PathBuf,
        /// its owner
        owner: u32,
        /// our user
        uid: u32,
    },
    /// The directory belongs to a uid that stands for every user who is not mapped into this user namespace.
    UnknownOwner {
        /// the directory
        dir: PathBuf,
        /// its owner, and our user
        uid: u32,
    },
    /// The directory is accessible to others.
    OpenToOthers {
        /// the directory
        dir: PathBuf,
        /// its permission bits
        mode: u32,
    },
    /// The path of the directory is no directory.
    NotADirectory(PathBuf),
    /// The directory cannot be made or inspected.
    Os(OsError),
}

impl ShmAddress {
    /// Returns the socket's path. If superpipe chose its directory, that exists and is safe.
    ///
    /// # Errors
    /// The path cannot be a socket's, or the user's directory is not safe.
    pub fn socket_path(&self) -> Result<PathBuf, AddressError> {
        match self {
            Self::Path(path) => {
                unix_address::check(path.as_os_str().as_bytes()).map_err(AddressError::Path)?;
                Ok(path.clone())
            }
            Self::Port(port) => socket_path_for_port(*port),
        }
    }
}

impl fmt::Display for ShmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "shm:{}", path.display()),
            Self::Port(port) => write!(f, "port {port}"),
        }
    }
}

/// Returns the socket of `port` in this user's directory, which is made if it is missing.
///
/// # Errors
/// The directory belongs to another user, is accessible to others, is no directory, or cannot be made; the path is too long.
pub fn socket_path_for_port(port: u16) -> Result<PathBuf, AddressError> {
    let runtime_dir = env::var_os("XDG_RUNTIME_DIR");
    locate(port, runtime_dir.as_deref(), Path::new("/tmp"), effective_uid())
}

fn locate(port: u16, runtime_dir: Option<&OsStr>, tmp: &Path, uid: u32) -> Result<PathBuf, AddressError> {
    let runtime_dir = runtime_dir.map(Path::new).filter(|dir| dir.is_absolute() && check(dir, uid).is_ok());
    let dir = match runtime_dir {
        Some(runtime_dir) => runtime_dir.join("superpipe"),
        None => tmp.join(format!("superpipe-{uid}")),
    };
    make(&dir)?;
    check(&dir, uid)?;
    let path = dir.join(format!("{port}.sock"));
    unix_address::check(path.as_os_str().as_bytes()).map_err(AddressError::Path)?;
    Ok(path)
}

/// Returns a hint for people if this user's directory has no socket of `port` and another directory has or may have one: that
/// of another `$XDG_RUNTIME_DIR` or of another user.
pub(crate) fn other_socket_hint(port: u16) -> Option<String> {
    let own = socket_path_for_port(port).ok()?;
    find_other_socket(&own, Path::new("/run/user"), Path::new("/tmp"), effective_uid())
}

fn find_other_socket(own: &Path, run: &Path, tmp: &Path, uid: u32) -> Option<String> {
    let name = own.file_name()?;
    if fs::symlink_metadata(own).is_ok() {
        return None;
    }
    let owner = |name: &OsStr, prefix: &str| name.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok();
    let names = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let in_tmp = names(tmp).filter_map(|name| Some((owner(&name, "superpipe-")?, tmp.join(&name))));
    let in_run = names(run).filter_map(|name| Some((owner(&name, "")?, run.join(&name).join("superpipe"))));
    let mut closed = None;
    let mut others = None;
    for (owner, dir) in in_tmp.chain(in_run) {
        let path = dir.join(name);
        let shown = path.display();
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.file_type().is_socket() => {}
            Ok(found) if found.uid() == uid => {
                return Some(format!(
                    "there is a socket of yours at {shown}: XDG_RUNTIME_DIR must be the same at both ends"
                ));
            }
            Ok(found) => {
                let owner = found.uid();
                others = Some(format!("uid {owner} has a socket at {shown}: between users use shm:PATH"));
            }
            // Every user who is logged in has a directory below /run/user; one in /tmp is made by superpipe only.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && dir.starts_with(tmp) => {
                let dir = dir.display();
                closed = Some(format!(
                    "uid {owner} has sockets of its own in {dir}: if the receiver is that user's use shm:PATH"
                ));
            }
            Err(_) => {}
        }
    }
    others.or(closed)
}

fn make(dir: &Path) -> Result<(), AddressError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(os_error("make", dir, &error)),
        _ => Ok(()),
    }
}

/// Checks the directory itself and not a link's target: anybody can make a link in /tmp.
fn check(dir: &Path, uid: u32) -> Result<(), AddressError> {
    let found = fs::symlink_metadata(dir).map_err(|error| os_error("inspect", dir, &error))?;
    let dir = || dir.to_owned();
    if !found.is_dir() {
        return Err(AddressError::NotADirectory(dir()));
    }
    if found.uid() != uid {
        return Err(AddressError::ForeignOwner { dir: dir(), owner: found.uid(), uid });
    }
    if is_ambiguous(uid) {
        return Err(AddressError::UnknownOwner { dir: dir(), uid });
    }
    match found.mode() & 0o7777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(AddressError::OpenToOthers { dir: dir(), mode }),
    }
}

fn os_error(doing: &str, dir: &Path, error: &io::Error) -> AddressError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    AddressError::Os(OsError::new(errno, format!("cannot {doing} the socket's directory {}", dir.display())))
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "remove it, or set XDG_RUNTIME_DIR to a directory of your own, or use shm:PATH";
        match self {
            Self::Path(error) => error.fmt(f),
            Self::ForeignOwner { dir, owner, uid } => {
                write!(f, "{} belongs to uid {owner} and you are uid {uid}; {REMEDY}", dir.display())
            }
            Self::UnknownOwner { dir, uid } => write!(
                f,
                "{} belongs to uid {uid}, which stands for every user who is not mapped into this user namespace; map \
                 your user into it, to another number (unshare --map-root-user), or use shm:PATH with peer_uid",
                dir.display()
            ),
            Self::OpenToOthers { dir, mode } => {
                let dir = dir.display();
                write!(f, "{dir} has mode {mode:04o}, which lets others in; chmod 700 {dir}")
            }
            Self::NotADirectory(dir) => write!(f, "{} is not a directory; {REMEDY}", dir.display()),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    fn me() -> u32 {
        effective_uid()
    }

    fn chmod(dir: &Path, mode: u32) {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_socket_in_another_directory_is_named() {
        let scratch = Scratch::new();
        let at = |dir: &str| {
            let dir = scratch.path().join(dir);
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let (run, tmp, own) = (at("run"), at("tmp"), at("own").join("7.sock"));
        let found = |uid| find_other_socket(&own, &run, &tmp, uid);
        let stranger = me() + 1;
        at("tmp/superpipe-x");
        fs::write(at("tmp/superpipe-5").join("7.sock"), b"no socket").unwrap();
        assert_eq!(found(me()), None);
        let _listener = UnixListener::bind(at("run/6/superpipe").join("7.sock")).unwrap();
        assert!(found(me()).unwrap().ends_with("XDG_RUNTIME_DIR must be the same at both ends"));
        let others = found(stranger).unwrap();
        assert!(others.starts_with(&format!("uid {} has a socket at ", me())), "{others}");
        let _own = UnixListener::bind(&own).unwrap();
        assert_eq!(found(me()), None, "there is one where it should be");
    }

    #[test]
    fn a_valid_runtime_dir_is_used() {
        let scratch = Scratch::new();
        let runtime = scratch.path();
        let path = locate(7471, Some(runtime.as_os_str()), Path::new("/nowhere"), me()).unwrap();
        assert_eq!(path, runtime.join("superpipe/7471.sock"));
        assert_eq!(fs::metadata(runtime.join("superpipe")).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(locate(7471, Some(runtime.as_os_str()), Path::new("/nowhere"), me()), Ok(path));
    }

    #[test]
    fn an_unset_relative_open_or_missing_runtime_dir_is_not_used() {
        let scratch = Scratch::new();
        let open = scratch.path().join("open");
        fs::create_dir(&open).unwrap();
        chmod(&open, 0o755);
        let missing = scratch.path().join("missing");
        let expected = scratch.path().join(format!("superpipe-{}/1.sock", me()));
        for dir in [
            None,
            Some(OsStr::new("")),
            Some(OsStr::new("tmp")),
            Some(open.as_os_str()),
            Some(missing.as_os_str()),
        ] {
            assert_eq!(locate(1, dir, scratch.path(), me()), Ok(expected.clone()), "{dir:?}");
        }
        assert_eq!(fs::metadata(expected.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let scratch = Scratch::new();
        let dir = scratch.path().join(format!("superpipe-{}", me() + 1));
        let error = locate(1, None, scratch.path(), me() + 1).unwrap_err();
        assert_eq!(error, AddressError::ForeignOwner { dir: dir.clone(), owner: me(), uid: me() + 1 });
        assert!(error.to_string().starts_with(&format!("{} belongs to uid {} and you", dir.display(), me())));
    }

    #[test]
    fn a_directory_accessible_to_others_is_refused() {
        let scratch = Scratch::new();
        let dir = scratch.path().join(format!("superpipe-{}", me()));
        fs::create_dir(&dir).unwrap();
        for mode in [0o755, 0o710, 0o701, 0o2720] {
            chmod(&dir, mode);
            let error = locate(1, None, scratch.path(), me()).unwrap_err();
            assert_eq!(error, AddressError::OpenToOthers { dir: dir.clone(), mode });
            let shown = dir.display();
            assert_eq!(
                error.to_string(),
                format!("{shown} has mode {mode:04o}, which lets others in; chmod 700 {shown}")
            );
        }
        chmod(&dir, 0o700);
    }

    #[test]
    fn links_and_files_are_refused() {
        let scratch = Scratch::new();
        let dir = scratch.path().join(format!("superpipe-{}", me()));
        fs::create_dir(scratch.path().join("real")).unwrap();
        chmod(&scratch.path().join("real"), 0o700);
        symlink(scratch.path().join("real"), &dir).unwrap();
        assert_eq!(locate(1, None, scratch.path(), me()), Err(AddressError::NotADirectory(dir.clone())));
        fs::remove_file(&dir).unwrap();
        fs::write(&dir, b"").unwrap();
        assert_eq!(locate(1, None, scratch.path(), me()), Err(AddressError::NotADirectory(dir)));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error() {
        let error = locate(1, None, Path::new("/nowhere"), 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot make the socket's directory /nowhere/superpipe-7: no such file or directory"
        );
    }

    #[test]
    fn explicit_paths_are_used_unless_too_long() {
        let address = ShmAddress::Path(PathBuf::from("/x/y"));
        assert_eq!(address.socket_path(), Ok(PathBuf::from("/x/y")));
        assert_eq!(address.to_string(), "shm:/x/y");
        let long = ShmAddress::Path(PathBuf::from("x".repeat(108)));
        assert_eq!(long.socket_path(), Err(AddressError::Path(PathError::TooLong { bytes: 108 })));
    }
}
