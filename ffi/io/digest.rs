//! Checksums of entire streams, which both ends compute and compare.

use crate::copy::shared::for_each_piece;
use core::fmt;
use crc_fast::CrcAlgorithm;

/// A kind of checksum, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DigestKind {
    /// No checksum: the bytes are only counted.
    None,
    /// CRC-32C, as in lines and blocks.
    Crc32c,
    /// CRC-64/NVME: as fast, and undetected damage has a probability of 2^-64.
    #[default]
    Crc64,
}

/// A checksum in progress.
#[derive(Clone)]
pub struct Digest {
    kind: DigestKind,
    crc: Option<crc_fast::Digest>,
    bytes: u64,
}

impl DigestKind {
    /// Returns its name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Crc32c => "crc32c",
            Self::Crc64 => "crc64",
        }
    }
}

impl fmt::Display for DigestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Digest {
    /// Begins a checksum.
    #[must_use]
    pub fn new(kind: DigestKind) -> Self {
        let crc = match kind {
            DigestKind::None => None,
            DigestKind::Crc32c => Some(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            DigestKind::Crc64 => Some(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
        };
        Self { kind, crc, bytes: 0 }
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// Adds the next bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }

    /// Adds the next `len` bytes, of memory that a peer may be writing.
    ///
    /// # Safety
    /// 1. `src` is valid for reads of `len` bytes.
    /// 2. No `&mut` of this process to any of them lives.
    pub(crate) unsafe fn update_shared(&mut self, src: *const u8, len: usize) {
        self.bytes += len as u64;
        let Some(crc) = &mut self.crc else { return };
        // SAFETY: the caller promises that `src` is valid for reads of `len` bytes, and that no `&mut` to them lives.
        unsafe { for_each_piece(src, len, |piece| crc.update(piece)) };
    }

    /// Returns the count of bytes that were added.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the checksum so far; 0 for [`DigestKind::None`].
    #[must_use]
    pub fn value(&self) -> u64 {
        self.crc.as_ref().map_or(0, crc_fast::Digest::finalize)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({} {:#x} of {} bytes)", self.kind, self.value(), self.bytes)
    }
}
