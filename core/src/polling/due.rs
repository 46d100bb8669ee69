//! Times at which slots are looked at, whatever happens.
//!
//! Each slot has one, and a scan looks at all of them once the earliest has come. Times of looks and keepalives are multiples of a grid, so that a thousand connections are looked at together.

/// Times of looks at armed connections, and of keepalives, are multiples of this.
const GRID_NS: u64 = 40_000_000;
/// A keepalive comes late by this part of its time at most: a sleep that ends for one of them costs more than the keepalive.
const LATE_PART: u64 = 16;

/// Rounds a time down to the grid, but not to `now_ns`: a sleep is not ended for each connection.
pub(super) const fn grid_before(now_ns: u64, by_ns: u64) -> u64 {
    let rounded_ns = by_ns / GRID_NS * GRID_NS;
    if rounded_ns > now_ns { rounded_ns } else { by_ns }
}

/// Rounds a time up to the grid, or to a grid of two, four, eight, ... times its distance, if that is fine enough for a time so far away.
pub(super) const fn grid_after(now_ns: u64, at_ns: u64) -> u64 {
    let late_ns = at_ns.saturating_sub(now_ns) / LATE_PART;
    let grid_ns = match (late_ns / GRID_NS).checked_ilog2() {
        Some(doubled) => GRID_NS << doubled,
        None => GRID_NS,
    };
    at_ns.div_ceil(grid_ns).saturating_mul(grid_ns)
}

/// Times by slot; `u64::MAX`: at none.
#[derive(Debug)]
pub(super) struct DueTimes<D> {
    times: D,
    /// No later than the earliest.
    earliest_ns: u64,
    /// Slot that the next scan begins with.
    first: u32,
    /// The scan under way: slots that it looked at, of so many.
    scan: Option<(u32, u32)>,
}

impl<D: AsRef<[u64]> + AsMut<[u64]>> DueTimes<D> {
    /// Makes them of memory of any content.
    pub(super) fn new(mut times: D) -> Self {
        times.as_mut().fill(u64::MAX);
        Self { times, earliest_ns: u64::MAX, first: 0, scan: None }
    }

    #[inline]
    pub(super) const fn earliest_ns(&self) -> u64 {
        self.earliest_ns
    }

    pub(super) fn set(&mut self, slot: u32, due_ns: u64) {
        if let Some(time) = self.times.as_mut().get_mut(slot as usize) {
            *time = due_ns;
            self.earliest_ns = self.earliest_ns.min(due_ns);
        }
    }

    /// Takes the next slot that is due, of those that were used. `None`: the scan is over, and the next call begins another. Without room it is over at the first slot that is due, which is the first one of the next scan.
    pub(super) fn take(&mut self, used: u32, now_ns: u64, has_room: bool) -> Option<u32> {
        let (mut seen, of) = match self.scan.take() {
            Some(scan) => scan,
            None => {
                self.earliest_ns = u64::MAX;
                self.first = if self.first < used { self.first } else { 0 };
                (0, used)
            }
        };
        while seen < of {
            let to_end = of - self.first;
            let slot = if seen < to_end { self.first + seen } else { seen - to_end };
            seen += 1;
            let time = self.times.as_mut().get_mut(slot as usize)?;
            if *time > now_ns {
                self.earliest_ns = self.earliest_ns.min(*time);
            } else if has_room {
                *time = u64::MAX;
                self.scan = Some((seen, of));
                return Some(slot);
            } else {
                (self.earliest_ns, self.first) = (0, slot);
                return None;
            }
        }
        self.first = 0;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_no_room_is_the_first_of_the_next_scan() {
        let mut due = DueTimes::new([0; 4]);
        for (slot, due_ns) in [10, 50, 10, 10].into_iter().enumerate() {
            due.set(u32::try_from(slot).unwrap(), due_ns);
        }
        assert_eq!(due.earliest_ns(), 10);
        assert_eq!(due.take(4, 20, true), Some(0));
        assert_eq!((due.take(4, 20, false), due.earliest_ns()), (None, 0));
        // One that is due again waits for those that were left out.
        due.set(0, 10);
        assert_eq!([(); 5].map(|()| due.take(4, 20, true)), [Some(2), Some(3), Some(0), None, None]);
        assert_eq!(due.earliest_ns(), 50);
    }

    #[test]
    fn times_are_rounded_to_the_grid() {
        assert_eq!(grid_before(1, 99_999_999), 80_000_000);
        assert_eq!(grid_before(81_000_000, 99_999_999), 99_999_999, "not to a time that has passed");
        assert_eq!([1, GRID_NS].map(|at_ns| grid_after(0, at_ns)), [GRID_NS; 2]);
        assert_eq!(grid_after(0, u64::MAX), u64::MAX);
    }

    #[test]
    fn keepalives_are_late_by_a_sixteenth_and_meet_on_one_grid() {
        for after_ms in (200..60_000).step_by(7) {
            let [now_ns, after_ns] = [12_345_678_901, after_ms * 1_000_000];
            let late_ns = grid_after(now_ns, now_ns + after_ns) - (now_ns + after_ns);
            assert!(late_ns < GRID_NS.max(after_ns / LATE_PART), "{after_ms} ms");
        }
        // those of a thousand connections, made one after the other in half a second
        let times = (0..1000).map(|number| grid_after(number * 500_000, number * 500_000 + 7_500_000_000));
        let mut times: std::vec::Vec<_> = times.collect();
        times.dedup();
        assert!(times.len() <= 3, "{times:?}");
    }
}
