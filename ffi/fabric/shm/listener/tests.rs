//! Listeners: who gets a path, what is replaced, and what is left alone.

use super::super::scratch::Scratch;
use super::super::socket::tests::bind_only;
use super::*;
use crate::fabric::shm::ConnectError;
use rustix::fs::{OFlags, fcntl_getfl};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::Barrier;

const NEVER: u64 = u64::MAX;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_client_is_accepted_and_can_send() {
    let scratch = Scratch::new();
    let listener = Listener::bind(&scratch.path().join("s")).unwrap();
    let client = Socket::connect(listener.path()).unwrap();
    let server = listener.accept(NEVER).unwrap();
    for (from, to) in [(&client, &server), (&server, &client)] {
        from.send(b"hello", None).unwrap();
        let mut buf = [0; 8];
        assert_eq!(to.receive(&mut buf, NEVER).unwrap().bytes, 5);
        assert_eq!(&buf[..5], b"hello");
    }
    assert_eq!(listener.accept(0).unwrap_err(), SocketError::TimedOut);
    assert_eq!(listener.accept(NEVER).unwrap_err(), SocketError::Interrupted);
    assert_eq!(mode(listener.path()), 0o600);
}

#[test]
fn a_wait_for_the_backlog_gets_a_place_or_times_out() {
    const LONG_NS: u64 = 900_000_000;
    let scratch = Scratch::new();
    let listener = Listener::bind(&scratch.path().join("s")).unwrap();
    let path = listener.path();
    let mut held: Vec<_> = core::iter::from_fn(|| Socket::connect(path).ok()).collect();
    for wait_ns in [0, 20_000_000] {
        let begin_ns = monotonic_ns();
        assert!(matches!(Socket::connect_within(path, wait_ns), Err(ConnectError::Busy(_))));
        assert!(monotonic_ns() - begin_ns >= wait_ns * 9 / 10);
    }
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            (0..100).find_map(|_| Socket::connect_within(path, LONG_NS).ok()).expect("there is a place")
        });
        let client = loop {
            drop(listener.accept(NEVER));
            if waiting.is_finished() {
                break waiting.join().unwrap();
            }
            // Others take what they can get.
            held.extend(Socket::connect(path));
        };
        // It never blocks afterwards.
        assert!(matches!(client.try_receive(&mut [0; 8]), Ok(None) | Err(SocketError::Closed)));
        assert!(fcntl_getfl(&client).unwrap().contains(OFlags::NONBLOCK));
    });
    drop(listener);
    assert!(matches!(
        Socket::connect_within(&scratch.path().join("s"), LONG_NS),
        Err(ConnectError::NotFound(_) | ConnectError::Refused(_))
    ));
}

#[test]
fn a_dropped_listener_leaves_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    drop(Listener::bind(&path).unwrap());
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn an_early_unlink_keeps_connections_and_frees_the_path() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let mut first = Listener::bind(&path).unwrap();
    let client = Socket::connect(&path).unwrap();
    first.unlink();
    assert!(!path.exists());
    let second = Listener::bind(&path).unwrap();
    client.send(b"x", None).unwrap();
    assert_eq!(first.accept(NEVER).unwrap().receive(&mut [0; 8], NEVER).unwrap().bytes, 1);
    drop(first);
    assert!(path.exists(), "the second listener's path is not the first's to remove");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_path_that_was_replaced_is_not_removed() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    fs::rename(&path, scratch.path().join("moved")).unwrap();
    fs::write(&path, b"kept").unwrap();
    drop(listener);
    assert_eq!(fs::read(&path).unwrap(), b"kept");
}

#[test]
fn a_path_in_use_is_refused_and_stays_usable() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error, BindError::InUse(path.clone()));
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen at {}: another process listens there; stop it or choose another address",
            path.display()
        )
    );
    let probe = listener.accept(NEVER).unwrap();
    assert_eq!(probe.receive(&mut [0; 8], NEVER).unwrap_err(), SocketError::Closed);
    let _client = Socket::connect(&path).unwrap();
    listener.accept(NEVER).unwrap();
}

#[test]
fn a_listener_with_a_full_backlog_is_not_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let _listener = Listener::bind(&path).unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        match Socket::connect(&path) {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, ConnectError::Busy(path.clone()));
    assert_eq!(Listener::bind(&path).unwrap_err(), BindError::InUse(path.clone()));
    assert!(path.exists());
}

#[test]
fn a_stream_socket_of_another_program_is_not_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let stream = UnixListener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).unwrap_err(), BindError::InUse(path.clone()));
    drop(stream);
    drop(Listener::bind(&path).unwrap());
}

#[test]
fn a_stale_socket_is_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    drop(bind_only(&path));
    let listener = Listener::bind(&path).unwrap();
    let _client = Socket::connect(&path).unwrap();
    listener.accept(NEVER).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn only_sockets_are_removed() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let refused = |kept: &str| {
        assert_eq!(Listener::bind(&path).unwrap_err(), BindError::NotASocket(path.clone()), "{kept}");
    };
    fs::write(&path, b"kept").unwrap();
    refused("file");
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    refused("directory");
    fs::remove_dir(&path).unwrap();

    drop(bind_only(&scratch.path().join("stale")));
    symlink(scratch.path().join("stale"), &path).unwrap();
    refused("link to a stale socket");
    assert!(scratch.path().join("stale").exists());
}

#[test]
fn of_many_binds_over_a_stale_socket_one_succeeds() {
    const STARTERS: usize = 8;
    for _ in 0..20 {
        let scratch = Scratch::new();
        let path = scratch.path().join("s");
        drop(bind_only(&path));
        let start = Barrier::new(STARTERS);
        let results = thread::scope(|scope| {
            let starters: Vec<_> = (0..STARTERS)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        Listener::bind(&path)
                    })
                })
                .collect();
            starters.into_iter().map(|starter| starter.join().unwrap()).collect::<Vec<_>>()
        });
        let winner = results.iter().flatten().next().unwrap();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let lost = results.iter().filter_map(|result| result.as_ref().err());
        lost.for_each(|error| assert_eq!(*error, BindError::InUse(path.clone())));
        assert_eq!(winner.identity, Some(identity(&fs::symlink_metadata(&path).unwrap())));
    }
}

#[test]
fn a_lock_that_is_never_released_is_an_error() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let locked = lock(&path).unwrap();
    assert_eq!(Listener::bind(&path).unwrap_err(), BindError::Locked(path.clone()));
    drop(locked);
    Listener::bind(&path).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_forked_child_does_not_keep_a_path_locked() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let locked = lock(&path).unwrap().unwrap();
    // A child has the same open file.
    let _childs = locked.file.try_clone().unwrap();
    drop(locked);
    assert!(lock(&path).unwrap().is_some());
}

#[test]
fn other_users_cannot_hold_the_lock() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    // Every user who can read the directory can lock it.
    let directory = File::open(scratch.path()).unwrap();
    directory.try_lock().unwrap();
    drop(Listener::bind(&path).unwrap());
    // A file of another user, a directory or a link is no lock, and stays.
    let squatted = lock_path(&path);
    fs::create_dir(&squatted).unwrap();
    drop(Listener::bind(&path).unwrap());
    fs::remove_dir(&squatted).unwrap();
    fs::write(scratch.path().join("file"), b"x").unwrap();
    symlink("file", &squatted).unwrap();
    drop(Listener::bind(&path).unwrap());
    assert!(fs::symlink_metadata(&squatted).unwrap().is_symlink());
    fs::remove_file(&squatted).unwrap();
    if effective_uid() == 0 {
        let file = File::create(&squatted).unwrap();
        std::os::unix::fs::fchown(&file, Some(65534), None).unwrap();
        file.try_lock().unwrap();
        drop(Listener::bind(&path).unwrap());
        assert!(squatted.exists());
    }
}

#[test]
fn a_file_that_is_no_lock_is_left_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    fs::write(lock_path(&path), b"kept").unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert_eq!(error, BindError::NotALock(path.clone()));
    assert!(error.is_taken());
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen at {}: {}, whose name is that of its lock, is not empty; move that file away, or choose another path",
            path.display(),
            lock_path(&path).display()
        )
    );
    assert_eq!(fs::read(lock_path(&path)).unwrap(), b"kept");
    assert!(!path.exists());
    // An empty one is what a process that was killed leaves.
    fs::write(lock_path(&path), b"").unwrap();
    let locked = lock(&path).unwrap();
    fs::write(lock_path(&path), b"written meanwhile").unwrap();
    drop(locked);
    assert_eq!(fs::read(lock_path(&path)).unwrap(), b"written meanwhile");
    fs::write(lock_path(&path), b"").unwrap();
    drop(Listener::bind(&path).unwrap());
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_lock_whose_file_was_removed_is_taken_again() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let locked = lock(&path).unwrap().unwrap();
    fs::remove_file(lock_path(&path)).unwrap();
    let other = lock(&path).unwrap().unwrap();
    // It does not remove what is the other's.
    drop(locked);
    assert!(other.has_its_name());
}

#[test]
fn a_missing_directory_and_a_long_path_are_errors() {
    let missing = Listener::bind(Path::new("/nowhere/s")).unwrap_err();
    assert_eq!(missing.to_string(), "cannot listen at /nowhere/s: no such file or directory");
    let long = Listener::bind(Path::new(&"x".repeat(108))).unwrap_err();
    assert_eq!(long, BindError::Path(PathError::TooLong { bytes: 108 }));
}
