//! Distances of reuse in a landing buffer: the bytes that were written into it since the same place was written. They are what decides in which cache
//! a place lies, and in a steady lap equal its length.

use core::ops::Range;

/// Bytes of a place.
const PLACE_BYTES: u32 = 4096;

/// Places of a landing buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Reuse {
    written_bytes: u64,
    /// Bytes that were written before each place was, the last time, and its distance then.
    places: Vec<Option<(u64, u64)>>,
}

impl Reuse {
    /// Handles a write of so many bytes at an offset, and returns the largest distance of its places; the largest number for a place that was not written
    /// before.
    pub(super) fn on_write(&mut self, at: u32, bytes: u64) -> u64 {
        let covered = covered(at, bytes);
        if self.places.len() < covered.end {
            self.places.resize(covered.end, None);
        }
        let mut largest = 0;
        for (before, place) in (0..).step_by(PLACE_BYTES as usize).zip(&mut self.places[covered]) {
            // A short write may cover a part of two places.
            let begin = self.written_bytes + bytes.min(before);
            let distance = place.map_or(u64::MAX, |(last, _)| begin - last);
            *place = Some((begin, distance));
            largest = largest.max(distance);
        }
        self.written_bytes += bytes;
        largest
    }

    /// Returns the largest distance with which the places of so many bytes at an offset were written last.
    pub(super) fn of(&self, at: u32, bytes: u64) -> u64 {
        let distance = |place: usize| {
            self.places.get(place).copied().flatten().map_or(u64::MAX, |(_, distance)| distance)
        };
        covered(at, bytes).map(distance).max().unwrap_or(0)
    }
}

/// Returns the places of so many bytes at an offset.
fn covered(at: u32, bytes: u64) -> Range<usize> {
    let place = |at: u32| (at / PLACE_BYTES) as usize;
    let last = at.saturating_add(u32::try_from(bytes.saturating_sub(1)).unwrap_or(u32::MAX));
    place(at)..place(last) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_the_length_of_the_lap() {
        let mut reuse = Reuse::default();
        let lap = |reuse: &mut Reuse, places: u32| -> Vec<u64> {
            (0..places).map(|place| reuse.on_write(place * PLACE_BYTES, 4096) / 4096).collect()
        };
        assert_eq!(lap(&mut reuse, 4), [u64::MAX / 4096; 4]);
        assert_eq!(lap(&mut reuse, 4), [4; 4]);
        assert_eq!(lap(&mut reuse, 2), [4, 4]);
        assert_eq!(lap(&mut reuse, 2), [2, 2]);
        assert_eq!(lap(&mut reuse, 4), [2, 2, 8, 8]);
        // Two places in one write: one of them was written just before.
        assert_eq!(reuse.on_write(PLACE_BYTES, 4096), 3 * 4096);
        assert_eq!(reuse.on_write(PLACE_BYTES, 8192), 4 * 4096);
        assert_eq!(reuse.of(PLACE_BYTES, 8192), 4 * 4096);
        assert_eq!(
            (reuse.of(0, 4096), reuse.of(3 * PLACE_BYTES + 7, 1), reuse.of(1 << 20, 1)),
            (2 * 4096, 8 * 4096, u64::MAX)
        );
        // A short one may cover a part of two places.
        assert_eq!(reuse.on_write(3 * PLACE_BYTES - 8, 16), 4 * 4096 + 16);
        assert_eq!(reuse.on_write(3 * PLACE_BYTES, 8), 0);
    }
}
