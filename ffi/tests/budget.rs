//! The budget of the process: asked before anything is provisioned, and the other end is told. A binary of its own, since
//! the budget is the process's.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::fabric::shm::{Socket, SocketError};
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
            Err(SocketError::Interrupted) => {}
            received => break assert_eq!(received.unwrap().bytes, PACKET_BYTES),
        }
    }
    drop(socket);
    accepting.join().unwrap().unwrap_err();
    (packet[10], packet[11])
}

/// Connects to a listener that makes the landing buffer 400 MiB, while this end may not provision a byte. Returns the kind of the error.
fn connect_to_a_large_landing_buffer(path: &std::path::Path) -> ErrorKind {
    let listener = superpipe::fabric::shm::Listener::bind(path).unwrap();
    let options = Options { landing_bytes_max: 1 << 20, ..Options::default() };
    let address = Address::Shm(path.to_owned());
    let connecting = thread::spawn(move || Connection::connect(&address, options, DEADLINE).map(drop));
    let socket = loop {
        match listener.accept(superpipe::os::monotonic_ns() + 60_000_000_000) {
            Err(SocketError::Interrupted) => {}
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

/// The budget is of one test at a time.
static BUDGET: Mutex<()> = Mutex::new(());

#[test]
fn the_share_is_taken_first_and_whoever_is_refused_is_told_why() {
    let _budget = BUDGET.lock().unwrap();
    Budget::set_shared_max(1 << 30);
    let path = std::env::temp_dir().join(format!("superpipe-budget-{}.sock", std::process::id()));
    let address = Address::Shm(path.clone());
    let share = {
        let (one, other) = meet(&address);
        let (one, other) = (one.unwrap(), other.unwrap());
        let share = one.description().provisioned_bytes;
        assert_eq!(other.description().provisioned_bytes, share);
        assert_eq!(Budget::shared_bytes(), 2 * share);
        share
    };
    assert_eq!(Budget::shared_bytes(), 0);
    let nothing = superpipe::Tuning::default();
    let layout = superpipe::setup::Defaults::SHM.negotiate(&nothing, &nothing).unwrap().layout;
    let segment = u64::from(superpipe::fabric::shm::segments::segment_bytes(layout));
    assert_eq!(share, 2 * segment, "our segment and the peer's, whose holes we fill");

    // The listening end has no room.
    Budget::set_shared_max(share - 1);
    let [connected, accepted] = meet_in_vain(&address);
    assert!(connected.starts_with("the peer refused: its budget of shared memory"), "{connected}");
    assert!(accepted.starts_with("cannot provision"), "{accepted}");
    const REFUSED_FOR_A_LIMIT: (u8, u8) = (5, 3);
    assert_eq!(answer_to_hello(&path), REFUSED_FOR_A_LIMIT, "before WELCOME");
    assert_eq!(Budget::shared_bytes(), 0);

    // It has, and the connecting end, of the same process, has none after it.
    Budget::set_shared_max(share);
    let [connected, accepted] = meet_in_vain(&address);
    assert!(connected.starts_with("cannot provision"), "{connected}");
    assert!(accepted.starts_with("the peer refused: its budget of shared memory"), "{accepted}");
    assert_eq!(Budget::shared_bytes(), 0);

    // A landing buffer that is too large is refused before the budget is asked.
    Budget::set_shared_max(1);
    assert_eq!(connect_to_a_large_landing_buffer(&path), ErrorKind::Usage);

    Budget::set_shared_max(2 * share);
    let (connected, accepted) = meet(&address);
    assert!(connected.is_ok() && accepted.is_ok());
}

#[test]
fn each_kind_of_memory_has_its_limit() {
    let _budget = BUDGET.lock().unwrap();
    let path = std::env::temp_dir().join(format!("superpipe-budget-kinds-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    // No registered memory is needed here.
    Budget::set_registered_max(0);
    Budget::set_shared_max(1 << 30);
    let (connected, accepted) = meet(&address);
    let share = connected.as_ref().unwrap().description().provisioned_bytes;
    assert_eq!((Budget::registered_bytes(), Budget::shared_bytes()), (0, 2 * share));
    drop((connected, accepted));

    Budget::set_registered_max(1 << 30);
    Budget::set_shared_max(share - 1);
    let [connected, accepted] = meet_in_vain(&address);
    let in_use = format!("0 bytes of {} bytes are in use", share - 1);
    assert!(connected.ends_with(&in_use), "{connected}");
    for words in ["of shared memory", "close connections", "or raise the limit with Budget::set_shared_max"] {
        assert!(accepted.contains(words), "{accepted}");
    }
    assert_eq!((Budget::registered_bytes(), Budget::shared_bytes()), (0, 0));
}

/// HELLO that wishes for a landing buffer of so many bytes.
fn hello_for(landing_bytes: u32) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = 1;
    packet[20..24].copy_from_slice(&landing_bytes.to_le_bytes());
    packet
}

/// The kind and code of the next packet.
fn next_packet(socket: &Socket) -> Result<(u8, u8), SocketError> {
    let mut packet = [0; PACKET_BYTES];
    loop {
        match socket.receive(&mut packet, superpipe::os::monotonic_ns() + 60_000_000_000) {
            Err(SocketError::Interrupted) => {}
            received => return received.map(|_| (packet[10], packet[11])),
        }
    }
}

const WELCOME: (u8, u8) = (2, 0);

/// Sets a flag, also where an assertion fails, so that no thread waits for it for ever.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn half_open_connections_leave_room_in_the_budget() {
    const LARGE: u32 = 4 << 20;
    let _budget = BUDGET.lock().unwrap();
    Budget::set_shared_max(1 << 30);
    let path = std::env::temp_dir().join(format!("superpipe-budget-half-{}.sock", std::process::id()));
    let options = Options { handshake_timeout: Duration::from_secs(3600), ..Options::default() };
    let mut listener = Listener::bind(&Address::Shm(path.clone()), options).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = listener.accept(Duration::from_millis(10));
            }
        });
        let greet = |landing_bytes| {
            let socket = Socket::connect(&path).unwrap();
            socket.send(&hello_for(landing_bytes), None).unwrap();
            socket
        };
        let _over = OnDrop(&is_over);
        // They send nothing from here on. Each begins after the one before it.
        let mut silent: Vec<_> = (0..8)
            .map(|_| {
                let socket = greet(LARGE);
                assert_eq!(next_packet(&socket), Ok(WELCOME));
                socket
            })
            .collect();
        Budget::set_shared_max(Budget::shared_bytes());
        for _ in 0..10 {
            let next = greet(LARGE);
            assert_eq!(
                next_packet(&next),
                Ok(WELCOME),
                "it gets the memory of whoever was silent for longest"
            );
            assert_eq!(next_packet(&silent.remove(0)), Err(SocketError::Closed));
            silent.push(next);
        }
        // More than they all have.
        let [tried, too_much] = [LARGE / 2, 9 * LARGE].map(greet);
        assert_eq!(next_packet(&too_much), Ok((5, 3)), "what nobody can give up is not waited for");
        assert_eq!(next_packet(&tried), Ok(WELCOME));
        assert_eq!(next_packet(&silent.remove(0)), Err(SocketError::Closed));
        // One that goes away while it waits is no longer waited for, and costs nobody a thing.
        drop(greet(LARGE));
    });
    drop(listener);
    assert_eq!(Budget::shared_bytes(), 0);
}

#[test]
fn a_try_to_accept_provisions_for_one_waiting_peer() {
    const LARGE: u32 = 62 << 20;
    let _budget = BUDGET.lock().unwrap();
    Budget::set_shared_max(1 << 30);
    let path = std::env::temp_dir().join(format!("superpipe-budget-try-{}.sock", std::process::id()));
    let options = Options { handshake_timeout: Duration::from_secs(3600), ..Options::default() };
    let mut listener = Listener::bind(&Address::Shm(path.clone()), options).unwrap();
    let greet = || {
        let socket = Socket::connect(&path).unwrap();
        socket.send(&hello_for(LARGE), None).unwrap();
        socket
    };
    let is_welcome = |socket: &&Socket| {
        let mut packet = [0; PACKET_BYTES];
        socket.receive(&mut packet, 0).is_ok() && (packet[10], packet[11]) == WELCOME
    };
    let until = Instant::now() + DEADLINE;
    // It holds a share, so that the others are not refused.
    let holder = greet();
    while !is_welcome(&&holder) {
        assert!(Instant::now() < until);
        assert!(listener.try_accept().unwrap().is_none());
    }
    Budget::set_shared_max(Budget::shared_bytes());
    let waiting: Vec<_> = (0..7).map(|_| greet()).collect();
    assert!(listener.try_accept().unwrap().is_none());
    Budget::set_shared_max(4 << 30);
    let mut welcomes = 0;
    while welcomes < waiting.len() {
        assert!(Instant::now() < until, "{welcomes} of {} got memory", waiting.len());
        assert!(listener.try_accept().unwrap().is_none());
        let now = waiting.iter().filter(is_welcome).count();
        assert!(now <= 1, "one try made memory for {now}, after {welcomes} before");
        welcomes += now;
    }
    drop((holder, waiting, listener));
    assert_eq!(Budget::shared_bytes(), 0);
}
