//! Messages by remote writes: protocols register and register-cached, byte for byte, and what is left when they fail.

use crate::api::{DEADLINE, MODES, address_of, listen, pair, pattern};
use crate::on_demand::agree;
use crate::{addresses, devices};
use core::time::Duration;
use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use superpipe::{
    Address, Arrival, Budget, Connection, ErrorKind, LandingMode, Listener, Options, PeerTrust, Protocol,
    Reason, RegisteredBuf, Tuning,
};

const C0: usize = 64 << 10;
/// Around C0, around a write of 1 MiB, and longer than the messages of rxe.
const SIZES: [usize; 12] =
    [0, 1, 40, C0 - 1, C0, C0 + 1, 100_003, 1 << 20, (1 << 20) + 1, 3_000_001, 8 << 20, 16 << 20];
const LONGEST: usize = 16 << 20;
const SOON: Duration = Duration::from_millis(500);
/// Page of memory that no message is to be written to. Memory is compared with it a page at a time: a byte at a time took half of these tests' time in an emulated guest.
const UNTOUCHED: [u8; 4096] = [0xEE; 4096];

fn options(protocol: Protocol, arrival: Option<Arrival>, landing: LandingMode) -> Options {
    let tuning = Tuning { protocol: Some(protocol), arrival, landing: Some(landing), ..Tuning::default() };
    Options { tuning, ..Options::default() }
}

fn of(protocol: Protocol) -> Options {
    options(protocol, None, LandingMode::AtConnect)
}

fn trusting(options: Options) -> Options {
    // SAFETY: 1. The peer is this library, in this process.
    Options { peer_trust: unsafe { PeerTrust::declare() }, ..options }
}

fn is_untouched(bytes: &[u8]) -> bool {
    bytes.chunks(UNTOUCHED.len()).all(|part| *part == UNTOUCHED[..part.len()])
}

/// Returns the bytes of those sizes that go by remote writes.
fn remote(sizes: &[usize]) -> u64 {
    sizes.iter().filter(|bytes| **bytes > C0).map(|bytes| *bytes as u64).sum()
}

fn send_slices(connection: &mut Connection, sizes: &[usize]) {
    for (tag, bytes) in (0..).zip(sizes) {
        connection.send(tag, &[&pattern(*bytes, tag)], DEADLINE).unwrap();
    }
}

fn receive_slices(connection: &mut Connection, sizes: &[usize]) {
    let mut place = vec![0; LONGEST + 1];
    for (tag, bytes) in (0..).zip(sizes) {
        place.fill(UNTOUCHED[0]);
        let received = connection.recv_into(&mut [&mut place], DEADLINE).unwrap();
        assert_eq!((received.tag, received.bytes), (tag, *bytes));
        assert!(place[..*bytes] == pattern(*bytes, tag), "{bytes} bytes arrived wrong");
        assert!(is_untouched(&place[*bytes..]), "written behind {bytes} bytes");
    }
    connection.flush(DEADLINE).unwrap();
}

fn send_buffers(connection: &mut Connection, buffers: &mut [RegisteredBuf; 2], sizes: &[usize]) {
    for (tag, bytes) in (0..).zip(sizes) {
        let buffer = &mut buffers[usize::try_from(tag % 2).unwrap()];
        let at = 100 * usize::try_from(tag).unwrap();
        buffer[at..at + bytes].copy_from_slice(&pattern(*bytes, tag));
        connection.send_registered(tag, buffer, at..at + bytes, DEADLINE).unwrap();
    }
}

fn receive_buffers(connection: &mut Connection, buffers: &mut [RegisteredBuf; 2], sizes: &[usize]) {
    for (tag, bytes) in (0..).zip(sizes) {
        let buffer = &mut buffers[usize::try_from(tag % 2).unwrap()];
        buffer.fill(UNTOUCHED[0]);
        let received = connection.recv_registered(buffer, DEADLINE).unwrap();
        assert_eq!((received.tag, received.bytes), (tag, *bytes));
        assert!(buffer[..*bytes] == pattern(*bytes, tag), "{bytes} bytes arrived wrong");
        assert!(is_untouched(&buffer[*bytes..]), "written behind {bytes} bytes");
    }
    connection.flush(DEADLINE).unwrap();
}

fn buffers() -> [RegisteredBuf; 2] {
    [0; 2].map(|_| RegisteredBuf::new(LONGEST + 4096).unwrap())
}

#[test]
fn borrowed_memory_is_sent_and_received_in_every_mode() {
    for ip in devices() {
        for (index, arrival) in MODES.into_iter().enumerate() {
            let landing = [LandingMode::AtConnect, LandingMode::OnDemand][index % 2];
            let (mut one, mut other) = pair(ip, options(Protocol::Register, arrival, landing));
            for _ in 0..2 {
                thread::scope(|scope| {
                    scope.spawn(|| send_slices(&mut one, &SIZES));
                    receive_slices(&mut other, &SIZES);
                });
                (one, other) = (other, one);
            }
            for end in [&mut one, &mut other] {
                let counters = end.counters();
                let expected = remote(&SIZES);
                assert_eq!(counters.remote_bytes_sent, expected, "{ip} {arrival:?}");
                assert_eq!(counters.remote_bytes_received, expected, "{ip} {arrival:?}");
                assert_eq!((counters.registrations_hit, counters.registrations_failed), (0, 0));
                assert!(counters.registration_ns > 0 && counters.remote_writes >= expected >> 20);
            }
        }
    }
}

#[test]
fn registered_buffers_are_sent_and_received_in_every_mode() {
    for ip in devices() {
        for (index, arrival) in MODES.into_iter().enumerate() {
            let landing = [LandingMode::OnDemand, LandingMode::AtConnect][index % 2];
            let options = options(Protocol::RegisterCached, arrival, landing);
            let is_trusted = index >= 2;
            let (mut one, mut other) = pair(ip, if is_trusted { trusting(options) } else { options });
            let mut memory = [buffers(), buffers()];
            for round in 0..2 {
                let [out, into] = &mut memory;
                thread::scope(|scope| {
                    scope.spawn(|| send_buffers(&mut one, out, &SIZES));
                    receive_buffers(&mut other, into, &SIZES);
                });
                let (sent, received) = (one.counters(), other.counters());
                let long = SIZES.iter().filter(|bytes| **bytes > C0).count() as u64;
                let expected = (round + 1) * remote(&SIZES);
                assert_eq!(sent.remote_bytes_sent, expected, "{ip} {arrival:?}");
                assert_eq!(received.remote_bytes_received, expected, "{ip} {arrival:?}");
                assert_eq!(sent.registrations_missed, 2, "each buffer once");
                assert_eq!(sent.registrations_hit, (round + 1) * long - 2);
                let missed = if is_trusted { 2 } else { (round + 1) * long };
                assert_eq!(received.registrations_missed, missed, "{ip} trusted: {is_trusted}");
            }
        }
    }
}

#[test]
fn buffers_and_connections_are_dropped_in_either_order() {
    for ip in devices() {
        for is_connection_first in [false, true] {
            let options = trusting(of(Protocol::RegisterCached));
            // One buffer with two connections.
            let (mut one, mut other) = pair(ip, options);
            let (mut third, mut fourth) = pair(ip, options);
            let idle = Budget::registered_use().cached_bytes;
            let (mut out, mut into) = (buffers(), buffers());
            for (a, b) in [(&mut one, &mut other), (&mut third, &mut fourth)] {
                thread::scope(|scope| {
                    scope.spawn(|| send_buffers(a, &mut out, &[1 << 20; 2]));
                    receive_buffers(b, &mut into, &[1 << 20; 2]);
                });
            }
            let kept = Budget::registered_use().cached_bytes - idle;
            assert!(kept >= 8 * LONGEST as u64, "two buffers, two ends, two connections: {kept}");
            if is_connection_first {
                drop((one, other, third, fourth));
                drop((out, into));
            } else {
                drop((out, into));
                let (mut out, mut into) = (buffers(), buffers());
                thread::scope(|scope| {
                    scope.spawn(|| send_buffers(&mut one, &mut out, &[1 << 20; 2]));
                    receive_buffers(&mut other, &mut into, &[1 << 20; 2]);
                });
                drop((out, into));
                drop((one, other, third, fourth));
            }
        }
    }
}

#[test]
fn a_message_that_nobody_receives_gives_its_memory_back() {
    for ip in devices() {
        let (mut one, mut other) = pair(ip, of(Protocol::Register));
        let mut message = pattern(1 << 20, 7);
        let late = one.send(7, &[&message], SOON).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout);
        message.fill(3);
        // The connection goes on.
        thread::scope(|scope| {
            scope.spawn(|| send_slices(&mut one, &SIZES));
            let mut place = vec![0; LONGEST];
            let gone = other.recv_into(&mut [&mut place], DEADLINE).map(|received| received.tag);
            let is_cancelled =
                gone.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Cancelled(_)));
            assert!(is_cancelled, "{gone:?}");
            receive_slices(&mut other, &SIZES);
        });
    }
}

#[test]
fn a_receiver_that_waits_for_nothing_keeps_its_memory() {
    for ip in devices() {
        for protocol in [Protocol::Register, Protocol::RegisterCached] {
            let (mut one, mut other) = pair(ip, trusting(of(protocol)));
            let mut place = vec![0; 1 << 20];
            let mut buffer = RegisteredBuf::new(1 << 20).unwrap();
            let none = other.recv_into(&mut [&mut place], SOON).unwrap_err();
            assert_eq!(none.kind(), ErrorKind::Timeout);
            assert_eq!(other.recv_registered(&mut buffer, SOON).unwrap_err().kind(), ErrorKind::Timeout);
            thread::scope(|scope| {
                scope.spawn(|| send_slices(&mut one, &SIZES));
                receive_slices(&mut other, &SIZES);
            });
        }
    }
}

#[test]
fn a_refused_registration_sends_the_message_in_blocks() {
    let poor = "ulimit -l 3072; exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
    let name = "remote_writes::a_refused_registration_sends_the_message_in_blocks";
    if addresses().is_empty() || !crate::limits::behind(poor, name) {
        return;
    }
    for limit in [1 << 30, 3 << 20] {
        Budget::set_registered_max(limit);
        for ip in devices() {
            let (mut one, mut other) = pair(ip, options(Protocol::Register, None, LandingMode::OnDemand));
            thread::scope(|scope| {
                scope.spawn(|| send_slices(&mut one, &[8 << 20, 1000, 200_000]));
                receive_slices(&mut other, &[8 << 20, 1000, 200_000]);
            });
            let counters = one.counters();
            assert!(counters.registrations_failed > 0, "{ip} {limit}: {counters:?}");
            assert!(counters.remote_bytes_sent <= 200_000, "{ip} {limit}: {counters:?}");
        }
    }
}

/// The part of a peer, in a process of its own, that sends or receives long messages until it is killed.
const PEER: &str = "SUPERPIPE_REMOTE_WRITES_PEER";

fn play_peer(role: &str) -> ! {
    let mut words = role.split_whitespace();
    let (host, port) = (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap());
    let (protocol, sends) = (words.next().unwrap(), words.next() == Some("sends"));
    let protocol = if protocol == "register" { Protocol::Register } else { Protocol::RegisterCached };
    let mut connection =
        Connection::connect(&Address::Rdma { host, port }, trusting(of(protocol)), DEADLINE).unwrap();
    let (mut slice, mut buffer) = (vec![7; LONGEST], RegisteredBuf::new(LONGEST).unwrap());
    loop {
        match (protocol, sends) {
            (Protocol::Register, true) => connection.send(0, &[&slice], DEADLINE).unwrap(),
            (Protocol::Register, false) => drop(connection.recv_into(&mut [&mut slice], DEADLINE).unwrap()),
            (_, true) => connection.send_registered(0, &buffer, 0..LONGEST, DEADLINE).unwrap(),
            (_, false) => drop(connection.recv_registered(&mut buffer, DEADLINE).unwrap()),
        }
    }
}

fn peer(listener: &mut Listener, protocol: &str, role: &str) -> (Child, Connection) {
    let Address::Rdma { host, port } = address_of(listener) else { unreachable!() };
    let name = "remote_writes::a_killed_peer_leaves_nothing_registered";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name])
        .env(PEER, format!("{host} {port} {protocol} {role}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    (child, listener.accept(DEADLINE).unwrap())
}

#[test]
fn a_killed_peer_leaves_nothing_registered() {
    if let Ok(role) = env::var(PEER) {
        play_peer(&role);
    }
    for ip in devices() {
        let options = Options { idle_timeout: Duration::from_secs(3), ..trusting(of(Protocol::Register)) };
        for (protocol, name) in
            [(Protocol::Register, "register"), (Protocol::RegisterCached, "register-cached")]
        {
            let options =
                Options { tuning: Tuning { protocol: Some(protocol), ..Tuning::default() }, ..options };
            let mut listener = listen(ip, options);
            for role in ["sends", "receives"] {
                let (mut child, mut connection) = peer(&mut listener, name, role);
                let (mut slice, mut buffer) = (vec![7; LONGEST], RegisteredBuf::new(LONGEST).unwrap());
                let killing = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(700));
                    child.kill().unwrap();
                    child.wait().unwrap();
                });
                let lost = loop {
                    let done = match (protocol, role) {
                        (Protocol::Register, "receives") => connection.send(0, &[&slice], DEADLINE),
                        (Protocol::Register, _) => {
                            connection.recv_into(&mut [&mut slice], DEADLINE).map(drop)
                        }
                        (_, "receives") => connection.send_registered(0, &buffer, 0..LONGEST, DEADLINE),
                        (_, _) => connection.recv_registered(&mut buffer, DEADLINE).map(drop),
                    };
                    if let Err(error) = done {
                        break error;
                    }
                };
                killing.join().unwrap();
                let is_loss = matches!(lost.kind(), ErrorKind::PeerLost | ErrorKind::Timeout);
                assert!(is_loss, "{ip} {name} {role}: {lost}");
                slice.fill(1);
                buffer.fill(1);
                drop(connection);
                drop(buffer);
            }
        }
    }
}

#[test]
fn a_receiver_that_gives_up_ends_the_connection() {
    for ip in devices() {
        let (mut one, mut other) = pair(ip, trusting(of(Protocol::RegisterCached)));
        let (out, mut into) = (RegisteredBuf::new(LONGEST).unwrap(), RegisteredBuf::new(LONGEST).unwrap());
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut count = 0;
                while one.send_registered(0, &out, 0..LONGEST, DEADLINE).is_ok() {
                    count += 1;
                }
                count
            });
            // Mostly in the middle of a message.
            let mut pause = Duration::from_millis(2);
            while let Ok(_received) = other.recv_registered(&mut into, pause) {
                pause = Duration::from_millis(2);
            }
            into.fill(9);
            drop(into);
            // A call that has not begun a message leaves the connection open.
            let _ = other.close(Reason::GIVEN_UP, SOON);
            sending.join().unwrap()
        });
        println!("{ip}: {sent} messages");
    }
}

#[test]
fn what_is_registered_is_what_the_kernel_has_pinned() {
    let name = "remote_writes::what_is_registered_is_what_the_kernel_has_pinned";
    if addresses().is_empty() || !crate::limits::behind("exec", name) {
        return;
    }
    agree(&mut [], |bytes| bytes == 0, "before");
    for ip in devices() {
        for (protocol, is_trusted) in
            [(Protocol::Register, false), (Protocol::RegisterCached, false), (Protocol::RegisterCached, true)]
        {
            let options = if is_trusted { trusting(of(protocol)) } else { of(protocol) };
            let mut pairs = vec![pair(ip, options)];
            let idle = agree(&mut pairs, |bytes| bytes > 0, "idle");
            let (mut out, mut into) = (buffers(), buffers());
            let (one, other) = &mut pairs[0];
            thread::scope(|scope| {
                scope.spawn(|| match protocol {
                    Protocol::Register => send_slices(one, &[2 << 20, 100_001]),
                    _ => send_buffers(one, &mut out, &[2 << 20, 100_001]),
                });
                match protocol {
                    Protocol::Register => receive_slices(other, &[2 << 20, 100_001]),
                    _ => receive_buffers(other, &mut into, &[2 << 20, 100_001]),
                }
            });
            let buffer = (LONGEST + 4096) as u64;
            let kept = buffer
                * match (protocol, is_trusted) {
                    (Protocol::Register, _) => 0,
                    (_, false) => 2,
                    (_, true) => 4,
                };
            agree(&mut pairs, |bytes| bytes == idle + kept, "after messages");
            drop((out, into));
            agree(&mut pairs, |bytes| bytes == idle, "buffers dropped");
            drop(pairs);
            agree(&mut [], |bytes| bytes == 0, "closed");
        }
    }
}
