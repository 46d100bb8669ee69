//! Descriptors that take seconds to close, sent wherever a packet may come: no call outlives its deadline for one.
//!
//! The descriptor is a TCP connection with unsent data that lingers for a minute when its last holder closes it, and the
//! last holder is the kernel's queue, or whoever takes it out of there.

use crate::os::MemoryPlacement;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use crate::blocking::shm::join;
use crate::budget::{BudgetShare, MemoryKind};
use crate::fabric::shm::descriptor_passing::without_passrights;
use crate::fabric::shm::handshake::Established;
use crate::fabric::shm::scratch::Scratch;
use crate::fabric::shm::segments::segment_bytes;
use crate::fabric::shm::sleep::WAKE;
use crate::fabric::shm::{Segment, Segments, SentFd, Socket, SocketError};
use crate::os::closer::{check_closer, open_count};
use crate::os::monotonic_ns;
use crate::os::poll::{PollFd, poll};
use crate::{Address, Connection, ErrorKind, Listener, Options};
use superpipe_core::driver::setup::{Defaults, Negotiated, Tuning};
use superpipe_core::driver::setup::{Kind, PACKET_BYTES, Packet};

/// Time that the last close of the descriptor takes.
const LINGER_SECONDS: c_int = 60;
/// Ten times what any call here is given, and a fraction of what one close takes.
const HANG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const HANDSHAKE: Duration = Duration::from_secs(2);

/// A descriptor whose last close lingers until this is dropped.
struct Trap {
    sent: Option<TcpStream>,
    /// Never reads; dropped, it resets the connection, and the lingering ends.
    _mute: TcpStream,
}

impl Trap {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mute, _) = listener.accept().unwrap();
        sent.set_nonblocking(true).unwrap();
        while sent.write(&[0; 1 << 16]).is_ok() {}
        linger(&sent, LINGER_SECONDS);
        sent.set_nonblocking(false).unwrap();
        Self { sent: Some(sent), _mute: mute }
    }

    /// Sends it with `bytes`, and closes it here. Whether the kernel took it in.
    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> bool {
        let sent = self.sent.take().unwrap();
        if socket.send(bytes, Some(sent.as_fd())).is_err() {
            self.sent = Some(sent);
            return false;
        }
        // It lingers itself where the victim was quicker and closed it before.
        let (closed, is_closed) = channel();
        thread::spawn(move || {
            drop(sent);
            let _ = closed.send(());
        });
        let _ = is_closed.recv_timeout(SHORT);
        true
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        if let Some(unsent) = &self.sent {
            linger(unsent, 0);
        }
    }
}

fn linger(stream: &TcpStream, seconds: c_int) {
    let linger = libc::linger { l_onoff: c_int::from(seconds > 0), l_linger: seconds };
    // SAFETY: the pointer is to a local of the size that the call gets.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap(),
        )
    };
    assert_eq!(answer, 0);
}

/// With the kernel's way to take no descriptors, and without.
fn each_way(test: impl Fn(bool)) {
    for without in [true, false] {
        test(without);
    }
}

/// Runs `work` in a thread that must end.
fn victim<T: Send + 'static>(without: bool, work: impl FnOnce() -> T + Send + 'static) -> impl FnOnce() -> T {
    let (done, is_done) = channel();
    thread::spawn(move || {
        without_passrights(without);
        let _ = done.send(work());
    });
    move || is_done.recv_timeout(HANG).expect("the call outlived its deadline")
}

fn receive(socket: &Socket, bytes: &mut [u8]) -> usize {
    loop {
        match socket.receive(bytes, monotonic_ns() + 60_000_000_000) {
            Err(SocketError::Interrupted) => {}
            received => return received.unwrap().bytes,
        }
    }
}

fn packet(kind: Kind) -> [u8; PACKET_BYTES] {
    Packet::new(kind).0
}

fn segment() -> Segment {
    let negotiated = Defaults::SHM.negotiate(&Tuning::default(), &Tuning::default()).unwrap();
    Segment::create(c"trap", segment_bytes(negotiated.layout) as usize).unwrap()
}

/// A listener of ours, against a peer that does this once it is connected.
fn accept_from(without: bool, peer: impl FnOnce(&Socket)) -> ErrorKind {
    accept_from_one(without, |socket| {
        peer(&socket);
        Some(socket)
    })
}

/// The same of a peer that may end.
fn accept_from_one(without: bool, peer: impl FnOnce(Socket) -> Option<Socket>) -> ErrorKind {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let address = Address::Shm(path.clone());
    let (bound, is_bound) = channel();
    let accepted = victim(without, move || {
        let options = Options { handshake_timeout: HANDSHAKE, ..Options::default() };
        let mut listener = Listener::bind(&address, options).unwrap();
        bound.send(()).unwrap();
        listener.accept(HANG).unwrap_err().kind()
    });
    is_bound.recv().unwrap();
    let _kept = peer(Socket::connect(&path).unwrap());
    accepted()
}

/// Closes it with what is unread, as a process does that ends: the kernel tells the other end of that once, by ECONNRESET.
fn end(socket: Socket) {
    let raw = socket.as_fd().as_raw_fd();
    core::mem::forget(socket);
    // SAFETY: the descriptor is open, and its owner was forgotten, so nothing else closes it.
    unsafe { libc::close(raw) };
}

#[test]
fn a_trap_with_hello_does_not_hold_the_listener() {
    each_way(|without| {
        let mut trap = Trap::new();
        let kind = accept_from(without, |socket| {
            trap.send(socket, &packet(Kind::Hello));
        });
        assert!(matches!(kind, ErrorKind::Protocol | ErrorKind::Timeout), "{kind:?}");
    });
}

#[test]
fn a_trap_for_a_segment_does_not_hold_the_listener() {
    each_way(|without| {
        let mut traps = [Trap::new(), Trap::new()];
        let kind = accept_from(without, |socket| {
            socket.send(&packet(Kind::Hello), None).unwrap();
            receive(socket, &mut [0; PACKET_BYTES]);
            for trap in &mut traps {
                trap.send(socket, &packet(Kind::Grant));
            }
        });
        assert_eq!(kind, ErrorKind::Protocol);
    });
}

#[test]
fn wake_bytes_in_the_handshake_do_not_hold_the_listener() {
    each_way(|without| {
        let mut traps = [Trap::new(), Trap::new(), Trap::new()];
        let kind = accept_from(without, |socket| {
            socket.send(&packet(Kind::Hello), None).unwrap();
            receive(socket, &mut [0; PACKET_BYTES]);
            for trap in &mut traps {
                trap.send(socket, &WAKE);
            }
        });
        assert_eq!(kind, ErrorKind::Protocol);
    });
}

#[test]
fn traps_in_the_queue_of_a_listener_do_not_hold_its_drop() {
    each_way(|without| {
        let mut traps = [Trap::new(), Trap::new()];
        let scratch = Scratch::new();
        let path = scratch.path().join("s");
        let address = Address::Shm(path.clone());
        let (bound, is_bound) = channel();
        let (go, may_go) = channel::<()>();
        let dropped = victim(without, move || {
            let listener = Listener::bind(&address, Options::default()).unwrap();
            bound.send(()).unwrap();
            may_go.recv().unwrap();
            drop(listener);
        });
        is_bound.recv().unwrap();
        for trap in &mut traps {
            let socket = Socket::connect(&path).unwrap();
            trap.send(&socket, &packet(Kind::Hello));
        }
        go.send(()).unwrap();
        dropped();
    });
}

/// A connecting end of ours, against a listener that does this with each that connects.
fn connect_to(without: bool, peer: impl Fn(&Socket)) -> ErrorKind {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let listener = crate::fabric::shm::Listener::bind(&path).unwrap();
    let connected = victim(without, move || {
        Connection::connect(&Address::Shm(path), Options::default(), HANDSHAKE).unwrap_err().kind()
    });
    let socket = loop {
        match listener.accept(monotonic_ns() + 60_000_000_000) {
            Err(SocketError::Interrupted) => {}
            socket => break socket.unwrap(),
        }
    };
    socket.expect_fd(true);
    receive(&socket, &mut [0; PACKET_BYTES]);
    peer(&socket);
    drop(listener);
    connected()
}

#[test]
fn a_trap_with_welcome_does_not_hold_the_connecting_end() {
    each_way(|without| {
        let trap = core::cell::RefCell::new(Trap::new());
        let kind = connect_to(without, |socket| {
            trap.borrow_mut().send(socket, &welcome());
        });
        assert_eq!(kind, ErrorKind::Protocol);
    });
}

#[test]
fn a_trap_with_ready_does_not_hold_the_connecting_end() {
    each_way(|without| {
        let trap = core::cell::RefCell::new(Trap::new());
        let kind = connect_to(without, |socket| {
            socket.send(&welcome(), Some(segment().fd())).unwrap();
            receive(socket, &mut [0; PACKET_BYTES]);
            trap.borrow_mut().send(socket, &packet(Kind::Ready));
        });
        assert!(matches!(kind, ErrorKind::Protocol | ErrorKind::Timeout), "{kind:?}");
    });
}

fn welcome() -> [u8; PACKET_BYTES] {
    let negotiated = Defaults::SHM.negotiate(&Tuning::default(), &Tuning::default()).unwrap();
    let mut welcome = Packet::new(Kind::Welcome);
    welcome.set_tuning(&negotiated.to_tuning());
    welcome.0
}

/// One end of a connection, and the socket of the other, whose words these tests speak.
fn connection() -> (Connection, Socket, Segment) {
    let (ours, theirs) = Socket::pair().unwrap();
    let negotiated: Negotiated = Defaults::SHM.negotiate(&Tuning::default(), &Tuning::default()).unwrap();
    let (mine, other) = (segment(), segment());
    let duplicate = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
    let adopted = Segment::adopt(duplicate(other.fd()), other.len() as u64).unwrap();
    let share = Arc::new(BudgetShare::take(MemoryKind::Shared, 0).unwrap());
    let segments = Segments::Whole { mine, theirs: adopted };
    let memory = MemoryPlacement::default();
    let agreed = Established {
        segments,
        negotiated,
        fenced: false,
        share,
        serves: true,
        memory,
        peer_idle_timeout: None,
    };
    (join(ours, agreed, Options::default(), false).unwrap().into_ready().into(), theirs, other)
}

#[test]
fn a_trap_with_a_wake_byte_holds_no_receive_and_no_drop() {
    for bytes in [&WAKE[..], b"some other packet"] {
        let mut traps = [Trap::new(), Trap::new()];
        let (mut connection, peer, _memory) = connection();
        peer.send(&WAKE, None).unwrap();
        for trap in &mut traps {
            assert!(trap.send(&peer, bytes), "the test has a socket that takes descriptors");
        }
        let received = victim(true, move || {
            let kind = connection.recv_into(&mut [&mut [0; 8]], SHORT).unwrap_err().kind();
            drop(connection);
            kind
        });
        // An end that maps buffers of the peer reads the packet, and may find that it is none of them.
        let kind = received();
        assert!(matches!(kind, ErrorKind::PeerLost | ErrorKind::Timeout | ErrorKind::Protocol), "{kind:?}");
    }
}

#[test]
fn a_trap_that_waits_behind_messages_holds_no_drop() {
    let mut trap = Trap::new();
    let (connection, peer, _memory) = connection();
    for _ in 0..40 {
        peer.send(&WAKE, None).unwrap();
    }
    assert!(trap.send(&peer, &WAKE));
    victim(true, move || drop(connection))();
}

#[test]
fn a_trap_behind_a_reset_holds_no_drop() {
    let mut trap = Trap::new();
    let (mut connection, peer, memory) = connection();
    // The peer says that it sleeps, so the next store sends a wake byte, which stays unread.
    // SAFETY: the word lies in the segment, is aligned, and whoever else uses it does so atomically.
    let asleep = unsafe {
        AtomicU64::from_ptr(
            memory.as_ptr().as_ptr().add(superpipe_core::control_page::FABRIC as usize).cast(),
        )
    };
    asleep.store(1, Ordering::SeqCst);
    connection.send(1, &[b"x"], SHORT).unwrap();
    assert!(trap.send(&peer, &WAKE));
    end(peer);
    victim(true, move || drop(connection))();
}

#[test]
fn a_trap_behind_grant_and_a_reset_holds_no_listener() {
    let mut trap = Trap::new();
    accept_from_one(true, |socket| {
        socket.send(&packet(Kind::Hello), None).unwrap();
        receive(&socket, &mut [0; PACKET_BYTES]);
        let segment = segment();
        socket.send(&packet(Kind::Grant), Some(segment.fd())).unwrap();
        trap.send(&socket, &WAKE);
        // READY is there, and stays unread.
        let mut fds = [PollFd::new(socket.as_fd(), libc::POLLIN)];
        poll(&mut fds, 20_000_000_000).unwrap();
        end(socket);
        None
    });
}

const CHILD: &str = "SUPERPIPE_TEST_CLOSER";

/// The child of the next test, which has the closer for itself.
#[test]
fn child_whose_closer_is_stuck() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let mut traps: Vec<Trap> = (0..100).map(|_| Trap::new()).collect();
    for trap in &mut traps {
        drop(SentFd::from(OwnedFd::from(trap.sent.take().unwrap())));
    }
    assert!(check_closer("cannot connect").is_err());
    drop(traps); // every close can end now
    let give_up_ns = monotonic_ns() + 20_000_000_000;
    while open_count() > 0 {
        assert!(monotonic_ns() < give_up_ns, "{} are left", open_count());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(check_closer("cannot connect"), Ok(()));
}

#[test]
fn the_closer_recovers_from_an_attack() {
    let name = format!("{}::child_whose_closer_is_stuck", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--test-threads=1"]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
