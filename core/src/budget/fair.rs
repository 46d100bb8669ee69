//! The two rules of the budget that are pure: what is kept for minimums, and the fair share of the rest.

/// Part of the limit that is kept for minimums. With 8 MiB, the limit of many containers, 2 MiB are 40 connections over RDMA that begin with
/// a page (48 KiB each), and 6 MiB are lent. With less, such a process could not open a second connection beside a hog; with more, growth
/// would lack what minimums rarely use.
const RESERVE_DIVISOR: u64 = 4;

/// Returns the bytes of the limit that are never lent, so that each connection gets its minimum.
#[must_use]
pub const fn reserve(limit_bytes: u64) -> u64 {
    limit_bytes / RESERVE_DIVISOR
}

/// Returns the bytes up to which a connection that demands `demand_bytes` may grow, if `count` connections have demand and
/// `reserved_bytes` of the limit cannot be lent: all of it, at most the fair share.
///
/// The sum over all `count` connections and the reserved bytes never exceeds the limit.
#[must_use]
pub const fn growth_max(limit_bytes: u64, reserved_bytes: u64, count: u64, demand_bytes: u64) -> u64 {
    let count = if count == 0 { 1 } else { count };
    let fair_bytes = limit_bytes.saturating_sub(reserved_bytes) / count;
    if demand_bytes < fair_bytes { demand_bytes } else { fair_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_fair_share_is_a_part_of_what_is_not_reserve() {
        assert_eq!(growth_max(8 * MIB, 2 * MIB, 3, 5 * MIB), 2 * MIB);
        assert_eq!(growth_max(8 * MIB, 2 * MIB, 3, MIB), MIB, "no more than the demand");
        assert_eq!(growth_max(8 * MIB, 2 * MIB, 1, u64::MAX), 6 * MIB);
        assert_eq!(growth_max(8 * MIB, 2 * MIB, 0, u64::MAX), 6 * MIB, "whoever asks is one");
        assert_eq!(growth_max(8 * MIB, 9 * MIB, 1, 1), 0, "the minimums exceed a limit that was lowered");
        assert_eq!(reserve(8 * MIB), 2 * MIB);
    }

    proptest! {
        #[test]
        fn the_sum_never_exceeds_the_limit(
            limit in 0..1_u64 << 40,
            minimums in prop::collection::vec(0..1_u64 << 30, 1..40),
            demands in prop::collection::vec(0..1_u64 << 40, 1..40),
        ) {
            let minimum: u64 = minimums.iter().sum();
            let reserved = reserve(limit).max(minimum);
            let grown: Vec<_> =
                demands.iter().map(|demand| growth_max(limit, reserved, demands.len() as u64, *demand)).collect();
            let sum: u64 = grown.iter().sum();
            prop_assert!(reserved + sum <= limit.max(reserved), "{reserved} + {sum}");
            prop_assert!(demands.iter().zip(&grown).all(|(demand, grown)| grown <= demand));
            // What rounding leaves is less than a byte each.
            let fair = limit.saturating_sub(reserved) / demands.len() as u64;
            prop_assert!(demands.iter().zip(&grown).all(|(demand, grown)| *grown == fair.min(*demand)));
        }

        #[test]
        fn more_of_one_is_never_less(
            limit in 0..1_u64 << 40,
            reserved in 0..1_u64 << 40,
            count in 1..10_000_u64,
            demand in 0..1_u64 << 40,
            more in 0..1_u64 << 40,
        ) {
            let grown = growth_max(limit, reserved, count, demand);
            prop_assert!(growth_max(limit + more, reserved, count, demand) >= grown);
            prop_assert!(growth_max(limit, reserved, count, demand + more) >= grown);
            prop_assert!(growth_max(limit, reserved + more, count, demand) <= grown);
            prop_assert!(growth_max(limit, reserved, count + more, demand) <= grown);
        }
    }
}
