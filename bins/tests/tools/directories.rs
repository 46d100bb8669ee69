//! Directories that may not be read, and directories that are renamed during a transfer.

use crate::support::{BOUND, NOBODY, Scratch, is_root};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

#[test]
fn a_file_is_replaced_in_an_unreadable_directory() {
    if !is_root("a directory that its writer may not read") {
        return;
    }
    for (mode, owner) in [(0o300, NOBODY), (0o1733, 0)] {
        let scratch = Scratch::new("drop-box");
        scratch.open_to_all();
        let drop_box = scratch.data("drop");
        fs::create_dir(&drop_box).unwrap();
        chown(&drop_box, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&drop_box, Permissions::from_mode(mode)).unwrap();
        fs::write(drop_box.join("old"), b"old").unwrap();
        chown(drop_box.join("old"), Some(NOBODY), Some(NOBODY)).unwrap();
        let input = scratch.root().join("in");
        fs::write(&input, b"data").unwrap();
        for name in ["new", "old"] {
            let mut rrecv = scratch.rrecv(&[]);
            rrecv.arg(drop_box.join(name));
            let mut rsend = scratch.rsend(&[&scratch.address()]);
            rsend.arg(&input);
            let (sent, received) =
                scratch.pair(&mut scratch.as_nobody(&rsend), &mut scratch.as_nobody(&rrecv));
            received.assert(0, "4 bytes");
            sent.assert(0, "4 bytes");
            assert_eq!(fs::read(drop_box.join(name)).unwrap(), b"data");
        }
        assert_eq!(fs::read_dir(&drop_box).unwrap().count(), 2);
    }
}

#[test]
fn a_renamed_directory_still_gets_the_file() {
    for old in [None, Some("old")] {
        let scratch = Scratch::new("renamed");
        let (before, after) = (scratch.data("before"), scratch.data("after"));
        fs::create_dir(&before).unwrap();
        if let Some(old) = old {
            fs::write(before.join("out"), old).unwrap();
        }
        fs::write(scratch.root().join("in"), b"data").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(before.join("out")));
        fs::rename(&before, &after).unwrap();
        // another directory takes the place of the first
        fs::create_dir(&before).unwrap();
        fs::write(before.join("out"), b"another").unwrap();
        let input = scratch.root().join("in");
        scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(input)).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(fs::read(after.join("out")).unwrap(), b"data");
        assert_eq!(fs::read(before.join("out")).unwrap(), b"another");
        for dir in [before, after] {
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        }
    }
}

#[test]
fn an_old_file_below_a_private_directory_is_replaced() {
    if !is_root("another user") {
        return;
    }
    let scratch = Scratch::new("private");
    scratch.open_to_all();
    let below = scratch.data("private/below");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("out"), b"old").unwrap();
    for (path, mode) in [(below.join("out"), 0o666), (below.clone(), 0o777), (scratch.data("private"), 0o700)]
    {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let input = scratch.source("in", b"data");
    let nobody = scratch.as_nobody(&scratch.rrecv(&["-q", "out"]));
    // the directory is entered before the privileges are dropped, as sudo and services do
    let mut rrecv = Command::new("setpriv");
    rrecv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(nobody.get_program());
    rrecv.args(nobody.get_args()).current_dir(&below).stdin(Stdio::null());
    let mut receiver = scratch.start("rrecv", &mut rrecv);
    assert!(scratch.listens(&mut receiver), "{}", receiver.said());
    let mut rsend = scratch.rsend(&["-q", &scratch.address()]);
    scratch.run("rsend", &mut scratch.as_nobody(rsend.arg(&input))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(below.join("out")).unwrap(), b"data");
}
