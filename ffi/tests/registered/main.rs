//! Registered buffers over shared memory: what arrives, when a buffer is shared, and what it costs. A binary of its own, one test at a time:
//! the budget, the descriptors and the mappings that it counts are the process's.

mod asked_back;
mod chaos;
mod cost;
#[path = "../support/descriptors.rs"]
mod descriptors;
mod late_answers;
mod messages;
mod odd_orders;
mod places;
mod planning;
mod refusals;
mod sharing;
mod sums;
mod trusted;
mod trusted_places;

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use superpipe::{
    Address, Budget, Connection, LandingMode, Listener, Options, PeerTrust, Protocol, Registered,
    RegisteredBuf, TrustedBuf, Tuning,
};

use descriptors::{descriptors, open_memory, settled_descriptors};

/// Ten times what anything here takes: a hang, no measure.
const DEADLINE: Duration = Duration::from_secs(60);
/// C0: a message up to this asks for no CTS.
const C0: usize = 64 << 10;
/// Bytes of the shortest message that goes by one copy.
const ONE_COPY: usize = 4 << 10;
const LANDINGS: [LandingMode; 2] = [LandingMode::AtConnect, LandingMode::OnDemand];

/// Keeps other tests out of the process, and its limits at their default.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Budget::set_shared_max(1 << 30);
    guard
}

fn address() -> Address {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("superpipe-registered-{}-{number}.sock", std::process::id());
    Address::Shm(std::env::temp_dir().join(name))
}

fn options(protocol: Protocol, landing: LandingMode) -> Options {
    let tuning = Tuning { protocol: Some(protocol), landing: Some(landing), ..Tuning::default() };
    Options { tuning, ..Options::default() }
}

/// Both ends of a connection. One asks for this.
fn pair_with(connecting: Options) -> (Connection, Connection) {
    pair_of(connecting, Options::default())
}

/// Both ends of a connection, with the options of each.
fn pair_of(connecting: Options, accepting: Options) -> (Connection, Connection) {
    let address = address();
    let mut listener = Listener::bind(&address, accepting).unwrap();
    let accepting = thread::spawn(move || listener.accept(DEADLINE).unwrap());
    let connected = Connection::connect(&address, connecting, DEADLINE).unwrap();
    (connected, accepting.join().unwrap())
}

fn pair() -> (Connection, Connection) {
    pair_with(options(Protocol::RegisterCached, LandingMode::AtConnect))
}

/// These options, with trust in the peer.
fn trusting(options: Options) -> Options {
    // SAFETY: the peer is this test.
    Options { peer_trust: unsafe { PeerTrust::declare() }, ..options }
}

/// Both ends of a connection, which trust each other.
fn trusting_pair_with(landing: LandingMode) -> (Connection, Connection) {
    pair_of(trusting(options(Protocol::RegisterCached, landing)), trusting(Options::default()))
}

fn trusting_pair() -> (Connection, Connection) {
    trusting_pair_with(LandingMode::AtConnect)
}

/// Bytes that depend on the seed and their place.
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(count + 8);
    while out.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(count);
    out
}

/// A buffer with these contents.
fn buffer(seed: u64, count: usize) -> RegisteredBuf {
    let mut buffer = RegisteredBuf::new(count).unwrap();
    buffer.copy_from_slice(&bytes(seed, count));
    buffer
}

/// Runs `work` while the other end is driven.
fn driven<T>(other: &mut Connection, work: impl FnOnce() -> T + Send) -> T
where
    T: Send,
{
    thread::scope(|scope| {
        let working = scope.spawn(work);
        while !working.is_finished() {
            other.progress();
            thread::yield_now();
        }
        working.join().unwrap()
    })
}

/// Registers a buffer with a connection whose other end is this.
fn register(connection: &mut Connection, other: &mut Connection, buffer: &RegisteredBuf) -> Registered {
    driven(other, || connection.register(buffer, DEADLINE).unwrap())
}

/// Receives a message, which must be this.
fn receive(connection: &mut Connection, message: &[u8]) {
    let mut place = vec![0; message.len()];
    let received = connection.recv_into(&mut [&mut place], DEADLINE).unwrap();
    assert_eq!((received.tag, received.bytes), (7, message.len()));
    assert!(place == message);
}

/// Waits until this is so.
fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Lets jobs and control messages of both ends come to their end. Helper threads may wait for a core meanwhile: a sleep gives them one, and on a busy machine it is over sooner than a yield.
fn settle(one: &mut Connection, other: &mut Connection) {
    for round in 0..2000 {
        one.progress();
        other.progress();
        if round % 100 == 0 {
            thread::sleep(Duration::from_micros(20));
        }
    }
}

/// Lets helper threads come to the end of what they have begun, which is late if `is_late`: a busy machine may not run them for some time.
fn await_helpers(is_late: bool) {
    if is_late {
        thread::sleep(Duration::from_millis(500));
    }
}

/// Mappings of registered buffers in this process.
fn mapped_buffers() -> usize {
    mapped("superpipe-buffer")
}

/// Mappings of memfds of this name in this process.
fn mapped(name: &str) -> usize {
    let (maps, name) = (std::fs::read_to_string("/proc/self/maps").unwrap(), format!("memfd:{name} "));
    maps.lines().filter(|line| line.contains(&name)).count()
}

/// The contents of the first bytes of a trusted buffer.
fn contents(buffer: &TrustedBuf, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    buffer.read(0, &mut copy).unwrap();
    copy
}

/// Offers a buffer to the other end, which learns of it.
fn offer(connection: &mut Connection, other: &mut Connection, buffer: &mut TrustedBuf) {
    await_that("the buffer is offered", || {
        let is_offered = connection.offer(buffer).unwrap();
        connection.progress();
        other.progress();
        is_offered
    });
    settle(connection, other);
}
