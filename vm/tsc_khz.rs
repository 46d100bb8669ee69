//! Prints the rate of this host's time-stamp counter in kHz. vm/prepare builds it, and vm/run tells it to an emulated guest, whose kernel
//! would otherwise measure it beside timers that come late on a busy host.

use std::arch::x86_64::_rdtsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Looks of which the fastest counts: the others may have been interrupted between the two clocks.
const LOOKS: usize = 100;

fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has this instruction, which only reads a counter.
    unsafe { _rdtsc() }
}

/// Returns both clocks at the same time: nanoseconds since `start`, and the counter.
fn both(start: Instant) -> (u128, u64) {
    let look = |_| {
        let before = counter();
        let time = start.elapsed().as_nanos();
        let after = counter();
        (after.wrapping_sub(before), time, after)
    };
    let (_, time, count) = (0..LOOKS).map(look).min().unwrap_or_else(|| look(0));
    (time, count)
}

fn main() {
    let start = Instant::now();
    let (first_time, first_count) = both(start);
    sleep(Duration::from_millis(50));
    let (time, count) = both(start);
    println!("{}", u128::from(count - first_count) * 1_000_000 / (time - first_time));
}
