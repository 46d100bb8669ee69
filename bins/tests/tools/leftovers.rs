//! Removal of leftovers beside an output: files of a killed rrecv, and no file of a user.

use crate::support::{NOBODY, Scratch, is_root};
use std::fs;
use std::os::unix::fs::{chown, symlink};

#[test]
fn names_that_only_look_like_leftovers_are_a_users() {
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
    // of the very form that ours have, and still not left behind: a link, a second name, another user's
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
