//! Memory that is registered with connections.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;
use std::sync::Arc;

use crate::error::Error;
use crate::fabric::RegisteredMemory;
use crate::os::MemoryPlacement;

/// A buffer that messages are sent out of, and received into, without a copy through blocks where the fabric allows it.
///
/// The buffer owns its memory: zeros, at a page boundary, all of it resident. Registrations of it are right by ownership, since nobody but
/// the buffer can unmap the memory, and they end before that.
///
/// [`Connection::send_registered`](crate::Connection::send_registered) sends out of it, and
/// [`Connection::recv_registered`](crate::Connection::recv_registered) receives into it. A call borrows the buffer, so nothing else
/// writes it meanwhile:
///
/// ```compile_fail,E0506
/// # use core::time::Duration;
/// # use superpipe::{Connection, RegisteredBuf};
/// fn send(connection: &mut Connection, buffer: &mut RegisteredBuf) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| connection.send_registered(1, buffer, 0..8, Duration::from_secs(1)));
///         buffer[0] = 1;
///     });
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use core::time::Duration;
/// # use superpipe::{Connection, RegisteredBuf};
/// fn receive(connection: &mut Connection, buffer: &mut RegisteredBuf) {
///     let first = &buffer[0];
///     let received = connection.recv_registered(buffer, Duration::from_secs(1));
///     println!("{first} {received:?}");
/// }
/// ```
///
/// Nor can it be dropped while a call uses it:
///
/// ```compile_fail,E0505
/// # use core::time::Duration;
/// # use superpipe::{Connection, RegisteredBuf};
/// fn send(connection: &mut Connection, buffer: RegisteredBuf) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| connection.send_registered(1, &buffer, 0..8, Duration::from_secs(1)));
///         drop(buffer);
///     });
/// }
/// ```
///
/// **Memory.** The buffer takes whole pages, and one descriptor. It does not count against the [`Budget`](crate::Budget) until it is
/// registered with a connection. Child processes made by `fork` do not have it (MADV_DONTFORK).
pub struct RegisteredBuf {
    memory: Arc<RegisteredMemory>,
    len: usize,
}

impl RegisteredBuf {
    /// Makes a buffer of `bytes` zeros. Over shared memory a connection sends and receives through blocks where it has 4 GiB or more.
    ///
    /// # Errors
    /// `Limit`: too little memory, too many open files, or RLIMIT_AS. `Os`: the kernel makes no such memory, which needs Linux 5.1.
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
        Ok(Self { memory: Arc::new(RegisteredMemory::new(bytes, memory)?), len: bytes })
    }

    /// Returns the memory.
    pub(crate) const fn memory(&self) -> &Arc<RegisteredMemory> {
        &self.memory
    }
}

impl Deref for RegisteredBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes at least, was zeros when made, and is borrowed with self. Peers map it for reading only, and a
        // device writes it only for a call that borrows the buffer mutably, unless the application has trusted its peer with it
        // (`PeerTrust`).
        unsafe { slice::from_raw_parts(self.memory.as_ptr().as_ptr(), self.len) }
    }
}

impl DerefMut for RegisteredBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of self is unique, so no other reference to these bytes lives in this process.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().as_ptr(), self.len) }
    }
}

#[cfg(feature = "verbs")]
impl Drop for RegisteredBuf {
    fn drop(&mut self) {
        // Each of them keeps the memory.
        self.memory.registrations().end();
    }
}

impl fmt::Debug for RegisteredBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredBuf").field("bytes", &self.len).finish_non_exhaustive()
    }
}
