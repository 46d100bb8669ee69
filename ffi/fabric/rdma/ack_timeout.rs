//! Local ACK timeout of a queue pair.

use core::time::Duration;

/// Local ACK timeout: time after which an RDMA device sends again what the peer's device has not acknowledged, 4.096 µs times a power of two,
/// from 8.192 µs to 2.4 hours (`timeout` of ibv_modify_qp(3)). A device may take up to four times as long. After seven retries the peer counts as
/// lost (Linux's rxe retries without end), so a short one finds a lost peer and a lost packet early, and a long one bears a network or device that
/// answers late. Each end has its own. iWARP has none.
///
/// Default: 67 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AckTimeout {
    exponent: u8,
}

impl AckTimeout {
    /// Shortest timeout: 8.192 µs. The exponent 0 means none at all.
    pub const MIN: Self = Self { exponent: 1 };
    /// Longest timeout: 2.4 hours. The field has five bits.
    pub const MAX: Self = Self { exponent: 31 };

    /// Returns the shortest timeout of at least `duration`, or the longest.
    #[must_use]
    pub fn at_least(duration: Duration) -> Self {
        let is_enough = |timeout: &Self| timeout.duration() >= duration;
        let mut timeouts = (Self::MIN.exponent..Self::MAX.exponent).map(|exponent| Self { exponent });
        timeouts.find(is_enough).unwrap_or(Self::MAX)
    }

    /// Returns the time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(4096 << self.exponent)
    }

    /// Returns the exponent of two, which the device is told.
    pub(super) const fn exponent(self) -> u8 {
        self.exponent
    }
}

impl Default for AckTimeout {
    fn default() -> Self {
        Self { exponent: 14 }
    }
}

#[cfg(test)]
mod tests {
    use super::AckTimeout;
    use core::time::Duration;

    #[test]
    fn a_timeout_is_rounded_up_to_a_power_of_two() {
        let of = |duration| AckTimeout::at_least(duration).exponent();
        assert_eq!((of(Duration::ZERO), of(Duration::from_nanos(8192))), (1, 1));
        assert_eq!((of(Duration::from_nanos(8193)), of(Duration::from_millis(67))), (2, 14));
        assert_eq!((of(Duration::from_secs(2)), of(Duration::from_secs(8796))), (19, 31));
        assert_eq!(of(Duration::MAX), 31);
        assert_eq!(AckTimeout::default().duration(), Duration::from_nanos(67_108_864));
        assert_eq!(AckTimeout::MAX.duration().as_secs(), 8796);
    }
}
