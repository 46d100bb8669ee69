//! How far apart the two cores are, which a virtual machine's host may change at any time. Two processes send a number to and fro over two
//! lines of the shared mapping.

use core::sync::atomic::Ordering;

use superpipe::os::monotonic_ns;

use crate::failure::Failure;
use crate::map::SharedMapping;
use crate::spin::{Timeout, await_word};

/// Bytes of the two lines, each in a pair of lines of its own.
pub const PROBE_BYTES: usize = 256;

/// Round trips of a probe: 50 µs between cores of a cluster. The fastest of several batches counts.
const TRIPS: u64 = 250;
const BATCHES: u64 = 8;
/// Time of 8 bytes from core to core (docs/performance.md, "The bare ring at each distance").
const APART_NS: f64 = 55.0;
const FAR_NS: f64 = 150.0;

/// Where the two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// in one cache cluster
    Near,
    /// in two clusters, or in one whose cores other programs use
    Apart,
    /// in two clusters far from each other
    Far,
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

    fn of(one_way_ns: f64) -> Self {
        match one_way_ns {
            ..APART_NS => Self::Near,
            ..FAR_NS => Self::Apart,
            _ => Self::Far,
        }
    }
}

/// Measures the distance, in the client. The server calls [`answer`] meanwhile. `number` is larger than at the probe before.
///
/// # Errors
/// [`Failure::Timeout`] or [`Failure::PeerLost`] if no answer comes.
pub fn measure(
    map: &SharedMapping,
    at: usize,
    number: &mut u64,
    timeout: &Timeout,
) -> Result<Distance, Failure> {
    let [out, back] = [at, at + PROBE_BYTES / 2].map(|at| &map.words(at, 8)[0]);
    let mut best_ns = f64::INFINITY;
    for _ in 0..BATCHES {
        let begin_ns = monotonic_ns();
        for _ in 0..TRIPS {
            *number += 1;
            out.store(*number, Ordering::Release);
            await_word::<true>(back, *number, timeout)?;
        }
        best_ns = best_ns.min((monotonic_ns() - begin_ns) as f64 / (2 * TRIPS) as f64);
    }
    Ok(Distance::of(best_ns))
}

/// Answers a probe, in the server.
///
/// # Errors
/// [`Failure::Timeout`] if none comes.
pub fn answer(map: &SharedMapping, at: usize, number: &mut u64, timeout: &Timeout) -> Result<(), Failure> {
    let [out, back] = [at, at + PROBE_BYTES / 2].map(|at| &map.words(at, 8)[0]);
    for _ in 0..BATCHES * TRIPS {
        *number += 1;
        await_word::<true>(out, *number, timeout)?;
        back.store(*number, Ordering::Release);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_probe_is_answered_and_can_be_repeated() {
        let map = SharedMapping::new(PROBE_BYTES, false).unwrap();
        let timeout = Timeout::new(20, None);
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let mut number = 0;
                (0..2).try_for_each(|_| answer(&map, 0, &mut number, &Timeout::new(20, None)))
            });
            let mut number = 0;
            for _ in 0..2 {
                assert!(Distance::ALL.contains(&measure(&map, 0, &mut number, &timeout).unwrap()));
            }
            assert!(server.join().unwrap().is_ok());
        });
        assert_eq!([30.0, 90.0, 200.0].map(Distance::of), Distance::ALL);
    }
}
