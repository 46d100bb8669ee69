//! Paths of sockets: `sockaddr_un` has room for 107 bytes, less than any other limit on paths.

use core::fmt;
use core::mem::{offset_of, size_of};
use rustix::net::SocketAddrUnix;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a path, without the NUL.
const PATH_BYTES_MAX: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

const _: () = assert!(PATH_BYTES_MAX == 107);

/// A path that no socket can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The path is empty.
    Empty,
    /// The path contains a NUL byte.
    Nul,
    /// The path is longer than `sockaddr_un` allows.
    TooLong {
        /// bytes of the path
        bytes: usize,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the socket's path is empty; write shm:PATH"),
            Self::Nul => f.write_str("the socket's path holds a NUL byte; choose another one"),
            Self::TooLong { bytes } => write!(
                f,
                "the socket's path has {bytes} bytes and the limit is {PATH_BYTES_MAX}; choose a shorter one"
            ),
        }
    }
}

impl core::error::Error for PathError {}

/// Converts a path.
pub(super) fn unix_address(path: &Path) -> Result<SocketAddrUnix, PathError> {
    let bytes = path.as_os_str().as_bytes();
    check(bytes)?;
    SocketAddrUnix::new(path).map_err(|_| PathError::TooLong { bytes: bytes.len() })
}

/// Checks that [`unix_address`] can convert a path.
pub(super) fn check(bytes: &[u8]) -> Result<(), PathError> {
    match bytes.len() {
        0 => Err(PathError::Empty),
        _ if bytes.contains(&0) => Err(PathError::Nul),
        bytes if bytes > PATH_BYTES_MAX => Err(PathError::TooLong { bytes }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_kernels() {
        assert!(unix_address(Path::new(&"x".repeat(107))).is_ok());
        let error = unix_address(Path::new(&"x".repeat(108))).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the socket's path has 108 bytes and the limit is 107; choose a shorter one"
        );
        assert_eq!(unix_address(Path::new("")).err(), Some(PathError::Empty));
        assert_eq!(unix_address(Path::new("a\0b")).err(), Some(PathError::Nul));
    }

    #[test]
    fn an_address_has_the_bytes_of_the_path() {
        let long = "x".repeat(PATH_BYTES_MAX - 1);
        for path in ["/a/b", "a", &long] {
            let address = unix_address(Path::new(path)).unwrap();
            assert_eq!(address.path_bytes(), Some(path.as_bytes()));
        }
    }
}
