//! Time that a thread spends on steps of jobs which a helper could have made (see [`jobs`](super::jobs)). While it makes one, it does nothing
//! else.

use super::clock::monotonic_ns;
use core::cell::Cell;

thread_local! {
    static SPENT_NS: Cell<u64> = const { Cell::new(0) };
}

/// Makes a step, and counts its time for this thread.
pub(crate) fn timed<T>(step: impl FnOnce() -> T) -> T {
    let begin_ns = monotonic_ns();
    let made = step();
    SPENT_NS.set(SPENT_NS.get() + monotonic_ns().saturating_sub(begin_ns));
    made
}

/// Calls `poll`, and adds to `total_ns` the time of the steps that this thread has made in it.
pub(crate) fn add_steps<T>(total_ns: &mut u64, poll: impl FnOnce() -> T) -> T {
    let before_ns = SPENT_NS.get();
    let polled = poll();
    *total_ns += SPENT_NS.get() - before_ns;
    polled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::jobs::{Jobs, Step, Steps};
    use std::thread;

    const STEP_NS: u64 = 2_000_000;

    /// Two steps, each of which sleeps.
    struct Slow(u8);

    impl Steps for Slow {
        type Output = ();

        fn step(&mut self) -> Step<()> {
            thread::sleep(core::time::Duration::from_nanos(STEP_NS));
            self.0 += 1;
            if self.0 == 2 { Step::Done(()) } else { Step::More }
        }
    }

    #[test]
    fn only_the_callers_own_steps_count() {
        let mut ticket = Jobs::alone().begin(Slow(0)).ok().unwrap();
        let mut own_ns = 0;
        assert!(add_steps(&mut own_ns, || ticket.poll()).is_none());
        assert!(own_ns >= STEP_NS, "{own_ns}");
        thread::spawn(|| timed(|| thread::sleep(core::time::Duration::from_nanos(STEP_NS)))).join().unwrap();
        let after_first = own_ns;
        add_steps(&mut own_ns, || ());
        assert_eq!(own_ns, after_first, "another thread's step is not this thread's");
        assert!(add_steps(&mut own_ns, || ticket.poll()).is_some());
        assert!(own_ns >= 2 * STEP_NS, "{own_ns}");
    }
}
