//! Attributes of a file that is replaced, and files that appear or change during the transfer.

use crate::support::{BOUND, Ended, NOBODY, Scratch, is_root, mkfifo, program};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A group that the user nobody is not in by default.
const TEAM: u32 = 54_000;
/// Another such group.
const OTHERS: u32 = 54_001;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Sends `new` to `out` in the test's data. Calls `meanwhile` once rrecv has started.
fn replace(scratch: &Scratch, meanwhile: impl FnOnce(&Path)) -> (Ended, Ended) {
    let out = scratch.data("out");
    let input = scratch.root().join("in");
    fs::write(&input, b"new").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(&out));
    meanwhile(&out);
    let sent = scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input));
    (sent, receiver.wait(BOUND))
}

/// Returns owner, group and mode of a file of `root:group` with this mode, in a directory of OTHERS, after the user nobody with
/// the group TEAM has replaced it.
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
fn a_lost_owner_keeps_the_group_and_widens_no_access() {
    if !is_root("files of other owners") {
        return;
    }
    assert_eq!(replaced_by_nobody(TEAM, 0o660), (NOBODY, TEAM, 0o660));
    assert_eq!(replaced_by_nobody(TEAM, 0o664), (NOBODY, TEAM, 0o664));
    // the user nobody may not set this group: its members and those of the directory's group gain no access
    assert_eq!(replaced_by_nobody(0, 0o646), (NOBODY, OTHERS, 0o644));
    assert_eq!(replaced_by_nobody(0, 0o662), (NOBODY, OTHERS, 0o622));
}

#[test]
fn root_keeps_the_owner_and_drops_setuid() {
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
    // the new data must not run as the old file's owner
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (NOBODY, TEAM, 0o750));
}

/// Encodes an access list for the kernel: version 2, then tag, permissions and id of each entry.
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
fn extended_attributes_and_acls_are_kept() {
    const ANY: u32 = u32::MAX;
    let scratch = Scratch::new("attributes");
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    // NOBODY may read, the group may not
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

    // a directory whose default list gives NOBODY access to new files, and a file that gives none
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
fn a_mode_changed_during_the_transfer_is_kept() {
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
fn a_file_created_during_the_transfer_is_replaced() {
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
    // a file that is removed meanwhile passes on its mode as well
    set_mode(&scratch.data("out"), 0o604);
    let (sent, received) = replace(&scratch, |out| fs::remove_file(out).unwrap());
    sent.assert_done();
    received.assert_done();
    assert_eq!(mode(&scratch.data("out")), 0o604);
    scratch.assert_only(&["out"]);
}

#[test]
fn a_name_that_becomes_no_regular_file_is_kept() {
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
            received.assert(8, "its name now belongs to a link, pipe, device or directory");
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
fn a_file_made_read_only_meanwhile_is_kept() {
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

#[test]
fn without_proc_a_new_file_grants_no_more_access() {
    const ANY: u32 = u32::MAX;
    if !is_root("no /proc") {
        return;
    }
    let scratch = Scratch::new("attributes-without-proc");
    let (out, input) = (scratch.data("out"), scratch.source("in", b"data"));
    fs::write(&out, b"old").unwrap();
    let acl = list(&[(1, 6, ANY), (2, 6, 1000), (4, 0, ANY), (0x10, 6, ANY), (0x20, 0, ANY)]);
    setxattr(&out, "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv_without_proc(&["-q"]).arg(&out));
    let sent = scratch.send(&input);
    let received = receiver.wait(BOUND);
    assert_eq!((sent.code, received.code), (0, 0), "{}", received.said);
    let has_list = attribute(&out, "system.posix_acl_access").is_some();
    let mode = mode(&out);
    assert!(has_list || mode & 0o070 == 0, "mode {mode:o} and no list: the group may do what it was denied");
}

#[test]
fn a_file_is_replaced_without_cap_fowner() {
    if !is_root("a process that may give files away and not act for their owners") {
        return;
    }
    let scratch = Scratch::new("attributes-fowner");
    let (out, input) = (scratch.data("out"), scratch.source("in", b"data"));
    fs::write(&out, b"old").unwrap();
    set_mode(&out, 0o640);
    chown(&out, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut rrecv = Command::new("setpriv");
    rrecv.args(["--bounding-set=-fowner", "--inh-caps=-fowner", &program("rrecv"), "-q"]);
    rrecv.args(["--listen", &scratch.address()]).arg(&out).stdin(Stdio::null());
    let receiver = scratch.start_rrecv(&mut rrecv);
    scratch.send(&input).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(&out).unwrap(), b"data");
}

#[test]
fn a_preserved_mode_does_not_widen_an_acl_mask() {
    const ANY: u32 = u32::MAX;
    let scratch = Scratch::new("attributes-mask");
    let (out, input) = (scratch.data("out"), scratch.source("in", b"data"));
    set_mode(&input, 0o660);
    fs::write(&out, b"old").unwrap();
    // NOBODY has an entry, and the mask leaves it no permission
    let acl = list(&[(1, 6, ANY), (2, 6, NOBODY), (4, 0, ANY), (0x10, 0, ANY), (0x20, 0, ANY)]);
    setxattr(&out, "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input),
        scratch.rrecv(&["-q", "--preserve"]).arg(&out),
    );
    sent.assert_done();
    received.assert_done();
    let Some(now) = attribute(&out, "system.posix_acl_access") else { return };
    let rights = |tag: u8| now[4..].chunks(8).find(|entry| entry[0] == tag).map_or(0, |entry| entry[2]);
    assert_eq!(rights(0x02) & rights(0x10), 0, "NOBODY may read what neither file let it read");
}
