//! How far apart two cores are: the time of 8 bytes over a line, from one core to the other. A virtual machine's host may change it at any time.

use super::clock::monotonic_ns;
use super::error::OsError;
use super::pin::{PinError, pin_current_thread};
use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use core::{error, fmt};
use std::{io, thread};

/// Round trips of a batch: less than 28 µs between cores of one cache cluster.
const TRIPS: u64 = 250;
/// Batches of a probe. The fastest one counts.
const BATCHES: u64 = 8;
/// Limits of the distances, by the time of 8 bytes (docs/performance.md, "The bare ring at each distance").
const APART_NS: f64 = 55.0;
const FAR_NS: f64 = 150.0;
/// Limit on a probe, which takes a millisecond.
const LIMIT: Duration = Duration::from_secs(1);
/// Polls between two readings of the clock.
const POLLS_PER_CHECK: u32 = 1 << 12;

/// Where two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// In one cache cluster.
    Near,
    /// In two clusters, or in one whose cores other programs use.
    Apart,
    /// In two clusters far from each other.
    Far,
}

/// A failure to probe two cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// A thread cannot be pinned to one of the cores.
    Pin(PinError),
    /// One of the two threads cannot be started.
    Thread(OsError),
    /// The other core did not answer in time: it may be busy with other programs.
    Timeout,
}

impl Distance {
    /// All, the nearest one first.
    pub const ALL: [Self; 3] = [Self::Near, Self::Apart, Self::Far];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Apart => "apart",
            Self::Far => "far",
        }
    }

    /// Returns the distance of two cores between which 8 bytes take this many nanoseconds.
    #[must_use]
    pub fn of(one_way_ns: f64) -> Self {
        match one_way_ns {
            ..APART_NS => Self::Near,
            ..FAR_NS => Self::Apart,
            _ => Self::Far,
        }
    }
}

/// Two words, each in a pair of lines of its own, since neighbouring lines are fetched together.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Returns the nanoseconds of 8 bytes from one core to the other, the least of several batches, measured by two threads pinned to them. The calling
/// thread stays where it is. Takes about a millisecond, or about a second if it fails.
///
/// # Errors
/// [`ProbeError`].
pub fn one_way_ns(cores: [usize; 2]) -> Result<f64, ProbeError> {
    one_way_ns_within(cores, LIMIT)
}

/// Measures as [`one_way_ns`] does, and gives up after `limit`.
///
/// # Errors
/// [`ProbeError`].
pub fn one_way_ns_within(cores: [usize; 2], limit: Duration) -> Result<f64, ProbeError> {
    let end_ns = monotonic_ns().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let await_word = |word: &AtomicU64, wanted| await_until(word, wanted, end_ns);
    let (out, back) = (Line::default(), Line::default());
    let pinned = |core| pin_current_thread(core).map_err(ProbeError::Pin);
    thread::scope(|scope| {
        let second = thread::Builder::new().spawn_scoped(scope, || {
            pinned(cores[1])?;
            answer(&out.0, &back.0, &mut 0, await_word)
        });
        let thread_error = |error: io::Error| {
            ProbeError::Thread(OsError::new(error.raw_os_error().unwrap_or(0), "cannot start a thread"))
        };
        let second = second.map_err(thread_error)?;
        let first = thread::Builder::new().spawn_scoped(scope, || {
            pinned(cores[0])?;
            measure(&out.0, &back.0, &mut 0, await_word)
        });
        let first = first.map_err(thread_error)?;
        let first = first.join().unwrap_or(Err(ProbeError::Timeout));
        let second = second.join().unwrap_or(Err(ProbeError::Timeout));
        // A thread that could not be pinned makes the other one wait in vain.
        match second {
            Err(error @ ProbeError::Pin(_)) => Err(error),
            _ => first,
        }
    })
}

/// Returns the nanoseconds one way of 8 bytes to another thread or process, the least of several batches. The other one calls [`answer`] meanwhile.
/// Each word has a pair of cache lines of its own. `number` is the last value of the probe before, 0 at first, and equal at both ends; each probe
/// adds to it. `await_word` waits until a word has a value.
///
/// # Errors
/// Those of `await_word`.
pub fn measure<E>(
    out: &AtomicU64,
    back: &AtomicU64,
    number: &mut u64,
    mut await_word: impl FnMut(&AtomicU64, u64) -> Result<(), E>,
) -> Result<f64, E> {
    let mut best_ns = f64::INFINITY;
    for _ in 0..BATCHES {
        let begin_ns = monotonic_ns();
        for _ in 0..TRIPS {
            *number += 1;
            out.store(*number, Ordering::Release);
            await_word(back, *number)?;
        }
        best_ns = best_ns.min((monotonic_ns() - begin_ns) as f64 / (2 * TRIPS) as f64);
    }
    Ok(best_ns)
}

/// Answers [`measure`].
///
/// # Errors
/// Those of `await_word`.
pub fn answer<E>(
    out: &AtomicU64,
    back: &AtomicU64,
    number: &mut u64,
    mut await_word: impl FnMut(&AtomicU64, u64) -> Result<(), E>,
) -> Result<(), E> {
    for _ in 0..BATCHES * TRIPS {
        *number += 1;
        await_word(out, *number)?;
        back.store(*number, Ordering::Release);
    }
    Ok(())
}

/// Waits for a value of a word until `end_ns`.
fn await_until(word: &AtomicU64, wanted: u64, end_ns: u64) -> Result<(), ProbeError> {
    loop {
        for _ in 0..POLLS_PER_CHECK {
            if word.load(Ordering::Acquire) == wanted {
                return Ok(());
            }
            hint::spin_loop();
        }
        if monotonic_ns() > end_ns {
            return Err(ProbeError::Timeout);
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin(error) => error.fmt(f),
            Self::Thread(error) => error.fmt(f),
            Self::Timeout => f.write_str(
                "one of the two cores did not answer in time; end the programs that keep it busy, or name another core",
            ),
        }
    }
}

impl error::Error for ProbeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::allowed_cores;

    #[test]
    fn the_limits_belong_to_the_farther_distance() {
        let distances = [0.0, 54.9, 55.0, 149.9, 150.0, f64::INFINITY].map(Distance::of);
        use Distance::{Apart, Far, Near};
        assert_eq!(distances, [Near, Near, Apart, Apart, Far, Far]);
        assert_eq!(format!("{:<6}|", Apart), "apart |");
    }

    #[test]
    fn two_cores_have_a_distance() {
        let cores: Vec<usize> = allowed_cores().iter().take(2).collect();
        let [first, second] = cores[..] else {
            eprintln!("skipped: a distance needs two cores");
            return;
        };
        // The cores may be busy with other tests, so that a probe has to be repeated.
        let ns = (0..10).find_map(|_| one_way_ns([first, second]).ok()).expect("a probe succeeds");
        assert!((1.0..1e6).contains(&ns), "{ns}");
    }

    #[test]
    fn a_missing_core_is_named() {
        let first = allowed_cores().iter().next().unwrap();
        for cores in [[first, 8000], [8000, first]] {
            let error = one_way_ns(cores).unwrap_err();
            assert!(matches!(&error, ProbeError::Pin(PinError::NoSuchCore { core: 8000, .. })), "{error}");
            assert!(error.to_string().starts_with("core 8000 does not exist"), "{error}");
        }
    }

    #[test]
    fn an_end_without_an_answer_gives_up() {
        let (out, back) = (Line::default(), Line::default());
        let await_word = |word: &AtomicU64, wanted| await_until(word, wanted, monotonic_ns() + 1_000_000);
        assert_eq!(measure(&out.0, &back.0, &mut 0, await_word), Err(ProbeError::Timeout));
        assert_eq!(out.0.load(Ordering::Relaxed), 1);
    }
}
