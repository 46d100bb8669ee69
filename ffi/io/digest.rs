//! The checksum of a whole stream, which both ends compute and compare.

use core::mem::MaybeUninit;
use core::str::FromStr;
use core::{fmt, ptr, slice};
use crc_fast::CrcAlgorithm;

/// Bytes that are copied out of shared memory and then checksummed while the first cache holds them.
const PIECE_BYTES: usize = 4096;

/// Which checksum, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DigestKind {
    /// None: only the bytes are counted.
    None,
    /// CRC-32C, as of the lines and blocks.
    Crc32c,
    /// CRC-64/NVME: as fast, and a damaged stream passes with 2^-64.
    #[default]
    Crc64,
}

/// A checksum that is being computed.
#[derive(Clone)]
pub struct Digest {
    kind: DigestKind,
    crc: Option<crc_fast::Digest>,
    bytes: u64,
}

impl DigestKind {
    /// Every kind, the weakest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Crc32c, Self::Crc64];

    /// The word that people write for it.
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

impl FromStr for DigestKind {
    type Err = UnknownDigest;

    fn from_str(word: &str) -> Result<Self, UnknownDigest> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or(UnknownDigest)
    }
}

/// A word that names no checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDigest;

impl fmt::Display for UnknownDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such checksum; there are none, crc32c and crc64")
    }
}

impl core::error::Error for UnknownDigest {}

impl Digest {
    /// The checksum of nothing yet.
    #[must_use]
    pub fn new(kind: DigestKind) -> Self {
        let crc = match kind {
            DigestKind::None => None,
            DigestKind::Crc32c => Some(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            DigestKind::Crc64 => Some(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
        };
        Self { kind, crc, bytes: 0 }
    }

    /// Which checksum it is.
    #[must_use]
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// Takes in the next bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(crc) = &mut self.crc {
            crc.update(bytes);
        }
    }

    /// Takes in the next `len` bytes, out of memory that a peer may be writing.
    ///
    /// # Safety
    /// 1. `src` is valid for reads of `len` bytes.
    /// 2. No `&mut` of this process to any of them lives.
    pub unsafe fn update_shared(&mut self, src: *const u8, len: usize) {
        self.bytes += len as u64;
        let Some(crc) = &mut self.crc else { return };
        let mut piece = [MaybeUninit::<u8>::uninit(); PIECE_BYTES];
        for from in (0..len).step_by(PIECE_BYTES) {
            let bytes = PIECE_BYTES.min(len - from);
            // SAFETY: `from + bytes` is at most `len`, inside the caller's range; `piece` has room for `bytes`.
            unsafe { ptr::copy_nonoverlapping(src.add(from), piece.as_mut_ptr().cast(), bytes) };
            // SAFETY: these `bytes` of `piece` were just written, and nobody else has its address.
            crc.update(unsafe { slice::from_raw_parts(piece.as_ptr().cast(), bytes) });
        }
    }

    /// The bytes that were taken in.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The checksum so far; 0 where there is none.
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
