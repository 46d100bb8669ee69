//! The budget of the process: asked before anything is provisioned, and the other end is told. A binary of its own, since
//! the budget is the process's.

use core::time::Duration;
use std::thread;

use superpipe::shm::Socket;
use superpipe::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::{Address, Budget, Connection, Error, ErrorKind, Listener, Options};

/// Ten times what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Both ends, in this process: connecting, then listening.
fn meet(address: &Address) -> (Result<Connection, Error>, Result<Connection, Error>) {
    let mut listener = Listener::bind(address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE));
    let connected = Connection::connect(address, Options::default(), DEADLINE);
    (connected, accepting.join().unwrap())
}

/// The kind and code of the answer to HELLO.
fn answer_to_hello(path: &std::path::Path) -> (u8, u8) {
    let address = Address::Shm(path.to_owned());
    let mut listener = Listener::bind(&address, Options::default()).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).map(drop));
    let socket = Socket::connect(path).unwrap();
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = 1;
    socket.send(&packet, None).unwrap();
    loop {
        match socket.receive(&mut packet, superpipe::os::monotonic_ns() + 60_000_000_000) {
            Err(superpipe::shm::SocketError::Interrupted) => {}
            received => break assert_eq!(received.unwrap().bytes, PACKET_BYTES),
        }
    }
    drop(socket);
    accepting.join().unwrap().unwrap_err();
    (packet[10], packet[11])
}

/// What becomes of a connecting end that may not provision a byte, and whose listener makes the landing buffer 400 MiB.
fn connect_to_a_large_landing_buffer(path: &std::path::Path) -> ErrorKind {
    let listener = superpipe::shm::Listener::bind(path).unwrap();
    let options = Options { landing_bytes_max: 1 << 20, ..Options::default() };
    let address = Address::Shm(path.to_owned());
    let connecting = thread::spawn(move || Connection::connect(&address, options, DEADLINE).map(drop));
    let socket = loop {
        match listener.accept(superpipe::os::monotonic_ns() + 60_000_000_000) {
            Err(superpipe::shm::SocketError::Interrupted) => {}
            socket => break socket.unwrap(),
        }
    };
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = 2;
    packet[20..24].copy_from_slice(&(400_u32 << 20).to_le_bytes());
    socket.send(&packet, None).unwrap();
    connecting.join().unwrap().unwrap_err().kind()
}

/// The texts of both ends, which fail for a limit.
fn meet_in_vain(address: &Address) -> [String; 2] {
    let (connected, accepted) = meet(address);
    [connected.unwrap_err(), accepted.unwrap_err()].map(|error| {
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        error.to_string()
    })
}

#[test]
fn the_share_is_taken_first_and_whoever_is_refused_is_told_why() {
    let path = std::env::temp_dir().join(format!("superpipe-budget-{}.sock", std::process::id()));
    let address = Address::Shm(path.clone());
    let share = {
        let (one, other) = meet(&address);
        let (one, other) = (one.unwrap(), other.unwrap());
        let share = one.describe().provisioned_bytes;
        assert_eq!(other.describe().provisioned_bytes, share);
        assert_eq!(Budget::used_bytes(), 2 * share);
        share
    };
    assert_eq!(Budget::used_bytes(), 0);
    let segment = u64::from(superpipe::shm::fabric::segment_bytes(
        superpipe::Tuning::default()
            .settle(&superpipe::Tuning::default(), &superpipe::tuning::Terms::SHM)
            .unwrap()
            .layout,
    ));
    assert_eq!(share, 2 * segment, "our segment and the peer's, whose holes we fill");

    // The listening end has no room.
    Budget::set_limit_bytes(share - 1);
    let [connected, accepted] = meet_in_vain(&address);
    assert!(connected.starts_with("the peer refused: its memory budget"), "{connected}");
    assert!(accepted.starts_with("cannot provision"), "{accepted}");
    const REFUSED_FOR_A_LIMIT: (u8, u8) = (5, 3);
    assert_eq!(answer_to_hello(&path), REFUSED_FOR_A_LIMIT, "before WELCOME");
    assert_eq!(Budget::used_bytes(), 0);

    // It has, and the connecting end, of the same process, has none after it.
    Budget::set_limit_bytes(share);
    let [connected, accepted] = meet_in_vain(&address);
    assert!(connected.starts_with("cannot provision"), "{connected}");
    assert!(accepted.starts_with("the peer refused: its memory budget"), "{accepted}");
    assert_eq!(Budget::used_bytes(), 0);

    // A landing buffer that is too large is refused before the budget is asked.
    Budget::set_limit_bytes(1);
    assert_eq!(connect_to_a_large_landing_buffer(&path), ErrorKind::Usage);

    Budget::set_limit_bytes(2 * share);
    let (connected, accepted) = meet(&address);
    assert!(connected.is_ok() && accepted.is_ok());
}
