//! Hostile peers. Each builds the packets of the handshake of wire.md 6 by hand, on a plain socket.

use crate::support::{BOUND, Ended, Scratch, Tool, rsend_hello};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use superpipe::Reason;
use superpipe::fabric::shm::{Listener, Socket};
use superpipe::os::monotonic_ns;

const PACKET_BYTES: usize = 192;
const VERSION: u8 = 6;
const HELLO: u8 = 1;
const GRANT: u8 = 3;

/// Returns a packet of this version and kind that proposes nothing.
fn packet(version: u8, kind: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0; PACKET_BYTES];
    packet[..8].copy_from_slice(b"SUPRPIPE");
    (packet[8], packet[10]) = (version, kind);
    packet
}

fn soon() -> u64 {
    monotonic_ns() + 10_000_000_000
}

/// Connects as soon as the tool listens. The socket's file exists shortly before that.
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

/// Asserts that rrecv reports `words` about a sender that does `behave`, and goes on listening.
fn rrecv_meets(behave: impl FnOnce(&Socket), words: &str) {
    let scratch = Scratch::new("hostile-sender");
    let receiver = scratch.start_rrecv(scratch.rrecv(&["--idle-timeout", "5s"]).arg(scratch.data("out")));
    let socket = connect(&scratch.socket());
    behave(&socket);
    goes_on(&scratch, receiver, words);
    drop(socket);
    scratch.assert_only(&["in", "out"]);
}

/// Asserts that the receiver reports `words` for one attempt, and then receives the next sender's data into `out`.
fn goes_on(scratch: &Scratch, receiver: Tool, words: &str) {
    receiver.until_it_goes_on(words);
    assert_eq!(receiver.said().lines().count(), 1, "{}", receiver.said());
    fs::write(scratch.data("in"), b"the real one").unwrap();
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"the real one");
}

/// Returns the end of an rsend whose receiver does `behave`.
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
fn a_peer_of_another_version_is_refused() {
    rrecv_meets(|socket| socket.send(&packet(9, HELLO), None).unwrap(), "version 9");
    rsend_meets(|socket| socket.send(&packet(9, HELLO + 1), None).unwrap()).assert(7, "version 9");
}

#[test]
fn a_garbage_packet_is_refused() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xFF; PACKET_BYTES], &[7; 4096]] {
        rrecv_meets(|socket| socket.send(garbage, None).unwrap(), "does not speak superpipe");
        rsend_meets(|socket| socket.send(garbage, None).unwrap()).assert(7, "does not speak superpipe");
    }
    rrecv_meets(|socket| socket.send(&packet(VERSION, 99), None).unwrap(), "broke the handshake");
}

#[test]
fn unsealed_memory_is_refused() {
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
    let nothing = superpipe::Tuning::default();
    let negotiated = superpipe::setup::Defaults::SHM.negotiate(&nothing, &nothing).unwrap().to_tuning();
    // protocol, arrival, folds, block_bytes, landing_bytes: the negotiated values of an honest receiver
    (welcome[13], welcome[14], welcome[15]) = (4, 1, negotiated.folds.unwrap());
    welcome[16..20].copy_from_slice(&negotiated.block_bytes.unwrap().to_le_bytes());
    welcome[20..24].copy_from_slice(&negotiated.landing_bytes.unwrap().to_le_bytes());
    rsend_meets(|socket| socket.send(&welcome, Some(file.as_fd())).unwrap())
        .assert(7, "the peer's memory is refused");
}

#[test]
fn a_silent_peer_times_out_in_the_handshake() {
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
fn a_probe_without_data_is_ignored() {
    let scratch = Scratch::new("looks");
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    for _ in 0..5 {
        drop(connect(&scratch.socket()));
    }
    scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
    receiver.wait(BOUND).assert_done();
}

/// The peer uses the library, and is neither rsend nor rrecv.
#[test]
fn a_peer_without_the_tools_protocol_is_refused() {
    let scratch = Scratch::new("trade");
    for message in [&b""[..], b"hello", &[7; 32], &[7; 5000]] {
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
        let mut connection = scratch.connect();
        let _ = connection.send(1, &[message], Duration::from_secs(10));
        goes_on(&scratch, receiver, "the peer is not rsend or rrecv");
    }
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    scratch.connect().close(Reason::DONE, Duration::from_secs(1)).unwrap();
    goes_on(&scratch, receiver, "closed the connection");
}

/// The data come as an empty message, an inline message, one chunk, and many chunks.
#[test]
fn data_sent_as_a_message_are_refused() {
    for data in [&b""[..], b"tiny", &[7; 1000], &[7; 1 << 20]] {
        let scratch = Scratch::new("no-stream");
        let out = scratch.data("out");
        fs::write(&out, b"what was there before").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(&out));
        let second = Duration::from_secs(10);
        let mut connection = scratch.connect();
        connection.send(1, &[&rsend_hello(0)], second).unwrap();
        // The longest message waits for a receiver, which does not come.
        let _ = connection.send(2, &[data], second);
        receiver.until_it_goes_on("the peer sent its data as a message, not as a stream");
        assert_eq!(fs::read(&out).unwrap(), b"what was there before");
        drop(connection);
        goes_on(&scratch, receiver, "the peer sent its data as a message, not as a stream");
        scratch.assert_only(&["in", "out"]);
    }
}

/// The sender's TRAILER holds a text with control characters.
#[test]
fn control_characters_of_a_peer_are_replaced() {
    let scratch = Scratch::new("words");
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let second = Duration::from_secs(10);
    let mut connection = scratch.connect();
    connection.send(1, &[&rsend_hello(0)], second).unwrap();
    connection.open_stream(2, second).unwrap().cancel(Reason(8));
    let text = b"\x1b[2Jno\nsuch\x07luck";
    let mut trailer = vec![8, u8::try_from(text.len()).unwrap(), 0, 0, 0, 0, 0, 0];
    trailer.extend([0; 16]);
    trailer.extend(text);
    connection.send(3, &[&trailer], second).unwrap();
    goes_on(&scratch, receiver, "sender: ?[2Jno?such?luck");
    scratch.assert_only(&["in", "out"]);
}

/// The announced length limits the data that are taken, since the free space was checked for that length.
#[test]
fn data_beyond_the_announced_length_are_refused() {
    const MOST: u64 = 64 << 20;
    let second = Duration::from_secs(10);
    let scratch = Scratch::new("more");
    let mut receiver = scratch.start_rrecv(scratch.rrecv(&[]).stdout(Stdio::piped()));
    let mut out = receiver.stdout();
    let reader = thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        let mut total = 0;
        while let Ok(read @ 1..) = out.read(&mut bytes) {
            total += read as u64;
        }
        total
    });
    let mut connection = scratch.connect();
    connection.send(1, &[&rsend_hello(10)], second).unwrap();
    let mut stream = connection.open_stream(2, second).unwrap();
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    while sent < MOST && stream.write_all(&piece).is_ok() {
        sent += piece.len() as u64;
    }
    drop(stream);
    drop(connection);
    receiver.wait(BOUND);
    let passed = reader.join().unwrap();
    assert!(passed < MOST / 2, "10 bytes were announced, and {passed} went to standard output");
}
