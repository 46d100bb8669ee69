//! Peers that are none, or that lie. Each speaks the handshake of wire.md 6 by hand, over the socket alone.

use crate::support::{BOUND, Ended, Scratch, Tool};
use core::time::Duration;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use superpipe::os::monotonic_ns;
use superpipe::shm::{Listener, Socket};
use superpipe::{Connection, Options, Reason};

const PACKET_BYTES: usize = 192;
const VERSION: u8 = 2;
const HELLO: u8 = 1;
const GRANT: u8 = 3;

/// A packet of this version and kind, with no wishes.
fn packet(version: u8, kind: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    (packet[8], packet[10]) = (version, kind);
    packet
}

fn soon() -> u64 {
    monotonic_ns() + 10_000_000_000
}

/// Connects as soon as somebody listens: the socket is there a moment before that.
fn connect(path: &Path) -> Socket {
    let deadline_ns = soon();
    loop {
        match Socket::connect(path) {
            Ok(socket) => return socket,
            Err(error) => assert!(monotonic_ns() < deadline_ns, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// An rrecv says these words to a sender that does `behave`, and goes on listening.
fn rrecv_meets(behave: impl FnOnce(&Socket), words: &str) {
    let scratch = Scratch::new("hostile-sender");
    let receiver = scratch.start_rrecv(scratch.rrecv(&["--idle-timeout", "5s"]).arg(scratch.data("out")));
    let socket = connect(&scratch.socket());
    behave(&socket);
    goes_on(&scratch, receiver, words);
    drop(socket);
    scratch.assert_only(&["in", "out"]);
}

/// The receiver says so, of one attempt, and takes the next sender's data into `out`.
fn goes_on(scratch: &Scratch, receiver: Tool, words: &str) {
    receiver.until_it_goes_on(words);
    assert_eq!(receiver.said().lines().count(), 1, "{}", receiver.said());
    fs::write(scratch.data("in"), b"the real one").unwrap();
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"the real one");
}

/// What an rsend says to a receiver that does `behave`.
fn rsend_meets(behave: impl FnOnce(&Socket)) -> Ended {
    let scratch = Scratch::new("hostile-receiver");
    let listener = Listener::bind(&scratch.socket()).unwrap();
    let sender = scratch
        .start("rsend", &mut scratch.rsend(&["--connect-timeout", "5s", &scratch.address(), "/dev/zero"]));
    let socket = listener.accept(soon()).unwrap();
    let mut hello = [0; PACKET_BYTES];
    assert_eq!(socket.receive(&mut hello, soon()).unwrap().bytes, PACKET_BYTES);
    behave(&socket);
    let ended = sender.wait(BOUND);
    drop((socket, listener));
    scratch.assert_only(&[]);
    ended
}

#[test]
fn another_version() {
    rrecv_meets(|socket| socket.send(&packet(9, HELLO), None).unwrap(), "version 9");
    rsend_meets(|socket| socket.send(&packet(9, HELLO + 1), None).unwrap()).assert(7, "version 9");
}

#[test]
fn garbage() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; PACKET_BYTES], &[7; 4096]] {
        rrecv_meets(|socket| socket.send(garbage, None).unwrap(), "does not speak superpipe");
        rsend_meets(|socket| socket.send(garbage, None).unwrap()).assert(7, "does not speak superpipe");
    }
    rrecv_meets(|socket| socket.send(&packet(VERSION, 99), None).unwrap(), "broke the handshake");
}

#[test]
fn memory_that_is_not_sealed() {
    let scratch = Scratch::new("unsealed");
    let path = scratch.data("memory");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let granting = |socket: &Socket| {
        socket.send(&packet(VERSION, HELLO), None).unwrap();
        let mut welcome = [0; PACKET_BYTES];
        socket.receive(&mut welcome, soon()).unwrap();
        socket.send(&packet(VERSION, GRANT), Some(file.as_fd())).unwrap();
    };
    rrecv_meets(granting, "the peer's memory is refused");
    let granting_nothing = |socket: &Socket| {
        socket.send(&packet(VERSION, HELLO), None).unwrap();
        socket.send(&packet(VERSION, GRANT), None).unwrap();
    };
    rrecv_meets(granting_nothing, "no descriptor came along");
    let mut welcome = packet(VERSION, HELLO + 1);
    let settled = superpipe::tuning::Tuning::default()
        .settle(&superpipe::Tuning::default(), &superpipe::tuning::Terms::SHM)
        .unwrap()
        .to_tuning();
    // protocol, arrival, folds, block_bytes, landing_bytes: what an honest receiver settles
    (welcome[13], welcome[14], welcome[15]) = (4, 1, settled.folds.unwrap());
    welcome[16..20].copy_from_slice(&settled.block_bytes.unwrap().to_le_bytes());
    welcome[20..24].copy_from_slice(&settled.landing_bytes.unwrap().to_le_bytes());
    rsend_meets(|socket| socket.send(&welcome, Some(file.as_fd())).unwrap())
        .assert(7, "the peer's memory is refused");
}

#[test]
fn a_peer_that_says_nothing() {
    let scratch = Scratch::new("silent");
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let silent = connect(&scratch.socket());
    goes_on(&scratch, receiver, "handshake");
    drop(silent);
    let listener = Listener::bind(&scratch.socket()).unwrap();
    scratch
        .run("rsend", &mut scratch.rsend(&["--connect-timeout", "500ms", &scratch.address()]))
        .assert(3, "");
    drop(listener);
}

#[test]
fn one_who_only_looks_is_nobody() {
    let scratch = Scratch::new("looks");
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    for _ in 0..5 {
        drop(connect(&scratch.socket()));
    }
    scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
    receiver.wait(BOUND).assert_done();
}

/// A program that uses the library, and is neither rsend nor rrecv.
#[test]
fn a_peer_of_another_trade() {
    let scratch = Scratch::new("trade");
    let connect = || {
        let address = scratch.address().parse().unwrap();
        Connection::connect(&address, Options::default(), Duration::from_secs(10)).unwrap()
    };
    for message in [&b""[..], b"hello", &[7; 32], &[7; 5000]] {
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
        let mut connection = connect();
        let _ = connection.send(1, &[message], Duration::from_secs(10));
        goes_on(&scratch, receiver, "the peer is no rsend or rrecv");
    }
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    connect().close(Reason::DONE, Duration::from_secs(1)).unwrap();
    goes_on(&scratch, receiver, "closed the connection");
}

/// HELLO of an rsend.
fn rsend_hello() -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5]) = (1, 1);
    hello
}

/// Data of a known length, in a line, in a chunk, and in many.
#[test]
fn data_that_are_no_stream() {
    for data in [&b""[..], b"tiny", &[7; 1000], &[7; 1 << 20]] {
        let scratch = Scratch::new("no-stream");
        let out = scratch.data("out");
        fs::write(&out, b"what was there before").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(&out));
        let address = scratch.address().parse().unwrap();
        let second = Duration::from_secs(10);
        let mut connection = Connection::connect(&address, Options::default(), second).unwrap();
        connection.send(1, &[&rsend_hello()], second).unwrap();
        // The longest waits to be received, and is not.
        let _ = connection.send(2, &[data], second);
        receiver.until_it_goes_on("the peer sent its data as a message, not as a stream");
        assert_eq!(fs::read(&out).unwrap(), b"what was there before");
        drop(connection);
        goes_on(&scratch, receiver, "the peer sent its data as a message, not as a stream");
        scratch.assert_only(&["in", "out"]);
    }
}

/// An rsend that fails with words of its own choosing.
#[test]
fn words_that_would_steer_a_terminal() {
    let scratch = Scratch::new("words");
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let address = scratch.address().parse().unwrap();
    let second = Duration::from_secs(10);
    let mut connection = Connection::connect(&address, Options::default(), second).unwrap();
    connection.send(1, &[&rsend_hello()], second).unwrap();
    connection.send_stream(2, second).unwrap().cancel(Reason(8));
    let text = b"\x1b[2Jno\nsuch\x07luck";
    let mut trailer = vec![8, u8::try_from(text.len()).unwrap(), 0, 0, 0, 0, 0, 0];
    trailer.extend([0; 16]);
    trailer.extend(text);
    connection.send(3, &[&trailer], second).unwrap();
    goes_on(&scratch, receiver, "sender: ?[2Jno?such?luck");
    scratch.assert_only(&["in", "out"]);
}
