//! A peer over shared memory that dies when it is told to, in the middle of whatever it does.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use superpipe_core::control_page;

use crate::blocking::shm::{join, shm_options};
use crate::fabric::shm::{self, handshake};
use crate::os::monotonic_ns;
use crate::{Address, Connection, Options};

/// Bounds a hang: ten times what anything here takes.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// Ten times what a wait of a second costs, and a fourth of what spinning does.
const CPU_TIME_MAX: Duration = Duration::from_millis(250);
/// Plays until a wait costs so little: CPU time counts what a hypervisor takes from this machine for others, too.
pub(super) const PLAYS: u32 = 3;

/// One end, never closed.
pub(super) struct Doomed {
    pub(super) connection: ManuallyDrop<Connection>,
    socket: OwnedFd,
    theirs: Seat,
}

/// The other end's seat, as this one writes it.
struct Seat(NonNull<u8>);

// SAFETY: it names memory of the process, which is accessed by atomics only.
unsafe impl Send for Seat {}

/// An honest end, and one that is not long for this world.
pub(super) fn pair() -> (Connection, Doomed) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("superpipe-doomed-{}-{number}.sock", std::process::id()));
    let listener = shm::Listener::bind(&path).unwrap();
    thread::scope(|scope| {
        let doomed = scope.spawn(|| {
            let deadline_ns = monotonic_ns() + 20_000_000_000;
            let options = Options::default();
            let socket = listener.accept(deadline_ns).unwrap();
            let handshake_options = shm_options(&options, deadline_ns);
            let (socket, agreed) = handshake::accept(socket, &handshake_options, &|| false).unwrap();
            let [_, theirs] = agreed.segments.control_pages().map(Seat);
            let second = socket.as_fd().try_clone_to_owned().unwrap();
            let connection = join(socket, agreed, options, false).unwrap().warm_up(deadline_ns).unwrap();
            Doomed { connection: ManuallyDrop::new(connection.into()), socket: second, theirs }
        });
        let honest = Connection::connect(&Address::Shm(path), Options::default(), DEADLINE).unwrap();
        (honest, doomed.join().unwrap())
    })
}

impl Doomed {
    /// Ends as a process does that is killed: the kernel closes its socket, and what it wrote stays.
    pub(super) fn die(self) {
        // SAFETY: takes a descriptor of ours and a number.
        assert_eq!(unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) }, 0);
    }

    /// Acknowledges one block more, and stops after the first word of it.
    pub(super) fn tear_acknowledgement(&self) {
        // SAFETY: the segment is mapped for as long as the connection lives, which is not dropped, it begins with a seat, and
        // it is accessed by atomics only.
        let word =
            unsafe { AtomicU64::from_ptr(self.theirs.0.as_ptr().add(control_page::ACK as usize).cast()) };
        word.fetch_add(1, Ordering::Release);
    }

    /// Wakes the other end for nothing, as one does that is a moment late.
    pub(super) fn wake(&self) {
        // SAFETY: the pointer and length are those of a constant.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), shm::sleep::WAKE.as_ptr().cast(), 1, libc::MSG_NOSIGNAL)
        };
        assert_eq!(sent, 1);
    }
}

/// CPU time of this thread.
pub(super) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Fails if a wait has cost so much CPU time that it did not sleep.
pub(super) fn is_little(cost: Duration) -> Result<(), String> {
    if cost < CPU_TIME_MAX { Ok(()) } else { Err(format!("{cost:?} of CPU time")) }
}

/// Bytes that a pipe holds.
pub(super) fn pipe_bytes(pipe: &impl AsFd) -> usize {
    // SAFETY: takes a descriptor that is borrowed, and a number.
    usize::try_from(unsafe { libc::fcntl(pipe.as_fd().as_raw_fd(), libc::F_GETPIPE_SZ) }).unwrap()
}
