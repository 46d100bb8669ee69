//! The socket of wire.md 6: SOCK_SEQPACKET, with descriptors.

use core::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::PATIENCE;

/// Room for the control part of a message.
const CONTROL_WORDS: usize = 16;

fn address(path: &Path) -> (libc::sockaddr_un, u32) {
    // SAFETY: integers and bytes, for all of which zero is a value.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap();
    for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
        *to = from.cast_signed();
    }
    (address, u32::try_from(size_of::<libc::sockaddr_un>()).unwrap())
}

pub(super) fn own(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(super) fn new_socket() -> OwnedFd {
    // SAFETY: the call takes integers only.
    patient(own(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) }))
}

/// Gives up receiving and accepting some time.
fn patient(socket: OwnedFd) -> OwnedFd {
    let time = libc::timeval { tv_sec: PATIENCE.as_secs().cast_signed(), tv_usec: 0 };
    let bytes = u32::try_from(size_of::<libc::timeval>()).unwrap();
    let (fd, level, name) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO);
    // SAFETY: the pointer is to a local of the size that the call gets.
    assert_eq!(unsafe { libc::setsockopt(fd, level, name, (&raw const time).cast(), bytes) }, 0);
    socket
}

pub(super) fn connect(path: &Path) -> OwnedFd {
    let (socket, (address, bytes)) = (new_socket(), address(path));
    // SAFETY: the address and its length come together and outlive the call.
    let connected = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), bytes) };
    assert_eq!(connected, 0, "connect: {}", std::io::Error::last_os_error());
    socket
}

pub(super) fn listen(path: &Path) -> OwnedFd {
    let (socket, (address, bytes)) = (new_socket(), address(path));
    // SAFETY: the address and its length come together and outlive the call; the second takes integers only.
    let listens = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) == 0
            && libc::listen(socket.as_raw_fd(), 16) == 0
    };
    assert!(listens, "listen: {}", std::io::Error::last_os_error());
    socket
}

/// Accepts a connection, waiting for one.
pub(super) fn accept(listener: &OwnedFd) -> OwnedFd {
    let null = core::ptr::null_mut;
    // SAFETY: null pointers mean that the peer's address is not asked for.
    patient(own(unsafe { libc::accept4(listener.as_raw_fd(), null(), null().cast(), libc::SOCK_CLOEXEC) }))
}

fn message(part: &mut libc::iovec, control: &mut [u64; CONTROL_WORDS], bytes: usize) -> libc::msghdr {
    // SAFETY: pointers and integers, for all of which zero is a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    if bytes > 0 {
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), bytes);
    }
    message
}

/// Sends a packet with descriptors; the errno where that is refused.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], fds: &[RawFd], flags: i32) -> Result<(), i32> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    let fd_bytes = u32::try_from(size_of_val(fds)).unwrap();
    // SAFETY: CMSG_SPACE is arithmetic.
    let space = unsafe { libc::CMSG_SPACE(fd_bytes) } as usize;
    let space = if fds.is_empty() { 0 } else { space };
    let message = message(&mut part, &mut control, space);
    if !fds.is_empty() {
        // SAFETY: the control part has room for one header and these descriptors, which CMSG_SPACE has counted.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(fd_bytes) as usize;
            libc::CMSG_DATA(header).cast::<RawFd>().copy_from_nonoverlapping(fds.as_ptr(), fds.len());
        }
    }
    // SAFETY: the header points to `part`, the bytes and `control`, which live during the call and are only read.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(errno()) } else { Ok(()) }
}

/// Receives a packet, waiting for it: its bytes, none at the end, and its descriptor.
pub(super) fn receive(socket: &OwnedFd, room: &mut [u8]) -> Result<(usize, Option<OwnedFd>), i32> {
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    let mut message = message(&mut part, &mut control, size_of::<[u64; CONTROL_WORDS]>());
    // SAFETY: the header points to `part`, the room and `control`, which live during the call and have the named lengths.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let Ok(bytes) = usize::try_from(got) else { return Err(errno()) };
    let mut fd = MaybeUninit::<RawFd>::uninit();
    // SAFETY: the kernel has filled the control part; a header of rights has a descriptor at least.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            None
        } else {
            fd.as_mut_ptr().copy_from_nonoverlapping(libc::CMSG_DATA(header).cast(), 1);
            Some(fd.assume_init())
        }
    };
    Ok((bytes, fd.map(own)))
}

pub(super) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
