//! Names that senders send.

use super::Scratch;
use crate::support::{BOUND, Noise, feed, rsend_hello};
use core::time::Duration;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use superpipe::Length;

const SECOND: Duration = Duration::from_secs(10);

/// Returns code and text of the VERDICT that a sender gets that sends this NAME and then data.
fn verdict_of(scratch: &Scratch, name: &[u8]) -> (u8, String) {
    let mut connection = scratch.connect();
    connection.send(1, &[&rsend_hello(u64::MAX)], SECOND).unwrap();
    let mut hello = [0; 32];
    assert_eq!(connection.recv_into(&mut [&mut hello], SECOND).unwrap().bytes, 32);
    assert_eq!(hello[20], 4, "it asks for a name");
    let _ = connection.send(13, &[name], SECOND);
    if let Ok(mut stream) = connection.open_stream(2, SECOND) {
        let _ = std::io::Write::write_all(&mut stream, b"data");
        let _ = stream.finish(SECOND);
    }
    loop {
        let incoming = connection.peek(BOUND).unwrap();
        assert!(matches!(incoming.length, Length::Exact(..=224)));
        let mut report = [0; 224];
        let received = connection.recv_into(&mut [&mut report], SECOND).unwrap();
        if received.tag == 4 {
            return (report[0], String::from_utf8(report[24..received.bytes].to_vec()).unwrap());
        }
    }
}

#[test]
fn names_that_would_leave_the_directory_are_refused() {
    let scratch = Scratch::new("names");
    let outside = scratch.names_at("..");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--overwrite", "--count", "1"]));
    let long = [b'x'; 256];
    let names: [&[u8]; 12] = [
        b"",
        b".",
        b"..",
        b"/",
        b"../x",
        b"a/b",
        b"/tmp/x",
        b"a\0b",
        b"a\nb",
        b"a\x1b[2J",
        b".x.superpipe-1-a",
        &long,
    ];
    for name in names {
        let (code, text) = verdict_of(&scratch, name);
        assert_eq!(code, 7, "{name:?}: {text}");
        assert!(
            text.starts_with("the peer sent a file name") || text.contains("no file name"),
            "{name:?}: {text}"
        );
        assert_eq!(scratch.names(), [""; 0], "{name:?}");
    }
    scratch.send_and_compare("good", b"data");
    receiver.wait(BOUND).assert_done();
    let mut outside_now = scratch.names_at("..");
    outside_now.retain(|name| name != "good");
    assert_eq!(outside_now, outside);
    scratch.assert_only(&["good"]);
}

#[test]
fn links_and_directories_are_not_written_through() {
    for overwrite in [&[][..], &["--overwrite"]] {
        let scratch = Scratch::new("names-links");
        let outside = scratch.source("outside", b"untouched");
        symlink(&outside, scratch.data("link")).unwrap();
        symlink("../nowhere", scratch.data("dangling")).unwrap();
        fs::create_dir(scratch.data("directory")).unwrap();
        let receiver = scratch.start_rrecv(&mut scratch.keeper(&[&["--count", "1"], overwrite].concat()));
        let input = scratch.source("in", b"data");
        for name in ["link", "dangling", "directory"] {
            let mut rsend = scratch.rsend(&["-q", "--name", name, &scratch.address()]);
            let ended = scratch.run("rsend", rsend.arg(&input));
            ended.assert(8, "receiver: cannot write to ");
        }
        scratch.send(&input).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(fs::read(&outside).unwrap(), b"untouched");
        assert!(!scratch.root().join("nowhere").exists());
        assert!(fs::symlink_metadata(scratch.data("link")).unwrap().is_symlink());
        scratch.assert_only(&["dangling", "directory", "in", "link"]);
    }
}

#[test]
fn a_taken_name_is_overwritten_only_if_asked_for() {
    let scratch = Scratch::new("taken");
    for (overwrite, expected) in [(&[][..], &b"old"[..]), (&["--overwrite"], b"new")] {
        fs::write(scratch.data("file"), b"old").unwrap();
        let receiver =
            scratch.start_rrecv(&mut scratch.keeper(&[&["--count", "1", "-q"], overwrite].concat()));
        let sent = scratch.start_sending("file", b"new").wait(BOUND);
        if overwrite.is_empty() {
            sent.assert(8, "file: file exists");
            scratch.send_and_compare("another", b"data");
            receiver.wait(BOUND).assert(0, "file: cannot write to ");
        } else {
            sent.assert_done();
            receiver.wait(BOUND).assert_done();
        }
        assert_eq!(fs::read(scratch.data("file")).unwrap(), expected);
    }
    scratch.assert_only(&["another", "file"]);
}

#[test]
fn of_two_with_one_name_the_first_to_end_keeps_it() {
    let scratch = Scratch::new("rivals");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--count", "1", "-q"]));
    let start = || {
        let mut rsend = scratch.rsend(&["-q", "--name", "file", &scratch.address()]);
        scratch.start("rsend", rsend.stdin(Stdio::piped()))
    };
    let (mut first, mut second) = (start(), start());
    let (mut one, mut two) = (first.stdin(), second.stdin());
    // both have begun: the landing buffers and pipes do not hold so much
    feed(&mut one, 1, 8 << 20, |_| {});
    feed(&mut two, 2, 8 << 20, |_| {});
    drop(two);
    second.wait(BOUND).assert_done();
    drop(one);
    first.wait(BOUND).assert(8, "file: file exists");
    receiver.wait(BOUND).assert_done();
    let mut expected = Vec::new();
    feed(&mut expected, 2, 8 << 20, |_| {});
    assert!(fs::read(scratch.data("file")).unwrap() == expected);
    scratch.assert_only(&["file"]);
}

#[test]
fn the_name_is_that_of_the_file_or_of_an_option() {
    let scratch = Scratch::new("names-of");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--count", "3", "-q"]));
    let noise = Noise::new(3).bytes(1000);
    let input = scratch.source("in", &noise);
    scratch.send(&input).assert_done();
    let named = |name: &str| scratch.rsend(&["-q", "--name", name, &scratch.address()]);
    scratch.run("rsend", named("other name").arg(&input)).assert_done();
    // standard input has no name
    scratch.run("rsend", &mut scratch.rsend(&["-q", &scratch.address()])).assert(2, "use --name");
    scratch.run("rsend", &mut named("empty")).assert_done();
    for name in ["a/b", "..", ""] {
        assert_eq!(scratch.run("rsend", &mut named(name)).code, 2, "{name}");
    }
    receiver.wait(BOUND).assert(0, "use --name");
    assert!(["in", "other name"].iter().all(|name| fs::read(scratch.data(name)).unwrap() == noise));
    assert_eq!(fs::read(scratch.data("empty")).unwrap(), b"");
    scratch.assert_only(&["empty", "in", "other name"]);
}

impl Scratch {
    fn names_at(&self, below_data: &str) -> Vec<String> {
        let entries = fs::read_dir(self.data(below_data)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "socket");
        names.sort();
        names
    }
}
