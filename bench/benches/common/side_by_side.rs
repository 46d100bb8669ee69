//! Threads that begin together, each on its core, for benchmarks of both ends of a connection in one process.

use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use superpipe::Error;
use superpipe::os::{allowed_cores, pin_current_thread};

/// Work of one thread.
pub(crate) type Work<'a> = Box<dyn FnOnce() -> Result<(), Error> + Send + 'a>;

/// Returns the core of each end: the first two that this process may use, or the only one for both.
///
/// # Panics
/// If there is none.
#[must_use]
pub(crate) fn cores() -> [usize; 2] {
    let cores: Vec<usize> = allowed_cores().iter().collect();
    [cores[0], cores[1 % cores.len()]]
}

/// Runs each work in a thread on its core. Returns the time from the begin of the first to the end of the last.
///
/// # Panics
/// If a thread cannot be pinned, or a work fails.
#[must_use]
pub(crate) fn side_by_side<'a>(works: Vec<(usize, Work<'a>)>) -> Duration {
    let barrier = Barrier::new(works.len());
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let run = |(core, work): (usize, Work<'a>)| {
            let barrier = &barrier;
            scope.spawn(move || {
                pin_current_thread(core).unwrap_or_else(|error| panic!("{error}"));
                barrier.wait();
                let begin = Instant::now();
                work().unwrap_or_else(|error| panic!("{error}"));
                (begin, Instant::now())
            })
        };
        let threads: Vec<_> = works.into_iter().map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panic!("a thread failed")))
            .collect()
    });
    let begin = times.iter().map(|time| time.0).min();
    let end = times.iter().map(|time| time.1).max();
    end.zip(begin).map_or(Duration::ZERO, |(end, begin)| end - begin)
}
