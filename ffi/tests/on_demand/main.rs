//! Landing on demand over shared memory: what arrives, and what it costs. A binary of its own, one test at a time: the budget, the
//! descriptors and the mappings that it counts are the process's.

#[path = "../support/attempts.rs"]
mod attempts;
mod cost;
#[path = "../support/descriptors.rs"]
mod descriptors;
mod ends;
mod fair;
mod transfers;

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use superpipe::{Address, Budget, Connection, LandingMode, Listener, Options, Tuning};

/// Ten times what anything here takes: a hang, no measure.
const DEADLINE: Duration = Duration::from_secs(60);
const PAGE: u64 = 4096;
/// Default of the process's limit of shared memory.
const SHARED_MAX: u64 = 1 << 30;

/// Keeps other tests out of the process, and its limits at their default.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Budget::set_shared_max(SHARED_MAX);
    guard
}

fn path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("superpipe-on-demand-{}-{number}.sock", std::process::id()))
}

fn options(landing: LandingMode) -> Options {
    Options { tuning: Tuning { landing: Some(landing), ..Tuning::default() }, ..Options::default() }
}

/// Both ends of this many connections: one end asks for landing on demand.
fn pairs(count: usize, connecting: Options) -> Vec<(Connection, Connection)> {
    let address = Address::Shm(path());
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    thread::scope(|scope| {
        let accepting =
            scope.spawn(move || (0..count).map(|_| listener.accept(DEADLINE).unwrap()).collect::<Vec<_>>());
        let connect = |_| Connection::connect(&address, connecting, DEADLINE).unwrap();
        let connected: Vec<_> = (0..count).map(connect).collect();
        connected.into_iter().zip(accepting.join().unwrap()).collect()
    })
}

fn pair() -> (Connection, Connection) {
    pairs(1, options(LandingMode::OnDemand)).remove(0)
}

/// Bytes that depend on the seed and their place.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(count + 8);
    while out.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(count);
    out
}

/// Sends a message one way, with a thread at the other end.
fn carry(from: &mut Connection, to: &mut Connection, message: &[u8]) {
    thread::scope(|scope| {
        scope.spawn(move || from.send(7, &[message], DEADLINE).unwrap());
        let mut place = vec![0; message.len()];
        let received = to.recv_into(&mut [&mut place], DEADLINE).unwrap();
        assert_eq!((received.tag, received.bytes), (7, message.len()));
        assert!(place == message);
    });
}

/// Waits until this is so.
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The kernel's figures of this process's mappings of segments.
struct Mapped {
    count: usize,
    /// Resident bytes, each page counted once for all mappings of it.
    resident_bytes: u64,
}

fn mapped() -> Mapped {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut count, mut resident, mut is_ours) = (0, 0, false);
    for line in smaps.lines() {
        let first = line.split_whitespace().next().unwrap_or("");
        if !first.ends_with(':') {
            is_ours = line.contains("memfd:superpipe");
            count += usize::from(is_ours);
        } else if is_ours && first == "Pss:" {
            let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            resident += kib * 1024;
        }
    }
    Mapped { count, resident_bytes: resident }
}
