//! Why a packet, or a connection, did not come about.

use super::sun::PathError;
use crate::os::{Bytes, OsError};
use core::ffi::c_int;
use core::{error, fmt};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What became of an accept, a send or a receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketError {
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, or might have: look at your flags, then call again with the same deadline.
    Interrupted,
    /// The peer closed, or its process ended.
    Closed,
    /// The peer takes nothing in: its queue is full.
    Full,
    /// A packet without bytes: not what a peer of ours sends.
    Empty,
    /// A packet larger than any that was expected.
    Oversized {
        /// the most that was expected
        limit: usize,
    },
    /// A packet with more descriptors than it may carry. It is not taken.
    Descriptors,
    /// The system refused.
    Os(OsError),
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens there: there is no such socket.
    NotFound(PathBuf),
    /// Nobody listens there any more: a socket that its process left behind.
    Refused(PathBuf),
    /// Somebody listens, and has not accepted those who came before.
    Busy(PathBuf),
    /// Its owner doesn't let us.
    Denied(PathBuf),
    /// It is no socket, or one of another kind.
    NotOurs(PathBuf),
    /// No socket can have this path.
    Path(PathError),
    /// The system refused.
    Os(OsError),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the deadline passed"),
            Self::Interrupted => f.write_str("interrupted by a signal"),
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Full => f.write_str("the peer takes nothing in: its queue is full"),
            Self::Empty => f.write_str("a packet without bytes"),
            Self::Oversized { limit } => write!(f, "a packet of more than {}", Bytes(*limit as u64)),
            Self::Descriptors => f.write_str("a packet with a descriptor that it may not carry"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for SocketError {}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => {
                write!(f, "cannot connect to {}: no such socket; start the receiver first", path.display())
            }
            Self::Refused(path) => write!(
                f,
                "cannot connect to {}: its listener is gone; start the receiver again",
                path.display()
            ),
            Self::Busy(path) => {
                write!(f, "cannot connect to {}: its listener accepts nobody at the moment", path.display())
            }
            Self::Denied(path) => write!(
                f,
                "cannot connect to {}: permission denied; it must be your own user's",
                path.display()
            ),
            Self::NotOurs(path) => {
                write!(f, "cannot connect to {}: it is not a superpipe socket", path.display())
            }
            Self::Path(error) => write!(f, "cannot connect: {error}"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for ConnectError {}

impl ConnectError {
    /// Why connect(2) was refused with `errno`.
    pub(super) fn of(errno: c_int, path: &Path) -> Self {
        let is_other = || fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket());
        let path_buf = path.to_owned();
        match errno {
            libc::ENOENT => Self::NotFound(path_buf),
            // The kernel says so of a file that is no socket, too.
            libc::ECONNREFUSED if is_other() => Self::NotOurs(path_buf),
            libc::ECONNREFUSED => Self::Refused(path_buf),
            libc::EPROTOTYPE => Self::NotOurs(path_buf),
            libc::EAGAIN => Self::Busy(path_buf),
            libc::EACCES | libc::EPERM => Self::Denied(path_buf),
            errno => Self::Os(OsError::new(errno, format!("cannot connect to {}", path.display()))),
        }
    }
}
