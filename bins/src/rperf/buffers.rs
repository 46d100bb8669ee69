//! Where messages are sent from and received into: page-aligned memory of this process.

use super::contents::LOOK_BYTES;
use super::messages::Memory;
use crate::exit::{Code, Failure, explain};
use core::ops::{Deref, DerefMut};
use memmap2::MmapMut;
use superpipe::RecvBuf;
use superpipe::os::Bytes;

/// One message's buffer.
#[derive(Debug)]
pub enum Buffer {
    /// ordinary pages
    Plain {
        /// whole pages
        memory: MmapMut,
        /// of the message
        bytes: usize,
    },
    /// superpipe's own
    Superpipe(RecvBuf),
}

/// The buffers of one direction at one end.
#[derive(Debug)]
pub struct Pool {
    memory: Memory,
    bytes: usize,
    buffers: Vec<Buffer>,
}

impl Buffer {
    /// Memory that nobody has touched, and none of which is resident.
    fn untouched(memory: Memory, bytes: usize) -> Result<Self, Failure> {
        if memory == Memory::Superpipe {
            let buffer =
                RecvBuf::new(bytes).map_err(|error| Failure::new(Code::Device, error.to_string()))?;
            return Ok(Self::Superpipe(buffer));
        }
        // a mapping has a page at least
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
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Plain { memory, bytes } => &mut memory[..*bytes],
            Self::Superpipe(buffer) => buffer,
        }
    }
}

impl Pool {
    /// A pool of this kind, without buffers.
    #[must_use]
    pub const fn empty(memory: Memory) -> Self {
        Self { memory, bytes: 0, buffers: Vec::new() }
    }

    /// Sees that there are so many buffers of this size. What is reused is resident; `look` is asked now and then whether to
    /// stop.
    ///
    /// # Errors
    /// When there is too little memory, and those of `look`.
    pub fn provide(
        &mut self,
        bytes: usize,
        count: usize,
        look: &impl Fn() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.bytes == bytes && self.buffers.len() == count {
            return Ok(());
        }
        self.buffers.clear();
        self.bytes = bytes;
        self.buffers.reserve(count);
        self.refill(count, look)
    }

    /// Gives back buffers that are not reused, and gets as many others.
    ///
    /// # Errors
    /// As [`provide`](Self::provide).
    pub fn renew(&mut self, look: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.memory == Memory::Reused {
            return Ok(());
        }
        let count = self.buffers.len();
        self.buffers.clear();
        self.refill(count, look)
    }

    /// The buffers.
    pub fn buffers(&mut self) -> &mut [Buffer] {
        &mut self.buffers
    }

    fn refill(&mut self, count: usize, look: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        while self.buffers.len() < count {
            look()?;
            let mut buffer = Buffer::untouched(self.memory, self.bytes)?;
            if self.memory == Memory::Reused {
                for piece in buffer.chunks_mut(LOOK_BYTES) {
                    look()?;
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
    fn resident_memory_is_given_up_on_the_way() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() > 3 { Err(Failure::new(Code::Interrupted, "stop")) } else { Ok(()) }
        };
        let failure = Pool::empty(Memory::Reused).provide(8 * LOOK_BYTES, 1, &look).unwrap_err();
        assert_eq!((failure.code, looks.get()), (Code::Interrupted, 4));
        looks.set(0);
        let failure = Pool::empty(Memory::Plain).provide(LOOK_BYTES, 8, &look).unwrap_err();
        assert_eq!((failure.code, looks.get()), (Code::Interrupted, 4));
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
    fn what_is_reused_is_the_same_and_what_is_not_is_empty() {
        for (memory, kept) in [(Memory::Reused, 7), (Memory::Plain, 0), (Memory::Superpipe, 0)] {
            let mut pool = Pool::empty(memory);
            pool.provide(10_000, 1, &go_on).unwrap();
            pool.buffers()[0].fill(7);
            pool.renew(&go_on).unwrap();
            assert!(pool.buffers()[0].iter().all(|&byte| byte == kept), "{memory:?}");
        }
    }

    #[test]
    fn too_much_is_told() {
        for memory in [Memory::Plain, Memory::Superpipe] {
            let failure = Pool::empty(memory).provide(1 << 60, 1, &go_on).unwrap_err();
            assert_eq!(failure.code, Code::Device);
            assert!(failure.text.starts_with("cannot map 1048576 TiB: cannot allocate memory"), "{failure}");
        }
    }
}
