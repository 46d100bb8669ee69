//! Classes of sizes, and curves over them.

/// Number of classes: below 4 KiB, from each power of two on up to 64 MiB, which has all larger ones.
pub(super) const CLASSES: usize = 16;

/// Ends of the classes: 0, 4 KiB, .., 128 MiB.
pub(super) const POINTS: usize = CLASSES + 1;

/// log2 of the fewest bytes of class 1.
const FIRST_LOG2: usize = 12;

/// Returns the class of a message.
pub(super) fn class_of(bytes: u64) -> usize {
    if bytes < 1 << FIRST_LOG2 {
        return 0;
    }
    (bytes.ilog2() as usize + 1 - FIRST_LOG2).min(CLASSES - 1)
}

/// Returns the fewest bytes of a class, and of the one after the last: 128 MiB.
pub(super) const fn least_bytes(point: usize) -> u64 {
    if point == 0 { 0 } else { 1 << (point + FIRST_LOG2 - 1) }
}

/// Nanoseconds at the ends of the classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Curve(pub(super) [f32; POINTS]);

impl Curve {
    /// Returns the nanoseconds for `bytes` bytes: linear between the ends, and beyond the last one. At least 1.
    pub(super) fn at(&self, bytes: f64) -> f64 {
        // Saturates; no size is negative or NaN.
        #[expect(clippy::cast_possible_truncation, reason = "sizes are positive")]
        let class = class_of(bytes as u64);
        let (least, below) = (least_bytes(class) as f64, least_bytes(class + 1) as f64);
        let (from, to) = (f64::from(self.0[class]), f64::from(self.0[class + 1]));
        (from + (to - from) * (bytes - least) / (below - least)).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_begins_with_its_fewest_bytes() {
        for class in 1..CLASSES {
            assert_eq!(class_of(least_bytes(class)), class);
            assert_eq!(class_of(least_bytes(class) - 1), class - 1);
        }
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
        assert_eq!((least_bytes(1), least_bytes(CLASSES)), (4096, 128 << 20));
    }

    #[test]
    fn a_curve_is_linear_between_the_ends_and_beyond() {
        let mut points = [0.0; POINTS];
        for (point, ns) in points.iter_mut().enumerate() {
            *ns = least_bytes(point) as f32 / 64.0 + 10.0;
        }
        let curve = Curve(points);
        for bytes in [0.0, 100.0, 4096.0, 100_000.0, 1e8, 1e9] {
            assert!((curve.at(bytes) / (bytes / 64.0 + 10.0) - 1.0).abs() < 1e-5, "{bytes}");
        }
        assert_eq!(Curve([0.0; POINTS]).at(5.0), 1.0);
    }
}
