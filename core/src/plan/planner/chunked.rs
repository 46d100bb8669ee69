//! Time of a message in chunks, in a bounded number of steps, and C_opt inside a landing buffer.

use super::super::CopyStep;
use super::super::profile::Profile;
use super::super::timeline::ChunkedCopy;
use super::terms::Terms;

/// Chunks of the largest size that are computed one by one. From there to twice as many the time is linear.
const CHUNKS_MAX: f64 = 64.0;

/// C_opt, equation 3, in bytes: at least 4 KiB, at most a fold.
pub(super) fn pipeline_chunk_bytes(profile: &Profile, terms: &Terms, bytes: u64) -> f64 {
    profile.optimal_chunk_bytes(bytes).max(4096.0).min(terms.fold_bytes() as f64)
}

/// Returns the nanoseconds of a message in chunks in a bounded number of steps.
pub(super) fn chunked_ns(profile: &Profile, copy: ChunkedCopy) -> f64 {
    let largest = if copy.chunks.growth > 1.0 { copy.chunks.bytes_max } else { copy.chunks.c0_bytes };
    let length = copy.bytes as f64;
    if length <= 2.0 * CHUNKS_MAX * largest {
        return copy.ns(profile);
    }
    // The bandwidth of copies is that of the whole message.
    let step = CopyStep { data_bytes_max: u64::MAX, bytes_per_ns: profile.copy_bytes_per_ns(copy.bytes) };
    let profile = Profile { copy: [step; 4], ..*profile };
    #[expect(clippy::cast_possible_truncation, reason = "shorter than the message")]
    let ns = |bytes: f64| ChunkedCopy { bytes: bytes as u64, ..copy }.ns(&profile);
    let (short, long) = (CHUNKS_MAX * largest, 2.0 * CHUNKS_MAX * largest);
    let long_ns = ns(long);
    long_ns + (long_ns - ns(short)) * (length - long) / (long - short)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Chunks, Machine, Start};
    use super::*;

    #[test]
    fn many_chunks_are_computed_as_if_one_by_one() {
        for machine in Machine::ALL {
            for chunks in [Chunks::flat(65_536.0), Chunks { bytes_max: 100_000.0, ..Chunks::HARDWIRED }] {
                let copy = ChunkedCopy::superpipeline(256 << 20, chunks, Start::Optimistic);
                let (all, some) = (copy.ns(&machine.profile), chunked_ns(&machine.profile, copy));
                assert!((some / all - 1.0).abs() < 1e-3, "{}: {some} for {all}", machine.name);
            }
        }
    }
}
