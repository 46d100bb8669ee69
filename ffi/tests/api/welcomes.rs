//! A listener that asks too much of whoever connects: raw packets against a connecting end.

use core::time::Duration;
use std::thread;

use superpipe::fabric::shm::handshake::{PACKET_BYTES, VERSION};
use superpipe::fabric::shm::{Listener, Socket, SocketError};
use superpipe::{Address, Connection, Error, ErrorKind, Options, Tuning};

use crate::support::{pair_with, path};

/// Ten times what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);
const WELCOME: u8 = 2;
const REFUSED: u8 = 5;

fn deadline_ns() -> u64 {
    superpipe::os::monotonic_ns() + 60_000_000_000
}

fn receive(socket: &Socket) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    loop {
        match socket.receive(&mut packet, deadline_ns()) {
            Err(SocketError::Interrupted) => {}
            received => {
                assert_eq!(received.unwrap().bytes, PACKET_BYTES);
                return packet;
            }
        }
    }
}

fn welcome(landing_bytes: u32) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    packet[8..10].copy_from_slice(&VERSION.to_le_bytes());
    packet[10] = WELCOME;
    packet[13..16].copy_from_slice(&[4, 1, 3]);
    packet[16..20].copy_from_slice(&(16_u32 << 10).to_le_bytes());
    packet[20..24].copy_from_slice(&landing_bytes.to_le_bytes());
    packet
}

/// The answer to a WELCOME with so large a landing buffer, and what became of the connecting end.
fn connect_to(landing_bytes: u32, options: Options) -> ([u8; PACKET_BYTES], Error) {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let connecting =
        thread::spawn(move || Connection::connect(&Address::Shm(path), options, DEADLINE).map(drop));
    let socket = loop {
        match listener.accept(deadline_ns()) {
            Err(SocketError::Interrupted) => {}
            socket => break socket.unwrap(),
        }
    };
    receive(&socket);
    socket.send(&welcome(landing_bytes), None).unwrap();
    let answer = receive(&socket);
    drop(socket);
    (answer, connecting.join().unwrap().unwrap_err())
}

#[test]
fn the_active_end_bounds_the_landing_buffer() {
    const ALLOWED: u32 = 1 << 20;
    let options = Options { landing_bytes_max: ALLOWED, ..Options::default() };
    for landing_bytes in [400 << 20, ALLOWED + (16 << 10)] {
        let (answer, error) = connect_to(landing_bytes, options);
        assert_eq!((answer[10], answer[11]), (REFUSED, 2), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let text = error.to_string();
        assert!(text.contains("more than the 1 MiB that the connecting end allows"), "{text}");
    }
}

#[test]
fn an_end_that_asks_for_a_large_landing_buffer_gets_it() {
    let tuning = Tuning { landing_bytes: Some(2 << 20), ..Tuning::default() };
    let own = Options { landing_bytes_max: 1 << 20, tuning, ..Options::default() };
    for (one, other) in [(own, Options::default()), (Options::default(), own)] {
        let (one, _other) = pair_with(one, other);
        assert_eq!(one.description().landing_bytes, 2 << 20);
    }
}
