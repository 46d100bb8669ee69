//! Properties of a file that is replaced, and files that appear or change during the transfer.

use crate::support::{BOUND, Ended, NOBODY, Scratch, is_root, mkfifo};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

/// A group that nobody is in by itself.
const TEAM: u32 = 54_000;
/// Another.
const OTHERS: u32 = 54_001;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Sends `new` to `out` of the test's data; `meanwhile` is done once rrecv has begun.
fn replace(scratch: &Scratch, meanwhile: impl FnOnce(&Path)) -> (Ended, Ended) {
    let out = scratch.data("out");
    let input = scratch.root().join("in");
    fs::write(&input, b"new").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(&out));
    meanwhile(&out);
    let sent = scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input));
    (sent, receiver.wait(BOUND))
}

/// Owner, group and mode of a file of `root:group` with this mode, in a directory of OTHERS, after nobody with TEAM as its
/// group replaced it.
fn replaced_by_nobody(group: u32, mode_before: u32) -> (u32, u32, u32) {
    let scratch = Scratch::new("replaced-by-nobody");
    scratch.open_to_all();
    chown(scratch.data(""), None, Some(OTHERS)).unwrap();
    set_mode(&scratch.data(""), 0o2777);
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    chown(&out, Some(0), Some(group)).unwrap();
    set_mode(&out, mode_before);
    fs::write(scratch.root().join("in"), b"new").unwrap();
    let mut rrecv = scratch.rrecv(&[]);
    rrecv.arg(&out);
    let mut rsend = scratch.rsend(&[&scratch.address()]);
    rsend.arg(scratch.root().join("in"));
    let (sent, received) =
        scratch.pair(scratch.as_nobody(&rsend).gid(TEAM), scratch.as_nobody(&rrecv).gid(TEAM));
    received.assert_done();
    sent.assert_done();
    assert_eq!(fs::read(&out).unwrap(), b"new");
    let found = fs::metadata(&out).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn an_owner_that_cannot_be_kept_costs_no_group_and_opens_nothing() {
    if !is_root("files of other owners") {
        return;
    }
    assert_eq!(replaced_by_nobody(TEAM, 0o660), (NOBODY, TEAM, 0o660));
    assert_eq!(replaced_by_nobody(TEAM, 0o664), (NOBODY, TEAM, 0o664));
    // a group that nobody may give: neither its members nor those of the directory's group get more than they had
    assert_eq!(replaced_by_nobody(0, 0o646), (NOBODY, OTHERS, 0o644));
    assert_eq!(replaced_by_nobody(0, 0o662), (NOBODY, OTHERS, 0o622));
}

#[test]
fn an_owner_that_can_be_kept_is() {
    if !is_root("files of other owners") {
        return;
    }
    let scratch = Scratch::new("owner");
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    chown(&out, Some(NOBODY), Some(TEAM)).unwrap();
    set_mode(&out, 0o4750);
    let (sent, received) = replace(&scratch, |_| {});
    sent.assert_done();
    received.assert_done();
    let found = fs::metadata(&out).unwrap();
    // received data are no program that runs as its owner
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (NOBODY, TEAM, 0o750));
}

/// A list as the kernel takes it: version 2, then tag, rights and number of each.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, rights, of) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(of.to_le_bytes());
    }
    bytes
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    match getxattr(path, name, &mut value[..]) {
        Ok(bytes) => Some(value[..bytes].to_vec()),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn attributes_and_access_lists_are_kept() {
    const ANY: u32 = u32::MAX;
    let scratch = Scratch::new("attributes");
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    // NOBODY may read, beyond what the group may
    let acl = list(&[(1, 6, ANY), (2, 4, NOBODY), (4, 0, ANY), (0x10, 4, ANY), (0x20, 0, ANY)]);
    let set = |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty());
    if set(&out, "user.origin", b"here").and(set(&out, "system.posix_acl_access", &acl)).is_err() {
        eprintln!("NOT TESTED: attributes, which the file system of temporary files does not have");
        return;
    }
    set(&out, "user.empty", b"").unwrap();
    let before = mode(&out);
    let (sent, received) = replace(&scratch, |_| {});
    sent.assert_done();
    received.assert_done();
    assert_eq!(attribute(&out, "user.origin").as_deref(), Some(&b"here"[..]));
    assert_eq!(attribute(&out, "user.empty").as_deref(), Some(&b""[..]));
    assert_eq!(attribute(&out, "system.posix_acl_access"), Some(acl));
    assert_eq!(mode(&out), before);

    // a directory that gives NOBODY access to all that is made in it, and a file that does not
    let default = list(&[(1, 7, ANY), (2, 7, NOBODY), (4, 0, ANY), (0x10, 7, ANY), (0x20, 0, ANY)]);
    set(&scratch.data(""), "system.posix_acl_default", &default).unwrap();
    fs::remove_file(&out).unwrap();
    fs::write(&out, b"private").unwrap();
    rustix::fs::removexattr(&out, "system.posix_acl_access").unwrap();
    set_mode(&out, 0o640);
    let (sent, received) = replace(&scratch, |_| {});
    sent.assert_done();
    received.assert_done();
    assert_eq!((attribute(&out, "system.posix_acl_access"), mode(&out)), (None, 0o640));
}

#[test]
fn a_mode_that_changes_meanwhile_counts() {
    let scratch = Scratch::new("chmod");
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    set_mode(&out, 0o644);
    let (sent, received) = replace(&scratch, |out| set_mode(out, 0o600));
    sent.assert_done();
    received.assert_done();
    assert_eq!((fs::read(&out).unwrap(), mode(&out)), (b"new".to_vec(), 0o600));
}

#[test]
fn a_file_that_appears_meanwhile_is_replaced_like_one_that_was_there() {
    let scratch = Scratch::new("appears");
    for removed_first in [false, true] {
        let (sent, received) = replace(&scratch, |out| {
            if removed_first {
                fs::remove_file(out).unwrap();
            }
            fs::write(out, b"a user's").unwrap();
            set_mode(out, 0o600);
        });
        sent.assert_done();
        received.assert_done();
        let out = scratch.data("out");
        assert_eq!((fs::read(&out).unwrap(), mode(&out)), (b"new".to_vec(), 0o600));
        set_mode(&out, 0o644);
    }
    // one that goes meanwhile gives its mode all the same
    set_mode(&scratch.data("out"), 0o604);
    let (sent, received) = replace(&scratch, |out| fs::remove_file(out).unwrap());
    sent.assert_done();
    received.assert_done();
    assert_eq!(mode(&scratch.data("out")), 0o604);
    scratch.assert_only(&["out"]);
}

#[test]
fn what_becomes_no_file_meanwhile_stays() {
    let scratch = Scratch::new("becomes");
    let out = scratch.data("out");
    fs::write(scratch.data("other"), b"other").unwrap();
    for had_file in [false, true] {
        for what in ["pipe", "link", "directory"] {
            if had_file {
                fs::write(&out, b"old").unwrap();
            }
            let (sent, received) = replace(&scratch, |out| {
                let _ = fs::remove_file(out);
                match what {
                    "pipe" => mkfifo(out),
                    "link" => symlink("other", out).unwrap(),
                    _ => fs::create_dir(out).unwrap(),
                }
            });
            received.assert(8, "its name belongs to a link, pipe, device or directory now");
            sent.assert(8, "receiver: cannot complete");
            scratch.assert_only(&["other", "out"]);
            let kind = fs::symlink_metadata(&out).unwrap().file_type();
            let expected =
                [("pipe", kind.is_fifo()), ("link", kind.is_symlink()), ("directory", kind.is_dir())];
            assert!(expected.contains(&(what, true)), "no {what}");
            if kind.is_dir() { fs::remove_dir(&out).unwrap() } else { fs::remove_file(&out).unwrap() }
        }
    }
    assert_eq!(fs::read(scratch.data("other")).unwrap(), b"other");
}

#[test]
fn a_file_that_is_made_read_only_meanwhile_stays() {
    if !is_root("another user's rrecv") {
        return;
    }
    let scratch = Scratch::new("read-only");
    scratch.open_to_all();
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    chown(&out, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut rrecv = scratch.rrecv(&[]);
    let receiver = scratch.start_rrecv(&mut scratch.as_nobody(rrecv.arg(&out)));
    set_mode(&out, 0o444);
    let rsend = scratch.rsend(&[&scratch.address(), "/dev/null"]);
    scratch.run("rsend", &mut scratch.as_nobody(&rsend)).assert(8, "receiver: cannot complete");
    receiver.wait(BOUND).assert(8, "permission denied");
    assert_eq!(fs::read(&out).unwrap(), b"old");
    scratch.assert_only(&["out"]);
}
