//! Memory that a trusted peer writes.

use core::fmt;
use core::ops::Range;
use core::slice;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::fabric::TrustedMemory;
use crate::os::MemoryPlacement;

/// A buffer that messages are received into, and that a trusted peer may write.
///
/// [`Connection::recv_trusted`](crate::Connection::recv_trusted) receives into it. Over shared memory, with the protocol
/// [`RegisterCached`](superpipe_core::Protocol::RegisterCached), the peer maps the buffer. A message of 4 KiB or more out of a registered buffer of the
/// peer is then copied by both ends at once: this end copies the first half out of the peer's buffer, and the peer copies the second half into
/// this one.
///
/// **The peer can write to it at any time, for ever**: memory that it has mapped cannot be taken back. So there is no safe reference to the
/// bytes. [`read`](Self::read) and [`write`](Self::write) copy, and [`as_slice`](Self::as_slice) is unsafe. A superpipe
/// without defects at the other end writes only into a buffer that it was offered, and only until the next message was received.
///
/// **The end of a connection stops no write.** If the buffer is offered when the connection ends, or is dropped, the peer may be in the middle
/// of a write: it stops once it has noticed the end, and nothing tells when. So a buffer that one connection has offered gets new memory with
/// the same bytes when another one offers it or receives into it. Late writes go into the old memory. That costs a copy and a new mapping
/// at the peer, but not if the first connection has received a message into the buffer since.
///
/// ```compile_fail,E0608
/// # use superpipe::TrustedBuf;
/// fn first(buffer: &TrustedBuf) -> u8 {
///     buffer[0]
/// }
/// ```
///
/// ```compile_fail,E0133
/// # use superpipe::TrustedBuf;
/// fn view(buffer: &TrustedBuf) -> &[u8] {
///     buffer.as_slice()
/// }
/// ```
///
/// A call borrows the buffer:
///
/// ```compile_fail,E0505
/// # use core::time::Duration;
/// # use superpipe::{Connection, TrustedBuf};
/// fn receive(connection: &mut Connection, mut buffer: TrustedBuf) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| connection.recv_trusted(&mut buffer, Duration::from_secs(1)));
///         drop(buffer);
///     });
/// }
/// ```
///
/// **Memory.** The buffer takes whole pages, and one descriptor. It is zeros at a page boundary, all of it resident, and counts against the
/// [`Budget`](crate::Budget) while a connection has exposed it. A connection keeps the memory of a buffer that was dropped for as long as the
/// peer may write a message into it, at most until the connection is dropped. Child processes made by `fork` do not have it
/// (MADV_DONTFORK).
///
/// **What the peer cannot do.** The size is sealed, so an access never ends in a SIGBUS because the memory became shorter. The peer can punch
/// holes (`FALLOC_FL_PUNCH_HOLE`), since a seal against that would forbid its writes as well. A hole reads as zeros, and the next access
/// allocates the page anew; where the machine has no memory for that page, the access is a SIGBUS. That is one more reason to trust the peer.
pub struct TrustedBuf {
    memory: Arc<TrustedMemory>,
    len: usize,
}

impl TrustedBuf {
    /// Makes a buffer of `bytes` zeros. Over shared memory a connection sends and receives through blocks where it has 4 GiB or more.
    ///
    /// # Errors
    /// `Limit`: too little memory, too many open files, or RLIMIT_AS. `Os`: the kernel makes no such memory.
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
        Ok(Self { memory: Arc::new(TrustedMemory::new(bytes, memory)?), len: bytes })
    }

    /// Returns the bytes of the buffer.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true for a buffer of 0 bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes out, from the offset `at` on. Bytes that the peer writes meanwhile come old or new.
    ///
    /// # Errors
    /// `Usage`: the buffer does not have these bytes.
    pub fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Error> {
        self.check(at, to.len())?;
        self.memory.read(at, to);
        Ok(())
    }

    /// Copies bytes in, from the offset `at` on.
    ///
    /// # Errors
    /// `Usage`: the buffer does not have these bytes.
    pub fn write(&mut self, at: usize, from: &[u8]) -> Result<(), Error> {
        self.check(at, from.len())?;
        self.memory.write(at, from);
        Ok(())
    }

    /// Returns the address of the first byte, valid for [`len`](Self::len) bytes until the buffer is dropped, or is offered or received into by
    /// another connection than the last one. The peer may write there at any time.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.as_ptr().as_ptr()
    }

    /// Returns the bytes, without a copy.
    ///
    /// # Safety
    /// 1. No peer writes to the buffer while the slice lives. A superpipe without defects at the other end writes only if the buffer was
    ///    [offered](crate::Connection::offer), or given to [`recv_trusted`](crate::Connection::recv_trusted), and only until the next message of
    ///    that connection was received. If the connection ends or is dropped before, only until the peer has noticed that, which nothing tells,
    ///    or until another connection was given the buffer.
    #[must_use]
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes at least, was zeros when made, and lives as long as self. This process writes it only by a
        // borrow of self that is unique; the caller promises that no peer does.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// Returns the memory.
    pub(crate) const fn memory(&self) -> &Arc<TrustedMemory> {
        &self.memory
    }

    /// Replaces the memory by a copy, which no peer has mapped.
    pub(crate) fn renew(&mut self) -> Result<(), Error> {
        // SAFETY: 1. The memory was made with `len` bytes. 2. A reference to them is a borrow of self, which is unique here.
        let copy = unsafe { self.memory.copied(self.len) }?;
        self.memory.note_dropped();
        self.memory = Arc::new(copy);
        Ok(())
    }

    fn check(&self, at: usize, bytes: usize) -> Result<(), Error> {
        if at.checked_add(bytes).is_some_and(|end| end <= self.len) {
            return Ok(());
        }
        let Range { start, end } = at..at.saturating_add(bytes);
        let text = format!("the buffer has {} bytes, and not those from {start} to {end}", self.len);
        Err(Error::new(ErrorKind::Usage, text))
    }
}

impl Drop for TrustedBuf {
    fn drop(&mut self) {
        self.memory.note_dropped();
    }
}

impl fmt::Debug for TrustedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedBuf").field("bytes", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zeros_and_keeps_what_is_written() {
        for bytes in [0, 1, 4095, 4097, 1 << 20] {
            let mut buffer = TrustedBuf::new(bytes).unwrap();
            assert_eq!((buffer.len(), buffer.is_empty()), (bytes, bytes == 0));
            let mut seen = vec![1; bytes];
            buffer.read(0, &mut seen).unwrap();
            assert!(seen.iter().all(|byte| *byte == 0));
            let half = bytes / 2;
            buffer.write(half, &vec![7; bytes - half]).unwrap();
            // SAFETY: no peer has the buffer.
            let all = unsafe { buffer.as_slice() };
            assert_eq!(all.len(), bytes);
            assert!(all[..half].iter().all(|byte| *byte == 0) && all[half..].iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_part_outside_is_refused_by_name() {
        let mut buffer = TrustedBuf::new(100).unwrap();
        for (at, bytes) in [(0, 101), (100, 1), (101, 0), (usize::MAX, 1), (1, 100)] {
            for error in [
                buffer.read(at, &mut vec![0; bytes]).unwrap_err(),
                buffer.write(at, &vec![0; bytes]).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Usage);
                assert!(
                    error.to_string().starts_with("the buffer has 100 bytes, and not those from "),
                    "{error}"
                );
            }
        }
        buffer.write(100, &[]).unwrap();
    }

    #[test]
    fn too_much_is_an_error() {
        assert_eq!(TrustedBuf::new(1 << 60).unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn bytes_in_place_stay_and_others_are_copied() {
        let memory = TrustedMemory::new(8192, MemoryPlacement::default()).unwrap();
        let source: Vec<u8> = (0..100_u8).collect();
        memory.write(4000, &source);
        for is_streaming in [false, true] {
            // SAFETY: the sources are valid, nobody has a reference to them, and they do not overlap where the bytes go.
            unsafe {
                memory.place(4000, memory.as_ptr().as_ptr().add(4000), 100, is_streaming);
                memory.place(100, source.as_ptr(), 100, is_streaming);
            }
            let mut seen = [0; 100];
            for at in [100, 4000] {
                memory.read(at, &mut seen);
                assert_eq!(seen[..], source[..]);
            }
        }
    }
}
