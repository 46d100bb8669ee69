//! A FILE that is there already: kept with `--no-clobber`, extended with `--append`.

use crate::support::{BOUND, Scratch, mkfifo};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::thread;

#[test]
fn no_clobber_replaces_nothing() {
    let scratch = Scratch::new("no-clobber");
    let (out, input) = (scratch.data("out"), scratch.root().join("in"));
    fs::write(&input, b"new").unwrap();
    let send = || scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input));
    let rrecv = || {
        let mut rrecv = scratch.rrecv(&["--no-clobber"]);
        rrecv.arg(&out);
        rrecv
    };
    // there at the start, by whatever name
    fs::write(&out, b"old").unwrap();
    symlink("out", scratch.data("link")).unwrap();
    scratch.run("rrecv", &mut rrecv()).assert(8, "/out: file exists");
    let mut by_link = scratch.rrecv(&["--no-clobber"]);
    scratch.run("rrecv", by_link.arg(scratch.data("link"))).assert(8, "/link: file exists");
    fs::remove_file(scratch.data("link")).unwrap();
    assert_eq!(fs::read(&out).unwrap(), b"old");
    // or made meanwhile, of whatever kind
    for kind in ["file", "link", "directory"] {
        let _ = fs::remove_file(&out);
        let receiver = scratch.start_rrecv(&mut rrecv());
        match kind {
            "file" => fs::write(&out, b"old").unwrap(),
            "link" => symlink("nowhere", &out).unwrap(),
            _ => fs::create_dir(&out).unwrap(),
        }
        send().assert(8, "receiver: cannot complete");
        receiver.wait(BOUND).assert(8, "/out: file exists");
        scratch.assert_only(&["out"]);
        if kind == "file" {
            assert_eq!(fs::read(&out).unwrap(), b"old");
        }
    }
    fs::remove_dir(&out).unwrap();
    let receiver = scratch.start_rrecv(&mut rrecv());
    send().assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(&out).unwrap(), b"new");
    assert_eq!(scratch.run("rrecv", rrecv().arg("--append")).code, 2);
    scratch.assert_only(&["out"]);
}

#[test]
fn append_adds_to_what_is_there() {
    let scratch = Scratch::new("append");
    let (out, input) = (scratch.data("out"), scratch.root().join("in"));
    fs::write(&input, [b"and|".to_vec(), vec![0; 40_000]].concat()).unwrap();
    let mut expected = Vec::new();
    for (name, meanwhile) in [("out", &b""[..]), ("out", b"log|"), ("link", b"")] {
        if name == "link" {
            symlink("out", scratch.data("link")).unwrap();
        }
        let receiver = scratch.start_rrecv(scratch.rrecv(&["--append"]).arg(scratch.data(name)));
        // whoever else appends has his place
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
fn append_leaves_what_arrived_before_a_failure() {
    let scratch = Scratch::new("append-fails");
    let out = scratch.data("out");
    fs::write(&out, b"before|").unwrap();
    let mut rsend = scratch.rsend(&["--inject-flip", "100", &scratch.address()]);
    let input = scratch.root().join("in");
    fs::write(&input, [1; 1000]).unwrap();
    let (sent, received) = scratch.pair(rsend.arg(&input), scratch.rrecv(&["--append"]).arg(&out));
    sent.assert(6, "receiver: what arrived is not what was sent");
    received.assert(6, "what arrived is not what was sent");
    let found = fs::read(&out).unwrap();
    assert_eq!((found.len(), &found[..7]), (1007, &b"before|"[..]));
}

#[test]
fn pipes_and_standard_output_are_no_old_files() {
    let scratch = Scratch::new("no-files");
    mkfifo(&scratch.data("fifo"));
    let input = scratch.root().join("in");
    fs::write(&input, b"data").unwrap();
    for option in ["--no-clobber", "--append"] {
        let receiver = scratch.start("rrecv", scratch.rrecv(&[option]).arg(scratch.data("fifo")));
        let path = scratch.data("fifo");
        let reader = thread::spawn(move || fs::read(path).unwrap());
        scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input)).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(reader.join().unwrap(), b"data");
        let mut receiver = scratch.start_rrecv(scratch.rrecv(&[option]).stdout(Stdio::piped()));
        scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input)).assert_done();
        let mut read = Vec::new();
        receiver.stdout().read_to_end(&mut read).unwrap();
        assert_eq!(read, b"data");
        receiver.wait(BOUND).assert_done();
    }
    scratch.assert_only(&["fifo"]);
}
