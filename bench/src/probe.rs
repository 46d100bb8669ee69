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
/// Time of 8 bytes from core to core: some 30 ns in a cache cluster, some 200 ns between clusters (docs/performance.md).
const FAR_NS: f64 = 100.0;

/// Where the two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// in one cache cluster
    Near,
    /// in two clusters, or in one whose cores other programs use
    Far,
}

impl Distance {
    /// Both, the nearer one first.
    pub const ALL: [Self; 2] = [Self::Near, Self::Far];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }

    fn of(one_way_ns: f64) -> Self {
        if one_way_ns < FAR_NS { Self::Near } else { Self::Far }
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
        assert_eq!((Distance::of(30.0), Distance::of(200.0)), (Distance::Near, Distance::Far));
    }
}
