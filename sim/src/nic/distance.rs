//! What copies over memory that two cores share take, by kernel and by the window of the landing buffer that is in use: it depends on how far apart
//! the cores are, and that changes in mid-run.

use superpipe_core::CopyKernel;

/// Bytes that the times of a distance are for.
const UNIT_BYTES: u64 = 4096;

/// Distances of reuse up to which a landing buffer is in the first cache, and in the second.
const REUSE_BYTES: [u64; 2] = [32 << 10, 128 << 10];

/// An outlier takes so many times as long.
pub const OUTLIER_TIMES: u64 = 20;

/// Most distances of a run.
pub const DISTANCES_MAX: usize = 6;

/// Times for 4 KiB in nanoseconds, by kernel in the order of [`CopyKernel::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Copies into blocks.
    pub copy_in_ns: [u64; 4],
    /// Copies out of them.
    pub copy_out_ns: [u64; 4],
    /// Percent of these times that a copy takes, by the bytes that were written since its place was: up to 32 KiB; up to 128 KiB; more.
    pub reuse_percent: [u64; 3],
    /// Time for which the cores are at this distance.
    pub lasts_ns: u64,
}

/// Direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Into a block.
    In,
    /// Out of one.
    Out,
}

/// The distances of a run, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Distances; those from the first `None` on are not used, and the last one stays.
    pub steps: [Option<Distance>; DISTANCES_MAX],
    /// Each copy takes up to this many percent more or less.
    pub noise_percent: u64,
    /// One copy in this many takes [`OUTLIER_TIMES`] as long; 0: none.
    pub outlier_one_in: u64,
    /// Which noise and which outliers: others for each number.
    pub series: u64,
}

impl Distances {
    /// Returns the distance at this time.
    fn at(&self, now_ns: u64) -> Option<Distance> {
        let mut until_ns = 0;
        let mut steps = self.steps.iter().flatten();
        let found = steps.find(|distance| {
            until_ns += distance.lasts_ns;
            now_ns < until_ns
        });
        found.or(self.steps.iter().flatten().last()).copied()
    }

    /// Returns the time of a copy of `bytes` bytes that begins at `now_ns`, into or out of a place that was written `reuse_bytes` bytes before. Noise and
    /// outliers are a function of `draw`.
    #[must_use]
    pub fn copy_ns(
        &self,
        now_ns: u64,
        (bytes, reuse_bytes): (u64, u64),
        kernel: CopyKernel,
        way: Way,
        draw: u64,
    ) -> u64 {
        let Some(distance) = self.at(now_ns) else { return 0 };
        let unit_ns = match way {
            Way::In => distance.copy_in_ns[kernel as usize],
            Way::Out => distance.copy_out_ns[kernel as usize],
        };
        let [first, second, none] = distance.reuse_percent;
        let percent = match reuse_bytes {
            bytes if bytes <= REUSE_BYTES[0] => first,
            bytes if bytes <= REUSE_BYTES[1] => second,
            _ => none,
        };
        let ns = (unit_ns * bytes * percent).div_ceil(UNIT_BYTES * 100);
        let draw = mixed(draw ^ now_ns ^ mixed(self.series));
        let span = ns * self.noise_percent / 100;
        let noisy = ns - span + draw % (2 * span + 1);
        let is_outlier = self.outlier_one_in > 0 && (draw >> 32).is_multiple_of(self.outlier_one_in);
        if is_outlier { noisy * OUTLIER_TIMES } else { noisy }
    }
}

/// Mixes the bits of a number (the finalizer of splitmix64).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_what_its_distance_and_kernel_say() {
        let near = Distance {
            copy_in_ns: [100, 101, 102, 103],
            copy_out_ns: [200, 201, 202, 203],
            reuse_percent: [100; 3],
            lasts_ns: 50,
        };
        let far = Distance {
            copy_in_ns: [1000; 4],
            copy_out_ns: [2000; 4],
            reuse_percent: [50, 100, 200],
            lasts_ns: 5,
        };
        let steps = [Some(near), Some(far), None, None, None, None];
        let distances = Distances { steps, noise_percent: 0, outlier_one_in: 0, series: 0 };
        let ns = |now, kernel, way| distances.copy_ns(now, (2 * UNIT_BYTES, 40 << 10), kernel, way, 7);
        assert_eq!(ns(0, CopyKernel::Plain, Way::In), 200);
        assert_eq!(ns(49, CopyKernel::Streaming, Way::Out), 406);
        assert_eq!(ns(50, CopyKernel::String, Way::In), 2000);
        assert_eq!(ns(u64::MAX, CopyKernel::Fetching, Way::Out), 4000, "the last one stays");
        let by_reuse = |bytes| distances.copy_ns(50, (UNIT_BYTES, bytes), CopyKernel::Plain, Way::In, 7);
        assert_eq!([0, 32 << 10, 33 << 10, 128 << 10, u64::MAX].map(by_reuse), [500, 500, 1000, 1000, 2000]);
        let noisy = Distances { noise_percent: 10, outlier_one_in: 4, ..distances };
        let times: Vec<_> = (0..1000)
            .map(|draw| noisy.copy_ns(0, (UNIT_BYTES, 0), CopyKernel::Plain, Way::In, draw))
            .collect();
        assert!(times.iter().all(|ns| (90..=110).contains(ns) || (1800..=2200).contains(ns)));
        let outliers = times.iter().filter(|ns| **ns > 1000).count();
        assert!((200..300).contains(&outliers), "{outliers}");
    }
}
