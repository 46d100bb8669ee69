//! Many who connect to one listener, of whom few mean it.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::handshake::{
    Established, HandshakeError, PACKET_BYTES, ShmOptions, VERSION, connect,
};
use superpipe::fabric::shm::{ConnectError, Socket, SocketError};
use superpipe::{Address, Connection, ErrorKind, Listener, Options};

use crate::attempts::one_of;
use crate::support::{DEADLINE, path, undisturbed};

/// Connections that are made side by side.
pub(crate) const SIDE_BY_SIDE: usize = 16;
/// Longer than the deadline of a test.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn listen(options: Options) -> (Listener, PathBuf) {
    let path = path();
    (Listener::bind(&Address::Shm(path.clone()), options).unwrap(), path)
}

/// Somebody who connects, and says nothing.
pub(crate) fn stranger(path: &Path) -> Socket {
    let until = Instant::now() + DEADLINE;
    loop {
        match Socket::connect(path) {
            Err(ConnectError::Busy(_)) => assert!(Instant::now() < until, "nobody is let in"),
            socket => return socket.unwrap(),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn hello() -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = 1;
    packet
}

/// Agrees, and then does not warm the connection up. On a busy host it may have to make room, and tries again.
pub(crate) fn half_way(path: &Path) -> (Socket, Established) {
    let options = Options::default();
    let deadline_ns = superpipe::os::monotonic_ns() + 60_000_000_000;
    let handshake_options = ShmOptions {
        tuning: &options.tuning,
        landing_bytes_max: options.landing_bytes_max,
        idle_timeout_ns: 30_000_000_000,
        memory_node: options.memory_node,
        deadline_ns,
    };
    loop {
        match connect(stranger(path), &handshake_options, &|| false) {
            Err(HandshakeError::Socket(SocketError::Closed)) => {}
            agreed => return agreed.unwrap(),
        }
    }
}

/// One who means it.
pub(crate) fn honest(path: &Path) -> Connection {
    Connection::connect(&Address::Shm(path.to_owned()), Options::default(), DEADLINE).unwrap()
}

/// Accepts whoever is honest, whatever goes wrong with others.
pub(crate) fn accept_somebody(listener: &mut Listener) -> Connection {
    let until = Instant::now() + DEADLINE;
    loop {
        match listener.accept(until) {
            Ok(connection) => return connection,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

/// Both ends are of one connection.
fn talk(mut one: Connection, mut other: Connection) {
    one.send(7, &[b"after all"], DEADLINE).unwrap();
    assert_eq!(other.recv_into(&mut [&mut [0; 9]], DEADLINE).unwrap().tag, 7);
}

#[test]
fn peers_that_fall_silent_at_any_step_delay_nobody() {
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    let accepting = thread::spawn(move || (listener.accept(DEADLINE).unwrap(), listener));
    let silent: Vec<_> = (0..3 * SIDE_BY_SIDE).map(|_| stranger(&path)).collect();
    let greeted: Vec<_> = (0..SIDE_BY_SIDE).map(|_| stranger(&path)).collect();
    for socket in &greeted {
        // Some were let go already.
        let _ = socket.send(&hello(), None);
    }
    let agreed: Vec<_> = (0..SIDE_BY_SIDE).map(|_| half_way(&path)).collect();
    let one = honest(&path);
    talk(one, accepting.join().unwrap().0);
    drop((silent, greeted, agreed));
}

#[test]
fn the_longest_silence_makes_room_and_no_other() {
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    let accepting = thread::spawn(move || (listener.accept(DEADLINE).unwrap(), listener));
    let silent: Vec<_> = (0..=SIDE_BY_SIDE).map(|_| stranger(&path)).collect();
    let heard = |socket: &Socket, wait: Duration| {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap();
        loop {
            let deadline_ns = superpipe::os::monotonic_ns() + wait_ns;
            match socket.receive(&mut [0; PACKET_BYTES], deadline_ns) {
                Err(SocketError::Interrupted) => {}
                received => return received.map(drop),
            }
        }
    };
    assert_eq!(heard(&silent[0], DEADLINE), Err(SocketError::Closed));
    for socket in &silent[1..] {
        assert_eq!(heard(socket, Duration::ZERO), Err(SocketError::TimedOut));
    }
    let one = honest(&path);
    talk(one, accepting.join().unwrap().0);
    assert_eq!(heard(&silent[1], DEADLINE), Err(SocketError::Closed));
}

#[test]
fn an_attempt_that_goes_wrong_costs_no_other() {
    const HONEST: usize = 8;
    const WRONG: usize = 40;
    let (mut listener, path) = listen(Options::default());
    thread::scope(|scope| {
        let connecting: Vec<_> = (0..HONEST).map(|_| scope.spawn(|| honest(&path))).collect();
        scope.spawn(|| {
            for _ in 0..WRONG {
                let socket = stranger(&path);
                // The listener may have more to do than this one.
                socket.send(b"GET / HTTP/1.1\r\n", None).unwrap();
                let mut refused = [0; PACKET_BYTES];
                let deadline_ns = superpipe::os::monotonic_ns() + 60_000_000_000;
                assert_eq!(socket.receive(&mut refused, deadline_ns).map(|got| got.bytes), Ok(PACKET_BYTES));
            }
        });
        let (mut accepted, mut wrong) = (Vec::new(), 0);
        while accepted.len() < HONEST || wrong < WRONG {
            match listener.accept(DEADLINE) {
                Ok(connection) => accepted.push(connection),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
                    wrong += 1;
                }
            }
        }
        assert_eq!((accepted.len(), wrong), (HONEST, WRONG));
        for mut connection in accepted {
            connection.send(1, &[b"hello"], DEADLINE).unwrap();
        }
        for connection in connecting {
            let mut connection = connection.join().unwrap();
            assert_eq!(connection.recv_into(&mut [&mut [0; 5]], DEADLINE).unwrap().bytes, 5);
        }
    });
}

#[test]
fn a_connection_is_made_by_tries_that_do_not_wait() {
    let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
    let silent: Vec<_> = (0..5).map(|_| stranger(&path)).collect();
    for _ in 0..1000 {
        assert!(listener.try_accept().unwrap().is_none());
    }
    let connecting = thread::spawn(move || honest(&path));
    let until = Instant::now() + DEADLINE;
    let other = loop {
        match listener.try_accept().unwrap() {
            Some(connection) => break connection,
            None => assert!(Instant::now() < until, "no try accepts it"),
        }
    };
    talk(connecting.join().unwrap(), other);
    drop(silent);
}

#[test]
fn whoever_connects_while_nobody_accepts_is_accepted_later() {
    let timeout = Duration::from_secs(3);
    let (mut listener, path) = listen(Options { handshake_timeout: timeout, ..Options::default() });
    thread::scope(|scope| {
        let connecting: Vec<_> = (0..3).map(|_| scope.spawn(|| honest(&path))).collect();
        drop(listener.accept(DEADLINE).unwrap());
        thread::sleep(timeout + timeout / 3);
        for _ in 0..2 {
            drop(listener.accept(DEADLINE).unwrap());
        }
        connecting.into_iter().for_each(|connecting| drop(connecting.join().unwrap()));
    });
}

#[test]
fn a_silent_peer_meets_the_timeout_and_is_told_of() {
    let _undisturbed = undisturbed();
    let timeout = Duration::from_secs(2);
    let (mut listener, path) = listen(Options { handshake_timeout: timeout, ..Options::default() });
    let silent = stranger(&path);
    let error = listener.accept(DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(!error.to_string().contains("nobody connected"), "{error}");
    let agreeing = thread::spawn(move || half_way(&path));
    let error = listener.accept(DEADLINE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("its first messages did not arrive in time"), "{error}");
    drop((silent, agreeing.join().unwrap()));
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Accepts for 2 s, in which nobody is through. Fails unless that costs little CPU time.
pub(crate) fn costs_little(listener: &mut Listener) -> Result<(), String> {
    let before = cpu();
    let error = listener.accept(Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let spent = cpu() - before;
    if spent < Duration::from_millis(600) { Ok(()) } else { Err(format!("{spent:?} of 2 s")) }
}

#[test]
fn a_peer_that_is_silent_while_it_warms_up_costs_little() {
    let _undisturbed = undisturbed();
    one_of(3, || {
        let (mut listener, path) = listen(Options { handshake_timeout: LONG, ..Options::default() });
        let agreeing = thread::spawn(move || half_way(&path));
        let little = costs_little(&mut listener);
        drop(agreeing.join().unwrap());
        little
    });
}

/// Ten calls a second without waiting, as of a loop that has other things to do: each does all that can be done at once.
#[test]
fn a_deadline_of_zero_now_and_then_lets_an_honest_one_in() {
    let (mut listener, path) = listen(Options::default());
    let client = thread::spawn(move || honest(&path));
    let mut refused = 0;
    let server = loop {
        match listener.accept(Duration::ZERO) {
            Ok(server) => break server,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
        refused += 1;
        assert!(refused < 400, "each call makes one step");
        thread::sleep(Duration::from_millis(100));
    };
    drop((server, client.join().unwrap()));
}
