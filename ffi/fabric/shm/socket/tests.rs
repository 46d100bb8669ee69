//! Sockets: packets and descriptors as they came, and every way in which a peer's packet is wrong.

use super::super::scratch::Scratch;
use super::*;
use crate::os::clock::monotonic_ns;
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{accept, bind, listen};
use rustix::process::{Resource, Rlimit, getegid, geteuid, getpid, setrlimit};
use std::fs;
use std::io::{PipeReader, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::mpsc::channel;
use std::{env, thread};

const NEVER: u64 = u64::MAX;
const CHILD: &str = "SUPERPIPE_TEST_FULL_TABLE";

/// Sends `bytes` with all of `fds` in one packet, as a peer that keeps no rule might.
pub(in crate::fabric::shm) fn send_raw(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(bytes.len()));
}

/// Waits until nobody has the writing end any more; false if that takes too long.
fn is_at_end(mut reader: PipeReader) -> bool {
    let mut fds = [PollFd::new(reader.as_fd(), libc::POLLIN)];
    poll(&mut fds, 60_000_000_000).unwrap() == Polled::Ready && reader.read(&mut [0]).unwrap() == 0
}

#[test]
fn packets_arrive_complete_and_in_order() {
    let (a, b) = Socket::pair().unwrap();
    let packets: [&[u8]; 3] = [b"one", b"2", &[7; 4096]];
    for packet in packets {
        a.send(packet, None).unwrap();
    }
    for packet in packets {
        let mut buf = [0; 4096];
        let received = b.receive(&mut buf, NEVER).unwrap();
        assert_eq!(&buf[..received.bytes], packet);
        assert!(received.fd.is_none());
    }
    assert!(b.try_receive(&mut [0; 8]).unwrap().is_none());
}

#[test]
fn a_descriptor_arrives_with_its_packet_and_cloexec() {
    let (a, b) = Socket::pair().unwrap();
    let (mut reader, writer) = pipe().unwrap();
    a.send(b"none", None).unwrap();
    a.send(b"with", Some(writer.as_fd())).unwrap();
    drop(writer);
    let mut buf = [0; 4];
    assert!(b.receive(&mut buf, NEVER).unwrap().fd.is_none());
    let fd = b.receive(&mut buf, NEVER).unwrap().fd.unwrap();
    assert_eq!(&buf, b"with");
    assert_eq!(fcntl_getfd(&fd), Ok(FdFlags::CLOEXEC));
    fs::File::from(fd.into_owned()).write_all(b"through").unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
}

#[test]
fn too_many_descriptors_are_refused_and_closed() {
    for count in [2, 3, 4, 5, 20] {
        let (a, b) = Socket::pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        send_raw(&a, b"x", &vec![writer.as_fd(); count]);
        drop(writer);
        assert_eq!(b.receive(&mut [0; 8], NEVER).unwrap_err(), SocketError::Descriptors, "{count}");
        drop(b);
        assert!(is_at_end(reader), "{count}");
    }
}

/// The child of the next test, whose table of descriptors may be filled without harm to other tests.
#[test]
fn child_with_a_full_table() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let (a, b) = Socket::pair().unwrap();
    a.send(b"x", Some(a.fd.as_fd())).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    let error = b.receive(&mut [0; 8], NEVER).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot take the descriptor that the peer sent: too many open files; raise the limit of open files (ulimit -n)"
    );
    assert!(
        Socket::pair()
            .unwrap_err()
            .to_string()
            .starts_with("cannot make a pair of sockets: too many open files;")
    );
}

#[test]
fn a_full_table_of_descriptors_is_a_local_error() {
    let name = format!("{}::child_with_a_full_table", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--test-threads=1"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
fn the_descriptor_of_too_long_a_packet_is_closed() {
    let (a, b) = Socket::pair().unwrap();
    let (reader, writer) = pipe().unwrap();
    a.send(&[1; 9], Some(writer.as_fd())).unwrap();
    a.send(b"next", None).unwrap();
    drop(writer);
    let mut buf = [0; 8];
    assert_eq!(b.receive(&mut buf, NEVER).unwrap_err(), SocketError::Oversized { limit: 8 });
    assert!(is_at_end(reader));
    assert_eq!(b.receive(&mut buf, NEVER).unwrap().bytes, 4);
    assert_eq!(&buf[..4], b"next");
}

#[test]
fn an_empty_packet_is_not_an_end() {
    let (a, b) = Socket::pair().unwrap();
    send_raw(&a, b"", &[]);
    assert_eq!(b.receive(&mut [0; 8], NEVER).unwrap_err(), SocketError::Empty);
    assert!(!b.has_ended());
    assert_eq!(a.send(b"", None), Err(SocketError::Empty));
}

#[test]
fn packets_sent_before_the_end_arrive_first() {
    let (a, b) = Socket::pair().unwrap();
    a.send(b"last", None).unwrap();
    drop(a);
    assert!(b.has_ended());
    let mut buf = [0; 8];
    assert_eq!(b.receive(&mut buf, NEVER).unwrap().bytes, 4);
    for _ in 0..2 {
        assert_eq!(b.receive(&mut buf, NEVER).unwrap_err(), SocketError::Closed);
    }
    assert_eq!(b.send(b"x", None), Err(SocketError::Closed));
}

#[test]
fn an_end_with_packets_unread_is_an_end() {
    let (a, b) = Socket::pair().unwrap();
    b.send(b"never read", None).unwrap();
    drop(a);
    assert_eq!(b.receive(&mut [0; 8], NEVER).unwrap_err(), SocketError::Closed);
}

#[test]
fn a_send_to_a_full_queue_does_not_wait() {
    let (a, b) = Socket::pair().unwrap();
    let mut sent = 0_u64;
    while a.send(&[1], None) != Err(SocketError::Full) {
        sent += 1;
    }
    let mut received = 0;
    while b.try_receive(&mut [0; 8]).unwrap().is_some() {
        received += 1;
    }
    assert_eq!(received, sent);
    a.send(&[1], None).unwrap();
}

#[test]
fn a_passed_deadline_receives_without_waiting() {
    let (a, b) = Socket::pair().unwrap();
    assert_eq!(b.receive(&mut [0; 8], 0).unwrap_err(), SocketError::TimedOut);
    assert_eq!(b.receive(&mut [0; 8], monotonic_ns() + 1000).unwrap_err(), SocketError::TimedOut);
    a.send(b"here", None).unwrap();
    assert_eq!(b.receive(&mut [0; 8], 0).unwrap().bytes, 4);
}

#[test]
fn a_wait_is_interrupted_regularly_up_to_its_deadline() {
    let (a, b) = Socket::pair().unwrap();
    assert_eq!(b.receive(&mut [0; 8], NEVER).unwrap_err(), SocketError::Interrupted);
    let deadline_ns = monotonic_ns() + 2 * SLICE_NS;
    let error = loop {
        match b.receive(&mut [0; 8], deadline_ns) {
            Err(SocketError::Interrupted) => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error, SocketError::TimedOut);
    assert!(monotonic_ns() >= deadline_ns);
    drop(a);
}

#[test]
fn a_packet_wakes_a_waiting_thread() {
    let (a, b) = Socket::pair().unwrap();
    let waiter = thread::spawn(move || {
        let mut buf = [0; 8];
        loop {
            match b.receive(&mut buf, NEVER) {
                Err(SocketError::Interrupted) => {}
                received => return (received.unwrap().bytes, buf),
            }
        }
    });
    thread::sleep(Duration::from_millis(5));
    a.send(b"wake", None).unwrap();
    assert_eq!(waiter.join().unwrap(), (4, *b"wake\0\0\0\0"));
}

#[test]
fn the_peers_credentials_are_known() {
    let (a, _b) = Socket::pair().unwrap();
    let cred = a.peer_cred().unwrap();
    let (pid, uid, gid) = (getpid().as_raw_pid().cast_unsigned(), geteuid().as_raw(), getegid().as_raw());
    assert_eq!(cred, PeerCred { pid, uid, gid });
}

#[test]
fn each_cause_of_a_failed_connect_has_its_error() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let connect = || Socket::connect(&path).unwrap_err();
    assert_eq!(connect(), ConnectError::NotFound(path.clone()));

    drop(bind_only(&path));
    assert_eq!(connect(), ConnectError::Refused(path.clone()));
    fs::remove_file(&path).unwrap();

    fs::write(&path, b"").unwrap();
    assert_eq!(connect(), ConnectError::NotOurs(path.clone()));
    fs::remove_file(&path).unwrap();

    let _stream = UnixListener::bind(&path).unwrap();
    assert_eq!(connect(), ConnectError::NotOurs(path.clone()));

    let long = Socket::connect(Path::new(&"x".repeat(200))).unwrap_err();
    assert_eq!(
        long.to_string(),
        "cannot connect: the socket's path has 200 bytes and the limit is 107; choose a shorter one"
    );
    let below_a_file = Socket::connect(&path.join("x")).unwrap_err();
    assert!(
        matches!(&below_a_file, ConnectError::Os(error) if error.errno() == libc::ENOTDIR),
        "{below_a_file}"
    );
}

/// A socket that has a path and does not listen: like one whose process is gone.
pub(in super::super) fn bind_only(path: &Path) -> OwnedFd {
    let fd = new_socket().unwrap();
    bind(&fd, &unix_address(path).unwrap()).unwrap();
    fd
}

#[test]
fn descriptors_are_accepted_only_while_expected() {
    let (a, b) = Socket::pair().unwrap();
    b.expect_fd(false);
    let refused = a.send(b"x", Some(a.as_fd()));
    if refused.is_ok() {
        println!("no SO_PASSRIGHTS here");
        return;
    }
    assert!(matches!(&refused, Err(SocketError::Os(error)) if error.errno() == libc::EPERM), "{refused:?}");
    a.send(b"x", None).unwrap();
    b.expect_fd(true);
    a.send(b"y", Some(a.as_fd())).unwrap();
}

#[test]
fn a_packet_with_an_unexpected_descriptor_stays() {
    let (a, b) = Socket::pair().unwrap();
    let (reader, writer) = pipe().unwrap();
    a.send(b"x", Some(writer.as_fd())).unwrap();
    drop(writer);
    for _ in 0..2 {
        assert_eq!(b.try_receive_plain(&mut [0; 8]).unwrap_err(), SocketError::Descriptors);
    }
    assert!(b.head().unwrap().has_fds);
    drop(b);
    assert!(is_at_end(reader));
}

#[test]
fn drain_discards_all_packets_without_descriptors() {
    let queue = |packets: &[(&[u8], bool)]| {
        let (a, b) = Socket::pair().unwrap();
        for (bytes, with) in packets {
            send_raw(&a, bytes, &[a.as_fd()][..usize::from(*with)]);
        }
        b.drain()
    };
    // The peer is gone, so no shutdown is needed first.
    assert!(queue(&[]));
    assert!(queue(&[(b"x", false), (b"", false), (b"", false), (b"yz", false)]));
    for packets in [&[(&b"x"[..], true)][..], &[(b"", true)], &[(b"", false), (b"", false), (b"x", true)]] {
        assert!(!queue(packets), "{packets:?}");
    }
}

/// Closes a socket with unread packets, as the kernel does when a process ends. Waits until `peer` sees the end: a child that another test
/// forks has the descriptor for a moment.
fn close_unread(socket: Socket, peer: &Socket) {
    let raw = socket.as_fd().as_raw_fd();
    core::mem::forget(socket);
    // SAFETY: the descriptor is open, and its owner was forgotten, so nothing else closes it.
    unsafe { libc::close(raw) };
    let deadline_ns = monotonic_ns() + 60_000_000_000;
    while !peer.has_ended() {
        assert!(monotonic_ns() < deadline_ns, "the end is not seen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn packets_before_an_end_with_unread_ones_arrive() {
    let (a, b) = Socket::pair().unwrap();
    for text in [b"one", b"two"] {
        b.send(text, None).unwrap();
    }
    a.send(b"unread", None).unwrap();
    close_unread(b, &a);
    let mut buf = [0; 8];
    for text in [b"one", b"two"] {
        assert_eq!(a.try_receive(&mut buf).unwrap().unwrap().bytes, 3);
        assert_eq!(&buf[..3], text);
    }
    assert_eq!(a.try_receive(&mut buf).unwrap_err(), SocketError::Closed);
}

#[test]
fn one_packet_is_discarded_though_the_peer_ends() {
    let (a, b) = Socket::pair().unwrap();
    for text in [b"one", b"two"] {
        b.send(text, None).unwrap();
    }
    a.send(b"unread", None).unwrap();
    assert_eq!(a.head().unwrap().first, b'o');
    close_unread(b, &a);
    a.discard_head();
    assert_eq!(a.head().unwrap().first, b't');
}

#[test]
fn a_drop_in_a_forked_child_changes_nothing() {
    let (a, b) = Socket::pair().unwrap();
    a.send(b"kept", None).unwrap();
    // SAFETY: the child makes system calls only, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(b);
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(!b.has_ended() && !a.has_ended(), "it is the parent's");
    let mut buf = [0; 8];
    assert_eq!(b.try_receive(&mut buf).unwrap().map(|received| received.bytes), Some(4));
    assert_eq!(&buf[..4], b"kept");
    b.send(b"back", None).unwrap();
    assert_eq!(a.receive(&mut buf, NEVER).unwrap().bytes, 4);
}

/// A TCP connection with unsent data, whose last close lingers until its other end, which comes with it, is closed.
fn slow_to_close() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mute, _) = listener.accept().unwrap();
    sent.set_nonblocking(true).unwrap();
    while sent.write(&[0; 1 << 16]).is_ok() {}
    sent.set_nonblocking(false).unwrap();
    set_socket_linger(&sent, Some(Duration::from_secs(600))).unwrap();
    (sent, mute)
}

#[test]
fn a_drop_does_not_wait_for_queued_descriptors() {
    let (a, b) = Socket::pair().unwrap();
    let (slow, mute) = slow_to_close();
    a.send(b"x", Some(slow.as_fd())).unwrap();
    let (closing, slow_is_closed) = channel();
    let (dropping, is_dropped) = channel();
    thread::scope(|scope| {
        // The queue has the last.
        scope.spawn(|| {
            drop(slow);
            closing.send(()).unwrap();
        });
        slow_is_closed.recv().unwrap();
        scope.spawn(|| {
            drop(b);
            dropping.send(()).unwrap();
        });
        let in_time = is_dropped.recv_timeout(Duration::from_secs(20));
        drop(mute);
        assert_eq!(in_time, Ok(()), "whoever dropped it closed what the peer sent");
    });
}

#[test]
fn a_wait_for_the_backlog_is_bounded() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let wait_ns = 50_000_000;
    for wait_ns in [0, 999, 1000, wait_ns] {
        let error = Socket::connect_within(&path, wait_ns).unwrap_err();
        assert_eq!(error, ConnectError::NotFound(path.clone()), "{wait_ns}");
    }
    let listener = bind_only(&path);
    listen(&listener, 0).unwrap();
    let first = Socket::connect_within(&path, wait_ns).unwrap();
    assert_eq!(
        first.try_receive(&mut [0; 8]).unwrap().map(|received| received.bytes),
        None,
        "it does not block"
    );
    assert_eq!(fcntl_getfd(&first), Ok(FdFlags::CLOEXEC));
    // The backlog is full: a client that waits fails after its time, others at once.
    for wait_ns in [0, 999, 1000, wait_ns] {
        let error = Socket::connect_within(&path, wait_ns).unwrap_err();
        assert_eq!(error, ConnectError::Busy(path.clone()), "{wait_ns}");
    }
    // One that waits has the place that is made.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let deadline_ns = monotonic_ns() + 60_000_000_000;
            loop {
                match Socket::connect_within(&path, 900_000_000) {
                    Err(ConnectError::Busy(_)) if monotonic_ns() < deadline_ns => {}
                    connected => return connected.is_ok(),
                }
            }
        });
        let accepted = accept(&listener).unwrap();
        assert!(waiter.join().unwrap());
        drop(accepted);
    });
}

#[test]
fn a_socket_without_peer_is_drained_at_once() {
    assert!(Socket::from_fd(new_socket().unwrap()).drain());
}
