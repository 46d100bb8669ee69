//! The std API over RDMA, two threads of one process: messages and streams of random sizes, byte for byte.

use crate::addresses;
use core::net::IpAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use superpipe::{
    Address, Arrival, Connection, Description, Listener, Options, Peer, RecvBuf, Tuning, WaitStrategy,
};

/// Ten times as long as any step takes in a guest.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Every mode: the default, and those that any device has if both ends propose them.
pub(crate) const MODES: [Option<Arrival>; 4] =
    [None, Some(Arrival::Flag), Some(Arrival::CheckedFlag), Some(Arrival::Notify)];
const LONGEST: u64 = 4 << 20;

/// Pseudorandom numbers from a seed that is printed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let seed = u64::try_from(time & u128::from(u64::MAX)).unwrap() | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Draws a size; short and long ones are equally frequent.
    pub(crate) fn size(&mut self) -> usize {
        let limit = 1 << (3 + self.below(20));
        usize::try_from(self.below(LONGEST.min(limit) + 1)).unwrap()
    }

    fn sizes(&mut self, count: usize) -> Vec<usize> {
        [8, 40, 41, 1 << 20].into_iter().chain((0..count).map(|_| self.size())).collect()
    }
}

pub(crate) fn pattern(bytes: usize, tag: u64) -> Vec<u8> {
    let mut all = vec![0; bytes.next_multiple_of(8)];
    // Each byte of a word depends on the tag.
    let seed = (tag + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (at, place) in all.chunks_exact_mut(8).enumerate() {
        let word = (at as u64 ^ seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        place.copy_from_slice(&word.to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// Returns the address of a listener.
pub(crate) fn address_of(listener: &Listener) -> Address {
    let address = listener.rdma_addr().unwrap();
    Address::Rdma { host: address.ip().to_string(), port: address.port() }
}

/// Listens at a free port.
pub(crate) fn listen(ip: IpAddr, options: Options) -> Listener {
    Listener::bind(&Address::Rdma { host: ip.to_string(), port: 0 }, options).unwrap()
}

fn options(arrival: Option<Arrival>) -> Options {
    Options { tuning: Tuning { arrival, ..Tuning::default() }, ..Options::default() }
}

/// Returns a pair of connections; the first one has connected.
pub(crate) fn pair(ip: IpAddr, options: Options) -> (Connection, Connection) {
    let mut listener = listen(ip, options);
    let address = address_of(&listener);
    thread::scope(|scope| {
        let accepting = scope.spawn(move || listener.accept(DEADLINE).unwrap());
        let one = Connection::connect(&address, options, DEADLINE).unwrap();
        (one, accepting.join().unwrap())
    })
}

pub(crate) fn send_all(connection: &mut Connection, sizes: &[usize]) {
    for (tag, &bytes) in (1..).zip(sizes) {
        let message = pattern(bytes, tag);
        let (head, tail) = message.split_at(bytes / 3);
        connection.send(tag, &[head, tail], DEADLINE).unwrap();
    }
    connection.flush(DEADLINE).unwrap();
}

pub(crate) fn receive_all(connection: &mut Connection, sizes: &[usize]) {
    for (tag, &bytes) in (1..).zip(sizes) {
        let mut message = RecvBuf::new(bytes).unwrap();
        let (head, tail) = message.split_at_mut(bytes / 2);
        let received = connection.recv_into(&mut [head, tail], DEADLINE).unwrap();
        assert_eq!((received.tag, received.bytes), (tag, bytes));
        assert!(message[..] == pattern(bytes, tag), "{bytes} bytes arrived wrong");
    }
}

#[test]
fn messages_of_random_sizes_arrive_in_every_mode() {
    let mut draw = Draw::new();
    for ip in addresses() {
        for arrival in MODES {
            let (mut one, mut other) = pair(ip, options(arrival));
            let sizes = [draw.sizes(12), draw.sizes(12)];
            thread::scope(|scope| {
                let (there, back) = (&sizes[0], &sizes[1]);
                scope.spawn(move || {
                    send_all(&mut one, there);
                    receive_all(&mut one, back);
                });
                receive_all(&mut other, there);
                send_all(&mut other, back);
            });
        }
    }
}

#[test]
fn streams_of_random_sizes_arrive_in_every_mode() {
    let mut draw = Draw::new();
    for ip in addresses() {
        for arrival in MODES {
            let (mut one, mut other) = pair(ip, options(arrival));
            let bytes = draw.size();
            // Each write is a chunk at least: no more than some hundred of them.
            let [write, read] = [draw.size(), draw.size()].map(|part| part.max(bytes / 200).max(1));
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut stream = one.open_stream(9, DEADLINE).unwrap();
                    for part in pattern(bytes, 9).chunks(write) {
                        stream.write_all(part).unwrap();
                    }
                    stream.finish(DEADLINE).unwrap();
                    one.flush(DEADLINE).unwrap();
                });
                let mut stream = other.accept_stream(DEADLINE).unwrap();
                let (mut all, mut part) = (Vec::new(), vec![0; read]);
                loop {
                    match stream.read(&mut part).unwrap() {
                        0 => break,
                        got => all.extend_from_slice(&part[..got]),
                    }
                }
                assert_eq!(stream.tag(), 9);
                assert!(all == pattern(bytes, 9), "{bytes} bytes by {write}, read by {read}, arrived wrong");
            });
        }
    }
}

#[test]
fn both_ends_describe_the_same_connection() {
    for ip in addresses() {
        let (one, other) = pair(ip, options(None));
        let (ours, theirs) = (one.description(), other.description());
        let settings = |of: &Description| {
            (of.protocol, of.arrival, of.folds, of.block_bytes, of.landing_bytes, of.chunk_bytes)
        };
        assert_eq!((ours.fabric, settings(&ours)), ("verbs", settings(&theirs)));
        assert!(ours.device.is_some() && ours.device == theirs.device, "{ours:?}");
        assert_eq!(ours.arrival_reason, theirs.arrival_reason);
        assert_ne!(ours.arrival_reason, "");
        assert!(ours.provisioned_bytes > 1 << 20);
        for end in [&one, &other] {
            assert!(matches!(end.peer(), Peer::Host(address) if address.ip() == ip), "{:?}", end.peer());
        }
    }
}

#[test]
fn every_wait_takes_what_comes() {
    for ip in addresses() {
        for wait in WaitStrategy::ALL {
            let (mut one, mut other) = pair(ip, Options { wait, ..options(None) });
            thread::scope(|scope| {
                scope.spawn(move || {
                    for tag in 0..3 {
                        thread::sleep(Duration::from_millis(100));
                        one.send(tag, &[b"ping"], DEADLINE).unwrap();
                        assert_eq!(one.recv_into(&mut [&mut [0; 4]], DEADLINE).unwrap().tag, tag);
                    }
                });
                for tag in 0..3 {
                    assert_eq!(other.recv_into(&mut [&mut [0; 4]], DEADLINE).unwrap().tag, tag);
                    other.send(tag, &[b"pong"], DEADLINE).unwrap();
                }
                other.flush(DEADLINE).unwrap();
            });
        }
    }
}
