//! A peer that is wrong or hostile before the connection stands: raw packets against a real end.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use superpipe::fabric::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::fabric::shm::{Segment, Socket};
use superpipe::{Address, Connection, Error, ErrorKind, Listener, Options};

use crate::support::{DEADLINE, path};

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const GRANT: u8 = 3;
const REFUSED: u8 = 5;

fn packet(kind: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = kind;
    packet
}

fn deadline_ns() -> u64 {
    superpipe::os::monotonic_ns() + 60_000_000_000
}

fn answer(socket: &Socket) -> [u8; PACKET_BYTES] {
    let mut answer = [0; PACKET_BYTES];
    loop {
        match socket.receive(&mut answer, deadline_ns()) {
            Err(superpipe::fabric::shm::SocketError::Interrupted) => {}
            received => {
                assert_eq!(received.unwrap().bytes, PACKET_BYTES);
                return answer;
            }
        }
    }
}

/// Returns the result of a listening end whose peer does this.
fn accept_from(peer: impl FnOnce(&Socket)) -> Error {
    let path = path();
    let mut listener = Listener::bind(&Address::Shm(path.clone()), Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap_err());
    let socket = Socket::connect(&path).unwrap();
    peer(&socket);
    accepting.join().unwrap()
}

fn send(socket: &Socket, packet: &[u8]) {
    socket.send(packet, None).unwrap();
}

#[test]
fn garbage_is_named() {
    for garbage in [&b"GET / HTTP/1.1\r\n"[..], &[0; PACKET_BYTES], &[7; 4000], &packet(HELLO)[..40]] {
        let error = accept_from(|socket| send(socket, garbage));
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert_eq!(error.to_string(), "what answers there does not speak superpipe");
    }
}

#[test]
fn another_version_is_named_on_both_ends() {
    let error = accept_from(|socket| {
        let mut hello = packet(HELLO);
        hello[8] = 9;
        send(socket, &hello);
        let refused = answer(socket);
        assert_eq!((refused[10], refused[11]), (REFUSED, 1));
    });
    assert_eq!(error.kind(), ErrorKind::Version);
    assert!(
        error.to_string().starts_with("the peer speaks version 9 of the protocol, this is version 6"),
        "{error}"
    );
}

#[test]
fn packets_out_of_turn_and_odd_fields_are_refused() {
    for (at, value) in [(10, GRANT), (28, 1), (PACKET_BYTES - 1, 1), (12, 2), (13, 99), (14, 99)] {
        let error = accept_from(|socket| {
            let mut hello = packet(HELLO);
            hello[at] = value;
            send(socket, &hello);
            assert_eq!(answer(socket)[10], REFUSED);
        });
        assert_eq!(error.kind(), ErrorKind::Protocol, "{at} {value} {error}");
    }
}

#[test]
fn absurd_wishes_of_a_peer_are_refused() {
    for (at, value) in [(16, 1u32), (16, u32::MAX), (20, u32::MAX), (20, 1 << 29), (24, u32::MAX)] {
        let error = accept_from(|socket| {
            let mut hello = packet(HELLO);
            hello[at..at + 4].copy_from_slice(&value.to_le_bytes());
            send(socket, &hello);
            assert_eq!(answer(socket)[10], REFUSED);
        });
        assert_eq!(error.kind(), ErrorKind::Usage, "{at} {value} {error}");
    }
}

fn grant(fd: Option<BorrowedFd<'_>>) -> Error {
    accept_from(|socket| {
        send(socket, &packet(HELLO));
        assert_eq!(answer(socket)[10], WELCOME);
        socket.send(&packet(GRANT), fd).unwrap();
        assert_eq!(answer(socket)[10], REFUSED);
    })
}

#[test]
fn unsealed_memory_or_of_another_size_is_refused() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let small = Segment::create(c"small", 4096).unwrap();
    for fd in [None, Some(file.as_fd()), Some(small.fd())] {
        let error = grant(fd);
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
    // SAFETY: a name and flags, and a descriptor that is ours.
    let unsealed = unsafe {
        let fd = libc::memfd_create(c"unsealed".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0 && libc::ftruncate(fd, 4 << 20) == 0);
        <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd)
    };
    let error = grant(Some(unsealed.as_fd()));
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("it lacks F_SEAL_SHRINK F_SEAL_GROW"), "{error}");
}

#[test]
fn a_connecting_end_refuses_a_listener_that_is_wrong() {
    let path = path();
    let listener = superpipe::fabric::shm::Listener::bind(&path).unwrap();
    let wrong = thread::spawn(move || {
        for reply in [packet(GRANT), packet(WELCOME), [9; PACKET_BYTES]] {
            let socket = loop {
                match listener.accept(deadline_ns()) {
                    Err(superpipe::fabric::shm::SocketError::Interrupted) => {}
                    socket => break socket.unwrap(),
                }
            };
            assert_eq!(answer(&socket)[10], HELLO);
            send(&socket, &reply);
            let mut last = [0; PACKET_BYTES];
            let _ = socket.receive(&mut last, superpipe::os::monotonic_ns() + 200_000_000);
        }
    });
    for _ in 0..3 {
        let error =
            Connection::connect(&Address::Shm(path.clone()), Options::default(), DEADLINE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
    wrong.join().unwrap();
}

#[test]
fn a_peer_that_vanishes_does_not_end_the_accept() {
    let address = Address::Shm(path());
    let Address::Shm(path) = &address else { unreachable!() };
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    drop(Socket::connect(path).unwrap());
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let mut one = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    let mut other = accepting.join().unwrap();
    one.send(1, &[b"hello"], DEADLINE).unwrap();
    assert_eq!(other.recv_into(&mut [&mut [0; 5]], DEADLINE).unwrap().bytes, 5);
}

/// Wake bytes in the middle of a handshake.
const WAKES_MAX: usize = 64;

fn wake(socket: &Socket, times: usize) {
    for _ in 0..times {
        while let Err(error) = socket.send(b"W", None) {
            assert_eq!(error, superpipe::fabric::shm::SocketError::Full);
            thread::yield_now();
        }
    }
}

#[test]
fn a_few_wake_bytes_are_ignored_and_a_flood_is_refused() {
    let (address, at) = (Address::Shm(path()), path());
    let Address::Shm(path) = &address else { unreachable!() };
    let options = Options { handshake_timeout: Duration::from_secs(5), ..Options::default() };
    let mut listener = Listener::bind(&address, options).unwrap();
    let accepting = thread::spawn(move || [(); 2].map(|()| listener.accept(DEADLINE).unwrap_err()));
    let socket = Socket::connect(path).unwrap();
    wake(&socket, WAKES_MAX);
    send(&socket, &packet(HELLO));
    assert_eq!(answer(&socket)[10], WELCOME);
    wake(&socket, WAKES_MAX + 1);
    assert_eq!(answer(&socket)[10], REFUSED);
    let socket = Socket::connect(path).unwrap();
    wake(&socket, WAKES_MAX + 1);
    assert_eq!(answer(&socket)[10], REFUSED);
    let listener = superpipe::fabric::shm::Listener::bind(&at).unwrap();
    let connecting = thread::spawn(move || {
        Connection::connect(&Address::Shm(at), Options::default(), Duration::from_secs(5)).unwrap_err()
    });
    let socket = loop {
        match listener.accept(deadline_ns()) {
            Err(superpipe::fabric::shm::SocketError::Interrupted) => {}
            socket => break socket.unwrap(),
        }
    };
    assert_eq!(answer(&socket)[10], HELLO);
    wake(&socket, WAKES_MAX + 1);
    assert_eq!(answer(&socket)[10], REFUSED);
    let [first, second] = accepting.join().unwrap();
    for error in [first, second, connecting.join().unwrap()] {
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        assert!(error.to_string().contains("wake bytes"), "{error}");
    }
}
