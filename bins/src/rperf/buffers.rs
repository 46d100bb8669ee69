//! Page-aligned buffers that rperf sends messages from and receives them into.

use super::contents::STOP_CHECK_BYTES;
use super::messages::Memory;
use crate::exit::{Code, Failure, explain};
use memmap2::MmapMut;
use std::borrow::Cow;
use superpipe::os::Bytes;
use superpipe::{RecvBuf, RegisteredBuf, TrustedBuf};

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
    /// buffer that the peer, which is trusted, may write; to receive into
    Trusted(TrustedBuf),
}

/// Registration of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// ordinary memory
    None,
    /// registered buffers
    Registered,
    /// buffers that the peer may write
    Trusted,
}

/// Buffers of one direction at one end.
#[derive(Debug)]
pub struct Pool {
    memory: Memory,
    registration: Registration,
    /// memory node of buffers that superpipe makes
    node: Option<u32>,
    bytes: usize,
    buffers: Vec<Buffer>,
}

impl Buffer {
    /// Allocates memory that was never written, so that none of it is resident.
    fn untouched(
        memory: Memory,
        registration: Registration,
        node: Option<u32>,
        bytes: usize,
    ) -> Result<Self, Failure> {
        let made = match (registration, node) {
            (Registration::None, _) if memory != Memory::Superpipe => None,
            (Registration::None, None) => Some(RecvBuf::new(bytes).map(Self::Superpipe)),
            (Registration::None, Some(node)) => Some(RecvBuf::on_node(bytes, node).map(Self::Superpipe)),
            (Registration::Registered, None) => Some(RegisteredBuf::new(bytes).map(Self::Registered)),
            (Registration::Registered, Some(node)) => {
                Some(RegisteredBuf::on_node(bytes, node).map(Self::Registered))
            }
            (Registration::Trusted, None) => Some(TrustedBuf::new(bytes).map(Self::Trusted)),
            (Registration::Trusted, Some(node)) => Some(TrustedBuf::on_node(bytes, node).map(Self::Trusted)),
        };
        if let Some(made) = made {
            return made.map_err(|error| Failure::new(Code::Device, error.to_string()));
        }
        // an empty mapping is an error
        let memory = MmapMut::map_anon(bytes.max(1)).map_err(|error| {
            let doing = format!("cannot map {}", Bytes(bytes as u64));
            Failure::new(Code::Device, explain(doing, &error))
        })?;
        Ok(Self::Plain { memory, bytes })
    }

    /// Returns the length of the message.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        match self {
            Self::Plain { bytes, .. } => *bytes,
            Self::Superpipe(buffer) => buffer.len(),
            Self::Registered(buffer) => buffer.len(),
            Self::Trusted(buffer) => buffer.len(),
        }
    }

    /// Returns the message: a copy of one in memory that the peer may write.
    #[must_use]
    pub fn message(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Plain { memory, bytes } => Cow::Borrowed(&memory[..*bytes]),
            Self::Superpipe(buffer) => Cow::Borrowed(buffer),
            Self::Registered(buffer) => Cow::Borrowed(buffer),
            Self::Trusted(buffer) => {
                let mut copy = vec![0; buffer.len()];
                // It has as many bytes.
                let _ = buffer.read(0, &mut copy);
                Cow::Owned(copy)
            }
        }
    }

    /// Returns the memory, unless the peer may write it.
    pub fn memory(&mut self) -> &mut [u8] {
        match self {
            Self::Plain { memory, bytes } => &mut memory[..*bytes],
            Self::Superpipe(buffer) => buffer,
            Self::Registered(buffer) => buffer,
            Self::Trusted(_) => &mut [],
        }
    }
}

impl Pool {
    /// Creates an empty pool of this kind of memory.
    #[must_use]
    pub const fn empty(memory: Memory) -> Self {
        Self { memory, registration: Registration::None, node: None, bytes: 0, buffers: Vec::new() }
    }

    /// Sets the registration of the buffers. Registered ones are kept for all messages. Discards those of another kind.
    pub fn set_registration(&mut self, registration: Registration) {
        if self.registration != registration {
            self.registration = registration;
            self.buffers.clear();
        }
    }

    /// Sets the memory node of buffers that superpipe makes. Discards those of another node.
    pub fn set_node(&mut self, node: Option<u32>) {
        if self.node != node {
            self.node = node;
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
        if self.memory == Memory::Reused || self.registration != Registration::None {
            return Ok(());
        }
        let count = self.buffers.len();
        self.buffers.clear();
        self.refill(count, check_stop)
    }

    /// Discards all buffers.
    pub fn release(&mut self) {
        self.buffers = Vec::new();
    }

    /// Returns the buffers.
    pub fn buffers(&mut self) -> &mut [Buffer] {
        &mut self.buffers
    }

    fn refill(&mut self, count: usize, check_stop: &impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        while self.buffers.len() < count {
            check_stop()?;
            let mut buffer = Buffer::untouched(self.memory, self.registration, self.node, self.bytes)?;
            if self.memory == Memory::Reused {
                for piece in buffer.memory().chunks_mut(STOP_CHECK_BYTES) {
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
                    assert_eq!(buffer.message_bytes(), bytes);
                    assert_eq!(buffer.memory().as_ptr().addr() % 4096, 0);
                }
            }
        }
    }

    #[test]
    fn registered_buffers_are_kept_and_replace_others() {
        let mut pool = Pool::empty(Memory::Plain);
        pool.provide(10_000, 2, &go_on).unwrap();
        pool.set_registration(Registration::Registered);
        pool.provide(10_000, 2, &go_on).unwrap();
        pool.buffers()[1].memory().fill(7);
        pool.set_registration(Registration::Registered);
        pool.renew(&go_on).unwrap();
        assert!(pool.buffers().iter().all(|buffer| matches!(buffer, Buffer::Registered(_))));
        assert!(pool.buffers()[1].message().iter().all(|byte| *byte == 7));
        pool.set_registration(Registration::Trusted);
        pool.provide(10_000, 1, &go_on).unwrap();
        pool.renew(&go_on).unwrap();
        let [Buffer::Trusted(trusted)] = pool.buffers() else { panic!("it is not trusted") };
        trusted.write(9_999, &[7]).unwrap();
        let message = pool.buffers()[0].message();
        assert_eq!((message.len(), message[0], message[9_999]), (10_000, 0, 7));
        pool.set_registration(Registration::None);
        pool.provide(10_000, 2, &go_on).unwrap();
        assert!(pool.buffers().iter().all(|buffer| matches!(buffer, Buffer::Plain { .. })));
    }

    #[test]
    fn only_reused_buffers_keep_their_contents() {
        for (memory, kept) in [(Memory::Reused, 7), (Memory::Plain, 0), (Memory::Superpipe, 0)] {
            let mut pool = Pool::empty(memory);
            pool.provide(10_000, 1, &go_on).unwrap();
            pool.buffers()[0].memory().fill(7);
            pool.renew(&go_on).unwrap();
            assert!(pool.buffers()[0].message().iter().all(|&byte| byte == kept), "{memory:?}");
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
