//! `--preserve`: name, mode and time of a file.

use crate::support::{BOUND, Scratch, option, rsend_hello};
use core::time::Duration;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of every file that is sent here: in the past, with a fraction of a second.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789)
}

/// Creates a file to send, with this mode.
fn source(scratch: &Scratch, name: &str, mode: u32) -> PathBuf {
    let path = scratch.root().join(name);
    fs::write(&path, b"data").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    File::open(&path).unwrap().set_modified(then()).unwrap();
    path
}

#[track_caller]
fn assert_like_source(path: &Path, mode: u32) {
    let found = fs::metadata(path).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"data");
    assert_eq!((found.mode() & 0o7777, found.modified().unwrap()), (mode, then()));
}

#[test]
fn mode_time_and_name_are_kept_on_request() {
    let scratch = Scratch::new("preserve");
    for mode in [0o600, 0o751, 0o444] {
        let input = source(&scratch, "in.img", mode);
        fs::write(scratch.data("old"), b"old").unwrap();
        fs::create_dir_all(scratch.data("dir")).unwrap();
        // a directory, directly, by a link, and again with the file of the first time
        let _ = fs::remove_file(scratch.data("link"));
        symlink("dir", scratch.data("link")).unwrap();
        for (file, made) in [
            ("new", "new"),
            ("old", "old"),
            ("dir", "dir/in.img"),
            ("dir/", "dir/in.img"),
            ("link", "dir/in.img"),
        ] {
            if mode == 0o444 && scratch.data(made).exists() {
                fs::set_permissions(scratch.data(made), Permissions::from_mode(0o644)).unwrap();
            }
            let (sent, received) = scratch.pair(
                scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
                scratch.rrecv(&["--preserve"]).arg(scratch.data(file)),
            );
            sent.assert_done();
            received.assert_done();
            assert_like_source(&scratch.data(made), mode);
        }
        assert_eq!(fs::read_dir(scratch.data("dir")).unwrap().count(), 1);
        scratch.assert_only(&["dir", "link", "new", "old"]);
        fs::remove_file(&input).unwrap();
    }
}

#[test]
fn nothing_is_preserved_unless_both_ends_ask() {
    let scratch = Scratch::new("preserve-one");
    let input = source(&scratch, "in", 0o751);
    let (sent, received) = scratch.pair(
        scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
        scratch.rrecv(&[]).arg(scratch.data("out")),
    );
    sent.assert_done();
    received.assert_done();
    let found = fs::metadata(scratch.data("out")).unwrap();
    assert!(found.mode() & 0o111 == 0 && found.modified().unwrap() > then());
    let receiver = scratch.start_rrecv(scratch.rrecv(&["--preserve"]).arg(scratch.data("second")));
    let told = "start rsend with --preserve";
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&input)).assert(7, told);
    receiver.until_it_goes_on(told);
    scratch.run("rsend", scratch.rsend(&["--preserve", &scratch.address()]).arg(&input)).assert_done();
    assert_eq!(receiver.wait(BOUND).code, 0);
    assert_like_source(&scratch.data("second"), 0o751);
    scratch.assert_only(&["out", "second"]);
}

#[test]
fn preserve_refuses_streams_without_attributes() {
    let scratch = Scratch::new("preserve-none");
    let rsend = &mut scratch.rsend(&["--preserve", &scratch.address()]);
    scratch.run("rsend", rsend.stdin(Stdio::piped())).assert(2, "standard input is not a regular file");
    scratch
        .run("rrecv", &mut scratch.rrecv(&["--preserve"]))
        .assert(2, "standard output cannot be given a mode");
    scratch
        .run("rrecv", &mut scratch.rrecv(&["--preserve", "/dev/null"]))
        .assert(2, "/dev/null cannot be given a mode");
    // a file as standard input has no name
    let input = source(&scratch, "in", 0o640);
    let stdin = || File::open(&input).unwrap();
    for arguments in [&[][..], &["-"], &["/dev/stdin"], &["/dev/fd/0"]] {
        let (sent, received) = scratch.pair(
            scratch.rsend(&["--preserve", &scratch.address()]).args(arguments).stdin(stdin()),
            scratch.rrecv(&["--preserve"]).arg(scratch.data("")),
        );
        received.assert(8, "is a directory, and the sender sent no file name");
        sent.assert(8, "is a directory, and the sender sent no file name");
        scratch.assert_only(&[]);
    }
    let (sent, received) = scratch.pair(
        scratch.rsend(&["--preserve", &scratch.address()]).stdin(stdin()),
        scratch.rrecv(&["--preserve"]).arg(scratch.data("out")),
    );
    sent.assert_done();
    received.assert_done();
    assert_like_source(&scratch.data("out"), 0o640);
}

#[test]
fn an_unacceptable_name_is_not_sent() {
    let scratch = Scratch::new("preserve-odd");
    for name in ["in\nout", "in\x1b[2J", "in\u{9b}2J"] {
        let input = source(&scratch, name, 0o640);
        let (sent, received) = scratch.pair(
            scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
            scratch.rrecv(&[]).arg(scratch.data("out")),
        );
        sent.assert_done();
        received.assert_done();
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"data");
        let (sent, received) = scratch.pair(
            scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
            scratch.rrecv(&["--preserve"]).arg(scratch.data("out")),
        );
        sent.assert_done();
        received.assert_done();
        assert_like_source(&scratch.data("out"), 0o640);
        let (sent, received) = scratch.pair(
            scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
            scratch.rrecv(&["--preserve"]).arg(scratch.data("")),
        );
        received.assert(8, "is a directory, and the sender sent no file name");
        sent.assert(8, "is a directory, and the sender sent no file name");
        scratch.assert_only(&["out"]);
    }
}

#[test]
fn a_sent_name_replaces_only_files_it_may_replace() {
    let scratch = Scratch::new("preserve-dir");
    let input = source(&scratch, "in", 0o640);
    let send = |options: &[&str]| {
        scratch.pair(
            scratch.rsend(&["--preserve", &scratch.address()]).arg(&input),
            scratch.rrecv(options).arg("--preserve").arg(scratch.data("")),
        )
    };
    fs::write(scratch.data("in"), b"old").unwrap();
    let (sent, received) = send(&["--no-clobber"]);
    received.assert(8, "/in: file exists");
    sent.assert(8, "/in: file exists");
    assert_eq!(fs::read(scratch.data("in")).unwrap(), b"old");
    fs::remove_file(scratch.data("in")).unwrap();
    symlink("elsewhere", scratch.data("in")).unwrap();
    let (sent, received) = send(&[]);
    received.assert(8, "its name now belongs to a link");
    sent.assert(8, "its name now belongs to a link");
    scratch.assert_only(&["in"]);
}

#[test]
fn a_sent_name_of_a_report_is_refused() {
    let scratch = Scratch::new("preserve-report");
    let input = source(&scratch, "in", 0o640);
    fs::create_dir(scratch.data("dir")).unwrap();
    let report = scratch.data("dir").join("in");
    let mut rrecv = scratch.rrecv(&["--preserve"]);
    let receiver = scratch.start_rrecv(rrecv.arg(option("json", &report)).arg(scratch.data("dir")));
    let told = "the sender's file (";
    scratch.run("rsend", scratch.rsend(&["--preserve", &scratch.address()]).arg(&input)).assert(8, told);
    receiver.until_it_goes_on(told);
    receiver.signal("TERM");
    receiver.wait(BOUND);
    assert!(fs::read_to_string(&report).unwrap().starts_with('{'));
}

/// wire.md 8.1: in the text of a peer, characters that change the direction of writing are replaced.
#[test]
fn bidi_characters_of_a_name_are_replaced() {
    let scratch = Scratch::new("preserve-turning");
    let name = "a\u{202E}gpj.exe";
    let input = source(&scratch, name, 0o640);
    for (is_dir, options) in [(false, &["--no-clobber", "--preserve"][..]), (true, &["--preserve"])] {
        if is_dir {
            fs::remove_file(scratch.data(name)).unwrap();
            fs::create_dir(scratch.data(name)).unwrap();
        } else {
            fs::write(scratch.data(name), b"old").unwrap();
        }
        let (_, received) = scratch.pair(
            scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input),
            scratch.rrecv(options).arg(scratch.data("")),
        );
        received.assert(8, "gpj.exe");
        assert!(!received.said.contains('\u{202E}'), "{:?}", received.said);
    }
}

/// The names would leave the directory, control a terminal, or be removed as leftovers. wire.md 8.1: a terminal obeys the control
/// characters of C1 like ESC, in UTF-8 too.
#[test]
fn path_control_and_hidden_names_are_refused() {
    let second = Duration::from_secs(10);
    let names =
        ["../in", "/etc/in", ".", "..", "a/b", "a\nb", "a\0", "\u{9b}2J", "\u{85}x", ".a.superpipe-12-ab"];
    for name in names {
        let scratch = Scratch::new("preserve-names");
        let receiver = scratch.start_rrecv(scratch.rrecv(&["--preserve"]).arg(scratch.data("")));
        let mut connection = scratch.connect();
        connection.send(1, &[&rsend_hello(u64::MAX)], second).unwrap();
        let mut attributes = [0; 24];
        attributes[..2].copy_from_slice(&0o640_u16.to_le_bytes());
        attributes[16] = u8::try_from(name.len()).unwrap();
        connection.send(12, &[&attributes, name.as_bytes()], second).unwrap();
        let told = "sent a file name that is `.` or `..`, contains `/` or a control character";
        let hidden = "or is reserved for incomplete files";
        let mut verdict = [0; 224];
        assert_eq!(connection.recv_into(&mut [&mut verdict], second).unwrap().tag, 1);
        let received = connection.recv_into(&mut [&mut verdict], second).unwrap();
        let text = String::from_utf8_lossy(&verdict[24..received.bytes]);
        assert!(received.tag == 4 && verdict[0] == 7 && text.contains(told), "{received:?} {text}");
        receiver.until_it_goes_on(told);
        if name.starts_with(".a") {
            assert!(text.contains(hidden), "{text}");
            receiver.until_it_goes_on(hidden);
        }
        receiver.signal("TERM");
        receiver.wait(BOUND);
        scratch.assert_only(&[]);
    }
}
