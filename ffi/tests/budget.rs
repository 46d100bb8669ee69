//! The budget of the process: asked before anything is provisioned, and the other end is told. A binary of its own, since
//! the budget is the process's.

#[path = "support/attempts.rs"]
mod attempts;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use superpipe::fabric::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::fabric::shm::{Socket, SocketError};
use superpipe::{Address, Budget, BudgetShare, Connection, Error, ErrorKind, Listener, MemoryKind, Options};

use attempts::one_of;

/// Ten times what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until nothing of earlier tests counts any more.
fn await_nothing_shared() {
    let until = Instant::now() + DEADLINE;
    while Budget::shared_bytes() > 0 {
        assert!(Instant::now() < until, "{} bytes are shared", Budget::shared_bytes());
        thread::sleep(Duration::from_millis(1));
    }
}

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
    let deadline_ns = superpipe::os::monotonic_ns() + 60_000_000_000;
    loop {
        match socket.receive(&mut packet, deadline_ns) {
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
    await_nothing_shared();
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
            .map(|number| {
                if number == 7 {
                    // So the first one may be dropped at once, while the last one still has its time to provision memory.
                    thread::sleep(Duration::from_millis(100));
                }
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

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// The limit of registered memory for shares without a connection: no other test of this binary takes any.
fn limit_registered(bytes: u64) -> impl Drop {
    let guard = BUDGET.lock().unwrap();
    Budget::set_registered_max(bytes);
    assert_eq!(Budget::registered_bytes(), 0);
    guard
}

fn open(bytes: u64) -> BudgetShare {
    BudgetShare::open(MemoryKind::Registered, bytes).unwrap()
}

#[test]
fn a_share_returns_all_when_it_is_dropped() {
    let _budget = limit_registered(8 * MIB);
    let mut share = open(PAGE);
    share.raise(PAGE).unwrap();
    share.grow(2 * MIB).unwrap();
    share.cache(MIB).unwrap();
    share.shrink(MIB);
    assert_eq!((share.bytes(), share.must_shrink()), (2 * MIB + 2 * PAGE, false));
    let used = Budget::registered_use();
    assert_eq!((used.reserved_bytes, used.grown_bytes, used.cached_bytes), (2 * PAGE, MIB, MIB));
    assert_eq!((used.connections, Budget::registered_bytes()), (1, share.bytes()));
    assert_eq!(Budget::shared_use(), superpipe::BudgetUse::default());
    let refused = share.grow(5 * MIB).unwrap_err();
    assert_eq!(refused.bytes_max(), 4 * MIB);
    let text = refused.to_string();
    assert!(text.contains("2056 KiB of the process's 8 MiB are in use by 1 connection;"), "{text}");
    assert_eq!(share.raise(8 * MIB).unwrap_err().bytes(), 8 * MIB);
    share.uncache(MIB);
    drop(share);
    assert_eq!(Budget::registered_use(), superpipe::BudgetUse::default());
}

#[test]
fn a_child_that_drops_a_share_changes_nothing_for_its_parent() {
    let _budget = limit_registered(8 * MIB);
    let share = open(MIB);
    share.grow(MIB).unwrap();
    // SAFETY: the child has only this thread, takes no lock that another could hold, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: this is the child's copy, and its own is never used again.
        drop(unsafe { core::ptr::read(&raw const share) });
        let is_empty = Budget::registered_bytes() == 0;
        let all = BudgetShare::open(MemoryKind::Registered, MIB);
        let is_well = is_empty && all.is_ok_and(|all| all.grow(6 * MIB).is_ok());
        // SAFETY: _exit ends the child and runs nothing of the program's.
        unsafe { libc::_exit(i32::from(!is_well)) }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((status, Budget::registered_bytes(), share.bytes()), (0, 2 * MIB, 2 * MIB));
    drop(share);
    assert_eq!(Budget::registered_bytes(), 0);
}

#[test]
fn threads_never_exceed_the_limit_and_leave_nothing() {
    const LIMIT: u64 = 4 * MIB;
    let _budget = limit_registered(LIMIT);
    let grown: u64 = thread::scope(|scope| {
        let play = |seed: u64| {
            move || {
                let (mut number, mut grown) = (seed, 0);
                let mut share = open(PAGE);
                for _ in 0..100_000 {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = number >> 44;
                    match number >> 40 & 7 {
                        0 => share = open(PAGE),
                        1 => share.note_idle(bytes % 2 == 0),
                        2 => drop(share.cache(bytes)),
                        3 => share.uncache(bytes),
                        4 => share.shrink(bytes),
                        5 => share.shrink(share.excess_bytes()),
                        _ => grown += u64::from(share.grow(bytes).is_ok()),
                    }
                    assert!(Budget::registered_bytes() <= LIMIT);
                }
                grown
            }
        };
        let threads: Vec<_> = (1..=8).map(|seed| scope.spawn(play(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(grown > 1000, "{grown}");
    assert_eq!(Budget::registered_use(), superpipe::BudgetUse::default());
}

#[test]
fn a_hog_beside_seven_threads_starves_none() {
    const SLAB: u64 = 64 << 10;
    let _budget = limit_registered(8 * MIB);
    let hog = open(PAGE);
    hog.grow(4 * MIB).unwrap();
    let fair = (6 * MIB - 4 * MIB) / 7;
    let has_enough = AtomicBool::new(false);
    let count = core::sync::atomic::AtomicUsize::new(0);
    let until = Instant::now() + DEADLINE;
    thread::scope(|scope| {
        let _over = OnDrop(&has_enough);
        let run = |demand: u64| {
            let (has_enough, count) = (&has_enough, &count);
            move || {
                let share = open(PAGE);
                let mut has = 0;
                let mut is_counted = false;
                while !has_enough.load(Ordering::Relaxed) {
                    assert!(Instant::now() < until, "{has} of {fair}");
                    if share.must_shrink() {
                        share.shrink(has);
                        has = 0;
                    }
                    if has < demand && share.grow(SLAB).is_ok() {
                        has += SLAB;
                    }
                    if has + SLAB > fair.min(demand) && !is_counted {
                        is_counted = true;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(is_counted);
            }
        };
        // Two take all that the hog leaves, before the others come.
        for _ in 0..2 {
            scope.spawn(run(MIB));
        }
        while Budget::registered_use().grown_bytes < 6 * MIB {
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..5 {
            scope.spawn(run(8 * MIB));
        }
        while count.load(Ordering::Relaxed) < 7 {
            assert!(Instant::now() < until, "{:?}", Budget::registered_use());
            thread::sleep(Duration::from_millis(1));
        }
        assert!(hog.must_shrink(), "it was asked");
    });
    drop(hog);
    assert_eq!(Budget::registered_use(), superpipe::BudgetUse::default());
}

#[test]
fn a_connection_gets_what_another_was_lent() {
    let _budget = BUDGET.lock().unwrap();
    Budget::set_shared_max(1 << 30);
    let path = std::env::temp_dir().join(format!("superpipe-budget-lent-{}.sock", std::process::id()));
    let address = Address::Shm(path);
    let share = {
        let (one, _other) = meet(&address);
        one.unwrap().description().provisioned_bytes
    };
    // Both ends are of this process: with the loan there is no room for either.
    Budget::set_shared_max(2 * share);
    let hog = BudgetShare::open(MemoryKind::Shared, 0).unwrap();
    hog.grow(share + share / 2).unwrap();
    // It gives nothing back.
    let [connected, accepted] = meet_in_vain(&address);
    assert!(connected.starts_with("the peer refused: its budget of shared memory"), "{connected}");
    assert!(accepted.starts_with("cannot provision"), "{accepted}");
    assert!(hog.must_shrink());
    // It gives back when it is asked to, and does not get it again meanwhile. A busy host may not run its thread in the 20 ms that a
    // connection waits for that.
    one_of(10, || {
        hog.shrink(2 * share);
        // What was refused a moment ago is kept for a while.
        let until = Instant::now() + DEADLINE;
        while let Err(refused) = hog.grow(share + share / 2) {
            assert!(Instant::now() < until, "{refused}");
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = OnDrop(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if hog.must_shrink() {
                        hog.shrink(2 * share);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let (connected, accepted) = meet(&address);
            if connected.is_err() || accepted.is_err() {
                return Err(format!("{connected:?} {accepted:?}"));
            }
            assert_eq!(Budget::shared_use().reserved_bytes, 2 * share);
            assert!(hog.grow(share).is_err());
            Ok(())
        })
    });
    drop(hog);
    assert_eq!(Budget::shared_bytes(), 0);
}
