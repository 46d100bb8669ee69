//! Senders that are slow, mute, hostile or dead: they harm nobody else.

use super::Scratch;
use crate::support::{BOUND, Noise, beside_silent, feed, in_time, option, rsend_hello, send_a_part};
use core::time::Duration;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;
use superpipe::{Connection, Error};

const SECOND: Duration = Duration::from_secs(10);

/// Sends HELLO and NAME, as rsend does.
fn greet(connection: &mut Connection, name: &str) -> Result<(), Error> {
    connection.send(1, &[&rsend_hello(u64::MAX)], SECOND)?;
    connection.send(13, &[name.as_bytes()], SECOND)
}

/// Connects and does that.
fn begin(scratch: &Scratch, name: &str) -> Connection {
    let mut connection = scratch.connect();
    greet(&mut connection, name).unwrap();
    connection
}

#[test]
fn bad_senders_harm_nobody() {
    let scratch = Scratch::new("keep-bad");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--idle-timeout", "20s", "--folds", "3"]));
    // one says nothing, and one does not even speak superpipe
    let mute = scratch.connect();
    let socket = UnixStream::connect(scratch.socket());
    // these send garbage, at each place where something is expected
    let mut garbage = Vec::new();
    for message in [&b""[..], b"hello", &[7; 32], &[7; 5000]] {
        let mut connection = scratch.connect();
        let _ = connection.send(1, &[message], SECOND);
        garbage.push(connection);
    }
    receiver.until_said("the peer is not rsend or rrecv");
    let mut rsend = scratch.rsend(&["-q", "--folds", "2", &scratch.address()]);
    scratch
        .run("rsend", rsend.arg(scratch.source("disagreeing", b"data")))
        .assert(2, "the two ends disagree");
    receiver.until_said("the two ends disagree");
    let mut connection = begin(&scratch, "garbage-after-name");
    let _ = connection.send(99, &[b"what"], SECOND);
    receiver.until_said("garbage-after-name: the peer sent another transfer instead of its data");
    garbage.push(connection);
    let mut connection = begin(&scratch, "message");
    let _ = connection.send(2, &[b"data"], SECOND);
    receiver.until_said("message: the peer sent its data as a message, not as a stream");
    garbage.push(connection);
    let mut connection = begin(&scratch, "bad-trailer");
    connection.open_stream(2, SECOND).unwrap().finish(SECOND).unwrap();
    let _ = connection.send(3, &[b"trailer"], SECOND);
    receiver.until_said("bad-trailer: the peer sent a report that is too short");
    garbage.push(connection);
    // wrong bytes, found by the checksum
    let mut rsend = scratch.rsend(&["-q", "--inject-flip", "5", &scratch.address()]);
    scratch.run("rsend", rsend.arg(scratch.source("flipped", b"data that matter"))).assert(6, "differ");
    // interrupted, and killed, in the middle
    let mut rsend = scratch.rsend(&["-q", "--name", "interrupted", &scratch.address()]);
    let mut interrupted = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    let mut stdin = interrupted.stdin();
    feed(&mut stdin, 1, 4 << 20, |_| {});
    interrupted.signal("INT");
    assert_eq!(interrupted.wait(BOUND).code, 130);
    receiver.until_said("interrupted: rsend was interrupted (SIGINT)");
    let mut rsend = scratch.rsend(&["-q", "--name", "killed", &scratch.address()]);
    let mut killed = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    let mut stdin = killed.stdin();
    feed(&mut stdin, 1, 4 << 20, |_| {});
    let good = scratch.start_sending("good", &Noise::new(9).bytes(16 << 20));
    killed.kill();
    drop(killed);
    good.wait(BOUND).assert_done();
    receiver.until_said("killed: ");
    receiver.until_said("sent no HELLO within 5s");
    assert!(fs::read(scratch.data("good")).unwrap() == Noise::new(9).bytes(16 << 20));
    scratch.send_and_compare("last", b"data");
    drop((mute, socket, garbage));
    receiver.signal("TERM");
    assert_eq!(receiver.wait(BOUND).code, 143);
    scratch.assert_only(&["good", "last"]);
}

#[test]
fn a_full_disk_ends_one_transfer_and_no_other() {
    let scratch = Scratch::new("keep-full");
    let keeper = scratch.keeper(&["--count", "2", "-q"]);
    // no file may have more than 1 MiB
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -f 2048 && exec "$0" "$@""#]).arg(keeper.get_program());
    limited.args(keeper.get_args()).stdin(Stdio::null()).stdout(Stdio::null());
    let receiver = scratch.start_rrecv(&mut limited);
    let mut rsend = scratch.rsend(&["-q", "--name", "slow", &scratch.address()]);
    let mut slow = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    let mut stdin = slow.stdin();
    stdin.write_all(b"first half, ").unwrap();
    // announced, and then not
    let input = scratch.source("large", &vec![7; 3 << 20]);
    scratch.send(&input).assert(8, "large: file too large");
    let mut rsend = scratch.rsend(&["-q", "--name", "piped", &scratch.address()]);
    let mut piped = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    feed(piped.stdin(), 1, 3 << 20, |_| {});
    piped.wait(BOUND).assert(8, "receiver: cannot write to ");
    scratch.send_and_compare("small", &Noise::new(4).bytes(900_000));
    stdin.write_all(b"second half").unwrap();
    drop(stdin);
    slow.wait(BOUND).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("slow")).unwrap(), b"first half, second half");
    scratch.assert_only(&["slow", "small"]);
}

/// They send their keepalives, and hold all places.
#[test]
fn senders_that_send_nothing_lose_their_places() {
    let scratch = Scratch::new("keep-places");
    let mut keeper = scratch.keeper(&["--connections-max", "2", "--idle-timeout", "5s", "--count", "1"]);
    let receiver = scratch.start_rrecv(&mut keeper);
    let input = scratch.source("good", b"data");
    let mut rsend = scratch.rsend(&["-q", "--connect-timeout", "60s", &scratch.address()]);
    let beside = |name: &str, work: &mut dyn FnMut()| beside_silent(vec![begin(&scratch, name)], work);
    beside("one", &mut || beside("two", &mut || scratch.run("rsend", rsend.arg(&input)).assert_done()));
    let ended = receiver.wait(BOUND);
    ended.assert_done();
    assert!(ended.said.contains("it sent nothing for 5s (--idle-timeout), and all 2 places are taken"));
    scratch.assert_only(&["good"]);
}

/// Attack: a part of a message keeps a connection readable until it is taken. A server that only tries again is busy as long as the sender likes.
#[test]
fn a_part_of_a_message_keeps_no_receiver_busy() {
    const ATTRIBUTES: (u64, usize) = (12, 272);
    const TRAILER: (u64, usize) = (3, 200);
    let scratch = Scratch::new("keep-parts");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&[]));
    let send = |(name, (tag, bytes), has_data)| {
        let mut connection = scratch.connect_by_parts();
        greet(&mut connection, name).unwrap();
        if has_data {
            connection.open_stream(2, SECOND).unwrap().finish(SECOND).unwrap();
        }
        send_a_part(&mut connection, tag, bytes);
        connection
    };
    let senders = [("one", ATTRIBUTES, false), ("two", TRAILER, true)].map(send);
    beside_silent(senders.into(), || {
        thread::sleep(Duration::from_secs(1));
        let before = receiver.cpu_time();
        thread::sleep(Duration::from_secs(2));
        let took = receiver.cpu_time() - before;
        assert!(took < Duration::from_millis(500), "{took:?} of 2 s, by two senders that do nothing");
        for name in ["one", "two"] {
            receiver.until_said(&format!(
                "{name}: the peer sent a part of a message, and not the rest within 5s"
            ));
        }
    });
    receiver.signal("TERM");
    assert_eq!(receiver.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

/// Name and attributes are longer than the first chunk, so each waits for an answer of the receiver.
#[test]
fn a_sender_with_short_chunks_is_served() {
    let scratch = Scratch::new("keep-short-chunks");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--count", "1"]));
    let name = "n".repeat(200);
    let input = scratch.source(&name, b"data");
    let mut rsend = scratch.rsend(&["-q", "--c0", "32", "--preserve", &scratch.address()]);
    scratch.run("rsend", rsend.arg(&input)).assert_done();
    receiver.wait(BOUND).assert_done();
    scratch.assert_only(&[&name]);
}

/// Attack: a sender that was refused already, and then says nothing more, is counted and reported again.
#[test]
fn a_refused_sender_that_falls_silent_is_counted_once() {
    let (receiver, connection, sent, _scratch) = in_time(|| {
        let scratch = Scratch::new("keep-silent-refused");
        let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--idle-timeout", "1s"]));
        let begin = Instant::now();
        let mut connection = scratch.connect();
        let sent = greet(&mut connection, "..");
        (begin.elapsed(), (receiver, connection, sent, scratch))
    });
    sent.unwrap();
    receiver.until_said("sent a file name that is");
    // REPORT_TIMEOUT is 2 s
    thread::sleep(Duration::from_secs(4));
    drop(connection);
    receiver.signal("TERM");
    let ended = receiver.wait(BOUND);
    let last = ended.said.lines().last().unwrap();
    assert!(last.contains("0 transfers complete, 1 failed"), "{}", ended.said);
}

/// Builds a library that makes fsync slow, for LD_PRELOAD.
fn slow_disk(scratch: &Scratch, ms: u32) -> std::path::PathBuf {
    let source = scratch.source(
        "slow.c",
        format!("#include <unistd.h>\nint fsync(int fd) {{ (void)fd; usleep({ms} * 1000); return 0; }}\n")
            .as_bytes(),
    );
    let library = scratch.root().join("slow.so");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(made.unwrap().success());
    library
}

/// Sends an empty file, up to its TRAILER.
fn send_nothing(connection: &mut Connection, name: &str) -> Result<(), Error> {
    greet(connection, name)?;
    connection.open_stream(2, SECOND)?.finish(SECOND)?;
    connection.send(3, &[&[0; 24]], SECOND)
}

/// Attack: the file is complete, and the sender falls silent: the transfer is complete and failed.
#[test]
fn a_complete_transfer_has_not_failed_as_well() {
    let (receiver, connection, sent, scratch) = in_time(|| {
        let scratch = Scratch::new("keep-silent-complete");
        let slow = slow_disk(&scratch, 800);
        let mut keeper = scratch.keeper(&["--idle-timeout", "1s"]);
        keeper.arg(option("json", &scratch.root().join("events")));
        let receiver = scratch.start_rrecv(keeper.env("LD_PRELOAD", slow));
        let begin = Instant::now();
        let mut connection = scratch.connect();
        let sent = send_nothing(&mut connection, "file");
        (begin.elapsed(), (receiver, connection, sent, scratch))
    });
    sent.unwrap();
    receiver.until_said("file: 0 bytes");
    thread::sleep(Duration::from_secs(3));
    drop(connection);
    receiver.signal("TERM");
    let ended = receiver.wait(BOUND);
    let last = ended.said.lines().last().unwrap();
    assert!(last.contains("1 transfer complete, 0 failed"), "{}", ended.said);
    let events = fs::read_to_string(scratch.root().join("events")).unwrap();
    assert_eq!(events.matches("\"event\":\"transfer\"").count(), 1, "{events}");
    scratch.assert_only(&["file"]);
}

/// Attack: a sender that has begun and stalls, with its keepalives, keeps --count from ending for ever.
#[test]
fn a_stalled_sender_does_not_keep_the_count_from_ending() {
    let scratch = Scratch::new("keep-stalled-count");
    let mut keeper = scratch.keeper(&["--count", "1", "--idle-timeout", "3s", "--accept-timeout", "30s"]);
    let receiver = scratch.start_rrecv(&mut keeper);
    let mut rsend = scratch.rsend(&["-q", "--name", "stalled", &scratch.address()]);
    let mut stalled = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    let mut stdin = stalled.stdin();
    feed(&mut stdin, 1, 4 << 20, |_| {});
    scratch.send_and_compare("good", b"data");
    let ended = receiver.wait(Duration::from_secs(20));
    ended.assert_done();
    drop(stdin);
}

/// Attack: senders that leave once they have sent all hold no place, but a file descriptor each until the disk has it.
#[test]
fn senders_that_leave_do_not_use_up_the_descriptors() {
    let scratch = Scratch::new("keep-backlog");
    let slow = slow_disk(&scratch, 2000);
    let keeper = scratch.keeper(&["--connections-max", "4", "-q"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -n 64 && exec "$0" "$@""#]).arg(keeper.get_program());
    limited.args(keeper.get_args()).stdin(Stdio::null()).stdout(Stdio::null()).env("LD_PRELOAD", slow);
    let receiver = scratch.start_rrecv(&mut limited);
    for index in 0..60 {
        let mut connection = begin(&scratch, &format!("file-{index}"));
        let Ok(stream) = connection.open_stream(2, SECOND) else { break };
        if stream.finish(SECOND).is_err() || connection.send(3, &[&[0; 24]], SECOND).is_err() {
            break;
        }
        let _ = connection.flush(SECOND);
    }
    // At most four are served at once, with few descriptors each.
    let open = fs::read_dir(format!("/proc/{}/fd", receiver.id())).unwrap().count();
    let said = receiver.said();
    let mut rsend = scratch.rsend(&["-q", "--connect-timeout", "5s", &scratch.address()]);
    let ended = scratch.run("rsend", rsend.arg(scratch.source("good", b"data")));
    assert_eq!(ended.code, 0, "{} open; {said}; rsend: {}; rrecv: {}", open, ended.said, receiver.said());
}

/// Attack: a sender that was told that its transfer failed finds its file there.
#[test]
fn a_file_is_not_there_if_its_sender_was_told_that_it_failed() {
    let scratch = Scratch::new("keep-signal-commit");
    let slow = slow_disk(&scratch, 1000);
    let receiver = scratch.start_rrecv(scratch.keeper(&[]).env("LD_PRELOAD", slow));
    let sender = scratch.start_sending("file", b"data");
    thread::sleep(Duration::from_millis(400));
    receiver.signal("TERM");
    let sent = sender.wait(BOUND);
    let ended = receiver.wait(BOUND);
    assert_eq!(sent.code == 0, scratch.data("file").exists(), "rsend: {}; rrecv: {}", sent.said, ended.said);
}
