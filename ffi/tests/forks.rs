//! After fork: what a child may do with what it inherited, and what it must not harm. And what a test sets for a whole
//! process, which is a child then.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::io::{Read, Write, pipe};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::SocketError;
use superpipe::fabric::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::{
    Address, Connection, ErrorKind, Listener, Options, PeerTrust, Protocol, RecvBuf, Registered,
    RegisteredBuf, TrustedBuf, Tuning,
};

/// Ten times what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("superpipe-forks-{}-{name}.sock", std::process::id()))
}

/// Runs `work` in a child, which then ends. Its pid.
fn fork(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child has only this thread. What the tests do there takes no lock that another thread of the parent could
    // hold but those of the allocator, which the C library hands to the child.
    match unsafe { libc::fork() } {
        0 => {
            let is_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
            // SAFETY: _exit ends the child and runs nothing of the program's.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        pid => pid,
    }
}

/// Waits for a child: 0 if all is well.
fn wait(pid: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn pair(address: &Address) -> (Listener, Connection, Connection) {
    let mut listener = Listener::bind(address, Options::default()).unwrap();
    let accepting = thread::spawn(move || {
        let accepted = listener.accept(DEADLINE).unwrap();
        (listener, accepted)
    });
    let connected = Connection::connect(address, Options::default(), DEADLINE).unwrap();
    let (listener, accepted) = accepting.join().unwrap();
    (listener, connected, accepted)
}

fn exchange(one: &mut Connection, other: &mut Connection) {
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut *one, &mut *other];
        ends[from].send(7, &[b"still here"], DEADLINE).unwrap();
        let mut text = [0; 10];
        ends[to].recv_into(&mut [&mut text], DEADLINE).unwrap();
        assert_eq!(&text, b"still here");
    }
}

#[test]
fn a_child_may_drop_what_it_inherited_and_the_parent_goes_on() {
    let path = path("drop");
    let address = Address::Shm(path.clone());
    let (mut listener, mut one, mut other) = pair(&address);
    let buffer = RecvBuf::new(4 << 20).unwrap();
    // SAFETY: these are the child's copies, and its own are never used again: it ends without dropping anything.
    let child = fork(|| unsafe {
        drop(core::ptr::read(&raw const one));
        drop(core::ptr::read(&raw const other));
        drop(core::ptr::read(&raw const listener));
        drop(core::ptr::read(&raw const buffer));
    });
    assert_eq!(wait(child), 0);
    exchange(&mut one, &mut other);
    assert!(path.exists());
    let accepting = thread::spawn(move || (listener.accept(DEADLINE).unwrap(), listener));
    let mut third = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    let (mut fourth, listener) = accepting.join().unwrap();
    exchange(&mut third, &mut fourth);
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_child_may_drop_registered_buffers_and_their_connection() {
    let address = Address::Shm(path("buffers"));
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let mut one = Connection::connect(&address, options, DEADLINE).unwrap();
    let mut other = accepting.join().unwrap();
    let mut source = RegisteredBuf::new(1 << 20).unwrap();
    source.fill(5);
    register(&mut one, &mut other, &source);
    one.send_registered(3, &source, 0..1 << 20, DEADLINE).unwrap();
    // SAFETY: these are the child's copies, and its own are never used again: it ends without dropping anything.
    let child = fork(|| unsafe {
        drop(core::ptr::read(&raw const source));
        drop(core::ptr::read(&raw const one));
        drop(core::ptr::read(&raw const other));
    });
    assert_eq!(wait(child), 0);
    let mut place = vec![0; 1 << 20];
    for byte in [5, 6] {
        assert_eq!(other.recv_into(&mut [&mut place], DEADLINE).unwrap().bytes, 1 << 20);
        assert!(place.iter().all(|found| *found == byte));
        source.fill(6);
        one.send_registered(3, &source, 0..1 << 20, DEADLINE).unwrap();
    }
    assert_eq!(other.counters().exposed_bytes_received, 2 << 20, "it is registered as before");
}

/// Registers a buffer with a connection whose other end is this.
fn register(connection: &mut Connection, other: &mut Connection, buffer: &RegisteredBuf) {
    let registered = thread::scope(|scope| {
        let registering = scope.spawn(|| connection.register(buffer, DEADLINE).unwrap());
        while !registering.is_finished() {
            other.progress();
        }
        registering.join().unwrap()
    });
    assert_eq!(registered, Registered::Ready);
}

#[test]
fn a_child_may_drop_a_trusted_buffer_that_is_offered() {
    const BYTES: usize = 300_000;
    let address = Address::Shm(path("trusted"));
    // SAFETY: the peer is this test.
    let peer_trust = unsafe { PeerTrust::declare() };
    let mut listener = Listener::bind(&address, Options { peer_trust, ..Options::default() }).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let tuning = Tuning { protocol: Some(Protocol::RegisterCached), ..Tuning::default() };
    let mut one = Connection::connect(&address, Options { tuning, ..Options::default() }, DEADLINE).unwrap();
    let mut other = accepting.join().unwrap();
    let (mut source, mut sink) = (RegisteredBuf::new(BYTES).unwrap(), TrustedBuf::new(BYTES).unwrap());
    register(&mut one, &mut other, &source);
    let mut seen = vec![0; BYTES];
    let mut split_bytes = 0;
    for byte in 1..=2 {
        let begun = Instant::now();
        while !other.offer(&mut sink).unwrap() {
            assert!(begun.elapsed() < DEADLINE, "it is never offered");
            one.progress();
            other.progress();
        }
        // SAFETY: these are the child's copies, and its own are never used again: it ends without dropping anything.
        let child = fork(|| unsafe {
            assert!(!is_mapped(sink.as_ptr()), "the child does not have the memory");
            drop(core::ptr::read(&raw const sink));
            drop(core::ptr::read(&raw const other));
            drop(core::ptr::read(&raw const one));
        });
        assert_eq!(wait(child), 0);
        assert!(other.offer(&mut sink).unwrap(), "it is offered still");
        source.fill(byte);
        one.send_registered(3, &source, 0..BYTES, DEADLINE).unwrap();
        assert_eq!(other.recv_trusted(&mut sink, DEADLINE).unwrap().bytes, BYTES);
        sink.read(0, &mut seen).unwrap();
        assert!(seen.iter().all(|found| *found == byte));
        let all_split_bytes = other.counters().split_bytes_received;
        assert!(all_split_bytes > split_bytes, "both ends have copied the message");
        split_bytes = all_split_bytes;
        one.wait_unshared(&source, DEADLINE).unwrap();
    }
}

/// Returns true if this process has mapped the page at this address.
fn is_mapped(page: *const u8) -> bool {
    // SAFETY: msync of a range that is not mapped fails with ENOMEM; of one that is, it changes no byte.
    unsafe { libc::msync(page.cast_mut().cast(), 1, libc::MS_ASYNC) == 0 }
}

#[test]
fn a_child_may_drop_a_stream_in_the_middle() {
    let address = Address::Shm(path("stream"));
    let (_listener, mut one, mut other) = pair(&address);
    let mut stream = one.open_stream(3, DEADLINE).unwrap();
    stream.write_all(&[5; 100]).unwrap();
    // SAFETY: this is the child's copy, and its own is never used again: it ends without dropping anything.
    let child = fork(|| unsafe { drop(core::ptr::read(&raw const stream)) });
    assert_eq!(wait(child), 0);
    stream.write_all(&[6; 100]).unwrap();
    stream.finish(DEADLINE).unwrap();
    let mut all = Vec::new();
    other.accept_stream(DEADLINE).unwrap().read_to_end(&mut all).unwrap();
    assert_eq!(all, [[5; 100], [6; 100]].concat());
}

#[test]
fn a_connection_of_a_forked_worker_outlives_the_listener() {
    let path = path("worker");
    let address = Address::Shm(path.clone());
    let (mut told, mut tell) = pipe().unwrap();
    let (mut ready, mut is_ready) = pipe().unwrap();
    let parent = fork(|| {
        let mut listener = Listener::bind(&address, Options::default()).unwrap();
        is_ready.write_all(b"r").unwrap();
        fork(|| {
            let mut connection = listener.accept(DEADLINE).unwrap();
            let mut bytes = [0; 8];
            while connection.recv_into(&mut [&mut bytes], DEADLINE).is_ok() {
                connection.send(1, &[&bytes], DEADLINE).unwrap();
            }
        });
        told.read_exact(&mut [0]).unwrap();
        let _ = std::fs::remove_file(&path);
    });
    ready.read_exact(&mut [0]).unwrap();
    let mut connection = Connection::connect(&address, Options::default(), DEADLINE).unwrap();
    tell.write_all(b"x").unwrap();
    assert_eq!(wait(parent), 0);
    for number in 0..50_u64 {
        connection.send(2, &[&number.to_le_bytes()], DEADLINE).unwrap();
        let mut answer = [0; 8];
        connection.recv_into(&mut [&mut answer], DEADLINE).unwrap();
        assert_eq!(u64::from_le_bytes(answer), number);
        // Longer than between two looks at the peer's life.
        let nothing = connection.recv_into(&mut [&mut answer], Duration::from_millis(5)).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::Timeout, "{nothing}");
    }
}

#[test]
fn a_worker_accepts_after_its_parent_dropped_the_listener() {
    let path = path("dropped");
    let address = Address::Shm(path.clone());
    let (mut told, mut tell) = pipe().unwrap();
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let worker = fork(|| {
        told.read_exact(&mut [0]).unwrap();
        // It goes away in the middle of the handshake.
        let error = listener.accept(DEADLINE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerLost, "{error}");
    });
    let socket = superpipe::fabric::shm::Socket::connect(&path).unwrap();
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = 1; // HELLO
    socket.send(&packet, None).unwrap();
    drop(listener);
    assert!(!path.exists());
    tell.write_all(b"x").unwrap();
    let answered = loop {
        match socket.receive(&mut packet, superpipe::os::monotonic_ns() + 60_000_000_000) {
            Err(SocketError::Interrupted) => {}
            answered => break answered.unwrap(),
        }
    };
    assert_eq!((answered.bytes, packet[10]), (PACKET_BYTES, 2)); // WELCOME
    drop((answered, socket));
    assert_eq!(wait(worker), 0);
}

/// A container in a container: both processes are number 1, each where it is.
#[test]
fn a_child_with_its_parents_pid_harms_nobody() {
    const NOT_ALLOWED: i32 = 77 << 8;
    let unshare = || {
        // SAFETY: takes an integer; the process has one thread, or only its children are concerned.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            // SAFETY: _exit ends the child and runs nothing of the program's.
            unsafe { libc::_exit(77) }
        }
    };
    // Named here, where the pid is this run's.
    let address = Address::Shm(path("one"));
    let outer = fork(|| {
        unshare();
        let first = fork(|| {
            assert_eq!(std::process::id(), 1);
            let (_listener, mut one, mut other) = pair(&address);
            unshare();
            let second = fork(|| {
                assert_eq!(std::process::id(), 1);
                // SAFETY: the child's copy, which is never used again.
                drop(unsafe { core::ptr::read(&raw const one) });
            });
            assert_eq!(wait(second), 0);
            exchange(&mut one, &mut other);
        });
        assert_eq!(wait(first), 0);
    });
    let status = wait(outer);
    assert!(status == 0 || status == NOT_ALLOWED, "{status:#x}");
}

/// A limit that is meant for files, where memory counts as one.
#[test]
fn a_limit_of_file_sizes_is_an_error_and_no_signal() {
    let path = path("limit");
    let child = fork(|| {
        let limit = libc::rlimit { rlim_cur: 100 << 10, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the pointer is to a local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let address = Address::Shm(path.clone());
        let mut listener = Listener::bind(&address, Options::default()).unwrap();
        let connecting =
            thread::spawn(move || Connection::connect(&address, Options::default(), DEADLINE).unwrap_err());
        let accepted = listener.accept(DEADLINE).unwrap_err();
        let connected = connecting.join().unwrap();
        for error in [accepted, connected] {
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            assert!(error.to_string().contains("RLIMIT_FSIZE"), "{error}");
        }
    });
    let status = wait(child);
    let _ = std::fs::remove_file(&path);
    assert_eq!(status, 0, "{status:#x}");
}

/// Strangers that connect and say nothing. Without many descriptors a listener serves clients beside them, and after them.
#[test]
fn a_listener_of_few_descriptors_is_not_deaf() {
    const STRANGERS: usize = 40;
    for limit in [10, 16, 24, 32, 33] {
        let path = path(&format!("few-{limit}"));
        let child = fork(|| {
            for fd in 3..1024 {
                // SAFETY: closes the child's copies of descriptors. It ends without a use of theirs.
                unsafe { libc::close(fd) };
            }
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: the pointer is to a local.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
            let mut listener = Listener::bind(&Address::Shm(path.clone()), Options::default()).unwrap();
            for _ in 0..2 {
                listener.accept(DEADLINE).unwrap();
            }
        });
        let deadline = Instant::now() + DEADLINE;
        let mut strangers = Vec::new();
        while strangers.len() < STRANGERS && Instant::now() < deadline {
            strangers.extend(superpipe::fabric::shm::Socket::connect(&path).ok());
            thread::sleep(Duration::from_millis(2));
        }
        let address = Address::Shm(path.clone());
        let beside = Connection::connect(&address, Options::default(), DEADLINE).map(drop);
        drop(strangers);
        let after = Connection::connect(&address, Options::default(), DEADLINE).map(drop);
        let status = wait(child);
        let _ = std::fs::remove_file(&path);
        assert!(beside.is_ok() && after.is_ok(), "with {limit} descriptors: {beside:?}, {after:?}");
        assert_eq!(status, 0, "with {limit} descriptors: {status:#x}");
    }
}

#[test]
fn a_relative_path_is_taken_away_from_another_directory() {
    let directory = std::env::temp_dir().join(format!("superpipe-forks-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let child = fork(|| {
        std::env::set_current_dir(&directory).unwrap();
        let listener = Listener::bind(&Address::Shm("relative.sock".into()), Options::default()).unwrap();
        assert!(directory.join("relative.sock").exists());
        std::env::set_current_dir("/").unwrap();
        drop(listener);
    });
    let status = wait(child);
    let is_left = directory.join("relative.sock").exists();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!((status, is_left), (0, false));
}

/// Both ends of a pipeline are stopped by one keystroke, for longer than the idle timeout, and go on by another. Neither has waited
/// for the other meanwhile.
#[test]
fn ends_that_were_stopped_together_go_on() {
    let address = Address::Shm(path("stopped"));
    let options = Options { idle_timeout: Duration::from_secs(2), ..Options::default() };
    let (mut ready, mut is_ready) = pipe().unwrap();
    let group = fork(|| {
        // SAFETY: takes integers, and touches no memory.
        unsafe { libc::setpgid(0, 0) };
        let mut listener = Listener::bind(&address, options).unwrap();
        let other = fork(|| {
            let mut connection = Connection::connect(&address, options, DEADLINE).unwrap();
            is_ready.write_all(b"r").unwrap();
            let waited = connection.recv_into(&mut [&mut [0; 8]], Duration::from_secs(8)).unwrap_err();
            assert!(!waited.to_string().contains("silent"), "{waited}");
            connection.send(1, &[b"well"], DEADLINE).unwrap();
        });
        let mut connection = listener.accept(DEADLINE).unwrap();
        let received = connection.recv_into(&mut [&mut [0; 8]], DEADLINE);
        assert!(received.is_ok(), "{received:?}");
        assert_eq!(wait(other), 0);
    });
    ready.read_exact(&mut [0]).unwrap();
    thread::sleep(Duration::from_millis(300));
    for (signal, pause) in [(libc::SIGSTOP, 4000), (libc::SIGCONT, 0)] {
        // SAFETY: takes integers; the group is of two processes that were begun here.
        assert_eq!(unsafe { libc::kill(-group, signal) }, 0);
        thread::sleep(Duration::from_millis(pause));
    }
    assert_eq!(wait(group), 0);
}

/// A busy host: its process does not run for a while.
#[test]
fn a_client_that_makes_room_in_the_warm_up_tries_again() {
    const SIDE_BY_SIDE: usize = 16;
    let path = path("room");
    let address = Address::Shm(path.clone());
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let client = fork(|| {
        let connected = Connection::connect(&address, Options::default(), DEADLINE);
        assert!(connected.is_ok(), "{}", connected.unwrap_err());
    });
    let send = |signal| {
        // SAFETY: the call takes integers only.
        assert_eq!(unsafe { libc::kill(client, signal) }, 0);
    };
    let is_warming = |listener: &Listener| format!("{listener:?}").contains("warming");
    let mut accepted = None;
    while accepted.is_none() && !is_warming(&listener) {
        accepted = listener.try_accept().unwrap();
    }
    send(libc::SIGSTOP);
    let strangers: Vec<_> =
        (0..SIDE_BY_SIDE).map(|_| superpipe::fabric::shm::Socket::connect(&path).unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(2);
    while accepted.is_none() && is_warming(&listener) && Instant::now() < until {
        accepted = listener.try_accept().unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    drop(strangers);
    send(libc::SIGCONT);
    if accepted.is_none() {
        let end = Instant::now() + DEADLINE;
        while accepted.is_none() && Instant::now() < end {
            accepted = listener.accept(end).ok();
        }
    }
    assert_eq!(wait(client), 0, "it made room once, and its deadline is a minute");
}
