//! Sequences, which skip zero, and counts. Both wrap. Flags are compared for equality only; [`is_before`] orders two sequences,
//! and [`judge`] a count that the peer reports. wire.md 1, 2.2.

/// Returns the sequence after `sequence`. Zero is skipped: memory that was never written reads as zero, and must not
/// pass for an awaited flag.
#[must_use]
#[inline]
pub(crate) fn after(sequence: u64) -> u64 {
    let next = sequence.wrapping_add(1);
    planted!(ZeroNotSkipped => return next);
    if next == 0 { 1 } else { next }
}

/// Returns the sequence before `sequence`: the inverse of [`after`].
#[must_use]
pub(crate) const fn before(sequence: u64) -> u64 {
    let previous = sequence.wrapping_sub(1);
    if previous == 0 { u64::MAX } else { previous }
}

/// Returns true if `a` was counted earlier than `b`, for sequences less than 2^63 apart.
#[must_use]
#[inline]
pub(crate) const fn is_before(a: u64, b: u64) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 63
}

/// Counts the sequences after `from` up to and including `to`, which is not before it.
#[must_use]
pub(crate) const fn distance(from: u64, to: u64) -> u64 {
    // Zero is no sequence.
    to.wrapping_sub(from) - (to < from) as u64
}

/// Judgement of a monotonic count that the peer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// The known count, or an older one that became visible late.
    Stale,
    /// A larger count.
    Forward,
    /// A count above the largest that can be true: the peer is wrong.
    Beyond,
}

/// Judges the reported count `said` against the count `known` and the largest count `limit` that can be true.
#[must_use]
#[inline]
pub(crate) const fn judge(said: u64, known: u64, limit: u64) -> Advance {
    let advance = said.wrapping_sub(known);
    if advance == 0 || advance >= 1 << 63 {
        Advance::Stale
    } else if advance <= limit.wrapping_sub(known) {
        Advance::Forward
    } else {
        Advance::Beyond
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_never_a_sequence() {
        assert_eq!(after(0), 1);
        assert_eq!(after(u64::MAX), 1);
        assert_eq!(before(1), u64::MAX);
        for s in [1, 2, u64::MAX - 1, u64::MAX] {
            assert_eq!(before(after(s)), s);
        }
    }

    #[test]
    fn order_holds_across_the_wrap() {
        assert!(is_before(u64::MAX, 1));
        assert!(!is_before(1, u64::MAX));
        assert!(!is_before(7, 7));
    }

    #[test]
    fn zero_is_not_counted() {
        for (from, to, count) in [(7, 7, 0), (7, 9, 2), (u64::MAX, 1, 1), (u64::MAX - 1, 2, 3)] {
            assert_eq!(distance(from, to), count);
        }
    }

    #[test]
    fn a_count_is_judged_across_the_wrap() {
        let known = u64::MAX - 1;
        assert_eq!(judge(known, known, 3), Advance::Stale);
        assert_eq!(judge(known - 1, known, 3), Advance::Stale);
        assert_eq!(judge(1, known, 3), Advance::Forward);
        assert_eq!(judge(3, known, 3), Advance::Forward);
        assert_eq!(judge(4, known, 3), Advance::Beyond);
    }
}
