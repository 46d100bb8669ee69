//! A path as the kernel takes it: sockaddr_un, whose 107 bytes are the shortest limit that a path meets.

use core::fmt;
use core::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a path that fit beside the NUL.
const PATH_BYTES_MAX: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

const _: () = assert!(PATH_BYTES_MAX == 107);

/// Why a path cannot be a socket's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It is empty.
    Empty,
    /// It holds a NUL byte.
    Nul,
    /// It has more bytes than the kernel takes.
    TooLong {
        /// its bytes
        bytes: usize,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the socket's path is empty"),
            Self::Nul => f.write_str("the socket's path holds a NUL byte"),
            Self::TooLong { bytes } => write!(
                f,
                "the socket's path has {bytes} bytes and the limit is {PATH_BYTES_MAX}; choose a shorter one"
            ),
        }
    }
}

impl core::error::Error for PathError {}

/// A checked address.
pub(super) struct SunAddress {
    raw: libc::sockaddr_un,
    len: libc::socklen_t,
}

impl SunAddress {
    pub(super) fn new(path: &Path) -> Result<Self, PathError> {
        let bytes = path.as_os_str().as_bytes();
        check(bytes)?;
        let mut raw = libc::sockaddr_un { sun_family: FAMILY, sun_path: [0; PATH_BYTES_MAX + 1] };
        for (to, from) in raw.sun_path.iter_mut().zip(bytes) {
            *to = from.cast_signed();
        }
        let len = offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
        let len = libc::socklen_t::try_from(len).map_err(|_| PathError::TooLong { bytes: bytes.len() })?;
        Ok(Self { raw, len })
    }

    /// The address and its length, for as long as this lives.
    pub(super) fn as_raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.raw).cast(), self.len)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "AF_UNIX is 1")]
const FAMILY: libc::sa_family_t = libc::AF_UNIX as libc::sa_family_t;

/// What [`SunAddress::new`] asks of a path, for those who only want to know.
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
        assert!(SunAddress::new(Path::new(&"x".repeat(107))).is_ok());
        let error = SunAddress::new(Path::new(&"x".repeat(108))).err().unwrap();
        assert_eq!(
            error.to_string(),
            "the socket's path has 108 bytes and the limit is 107; choose a shorter one"
        );
        assert_eq!(SunAddress::new(Path::new("")).err(), Some(PathError::Empty));
        assert_eq!(SunAddress::new(Path::new("a\0b")).err(), Some(PathError::Nul));
    }

    #[test]
    fn bytes_are_the_paths_with_a_nul() {
        let address = SunAddress::new(Path::new("/a/b")).unwrap();
        assert_eq!(address.len, 2 + 4 + 1);
        assert_eq!(address.raw.sun_path[..6], [47, 97, 47, 98, 0, 0]);
        assert_eq!(address.raw.sun_family, 1);
    }
}
