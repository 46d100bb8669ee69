//! Errors of sockets.

use super::unix_address::PathError;
use crate::os::{Bytes, OsError};
use core::{error, fmt};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A failure to accept, send or receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketError {
    /// The deadline passed.
    TimedOut,
    /// A signal arrived, or may have arrived: check your flags, then call again with the same deadline.
    Interrupted,
    /// The peer closed, or its process ended.
    Closed,
    /// The peer's queue is full.
    Full,
    /// A packet without bytes, which no superpipe sends.
    Empty,
    /// A packet that is too large.
    Oversized {
        /// the limit in bytes
        limit: usize,
    },
    /// A packet with more descriptors than it may carry. It stays in the queue.
    Descriptors,
    /// The system refused.
    Os(OsError),
}

/// A failure to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectError {
    /// There is no such socket.
    NotFound(PathBuf),
    /// The socket has no listener: its process ended.
    Refused(PathBuf),
    /// The listener's backlog is full.
    Busy(PathBuf),
    /// The permissions of the socket or its directory forbid it.
    Denied(PathBuf),
    /// The path is no socket, or one of another kind.
    NotOurs(PathBuf),
    /// The path cannot be a socket's.
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
                write!(
                    f,
                    "cannot connect to {}: its listener accepts nobody at the moment; try again later",
                    path.display()
                )
            }
            Self::Denied(path) => write!(
                f,
                "cannot connect to {}: permission denied; run both ends as one user, or give yours access to the socket",
                path.display()
            ),
            Self::NotOurs(path) => {
                write!(
                    f,
                    "cannot connect to {}: it is not a superpipe socket; use another path",
                    path.display()
                )
            }
            Self::Path(error) => write!(f, "cannot connect: {error}"),
            Self::Os(error) => error.fmt(f),
        }
    }
}

impl error::Error for ConnectError {}

impl ConnectError {
    /// Converts the errno of connect(2).
    pub(super) fn of(errno: Errno, path: &Path) -> Self {
        let is_other = || fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket());
        let path_buf = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound(path_buf),
            // The kernel returns this for a file that is no socket, too.
            Errno::CONNREFUSED if is_other() => Self::NotOurs(path_buf),
            Errno::CONNREFUSED => Self::Refused(path_buf),
            Errno::PROTOTYPE => Self::NotOurs(path_buf),
            Errno::AGAIN => Self::Busy(path_buf),
            Errno::ACCESS | Errno::PERM => Self::Denied(path_buf),
            errno => Self::Os(OsError::of(errno, format!("cannot connect to {}", path.display()))),
        }
    }
}
