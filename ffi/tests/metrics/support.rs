//! One page per process: tests that publish take turns.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use superpipe::metrics::{ConnectionLine, PublishOptions, Publisher, Reader, Snapshot, publish};
use superpipe::{Address, Connection, Listener, Options};

/// Ten times what anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Longer than the time between two copies.
pub(crate) const COPY_PERIOD: Duration = Duration::from_millis(120);

/// A turn: nobody else publishes or forks meanwhile.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn publish_now() -> Publisher {
    publish(PublishOptions::default()).unwrap()
}

pub(crate) fn read_own() -> Snapshot {
    Reader::open(std::process::id()).unwrap().read().unwrap()
}

pub(crate) fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("superpipe-metrics-{}-{name}.sock", std::process::id()))
}

/// Both ends: the one that connected, and the one that accepted.
pub(crate) fn pair(name: &str) -> (Connection, Connection) {
    let address = Address::Shm(path(name));
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let connected = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    (connected, accepting.join().unwrap())
}

/// Waits until both ends have copied what they have counted, and reads it: the end that connected first.
pub(crate) fn read_pair(ends: [&mut Connection; 2]) -> [ConnectionLine; 2] {
    thread::sleep(COPY_PERIOD);
    for end in ends {
        while end.progress() {}
    }
    let lines = read_own().connections;
    let [connected, accepted] = &lines[..] else { panic!("{lines:?}") };
    use superpipe::metrics::Role;
    match (connected.role, accepted.role) {
        (Role::Connected, Role::Accepted) => [*connected, *accepted],
        (Role::Accepted, Role::Connected) => [*accepted, *connected],
        roles => panic!("{roles:?}"),
    }
}

/// Repeats until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `work` in a child, which then ends. Returns its pid.
pub(crate) fn fork(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child has only this thread. What the tests do there takes no lock that another thread of the parent could hold: they have their turn, and the C
    // library hands the locks of the allocator to the child.
    match unsafe { libc::fork() } {
        0 => {
            let is_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: _exit ends the child and runs nothing of the program's.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        pid => pid,
    }
}

/// Waits for a child. Returns 0 if all was well.
pub(crate) fn wait(pid: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
