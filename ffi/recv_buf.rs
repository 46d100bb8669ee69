//! Memory to receive into.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

use crate::error::Error;
use crate::os::map::HUGE_PAGE_BYTES;
use crate::os::{Mapping, MemoryPlacement};

/// Length from which a huge page pays, even if most of it is not asked for: its first write is three times as fast as that of small
/// pages (docs/performance.md, "Cold memory").
const HUGE_FROM_BYTES: usize = 512 << 10;

/// A receive buffer that is fast from its first use on: zeros, at a page boundary, in huge pages if the kernel grants them.
///
/// [`new`](Self::new) makes two or three system calls. The buffer becomes resident as it is written, 2 MiB at a time, so a buffer that
/// is never written costs address space and no memory. A buffer that is used again is resident already and faster still: keep it.
/// Dropping it returns the memory to the system.
///
/// ```
/// # use core::time::Duration;
/// # use superpipe::{Address, Connection, Error, Listener, Options, RecvBuf};
/// # const DEADLINE: Duration = Duration::from_secs(30);
/// # fn main() -> Result<(), Error> {
/// # let path = std::env::temp_dir().join(format!("superpipe-buf-doc-{}.sock", std::process::id()));
/// # let address = Address::Shm(path);
/// # let mut listener = Listener::bind(&address, Options::default())?;
/// # let peer = std::thread::spawn(move || -> Result<(), Error> {
/// #     let mut connection = Connection::connect(&address, Options::default(), DEADLINE)?;
/// #     connection.send(0, &[&vec![7; 1 << 20]], DEADLINE)
/// # });
/// # let mut connection = listener.accept(DEADLINE)?;
/// let mut buffer = RecvBuf::new(4 << 20)?;
/// let received = connection.recv_into(&mut [&mut buffer], DEADLINE)?;
/// assert!(buffer[..received.bytes].iter().all(|byte| *byte == 7));
/// # peer.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
///
/// **Memory.** The buffer takes whole pages. A last part of 512 KiB or more takes a whole huge page, so a buffer of 512 KiB holds 2 MiB
/// once it is written; [`mapped_bytes`](Self::mapped_bytes) returns the sum. The memory belongs to the application, like that of a
/// `Vec`, and does not count against the [`Budget`](crate::Budget), which bounds what connections take for themselves.
///
/// Child processes made by `fork` do not have it (MADV_DONTFORK).
pub struct RecvBuf {
    mapping: Mapping,
    len: usize,
}

impl RecvBuf {
    /// Makes a buffer of `bytes` zeros.
    ///
    /// # Errors
    /// `Limit`: too little memory, or RLIMIT_AS.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        Self::at(bytes, MemoryPlacement::default())
    }

    /// Makes a buffer as [`new`](Self::new) does, of memory of a node: that of a connection is in its
    /// [`Description::memory`](crate::Description::memory). If the node has no free memory, pages come from the nearest one that has.
    ///
    /// # Errors
    /// As [`new`](Self::new). `Os`: there is no such node, or this process may not use it.
    pub fn on_node(bytes: usize, node: u32) -> Result<Self, Error> {
        Self::at(bytes, MemoryPlacement::on(node))
    }

    fn at(bytes: usize, memory: MemoryPlacement) -> Result<Self, Error> {
        let mapping = Mapping::anonymous(bytes_to_map(bytes))?;
        memory.place(&mapping)?;
        Ok(Self { mapping, len: bytes })
    }

    /// Returns the bytes of memory that the buffer takes once all of it was written.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.mapping.len()
    }

    /// Makes the whole buffer resident now, instead of as it is written. Changes no byte.
    ///
    /// # Errors
    /// `Limit`: too little memory.
    pub fn make_resident(&mut self) -> Result<(), Error> {
        Ok(self.mapping.populate()?)
    }
}

/// Returns the bytes to map for a buffer: a last part for which a huge page pays gets a whole one.
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
        // SAFETY: the mapping has `len` bytes at least, is private to this process and this value, and was zeros when made. The borrow of self
        // is unique, so no other reference to them lives.
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
    use crate::os::memory_node::some_placement;
    use crate::os::page::page_bytes;

    #[test]
    fn a_buffer_on_a_node_is_of_that_node() {
        let Some(placement) = some_placement() else { return };
        let node = placement.node().unwrap();
        let mut buffer = RecvBuf::on_node(10_000, node).unwrap();
        assert_eq!(buffer.mapping.preferred_node(), Some(node));
        buffer.make_resident().unwrap();
        assert_eq!(buffer.mapping.node_at(9_999), Some(node));
        assert!(buffer.iter().all(|byte| *byte == 0));
        let error = RecvBuf::on_node(1, 1023).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Os, "{error}");
        let registered = crate::RegisteredBuf::on_node(10_000, node).unwrap();
        assert_eq!(registered.memory().exposed().mapping().preferred_node(), Some(node));
        assert!(
            crate::RegisteredBuf::on_node(1, 1023).is_err() && crate::TrustedBuf::on_node(1, 1023).is_err()
        );
    }

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
