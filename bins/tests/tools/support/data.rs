//! Reproducible bytes, written to a pipe and checked at its other end.

use std::io::{Read, Write};

/// Generator of pseudorandom bytes that depend on the seed alone.
#[derive(Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Takes a seed from the clock and prints it. SUPERPIPE_SEED sets one.
    pub(crate) fn from_time(test: &str) -> Self {
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
        let seed = std::env::var("SUPERPIPE_SEED").map_or_else(|_| clock(), |seed| seed.parse().unwrap());
        eprintln!("{test}: SUPERPIPE_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

/// Writes `total` bytes of noise, and calls `at` with the bytes so far. Returns early if the pipe has no reader.
pub(crate) fn feed(mut pipe: impl Write, seed: u64, total: u64, mut at: impl FnMut(u64)) {
    const PIECE: usize = 256 << 10;
    let mut noise = Noise::new(seed);
    let mut piece = vec![0; PIECE];
    let mut written = 0;
    while written < total {
        at(written);
        let bytes = usize::try_from(total - written).unwrap_or(PIECE).min(PIECE);
        noise.fill(&mut piece[..bytes]);
        if pipe.write_all(&piece[..bytes]).is_err() {
            return;
        }
        written += bytes as u64;
    }
    at(written);
}

/// Reads to the end, and asserts that the bytes are those of `feed`.
pub(crate) fn verify(mut pipe: impl Read, seed: u64, total: u64) {
    const PIECE: usize = 256 << 10;
    let mut noise = Noise::new(seed);
    let (mut expected, mut got) = (vec![0; PIECE], vec![0; PIECE]);
    let mut read = 0;
    while read < total {
        let bytes = usize::try_from(total - read).unwrap_or(PIECE).min(PIECE);
        noise.fill(&mut expected[..bytes]);
        pipe.read_exact(&mut got[..bytes]).unwrap();
        assert!(got[..bytes] == expected[..bytes], "the bytes after {read} differ");
        read += bytes as u64;
    }
    assert_eq!(pipe.read(&mut got).unwrap(), 0, "more than {total} bytes");
}
