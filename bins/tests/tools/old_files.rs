//! An existing FILE, which `--no-clobber` keeps; and FILEs that cannot be kept or appended to.

use crate::support::{BOUND, Scratch, is_root, mkfifo};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// A loop device of a file, until this is dropped.
struct Disk(String);

impl Disk {
    fn new(image: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["-f", "--show"]).arg(image).output().ok()?;
        made.status.success().then(|| Self(String::from_utf8(made.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let removed = Command::new("losetup").args(["-d", &self.0]).status();
        assert!(thread::panicking() || removed.unwrap().success(), "{} is left", self.0);
    }
}

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
    // the file exists at the start, under its name or a link's
    fs::write(&out, b"old").unwrap();
    symlink("out", scratch.data("link")).unwrap();
    scratch.run("rrecv", &mut rrecv()).assert(8, "/out: file exists");
    let mut by_link = scratch.rrecv(&["--no-clobber"]);
    scratch.run("rrecv", by_link.arg(scratch.data("link"))).assert(8, "/link: file exists");
    fs::remove_file(scratch.data("link")).unwrap();
    assert_eq!(fs::read(&out).unwrap(), b"old");
    // or it is created meanwhile, as a file, link or directory
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
fn a_block_device_is_neither_replaced_nor_appended_to() {
    if !is_root("a block device") {
        return;
    }
    for (option, words) in
        [("--no-clobber", "file exists"), ("--append", "a block device cannot be appended to")]
    {
        let scratch = Scratch::new("old-disk");
        let (image, input) = (scratch.root().join("image"), scratch.source("in", b"data"));
        fs::write(&image, [b"precious".to_vec(), vec![0; 1 << 20]].concat()).unwrap();
        let Some(disk) = Disk::new(&image) else {
            eprintln!("NOT TESTED: a block device");
            return;
        };
        let mut receiver = scratch.start("rrecv", &mut scratch.rrecv(&["-q", option, &disk.0]));
        if scratch.listens(&mut receiver) {
            scratch.send(&input);
        }
        let ended = receiver.wait(BOUND);
        let begin = fs::read(&disk.0).unwrap()[..8].to_vec();
        assert_eq!(String::from_utf8(begin).unwrap(), "precious", "{option}: {}", ended.code);
        ended.assert(8, words);
    }
}

#[test]
fn no_clobber_and_append_accept_pipes() {
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
