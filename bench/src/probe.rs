//! The distance of the two cores, probed by two processes over two lines of the shared mapping.

use superpipe::os::distance;
pub use superpipe::os::distance::Distance;

use crate::channel::CHANNEL_BYTES;
use crate::failure::Failure;
use crate::map::{PAGE_BYTES, SharedMapping};
use crate::spin::{Timeout, await_word};

/// Bytes of the two lines, each in a pair of lines of its own.
pub const PROBE_BYTES: usize = 256;

/// Place of the lines of a probe behind the channel, in a page of their own.
pub const BEHIND_CHANNEL: usize = CHANNEL_BYTES.next_multiple_of(PAGE_BYTES);

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
    distance::measure(out, back, number, |word, wanted| await_word::<true>(word, wanted, timeout))
        .map(Distance::of)
}

/// Answers a probe, in the server.
///
/// # Errors
/// [`Failure::Timeout`] if none comes.
pub fn answer(map: &SharedMapping, at: usize, number: &mut u64, timeout: &Timeout) -> Result<(), Failure> {
    let [out, back] = [at, at + PROBE_BYTES / 2].map(|at| &map.words(at, 8)[0]);
    distance::answer(out, back, number, |word, wanted| await_word::<true>(word, wanted, timeout))
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
    }
}
