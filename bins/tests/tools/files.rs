//! Sources and outputs: files that appear complete or not at all, devices, and their failures.

use crate::support::{BOUND, Noise, Scratch, feed, is_root, program};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

/// Sends `data` from a file outside the test's data.
fn send(
    scratch: &Scratch,
    data: &[u8],
    rrecv: &mut Command,
) -> (crate::support::Ended, crate::support::Ended) {
    let input = scratch.root().join("in");
    fs::write(&input, data).unwrap();
    scratch.pair(scratch.rsend(&[&scratch.address()]).arg(&input), rrecv)
}

#[test]
fn a_file_is_replaced_and_keeps_its_mode() {
    let scratch = Scratch::new("replace");
    let out = scratch.data("out");
    fs::write(&out, b"old").unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o640)).unwrap();
    symlink("out", scratch.data("link")).unwrap();
    let mut old = File::open(&out).unwrap();
    let (sent, received) = send(&scratch, b"new", scratch.rrecv(&[]).arg(scratch.data("link")));
    sent.assert(0, "3 bytes");
    received.assert(0, "3 bytes");
    assert_eq!(fs::read(&out).unwrap(), b"new");
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o7777, 0o640);
    let mut kept = String::new();
    std::io::Read::read_to_string(&mut old, &mut kept).unwrap();
    assert_eq!(kept, "old", "whoever has the old file open keeps it");
    scratch.assert_only(&["link", "out"]);
}

#[test]
fn a_new_file_has_the_mode_that_umask_leaves() {
    let scratch = Scratch::new("umask");
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 027; exec \"$@\"", "sh", &program("rrecv"), "--listen"]);
    masked.arg(scratch.address()).arg(scratch.data("out"));
    let (_, received) = send(&scratch, b"x", &mut masked);
    received.assert_done();
    assert_eq!(fs::metadata(scratch.data("out")).unwrap().permissions().mode() & 0o7777, 0o640);
}

#[test]
fn a_flipped_bit_fails_both_ends_and_makes_no_file() {
    let scratch = Scratch::new("flip");
    let input = scratch.root().join("in");
    let size = 3_000_000;
    fs::write(&input, Noise::new(3).bytes(size)).unwrap();
    fs::write(scratch.data("old"), b"old").unwrap();
    for (offset, checksum) in [(0, "crc64"), (1_500_000, "crc32c"), (size - 1, "crc64")] {
        for name in ["new", "old"] {
            let (sent, received) = scratch.pair(
                scratch
                    .rsend(&[
                        "--checksum",
                        checksum,
                        "--inject-flip",
                        &offset.to_string(),
                        &scratch.address(),
                    ])
                    .arg(&input),
                scratch.rrecv(&[]).arg(scratch.data(name)),
            );
            sent.assert(6, "receiver: the received data differ from the sent data");
            received.assert(6, "the received data differ from the sent data");
            scratch.assert_only(&["old"]);
            assert_eq!(fs::read(scratch.data("old")).unwrap(), b"old");
        }
    }
}

#[test]
fn a_full_disk_fails_both_ends_with_8() {
    let scratch = Scratch::new("full");
    let data = Noise::new(4).bytes(4 << 20);
    let (sent, received) = send(&scratch, &data, scratch.rrecv(&[]).arg("/dev/full"));
    received.assert(8, "/dev/full: no space left on device");
    sent.assert(8, "receiver: cannot write to /dev/full: no space left on device");
    // the tool must not be killed by SIGXFSZ when it reaches a limit of the process
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 2048; exec \"$@\"", "sh", &program("rrecv"), "--listen"]);
    limited.arg(scratch.address()).arg(scratch.data("out")).stdout(Stdio::null());
    let (sent, received) = send(&scratch, &data, &mut limited);
    received.assert(8, "file too large");
    sent.assert(8, "receiver: cannot write to");
    scratch.assert_only(&[]);
}

#[test]
fn a_full_disk_ends_a_sender_that_waits_for_input() {
    let scratch = Scratch::new("full-idle");
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg("/dev/full"));
    let mut sender = scratch.start("rsend", scratch.rsend(&[&scratch.address()]).stdin(Stdio::piped()));
    let mut stdin = sender.stdin();
    feed(&mut stdin, 1, 1000, |_| {});
    receiver.wait(BOUND).assert(8, "/dev/full: no space left on device");
    sender.wait(BOUND).assert(8, "receiver: cannot write to /dev/full");
    drop(stdin);
}

#[test]
fn a_full_file_system_leaves_no_file() {
    if !is_root("a full tmpfs") {
        return;
    }
    let scratch = Scratch::new("tmpfs");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "superpipe-test"])
        .arg(scratch.data(""))
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        eprintln!("NOT TESTED: a full tmpfs, since mount is not allowed here");
        return;
    }
    let data = Noise::new(4).bytes(4 << 20);
    let (sent, received) = send(&scratch, &data, scratch.rrecv(&[]).arg(scratch.data("out")));
    let names = scratch.names();
    assert!(Command::new("umount").arg(scratch.data("")).status().unwrap().success());
    received.assert(8, "no space left on device");
    sent.assert(8, "receiver: cannot write to");
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_closed_or_unread_standard_output_is_reported() {
    let scratch = Scratch::new("closed");
    let data = Noise::new(5).bytes(8 << 20);
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$@\" >&-", "sh", &program("rrecv"), "--listen", &scratch.address()]);
    scratch.run("rrecv", &mut closed).assert(8, "standard output: bad file descriptor");

    let input = scratch.root().join("in");
    fs::write(&input, &data).unwrap();
    let mut receiver = scratch.start_rrecv(scratch.rrecv(&[]).stdout(Stdio::piped()));
    drop(receiver.stdout());
    let sent = scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input));
    receiver.wait(BOUND).assert(8, "standard output: broken pipe");
    sent.assert(8, "receiver: cannot write to standard output: broken pipe");
    scratch.assert_only(&[]);
}

#[test]
fn standard_output_appends_to_its_file() {
    let scratch = Scratch::new("redirected");
    let out = scratch.data("out");
    fs::write(&out, b"before|").unwrap();
    let append = OpenOptions::new().append(true).open(&out).unwrap();
    let (sent, received) = send(&scratch, b"after", scratch.rrecv(&[]).stdout(append));
    sent.assert_done();
    received.assert_done();
    assert_eq!(fs::read(&out).unwrap(), b"before|after");
}

#[test]
fn an_unreadable_source_is_reported_before_connecting() {
    let scratch = Scratch::new("unreadable");
    let fails = |command: &mut Command, words: &str| scratch.run("rsend", command).assert(8, words);
    fails(scratch.rsend(&[&scratch.address()]).arg(scratch.data("none")), "no such file or directory");
    scratch
        .run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("")))
        .assert(2, "is a directory");
    let directory = File::open(scratch.data("")).unwrap();
    let mut rsend = scratch.rsend(&[&scratch.address(), "-"]);
    scratch.run("rsend", rsend.stdin(directory)).assert(2, "standard input is a directory");
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$@\" <&-", "sh", &program("rsend"), &scratch.address()]);
    fails(&mut closed, "cannot read standard input: bad file descriptor");
    let write_only = OpenOptions::new().write(true).open("/dev/null").unwrap();
    fails(scratch.rsend(&[&scratch.address(), "-"]).stdin(write_only), "bad file descriptor");
    if is_root("a file that its reader may not read") {
        scratch.open_to_all();
        fs::write(scratch.data("secret"), b"x").unwrap();
        fs::set_permissions(scratch.data("secret"), Permissions::from_mode(0o600)).unwrap();
        let mut rsend = scratch.rsend(&[&scratch.address()]);
        rsend.arg(scratch.data("secret"));
        fails(&mut scratch.as_nobody(&rsend), "permission denied");
    }
}

#[test]
fn an_unwritable_output_is_reported_before_listening() {
    let scratch = Scratch::new("unwritable");
    let fails = |name: &str, words: &str| {
        scratch.run("rrecv", scratch.rrecv(&[]).arg(scratch.data(name))).assert(8, words);
    };
    symlink("nowhere", scratch.data("link")).unwrap();
    fails("", "is a directory");
    fails("none/out", "no such file or directory");
    fails("link", "symbolic link without a target");
    scratch.assert_only(&["link"]);
}

#[test]
fn a_removed_directory_fails_at_the_end() {
    let scratch = Scratch::new("gone");
    let dir = scratch.data("dir");
    fs::create_dir(&dir).unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(dir.join("out")));
    fs::remove_dir_all(&dir).unwrap();
    let sender = scratch.run("rsend", &mut scratch.rsend(&[&scratch.address(), "/dev/null"]));
    receiver.wait(BOUND).assert(8, "cannot complete");
    sender.assert(8, "receiver: cannot complete");
    scratch.assert_only(&[]);
}

#[test]
fn a_source_that_fails_is_reported_at_both_ends() {
    let scratch = Scratch::new("source");
    // the first page of this file is not mapped, and reading it is an I/O error
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let sent = scratch.run("rsend", &mut scratch.rsend(&[&scratch.address(), "/proc/self/mem"]));
    sent.assert(8, "cannot read /proc/self/mem: ");
    // before the first byte the receiver waits for another sender
    receiver.until_it_goes_on("sender: cannot read /proc/self/mem: ");
    receiver.signal("TERM");
    assert_eq!(receiver.wait(BOUND).code, 143);
    scratch.assert_only(&[]);
}

#[test]
fn devices_are_written_and_read_directly() {
    let scratch = Scratch::new("devices");
    let (sent, received) = send(&scratch, &[1; 100_000], scratch.rrecv(&[]).arg("/dev/null"));
    sent.assert_done();
    received.assert_done();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // an endless device is read until the receiver's reader ends
    let mut receiver = scratch.start_rrecv(scratch.rrecv(&[]).stdout(Stdio::piped()));
    let sender = scratch.start("rsend", &mut scratch.rsend(&[&scratch.address(), "/dev/zero"]));
    let mut head = vec![1; 10 << 20];
    std::io::Read::read_exact(&mut receiver.stdout(), &mut head).unwrap();
    assert!(head.iter().all(|&byte| byte == 0));
    receiver.wait(BOUND).assert(8, "broken pipe");
    sender.wait(BOUND).assert(8, "receiver: ");
}

#[test]
fn standard_input_may_be_a_socket() {
    let scratch = Scratch::new("socket-in");
    let (local, remote) = std::os::unix::net::UnixStream::pair().unwrap();
    let local: std::os::fd::OwnedFd = local.into();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let sender = scratch.start("rsend", scratch.rsend(&[&scratch.address()]).stdin(local));
    feed(remote, 9, 3_000_001, |_| {});
    sender.wait(BOUND).assert_done();
    receiver.wait(BOUND).assert_done();
    crate::support::verify(File::open(scratch.data("out")).unwrap(), 9, 3_000_001);
}
