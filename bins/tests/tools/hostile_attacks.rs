//! Attacks on the tools, each as a test of what they promise.

use crate::support::{BOUND, NOBODY, Scratch, Tool, is_root, option, wait_for};
use core::time::Duration;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;
use superpipe::shm::Socket;
use superpipe::{Connection, Options, Reason};

const SOON: Duration = Duration::from_secs(10);

/// HELLO of an rsend without a checksum.
fn hello(bytes: u64) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..4].copy_from_slice(b"sptl");
    (hello[4], hello[5], hello[6]) = (1, 1, 1);
    hello[8..16].copy_from_slice(&bytes.to_le_bytes());
    hello
}

/// ATTRIBUTES of a file of this name.
fn attributes(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(0o644_u32.to_le_bytes());
    bytes.extend([0; 12]);
    bytes.extend([u8::try_from(name.len()).unwrap(), 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(name);
    bytes
}

fn trailer(bytes: u64) -> Vec<u8> {
    let mut trailer = vec![0; 8];
    trailer.extend(bytes.to_le_bytes());
    trailer.extend([0; 8]);
    trailer
}

fn connect(scratch: &Scratch) -> Connection {
    let address = scratch.address().parse().unwrap();
    Connection::connect(&address, Options::default(), SOON).unwrap()
}

/// Sends a file of this name, as an rsend --preserve does.
fn send_named(scratch: &Scratch, name: &[u8]) {
    let mut connection = connect(scratch);
    connection.send(1, &[&hello(4)], SOON).unwrap();
    let _ = connection.send(12, &[&attributes(name)], SOON);
    if let Ok(mut stream) = connection.send_stream(2, SOON) {
        let _ = stream.write_all(b"data");
        let _ = stream.finish(SOON);
    }
    let _ = connection.send(3, &[&trailer(4)], SOON);
    let _ = connection.incoming(SOON);
    let mut bytes = [0; 300];
    let _ = connection.recv_into(&mut [&mut bytes], SOON);
    let _ = connection.recv_into(&mut [&mut bytes], SOON);
}

/// A pipe that nobody reads and that is full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    loop {
        match writer.write(&[b'x'; 4096]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            written => assert!(written.unwrap() > 0),
        }
    }
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// Whether it ends within this time; it is killed where it does not.
fn ends(mut child: Child, bound: Duration) -> Option<i32> {
    let deadline = Instant::now() + bound;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// In a user namespace every user that is not mapped there has the uid 65534. A process that has this uid itself must not take
/// all of them for its own user.
#[test]
fn a_foreign_listener_behind_the_overflow_uid_gets_nothing() {
    if !is_root("a listener of another user, seen from a user namespace") {
        return;
    }
    let can_unshare = Command::new("unshare").args(["-U", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        return eprintln!("NOT TESTED without user namespaces");
    }
    let scratch = Scratch::new("overflow-uid");
    scratch.open_to_all();
    fs::write(scratch.data("secret"), b"for this user's eyes").unwrap();
    fs::set_permissions(scratch.data("secret"), Permissions::from_mode(0o644)).unwrap();
    // Its user is 65534 outside; rsend's is 0 outside.
    let out = scratch.data("out");
    let mut foreign = scratch.as_nobody(scratch.rrecv(&["--peer-uid", "0"]).arg(&out));
    let receiver = scratch.start_rrecv(&mut foreign);
    fs::set_permissions(scratch.socket(), Permissions::from_mode(0o666)).unwrap();
    let rsend = scratch.rsend(&["--connect-timeout", "3s", &scratch.address()]);
    let mut inside = Command::new("unshare");
    inside.arg("-U").arg(rsend.get_program()).args(rsend.get_args()).arg(scratch.data("secret"));
    let ended = scratch.run("rsend", inside.stdin(Stdio::null()));
    let got = fs::read(&out).unwrap_or_default();
    drop(receiver);
    assert!(got.is_empty(), "uid {NOBODY} outside got the file of uid 0; rsend said: {}", ended.said);
    assert_eq!(ended.code, 7, "{}", ended.said);
}

/// What a tool says is not worth a transfer, nor a receiver.
#[test]
fn a_reader_of_stderr_that_stalls_does_not_keep_a_receiver_from_receiving() {
    let scratch = Scratch::new("stalled-stranger");
    let (_reader, writer) = full_pipe();
    let mut receiver = scratch.rrecv(&[]).arg(scratch.data("out")).stderr(writer).spawn().unwrap();
    wait_for("rrecv to listen", || scratch.socket().exists());
    connect(&scratch).close(Reason::DONE, Duration::from_secs(1)).unwrap();
    thread::sleep(Duration::from_millis(200));
    fs::write(scratch.data("in"), b"the real one").unwrap();
    // more than the patience that --json has
    let arguments = ["--connect-timeout", "25s", &scratch.address()];
    let ended = scratch.run("rsend", scratch.rsend(&arguments).arg(scratch.data("in")));
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    ended.assert_done();
}

#[test]
fn a_reader_of_stderr_that_stalls_does_not_keep_a_tool_from_ending() {
    let scratch = Scratch::new("stalled-end");
    let (_reader, writer) = full_pipe();
    let receiver = scratch.rrecv(&[]).arg(scratch.data("out")).stderr(writer).spawn().unwrap();
    wait_for("rrecv to listen", || scratch.socket().exists());
    scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
    assert_eq!(
        ends(receiver, Duration::from_secs(25)),
        Some(0),
        "rrecv waits for ever to tell that it is done"
    );
}

/// The first signal ends the wait for such a reader, too.
#[test]
fn a_signal_ends_a_tool_whose_reader_of_stderr_stalls() {
    let scratch = Scratch::new("stalled-signal");
    let (_reader, writer) = full_pipe();
    let receiver = scratch.rrecv(&["-v"]).arg(scratch.data("out")).stderr(writer).spawn().unwrap();
    wait_for("rrecv to listen", || scratch.socket().exists());
    kill_process(Pid::from_child(&receiver), Signal::TERM).unwrap();
    assert_eq!(ends(receiver, BOUND), Some(-1), "it ends by the signal");
    assert!(!scratch.socket().exists());
}

/// The kernel polls no more descriptors than the limit of open files is, counted in places of the array.
#[test]
fn silent_strangers_do_not_make_a_receiver_of_few_descriptors_deaf() {
    for limit in [24, 32] {
        let scratch = Scratch::new(&format!("few-descriptors-{limit}"));
        let rrecv = scratch.rrecv(&[]);
        let mut limited = scratch.command("rrecv");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$@\"")]).arg("sh");
        shell.arg(limited.get_program()).args(rrecv.get_args()).arg(scratch.data("out"));
        limited = shell;
        let mut receiver: Tool = scratch.start_rrecv(limited.stdin(Stdio::null()));
        let mut silent = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(1);
        while silent.len() < 40 && Instant::now() < deadline {
            silent.extend(Socket::connect(&scratch.socket()).ok());
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(300));
        drop(silent);
        fs::write(scratch.data("in"), b"the real one").unwrap();
        let ended = scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")));
        assert_eq!(
            (ended.code, receiver.has_ended() || !receiver.said().contains("cannot poll")),
            (0, true),
            "with {limit} descriptors: rsend said {}, rrecv {}",
            ended.said,
            receiver.said().lines().last().unwrap_or_default()
        );
        receiver.wait(BOUND).assert_done();
    }
}

/// As rrecv: a stranger who tries again and again must not fill a log.
#[test]
fn strangers_do_not_fill_the_log_of_a_server_that_keeps_on() {
    let scratch = Scratch::new("server-log");
    let address = scratch.address();
    let arguments = ["serve", "--keep", "--listen", &address];
    let server = scratch.start("rperf", scratch.command("rperf").args(arguments));
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let deadline = Instant::now() + Duration::from_secs(2);
    let mut attempts = 0;
    while Instant::now() < deadline && attempts < 5000 {
        if let Ok(socket) = Socket::connect(&scratch.socket()) {
            attempts += u32::from(socket.send(b"junk", None).is_ok());
        }
    }
    let lines = server.said().lines().count();
    drop(server);
    assert!(lines < 100, "{lines} lines of {attempts} attempts");
}

/// wire.md 8.1: a name is without control characters. Those of C1 steer a terminal as ESC does, in UTF-8 too.
#[test]
fn names_with_control_characters_beyond_ascii_are_refused() {
    let scratch = Scratch::new("control-names");
    let directory = scratch.data("dir");
    fs::create_dir(&directory).unwrap();
    for name in ["\u{9b}2J", "\u{85}x"] {
        let receiver = scratch.start_rrecv(scratch.rrecv(&["--preserve"]).arg(&directory));
        send_named(&scratch, name.as_bytes());
        drop(receiver);
        let _ = fs::remove_file(scratch.socket());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{name:?} was taken");
    }
}

/// wire.md 8.1: text of a peer is shown only with the letters replaced that turn the direction of writing.
#[test]
fn a_peers_name_does_not_turn_the_direction_of_writing() {
    let scratch = Scratch::new("turning-name");
    let directory = scratch.data("dir");
    let name = "\u{202E}gnp.exe";
    fs::create_dir_all(directory.join(name)).unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&["--preserve"]).arg(&directory));
    send_named(&scratch, name.as_bytes());
    let ended = receiver.wait(BOUND);
    assert!(!ended.said.contains('\u{202E}'), "{:?}", ended.said);
}

/// A file that arrived whole, and for which rsend ended with 0, is there as long as nobody replaces it.
#[test]
fn a_name_as_of_a_hidden_file_is_refused() {
    let scratch = Scratch::new("swept");
    let directory = scratch.data("dir");
    fs::create_dir(&directory).unwrap();
    let mut receiver = scratch.start_rrecv(scratch.rrecv(&["--preserve"]).arg(&directory));
    send_named(&scratch, b".disk.img.superpipe-12-ab");
    receiver.until_it_goes_on("or as of a file that is not whole");
    receiver.kill();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let out = directory.join(".disk.img.superpipe-12-ab");
    scratch.run("rrecv", scratch.rrecv(&[]).arg(&out)).assert(8, "choose another");
}

/// What was announced bounds what is taken: room was looked for, for so much and no more.
#[test]
fn more_than_was_announced_is_not_taken_for_ever() {
    const MOST: u64 = 64 << 20;
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
    let mut connection = connect(&scratch);
    connection.send(1, &[&hello(10)], SOON).unwrap();
    let mut stream = connection.send_stream(2, SOON).unwrap();
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

/// `--trace`: when the run ends, however it ends.
#[test]
fn a_picture_that_cannot_be_drawn_does_not_cost_the_trace() {
    let scratch = Scratch::new("picture-trace");
    let address = scratch.address();
    let server = scratch.start("rperf", scratch.command("rperf").args(["serve", "--listen", &address]));
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let mut command = scratch.command("rperf");
    command.args([&*address, "-q", "--sizes", "256M", "--iterations", "3", "--warmup", "1"]);
    let (picture, trace) = (scratch.data("picture.svg"), scratch.data("trace.json"));
    command.arg(option("picture", &picture)).arg(option("trace", &trace));
    let ended = scratch.run("rperf", &mut command);
    drop(server);
    assert_eq!(ended.code, 9, "{}", ended.said);
    let events = fs::read_to_string(trace).unwrap().matches("\"ph\"").count();
    assert!(events > 1000, "the trace has {events} events");
}

/// The client asked for another connection, for which a server waits 5 s.
#[test]
fn a_server_names_the_time_that_it_waited() {
    let scratch = Scratch::new("no-reconnect");
    let address = scratch.address();
    let server = scratch.start("rperf", scratch.command("rperf").args(["serve", "--listen", &address]));
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let mut connection = connect(&scratch);
    let mut hello = hello(u64::MAX);
    (hello[5], hello[6]) = (3, 0);
    connection.send(1, &[&hello], SOON).unwrap();
    let mut plan = [0; 32];
    (plan[0], plan[1], plan[16]) = (1, 3, 64);
    plan[4..8].fill(0xFF);
    connection.send(5, &[&plan], SOON).unwrap();
    let mut run = [0; 40];
    (run[0], run[1], run[4], run[8], run[24]) = (1, 1, 1, 64, 1);
    connection.send(7, &[&run], SOON).unwrap();
    let mut bytes = [0; 300];
    while connection.recv_into(&mut [&mut bytes], SOON).is_ok() {}
    let ended = server.wait(BOUND);
    assert!(!ended.said.contains("within 1d"), "after 5 s: {}", ended.said);
}
