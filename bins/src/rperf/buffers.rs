//! Page-aligned buffers that rperf sends messages from and receives them into.

use super::contents::STOP_CHECK_BYTES;
use super::messages::Memory;
use crate::exit::{Code, Failure, explain};
use core::ops::{Deref, DerefMut};
use memmap2::MmapMut;
use superpipe::os::Bytes;
use superpipe::{RecvBuf, RegisteredBuf};

/// Buffer of one message.
#[derive(Debug)]
pub enum Buffer {
    /// anonymous mapping of ordinary pages
    Plain {
        /// mapping, in whole pages
        memory: MmapMut,
        /// length of the message
        bytes: usize,
    },
    /// buffer that superpipe allocated
    Superpipe(RecvBuf),
    /// buffer that the peer can reach
    Registered(RegisteredBuf),
}

/// Buffers of one direction at one end.
#[derive(Debug)]
pub struct Pool {
    memory: Memory,
    is_registered: bool,
    bytes: usize,
    buffers: Vec<Buffer>,
}

impl Buffer {
    /// Allocates memory that was never written, so that none of it is resident.
    fn untouched(memory: Memory, is_registered: bool, bytes: usize) -> Result<Self, Failure> {
        if is_registered {
            let buffer =
                RegisteredBuf::new(bytes).map_err(|error| Failure::new(Code::Device, error.to_string()))?;
            return Ok(Self::Registered(buffer));
        }
        if memory == Memory::Superpipe {
            let buffer =
                RecvBuf::new(bytes).map_err(|error| Failure::new(Code::Device, error.to_string()))?;
            return Ok(Self::Superpipe(buffer));
        }
        // an empty mapping is an error
        let memory = MmapMut::map_anon(bytes.max(1)).map_err(|error| {
            let doing = format!("cannot map {}", Bytes(bytes as u64));
            Failure::new(Code::Device, explain(doing, &error))
        })?;
        Ok(Self::Plain { memory, bytes })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Plain { memory, bytes } => &memory[..*bytes],
            Self::Superpipe(buffer) => buffer,
            Self::Registered(buffer) => buffer,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Plain { memory, bytes } => &mut memory[..*bytes],
            Self::Superpipe(buffer) => buffer,
            Self::Registered(buffer) => buffer,
        }
    }
}

impl Pool {
    /// Creates an empty pool of this kind of memory.
    #[must_use]
    pub const fn empty(memory: Memory) -> Self {
        Self { memory, is_registered: false, bytes: 0, buffers: Vec::new() }
    }

    /// Sets whether the buffers are registered ones, which are kept for all messages. Discards those of the other kind.
    pub fn set_registered(&mut self, is_registered: bool) {
        if self.is_registered != is_registered {
            self.is_registered = is_registered;
            self.buffers.clear();
        }
    }

    /// Provides `count` buffers of `bytes` each. Reused buffers are written once, so that they are resident. Calls
    /// `check_stop` before each piece of work, to stop early.
    ///
    /// # Errors
    /// Too little memory, or the error of `check_stop`.
    pub fn provide(
        &mut self,
        bytes: usize,
        count: usize,
        check_stop: &impl Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.bytes == bytes && self.buffers.len() == count {
            return Ok(());
        }
        self.buffers.clear();
        self.bytes = bytes;
        self.buffers.reserve(count);
        self.refill(count, check_stop)
    }

    /// Replaces the buffers by new ones, unless they are reused or registered.
    ///
    /// # Errors
    /// Those of [`provide`](Self::provide).
    pub fn renew(&mut self, check_stop: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.memory == Memory::Reused || self.is_registered {
            return Ok(());
        }
        let count = self.buffers.len();
        self.buffers.clear();
        self.refill(count, check_stop)
    }

    /// Returns the buffers.
    pub fn buffers(&mut self) -> &mut [Buffer] {
        &mut self.buffers
    }

    fn refill(&mut self, count: usize, check_stop: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        while self.buffers.len() < count {
            check_stop()?;
            let mut buffer = Buffer::untouched(self.memory, self.is_registered, self.bytes)?;
            if self.memory == Memory::Reused {
                for piece in buffer.chunks_mut(STOP_CHECK_BYTES) {
                    check_stop()?;
                    piece.fill(1);
                }
            }
            self.buffers.push(buffer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn go_on() -> Result<(), Failure> {
        Ok(())
    }

    #[test]
    fn allocation_stops_at_a_signal() {
        let checks = Cell::new(0);
        let check_stop = || {
            checks.set(checks.get() + 1);
            if checks.get() > 3 { Err(Failure::new(Code::Interrupted, "stop")) } else { Ok(()) }
        };
        let failure = Pool::empty(Memory::Reused).provide(8 * STOP_CHECK_BYTES, 1, &check_stop).unwrap_err();
        assert_eq!((failure.code, checks.get()), (Code::Interrupted, 4));
        checks.set(0);
        let failure = Pool::empty(Memory::Plain).provide(STOP_CHECK_BYTES, 8, &check_stop).unwrap_err();
        assert_eq!((failure.code, checks.get()), (Code::Interrupted, 4));
    }

    #[test]
    fn buffers_are_as_long_as_asked_and_aligned_to_pages() {
        for memory in [Memory::Reused, Memory::Plain, Memory::Superpipe, Memory::Advised] {
            let mut pool = Pool::empty(memory);
            for bytes in [0, 1, 4096, 4097, 1 << 20] {
                pool.provide(bytes, 3, &go_on).unwrap();
                pool.renew(&go_on).unwrap();
                assert_eq!(pool.buffers().len(), 3);
                for buffer in pool.buffers() {
                    assert_eq!(buffer.len(), bytes);
                    assert_eq!(buffer.as_ptr().addr() % 4096, 0);
                }
            }
        }
    }

    #[test]
    fn registered_buffers_are_kept_and_replace_others() {
        let mut pool = Pool::empty(Memory::Plain);
        pool.provide(10_000, 2, &go_on).unwrap();
        pool.set_registered(true);
        pool.provide(10_000, 2, &go_on).unwrap();
        pool.buffers()[1].fill(7);
        pool.set_registered(true);
        pool.renew(&go_on).unwrap();
        assert!(pool.buffers().iter().all(|buffer| matches!(buffer, Buffer::Registered(_))));
        assert!(pool.buffers()[1].iter().all(|byte| *byte == 7));
        pool.set_registered(false);
        pool.provide(10_000, 2, &go_on).unwrap();
        assert!(pool.buffers().iter().all(|buffer| matches!(buffer, Buffer::Plain { .. })));
    }

    #[test]
    fn only_reused_buffers_keep_their_contents() {
        for (memory, kept) in [(Memory::Reused, 7), (Memory::Plain, 0), (Memory::Superpipe, 0)] {
            let mut pool = Pool::empty(memory);
            pool.provide(10_000, 1, &go_on).unwrap();
            pool.buffers()[0].fill(7);
            pool.renew(&go_on).unwrap();
            assert!(pool.buffers()[0].iter().all(|&byte| byte == kept), "{memory:?}");
        }
    }

    #[test]
    fn a_failed_allocation_is_reported() {
        for memory in [Memory::Plain, Memory::Superpipe] {
            let failure = Pool::empty(memory).provide(1 << 60, 1, &go_on).unwrap_err();
            assert_eq!(failure.code, Code::Device);
            assert!(failure.text.starts_with("cannot map 1048576 TiB: cannot allocate memory"), "{failure}");
        }
    }
}
