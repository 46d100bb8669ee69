//! Samples: times of messages, and the figures made of them.
//!
//! A reading of the clock costs about as much as a message of 8 bytes, so short messages are timed in two ways, in turns. A
//! *batch* of messages between two readings gives minimum, median and average. Then as many messages with one reading each give
//! the 99th and 99.9th percentiles and the maximum, which an average over a batch would hide. Long messages have one reading
//! each. Every sample is kept, in memory that was allocated and written before the run; those of a run by time are counted in a
//! [`Histogram`].

use super::histogram::Histogram;
use super::link::MessageError;
use super::runs::{Figures, Pattern, Run};
use crate::protocol::Role;
use crate::signals::Signals;
use superpipe::os::monotonic_ns;

/// Samples of one run, in nanoseconds.
#[derive(Debug)]
pub struct Samples {
    batch: u32,
    batched: Kept,
    single: Kept,
}

/// Samples of one kind.
#[derive(Debug)]
enum Kept {
    /// each of them
    All(Vec<u64>),
    /// their counts
    Counted(Histogram),
}

/// Scale from samples to figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// one-way trips in a sample: 2 for a round trip, of which half is reported
    pub trips: u64,
    /// cost of one reading of the clock, which is subtracted from each sample
    pub reading_ns: u64,
}

impl Samples {
    /// Allocates resident memory for all samples that this end takes of a run. The server times a stream, the client all else.
    #[must_use]
    pub fn new(run: &Run, role: Role) -> Self {
        let is_ours = is_ours(run, role);
        let room = |count: u64, is_wanted: bool| {
            if run.is_by_time() {
                return Kept::Counted(Histogram::default());
            }
            let count = if is_wanted { usize::try_from(count).unwrap_or(0) } else { 0 };
            // written once, so that no page fault falls into a sample
            let mut room = vec![u64::MAX; count];
            room.clear();
            Kept::All(room)
        };
        let batched = room(run.samples, is_ours && run.batch > 1);
        Self { batch: run.batch, batched, single: room(run.singles(), is_ours) }
    }

    /// Returns the bytes of memory that [`new`](Self::new) allocates.
    #[must_use]
    pub fn bytes(run: &Run, role: Role) -> u64 {
        let batched = if run.batch > 1 { run.samples } else { 0 };
        if is_ours(run, role) { 8 * run.singles().saturating_add(batched) } else { 0 }
    }

    /// Adds the time of a single message.
    #[inline]
    pub fn push(&mut self, ns: u64) {
        self.single.push(ns);
    }

    /// Adds the time of a batch.
    #[inline]
    pub fn push_batch(&mut self, ns: u64) {
        self.batched.push(ns);
    }

    /// Runs the warm-up, then times the calls of `one` as the run says.
    ///
    /// # Errors
    /// The error of `one`, or a signal.
    #[inline]
    pub fn take(
        &mut self,
        run: &Run,
        signals: &Signals,
        mut one: impl FnMut() -> Result<(), MessageError>,
    ) -> Result<(), MessageError> {
        repeat(run.warmup, signals, &mut one)?;
        let until_ns = monotonic_ns().saturating_add(run.time_ns);
        let mut left = run.samples;
        // asked after each sample, or each two batches
        let mut goes_on = |now: u64| {
            left = left.saturating_sub(1);
            if run.is_by_time() { now < until_ns } else { left > 0 }
        };
        let mut last = monotonic_ns();
        if run.samples == 0 && !run.is_by_time() {
            return Ok(());
        }
        if run.batch == 1 {
            loop {
                stop_if_asked(signals)?;
                one()?;
                let now = monotonic_ns();
                self.single.push(now - last);
                last = now;
                if !goes_on(now) {
                    return Ok(());
                }
            }
        }
        loop {
            stop_if_asked(signals)?;
            let begin = monotonic_ns();
            for _ in 0..run.batch {
                one()?;
            }
            last = monotonic_ns();
            self.batched.push(last - begin);
            for _ in 0..run.batch {
                one()?;
                let now = monotonic_ns();
                self.single.push(now - last);
                last = now;
            }
            if !goes_on(last) {
                return Ok(());
            }
        }
    }

    /// Returns the number of timed messages.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.single.count() + u64::from(self.batch) * self.batched.count()
    }

    /// Returns the figures, or zeros if there are no samples.
    #[must_use]
    pub fn figures(mut self, scale: Scale) -> Figures {
        if self.single.count() == 0 {
            return Figures::default();
        }
        self.single.sort();
        self.batched.sort();
        let single = |ns: u64| scale.ps(ns, 1);
        let (typical, messages) =
            if self.batched.count() == 0 { (&self.single, 1) } else { (&self.batched, self.batch.into()) };
        let many = |ns: u64| scale.ps(ns, messages);
        let min_ps = many(typical.min());
        let p50_ps = many(typical.percentile(500)).max(min_ps);
        let avg_ps = typical.average_ps(scale, messages).max(min_ps);
        // batches and single messages are timed apart: the figures are made to ascend
        let p99_ps = single(self.single.percentile(990)).max(p50_ps);
        let p999_ps = single(self.single.percentile(999)).max(p99_ps);
        let max_ps = single(self.single.percentile(1000)).max(p999_ps).max(avg_ps);
        Figures { min_ps, p50_ps, avg_ps, p99_ps, p999_ps, max_ps }
    }
}

impl Kept {
    #[inline]
    fn push(&mut self, ns: u64) {
        match self {
            Self::All(all) => all.push(ns),
            Self::Counted(histogram) => histogram.push(ns),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::All(all) => all.len() as u64,
            Self::Counted(histogram) => histogram.count(),
        }
    }

    fn sort(&mut self) {
        if let Self::All(all) = self {
            all.sort_unstable();
        }
    }

    /// Returns the smallest of some that are sorted.
    fn min(&self) -> u64 {
        match self {
            Self::All(all) => all.first().copied().unwrap_or(0),
            Self::Counted(histogram) => histogram.min(),
        }
    }

    /// Returns the value that `permille` of 1000 do not exceed, of some that are sorted.
    fn percentile(&self, permille: usize) -> u64 {
        match self {
            Self::All(all) => percentile(all, permille),
            Self::Counted(histogram) => histogram.percentile(permille as u64),
        }
    }

    /// Returns the average of samples of `messages` messages.
    fn average_ps(&self, scale: Scale, messages: u64) -> u64 {
        let count = u128::from(self.count()).max(1);
        let sum_ps: u128 = match self {
            Self::All(all) => all.iter().map(|&ns| u128::from(scale.ps(ns, messages))).sum(),
            Self::Counted(histogram) => {
                let ns = histogram.sum().saturating_sub(count * u128::from(scale.reading_ns));
                ns * 1000 / u128::from(messages * scale.trips)
            }
        };
        u64::try_from(sum_ps / count).unwrap_or(u64::MAX)
    }
}

impl Scale {
    /// Returns the picoseconds of one trip in a sample of `messages` messages.
    fn ps(self, ns: u64, messages: u64) -> u64 {
        ns.saturating_sub(self.reading_ns).saturating_mul(1000) / (messages * self.trips)
    }
}

/// Calls `one` `count` times, and checks for a signal now and then.
///
/// # Errors
/// The error of `one`, or a signal.
#[inline]
pub fn repeat(
    count: u64,
    signals: &Signals,
    mut one: impl FnMut() -> Result<(), MessageError>,
) -> Result<(), MessageError> {
    const STOP_CHECK_INTERVAL: u64 = 64;
    let mut left = count;
    while left > 0 {
        stop_if_asked(signals)?;
        let now = left.min(STOP_CHECK_INTERVAL);
        for _ in 0..now {
            one()?;
        }
        left -= now;
    }
    Ok(())
}

/// Checks for a signal. The library does so only while it waits, and it never waits for a peer that is always ready.
///
/// # Errors
/// The signal.
#[inline]
pub fn stop_if_asked(signals: &Signals) -> Result<(), MessageError> {
    signals.failure().map_or(Ok(()), |failure| Err(MessageError::Local(failure)))
}

/// Returns true if this end takes the samples of a run.
fn is_ours(run: &Run, role: Role) -> bool {
    (run.pattern == Pattern::Stream) == (role == Role::Server)
}

/// Returns the value that `permille` of 1000 samples do not exceed. `sorted` ascends and is not empty.
fn percentile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1000);
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Scale = Scale { trips: 1, reading_ns: 0 };

    fn samples(batch: u32, batched: &[u64], single: &[u64]) -> Samples {
        Samples { batch, batched: Kept::All(batched.to_vec()), single: Kept::All(single.to_vec()) }
    }

    #[test]
    fn percentiles_are_samples() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!([0, 500, 990, 999, 1000].map(|p| percentile(&sorted, p)), [1, 500, 990, 999, 1000]);
        assert_eq!([0, 500, 1000].map(|p| percentile(&[4], p)), [4; 3]);
    }

    #[test]
    fn long_messages_have_a_time_each() {
        let single: Vec<u64> = (1..=1000).rev().map(|us| us * 1000).collect();
        let figures = samples(1, &[], &single).figures(WHOLE);
        let us = 1_000_000;
        assert_eq!(
            figures,
            Figures {
                min_ps: us,
                p50_ps: 500 * us,
                avg_ps: 500 * us + us / 2,
                p99_ps: 990 * us,
                p999_ps: 999 * us,
                max_ps: 1000 * us
            }
        );
    }

    #[test]
    fn batches_give_the_median_and_singles_the_percentiles() {
        let figures = samples(64, &[6400, 9600, 6400], &[200, 150, 900]).figures(WHOLE);
        assert_eq!((figures.min_ps, figures.p50_ps, figures.avg_ps), (100_000, 100_000, 116_666));
        assert_eq!((figures.p99_ps, figures.max_ps), (900_000, 900_000));
        // every single message is faster than the batches
        let figures = samples(2, &[800, 800], &[100]).figures(WHOLE);
        assert_eq!((figures.p50_ps, figures.p99_ps, figures.max_ps), (400_000, 400_000, 400_000));
    }

    #[test]
    fn half_a_round_trip_without_the_clock() {
        let scale = Scale { trips: 2, reading_ns: 22 };
        let figures = samples(64, &[22 + 64 * 60], &[22 + 60, 22 + 80]).figures(scale);
        assert_eq!((figures.p50_ps, figures.max_ps), (30_000, 40_000));
        assert_eq!(samples(1, &[], &[5]).figures(scale), Figures::default());
        assert_eq!(samples(1, &[], &[]).figures(scale), Figures::default());
    }

    #[test]
    fn a_run_takes_as_many_samples_as_it_says() {
        let signals = Signals::install("test").unwrap();
        for (batch, messages) in [(1, 3 + 5), (4, 3 + 5 * 8)] {
            let run = Run {
                pattern: Pattern::Stream,
                is_reconnected: false,
                is_recorded: false,
                batch,
                bytes: 0,
                warmup: 3,
                samples: 5,
                time_ns: 0,
                connection: 0,
            };
            let mut samples = Samples::new(&run, Role::Server);
            let room = |samples: &Samples| match (&samples.single, &samples.batched) {
                (Kept::All(single), Kept::All(batched)) => (single.capacity(), batched.capacity()),
                _ => panic!("a run by count keeps all"),
            };
            assert_eq!(room(&Samples::new(&run, Role::Client)), (0, 0));
            assert_eq!(Samples::bytes(&run, Role::Client), 0);
            let made = room(&samples);
            assert_eq!(Samples::bytes(&run, Role::Server), 8 * (made.0 + made.1) as u64);
            let mut count = 0;
            let taken = samples.take(&run, &signals, || {
                count += 1;
                Ok(())
            });
            assert!(taken.is_ok());
            assert_eq!((count, samples.single.count()), (messages, run.singles()));
            assert_eq!(samples.count(), messages - 3);
            assert_eq!(room(&samples), made, "room was made beforehand");
            assert_eq!(samples.batched.count(), if batch > 1 { 5 } else { 0 });
            assert_eq!(
                samples.take(&Run { warmup: 0, samples: 0, ..run }, &signals, || Ok(())).ok(),
                Some(())
            );
            assert_eq!(samples.count(), messages - 3);
        }
    }

    #[test]
    fn a_run_by_time_ends_with_a_sample_after_it() {
        let signals = Signals::install("test").unwrap();
        for batch in [1, 8] {
            let run = Run {
                pattern: Pattern::Pingpong,
                is_reconnected: false,
                is_recorded: false,
                batch,
                bytes: 0,
                warmup: 2,
                samples: 0,
                time_ns: 3_000_000,
                connection: 0,
            };
            let mut samples = Samples::new(&run, Role::Client);
            let begin = monotonic_ns();
            let mut count = 0;
            let taken = samples.take(&run, &signals, || {
                count += 1;
                std::thread::sleep(core::time::Duration::from_micros(100));
                Ok(())
            });
            assert!(taken.is_ok() && monotonic_ns() - begin >= run.time_ns);
            assert_eq!((samples.count(), samples.count() % u64::from(batch)), (count - 2, 0));
            let Figures { min_ps, p50_ps, avg_ps, p99_ps, p999_ps, max_ps } = samples.figures(WHOLE);
            assert!(min_ps >= 100_000_000 && [min_ps, p50_ps, p99_ps, p999_ps, max_ps].is_sorted());
            assert!((min_ps..=max_ps).contains(&avg_ps));
        }
    }
}
