//! Failures that the tools detect and report before the transfer.

use crate::support::{Mounted, Scratch, is_root};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_mounted_file_is_refused_before_the_transfer() {
    if !is_root("a file that is mounted") {
        return;
    }
    let scratch = Scratch::new("mounted");
    let (out, under) = (scratch.data("out"), scratch.root().join("under"));
    fs::write(&out, b"hidden by the mount").unwrap();
    fs::write(&under, b"mounted").unwrap();
    let Some(mounted) = Mounted::new(&["--bind"], &under, &out) else {
        eprintln!("NOT TESTED: a file that is mounted, since mount is not allowed here");
        return;
    };
    scratch.run("rrecv", scratch.rrecv(&[]).arg(&out)).assert(8, "it is a mount point");
    assert_eq!(fs::read(&out).unwrap(), b"mounted");
    // the remedy in the text works
    let stdout = File::options().write(true).truncate(true).open(&out).unwrap();
    let input = scratch.root().join("in");
    fs::write(&input, b"new").unwrap();
    let (sent, received) =
        scratch.pair(scratch.rsend(&[&scratch.address()]).arg(&input), scratch.rrecv(&[]).stdout(stdout));
    sent.assert_done();
    received.assert_done();
    assert_eq!(fs::read(&under).unwrap(), b"new");
    drop(mounted);
    assert_eq!(fs::read(&out).unwrap(), b"hidden by the mount");
    scratch.assert_only(&["out"]);
}

#[test]
fn another_users_file_in_a_sticky_directory_is_refused() {
    if !is_root("another user's file") {
        return;
    }
    let scratch = Scratch::new("sticky");
    scratch.open_to_all();
    fs::set_permissions(scratch.data(""), Permissions::from_mode(0o1777)).unwrap();
    let out = scratch.data("out");
    fs::write(&out, b"root's").unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o666)).unwrap();
    let mut rrecv = scratch.rrecv(&[]);
    let mut rrecv = scratch.as_nobody(rrecv.arg(&out));
    scratch.run("rrecv", &mut rrecv).assert(8, "it belongs to uid 0, and its directory (mode 1777)");
    assert_eq!(fs::read(&out).unwrap(), b"root's");
    scratch.assert_only(&["out"]);
}

#[test]
fn data_beyond_the_free_space_are_refused() {
    let scratch = Scratch::new("room");
    let input = scratch.root().join("in");
    let size = 15_u64 << 40;
    let free = rustix::fs::statvfs(scratch.root()).map(|found| found.f_bfree * found.f_frsize).unwrap();
    let made = File::create(&input).and_then(|file| file.set_len(size));
    if made.is_err() || free >= size {
        eprintln!("NOT TESTED: a file of 15 TiB that does not fit");
        return;
    }
    fs::write(scratch.data("old"), b"old").unwrap();
    let words = "no space left on device: 15 TiB were announced";
    for name in ["new", "old"] {
        let (sent, received) = scratch.pair(
            scratch.rsend(&[&scratch.address()]).arg(&input),
            scratch.rrecv(&[]).arg(scratch.data(name)),
        );
        received.assert(8, words);
        sent.assert(8, &format!("/{name}: {words}"));
        scratch.assert_only(&["old"]);
    }
    assert_eq!(fs::read(scratch.data("old")).unwrap(), b"old");
    // standard input and standard output are files
    let stdout = File::options().append(true).open(scratch.data("old")).unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&[&scratch.address()]).stdin(File::open(&input).unwrap()),
        scratch.rrecv(&[]).stdout(stdout),
    );
    received.assert(8, words);
    sent.assert(8, words);
    assert_eq!(fs::read(scratch.data("old")).unwrap(), b"old");
}
