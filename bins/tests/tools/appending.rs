//! Data that are appended to a FILE: `--append`, and descriptors opened with O_APPEND.

use crate::support::{BOUND, Noise, Scratch, program};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn append_adds_to_the_old_contents() {
    let scratch = Scratch::new("append");
    let (out, input) = (scratch.data("out"), scratch.root().join("in"));
    fs::write(&input, [b"and|".to_vec(), vec![0; 40_000]].concat()).unwrap();
    let mut expected = Vec::new();
    for (name, meanwhile) in [("out", &b""[..]), ("out", b"log|"), ("link", b"")] {
        if name == "link" {
            symlink("out", scratch.data("link")).unwrap();
        }
        let receiver = scratch.start_rrecv(scratch.rrecv(&["--append"]).arg(scratch.data(name)));
        // another process appends before the transfer
        OpenOptions::new().append(true).open(&out).unwrap().write_all(meanwhile).unwrap();
        scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input)).assert_done();
        receiver.wait(BOUND).assert_done();
        expected.extend_from_slice(meanwhile);
        expected.extend(fs::read(&input).unwrap());
        assert!(fs::read(&out).unwrap() == expected, "{name}");
    }
    scratch.assert_only(&["link", "out"]);
}

#[test]
fn append_keeps_the_data_received_before_a_failure() {
    let scratch = Scratch::new("append-fails");
    let out = scratch.data("out");
    fs::write(&out, b"before|").unwrap();
    let mut rsend = scratch.rsend(&["--inject-flip", "100", &scratch.address()]);
    let input = scratch.root().join("in");
    fs::write(&input, [1; 1000]).unwrap();
    let (sent, received) = scratch.pair(rsend.arg(&input), scratch.rrecv(&["--append"]).arg(&out));
    sent.assert(6, "receiver: the received data differ from the sent data");
    received.assert(6, "the received data differ from the sent data");
    let found = fs::read(&out).unwrap();
    assert_eq!((found.len(), &found[..7]), (1007, &b"before|"[..]));
}

#[test]
fn append_writes_to_the_new_file_of_a_rotated_log() {
    for (new, expected) in [(None, "data"), (Some("new|"), "new|data")] {
        let scratch = Scratch::new("append-rotated");
        let (log, input) = (scratch.data("log"), scratch.source("in", b"data"));
        fs::write(&log, b"old").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&["-q", "--append"]).arg(&log));
        fs::remove_file(&log).unwrap();
        if let Some(new) = new {
            fs::write(&log, new).unwrap();
        }
        let sent = scratch.send(&input);
        let received = receiver.wait(BOUND);
        sent.assert_done();
        received.assert_done();
        assert_eq!(fs::read_to_string(&log).unwrap(), expected);
    }
}

#[test]
fn append_refuses_a_descriptor_without_o_append() {
    let scratch = Scratch::new("append-descriptor");
    let (log, input) = (scratch.data("log"), scratch.source("in", b"data"));
    for (script, name) in [(r#"exec "$@" 7<> log"#, "/dev/fd/7"), (r#"exec "$@" 1<> log"#, "-")] {
        fs::write(&log, b"precious").unwrap();
        let mut receiver = scratch.start("rrecv", &mut scratch.shell(script, &["-q", "--append", name]));
        if scratch.listens(&mut receiver) {
            scratch.send(&input);
        }
        receiver.wait(BOUND).assert(8, "this descriptor was not opened for appending");
        assert_eq!(fs::read_to_string(&log).unwrap(), "precious");
    }
}

/// Old bytes count against the limit on a file's length, which shells count in blocks of 512 or 1024 bytes.
#[test]
fn append_counts_old_bytes_against_the_file_size_limit() {
    let scratch = Scratch::new("limit-append");
    let (old, input) = (vec![7; 1900 << 10], scratch.root().join("in"));
    fs::write(&input, Noise::new(4).bytes(300 << 10)).unwrap();
    for (out, said) in [(r#"--append "$0""#, "out"), (r#">> "$0""#, "standard output")] {
        fs::write(scratch.data("out"), &old).unwrap();
        let mut limited = Command::new("sh");
        let script = format!(r#"ulimit -f 2048; exec "$2" --listen "$1" {out}"#);
        limited.arg("-c").arg(script).arg(scratch.data("out")).arg(scratch.address());
        limited.arg(program("rrecv"));
        let (sent, received) = scratch.pair(scratch.rsend(&[&scratch.address()]).arg(&input), &mut limited);
        let words = "with the announced 300 KiB it would have 2200 KiB";
        received.assert(8, words);
        received.assert(8, said);
        sent.assert(8, words);
        assert_eq!(fs::read(scratch.data("out")).unwrap(), old);
    }
}
