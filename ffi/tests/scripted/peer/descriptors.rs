//! Descriptors that packets carry (wire.md 6.4), right ones and wrong ones.

use core::ptr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use super::script::{Carry, pattern};
use super::socket::{new_socket, own};

/// Bytes of a registered buffer.
const BUFFER_BYTES: usize = 128 << 10;

const F_SEAL_SEAL: i32 = 1;
const F_SEAL_SHRINK: i32 = 2;
const F_SEAL_GROW: i32 = 4;
const F_SEAL_WRITE: i32 = 8;
const F_SEAL_FUTURE_WRITE: i32 = 16;

/// Returns the descriptors that a packet carries, for a segment of this length.
pub(super) fn carried(carry: Carry, bytes: usize) -> Vec<OwnedFd> {
    let sizes = F_SEAL_SHRINK | F_SEAL_GROW;
    match carry {
        Carry::Nothing => vec![],
        Carry::Segment => vec![memory(bytes, sizes)],
        Carry::Sparse => vec![memory(bytes, sizes | F_SEAL_SEAL)],
        Carry::SmallSparse => vec![memory(bytes - 4096, sizes | F_SEAL_SEAL)],
        Carry::LargeSparse => vec![memory(bytes + 4096, sizes | F_SEAL_SEAL)],
        Carry::HeldSparse => vec![memory(bytes, sizes | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)],
        Carry::Holed => {
            let fd = memory(bytes, sizes);
            punch(&fd);
            vec![fd]
        }
        Carry::Two => vec![memory(bytes, sizes), memory(bytes, sizes)],
        Carry::Unsealed => vec![memory(bytes, 0)],
        Carry::Small => vec![memory(bytes - 4096, sizes)],
        Carry::Large => vec![memory(bytes + 4096, sizes)],
        Carry::WriteSealed => vec![memory(bytes, sizes | F_SEAL_WRITE)],
        Carry::ReadOnly => {
            let fd = memory(bytes, sizes);
            vec![File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap().into()]
        }
        Carry::Buffer => vec![buffer(BUFFER_BYTES, sizes | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)],
        Carry::OpenBuffer => vec![buffer(BUFFER_BYTES, sizes | F_SEAL_SEAL)],
        Carry::SmallOpenBuffer => vec![buffer(BUFFER_BYTES - 4096, sizes | F_SEAL_SEAL)],
        Carry::SmallBuffer => vec![buffer(BUFFER_BYTES - 4096, sizes | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)],
        Carry::LargeBuffer => vec![buffer(BUFFER_BYTES + 4096, sizes | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)],
        Carry::DevNull => vec![File::open("/dev/null").unwrap().into()],
        Carry::Pipe => vec![std::io::pipe().unwrap().0.into()],
        Carry::Socket => vec![new_socket()],
    }
}

fn memory(bytes: usize, seals: i32) -> OwnedFd {
    // SAFETY: a C string and flags.
    let fd =
        own(unsafe { libc::memfd_create(c"scripted".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) });
    // SAFETY: both calls take integers only.
    let made = unsafe {
        libc::ftruncate(fd.as_raw_fd(), bytes.cast_signed() as i64) == 0
            && libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
    };
    assert!(made, "memfd: {}", std::io::Error::last_os_error());
    fd
}

/// A registered buffer with a message of tag 1 in it.
fn buffer(bytes: usize, seals: i32) -> OwnedFd {
    let fd = memory(bytes, 0);
    let contents: Vec<u8> = (0..bytes).map(|at| pattern(1, at)).collect();
    let mut file = File::from(fd);
    file.write_all(&contents).unwrap();
    // SAFETY: the call takes integers only.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file.into()
}

/// Takes all pages of a segment away, which the seals of a sparse one permit (wire.md 6.4).
pub(super) fn punch(fd: &OwnedFd) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call takes integers only.
    assert_eq!(unsafe { libc::fallocate(fd.as_raw_fd(), flags, 0, 1 << 30) }, 0);
}

/// Seals a segment, as its receiver does once it has mapped it.
pub(super) fn hold(fd: &OwnedFd) {
    // SAFETY: the call takes integers only. Where the other end was first, the seals are there.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) };
}

/// Tells the kernel that this process can be fenced (wire.md 7.2).
pub(super) fn register_membarrier() {
    const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
    let null: *const u8 = ptr::null();
    // SAFETY: the call takes integers only; the last argument is not used.
    unsafe { libc::syscall(libc::SYS_membarrier, REGISTER_GLOBAL_EXPEDITED, 0, null) };
}

/// Tries to take a segment's pages away, and to make it smaller: refused by its seals (wire.md 6.4).
pub(super) fn tamper(fd: &OwnedFd) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the calls take integers only.
    let done = unsafe {
        [
            libc::fallocate(fd.as_raw_fd(), flags, 0, 4096),
            libc::ftruncate(fd.as_raw_fd(), 0),
            libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, F_SEAL_WRITE),
        ]
    };
    assert_eq!(done, [-1; 3], "the segment's pages can be taken away");
}

/// A child that holds every descriptor for a second.
pub(super) fn bequeath() {
    // SAFETY: the child makes two calls that take integers, or a struct of integers, and take no lock.
    unsafe {
        if libc::fork() == 0 {
            let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            libc::nanosleep(&raw const second, ptr::null_mut());
            libc::_exit(0);
        }
    }
}
