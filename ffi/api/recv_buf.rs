//! Memory to receive into.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

use super::error::Error;
use crate::os::Mapping;
use crate::os::map::HUGE_PAGE_BYTES;

/// From so many bytes on a huge page is worth its zeros, even where most of it is not asked for: it is three times as
/// fast to write for the first time (docs/performance.md, "Cold memory").
const HUGE_FROM_BYTES: usize = 512 << 10;

/// A receive buffer that is fast from its first use on: zeros, at a page boundary, in huge pages where the kernel gives
/// them.
///
/// Making one costs two or three system calls. It becomes resident as it is written, 2 MiB at a time, so one that is
/// never written costs address space and no memory. Used again, it is resident already, which is faster still: keep it.
/// Dropped, it goes back to the system.
///
/// ```
/// # fn main() -> Result<(), superpipe::Error> {
/// let mut buffer = superpipe::RecvBuf::new(4 << 20)?;
/// assert_eq!(buffer.len(), 4 << 20);
/// buffer[0] = 1;
/// // connection.recv_into(&mut [&mut buffer], deadline)?;
/// # Ok(())
/// # }
/// ```
///
/// **Memory.** Whole pages; and from 512 KiB on a last part of 512 KiB or more becomes a whole huge page: a buffer of 512 KiB
/// holds 2 MiB once it is written. [`mapped_bytes`](Self::mapped_bytes) tells. It is the application's memory, as a `Vec`
/// is, and not counted against the [`Budget`](crate::Budget), which bounds what connections take for themselves.
///
/// Child processes made by `fork` do not have it (MADV_DONTFORK).
pub struct RecvBuf {
    mapping: Mapping,
    len: usize,
}

impl RecvBuf {
    /// A buffer of `bytes` zeros.
    ///
    /// # Errors
    /// `Limit`: too little memory, or RLIMIT_AS.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        Ok(Self { mapping: Mapping::anonymous(bytes_to_map(bytes))?, len: bytes })
    }

    /// Bytes of memory that it takes once all of it was written.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.mapping.len()
    }

    /// Makes all of it resident now, instead of as it is written. Changes no byte.
    ///
    /// # Errors
    /// `Limit`: too little memory.
    pub fn make_resident(&mut self) -> Result<(), Error> {
        Ok(self.mapping.populate()?)
    }
}

/// Bytes to map for a buffer: where a huge page pays for the last part, it gets a whole one.
fn bytes_to_map(bytes: usize) -> usize {
    if bytes % HUGE_PAGE_BYTES < HUGE_FROM_BYTES {
        return bytes;
    }
    // A length that cannot be rounded up cannot be mapped either: the mapping fails.
    bytes.checked_next_multiple_of(HUGE_PAGE_BYTES).unwrap_or(bytes)
}

impl Deref for RecvBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes at least, is private to this process and this value, was zeros when made, and
        // is borrowed with self.
        unsafe { slice::from_raw_parts(self.mapping.as_ptr().as_ptr(), self.len) }
    }
}

impl DerefMut for RecvBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and the borrow of self is unique, as the mapping's owner is.
        unsafe { slice::from_raw_parts_mut(self.mapping.as_ptr().as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for RecvBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for RecvBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuf")
            .field("bytes", &self.len)
            .field("mapped_bytes", &self.mapping.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::os::page::page_bytes;

    const HUGE: usize = HUGE_PAGE_BYTES;

    #[test]
    fn a_last_part_of_a_huge_page_is_rounded_up_where_that_pays() {
        let half = HUGE_FROM_BYTES;
        for (bytes, mapped) in [
            (0, 0),
            (half - 1, half - 1),
            (half, HUGE),
            (HUGE, HUGE),
            (HUGE + half - 1, HUGE + half - 1),
            (HUGE + half, 2 * HUGE),
            (usize::MAX, usize::MAX),
        ] {
            assert_eq!(bytes_to_map(bytes), mapped, "{bytes}");
        }
    }

    #[test]
    fn it_is_zeros_of_the_length_asked_for_at_a_page() {
        for bytes in [0, 1, 4095, 4096, 4097, HUGE_FROM_BYTES, HUGE - 1, HUGE, HUGE + 1] {
            let mut buffer = RecvBuf::new(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            let page = if bytes >= HUGE_FROM_BYTES { HUGE } else { page_bytes() };
            assert_eq!(buffer.as_ptr().addr() % page, 0, "{bytes}");
            assert!(buffer.iter().all(|&byte| byte == 0), "{bytes}");
            buffer.fill(0xA5);
            buffer.make_resident().unwrap();
            assert!(buffer.iter().all(|&byte| byte == 0xA5), "{bytes}");
        }
    }

    #[test]
    fn dropped_it_is_unmapped() {
        // Another test's thread may map there in between, but not every time.
        let unmapped = (0..100).any(|_| {
            let buffer = RecvBuf::new(HUGE + 1).unwrap();
            let (start, len) = (buffer.as_ptr(), buffer.mapped_bytes());
            drop(buffer);
            // SAFETY: msync of a range that is not mapped answers ENOMEM; of one that is, it changes no byte.
            unsafe { libc::msync(start.cast_mut().cast(), len, libc::MS_ASYNC) == -1 }
        });
        assert!(unmapped);
    }

    #[test]
    fn too_much_is_an_error() {
        for bytes in [1 << 60, usize::MAX] {
            assert_eq!(RecvBuf::new(bytes).unwrap_err().kind(), ErrorKind::Limit);
        }
    }
}
