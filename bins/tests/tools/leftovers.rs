//! Removal of leftovers beside an output: hidden files of a killed rrecv, and no file of a user.

use crate::support::{BOUND, NOBODY, Scratch, Tool, is_root};
use std::fs;
use std::os::unix::fs::{chown, symlink};

#[test]
fn files_that_only_resemble_leftovers_are_kept() {
    let scratch = Scratch::new("leftovers");
    let users = [
        ".vic.superpipe-",
        ".vic.superpipe-123",
        ".vic.superpipe-123-1f.txt",
        ".vic.superpipe-notes.txt",
        ".vic.superpipe-README-1f",
    ];
    for name in users {
        fs::write(scratch.data(name), name).unwrap();
    }
    fs::write(scratch.data("kept"), b"kept").unwrap();
    // names of the form of leftovers, for files that are none: a symlink, a hard link, another user's file
    symlink("kept", scratch.data(".vic.superpipe-1-a")).unwrap();
    fs::hard_link(scratch.data("kept"), scratch.data(".vic.superpipe-2-b")).unwrap();
    let foreign = is_root("another user's file").then_some(".vic.superpipe-3-c");
    if let Some(name) = foreign {
        fs::write(scratch.data(name), name).unwrap();
        chown(scratch.data(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::write(scratch.data(".vic.superpipe-4-d"), b"left behind").unwrap();
    fs::write(scratch.root().join("in"), b"data").unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&[&scratch.address()]).arg(scratch.root().join("in")),
        scratch.rrecv(&[]).arg(scratch.data("vic")),
    );
    sent.assert_done();
    received.assert_done();
    let mut expected = [".vic.superpipe-1-a", ".vic.superpipe-2-b", "kept", "vic"].to_vec();
    expected.extend(users.iter().chain(&foreign));
    expected.sort_unstable();
    scratch.assert_only(&expected);
    for name in users {
        assert_eq!(fs::read_to_string(scratch.data(name)).unwrap(), name);
    }
    assert_eq!(fs::read(scratch.data("vic")).unwrap(), b"data");
}

#[test]
fn leftovers_in_a_directory_are_removed_without_proc() {
    if !is_root("no /proc") {
        return;
    }
    let scratch = Scratch::new("leftovers-without-proc");
    let input = scratch.source("in", b"data");
    let receive = || -> Tool {
        let _ = fs::remove_file(scratch.socket());
        scratch.start_rrecv(scratch.rrecv_without_proc(&["-q", "--preserve"]).arg(scratch.data("")))
    };
    let mut killed = receive();
    killed.kill();
    killed.wait(BOUND);
    let receiver = receive();
    scratch.run("rsend", scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input)).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(scratch.names(), ["in"]);
}

/// A later rrecv would remove a complete file of such a name as a leftover.
#[test]
fn an_output_with_the_name_of_a_leftover_is_refused() {
    let scratch = Scratch::new("leftovers-named");
    let out = scratch.data(".disk.img.superpipe-12-ab");
    scratch.run("rrecv", scratch.rrecv(&[]).arg(&out)).assert(8, "choose another");
    scratch.assert_only(&[]);
}
