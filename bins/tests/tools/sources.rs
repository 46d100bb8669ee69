//! Sources that change after their length was announced.

use crate::support::{BOUND, Ended, Scratch, Tool, mkfifo, option, wait_for};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

const ANNOUNCED: usize = 3 << 20;

/// Name of a change, and the function that applies it to the source.
type Change = (&'static str, fn(&Path));

/// Starts rsend, and waits until it has opened its source.
fn begin(scratch: &Scratch, rsend: &mut Command, source: Option<&Path>) -> Tool {
    let events = scratch.root().join("events");
    rsend.args(["--connect-timeout", "1h"]).arg(option("json", &events));
    let sender = scratch.start("rsend", rsend.arg(scratch.address()).args(source));
    wait_for("rsend to open its source", || {
        fs::read_to_string(&events).is_ok_and(|events| events.contains(r#""size":"#))
    });
    sender
}

/// Waits until a write gets a later time than the last one to this file. The clock of files has a resolution of milliseconds.
fn until_later_than(scratch: &Scratch, source: &Path) {
    let probe = scratch.root().join("probe");
    wait_for("another time of files", || {
        fs::write(&probe, b"x").unwrap();
        let [now, then] = [&probe, source].map(|path| fs::metadata(path).unwrap().modified().unwrap());
        now > then
    });
}

/// Transfers `in` to `out`. Calls `change` after rsend has opened the source and before it sends anything.
fn changed(scratch: &Scratch, by_stdin: bool, change: impl FnOnce(&Path)) -> (Ended, Ended) {
    let source = scratch.data("in");
    fs::write(&source, vec![7; ANNOUNCED]).unwrap();
    fs::write(scratch.data("out"), b"as it was").unwrap();
    let mut rsend = scratch.rsend(&["-q"]);
    if by_stdin {
        rsend.stdin(File::open(&source).unwrap());
    }
    let sender = begin(scratch, &mut rsend, (!by_stdin).then_some(&source));
    until_later_than(scratch, &source);
    change(&source);
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-q"]).arg(scratch.data("out")));
    (sender.wait(BOUND), receiver.wait(BOUND))
}

fn copy(scratch: &Scratch) -> Vec<u8> {
    fs::read(scratch.data("out")).unwrap()
}

#[test]
fn a_source_that_shrinks_fails_both_ends() {
    for by_stdin in [false, true] {
        let scratch = Scratch::new("shrinks");
        let (sent, received) = changed(&scratch, by_stdin, |source| {
            OpenOptions::new().write(true).open(source).unwrap().set_len(1 << 20).unwrap();
        });
        sent.assert(8, "shrank while it was sent: 3145728 bytes were announced, and it ended after 1048576");
        received.assert(8, "shrank while it was sent");
        assert_eq!(copy(&scratch), b"as it was");
        scratch.assert_only(&["in", "out"]);
    }
}

#[test]
fn a_source_that_grows_is_sent_as_announced_and_reported() {
    for by_stdin in [false, true] {
        let scratch = Scratch::new("grows");
        let (sent, received) = changed(&scratch, by_stdin, |source| {
            OpenOptions::new().append(true).open(source).unwrap().write_all(&[8; 100_000]).unwrap();
        });
        sent.assert(0, "grew from 3145728 to 3245728 bytes while it was sent");
        received.assert(0, "sender: ");
        assert!(received.said.contains("grew from 3145728 to 3245728 bytes"), "{}", received.said);
        assert!(copy(&scratch) == vec![7; ANNOUNCED]);
        scratch.assert_only(&["in", "out"]);
    }
}

#[test]
fn an_empty_source_that_grows_is_sent_empty_and_reported() {
    let scratch = Scratch::new("grows-from-empty");
    let source = scratch.source("in", b"");
    let sender = begin(&scratch, &mut scratch.rsend(&[]), Some(&source));
    until_later_than(&scratch, &source);
    OpenOptions::new().append(true).open(&source).unwrap().write_all(b"more").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let (sent, received) = (sender.wait(BOUND), receiver.wait(BOUND));
    sent.assert_done();
    received.assert_done();
    assert!(copy(&scratch).is_empty());
    assert!(sent.said.contains("grew"), "{}", sent.said);
    assert!(received.said.contains("grew"), "{}", received.said);
}

#[test]
fn growth_is_reported_for_a_long_name() {
    let scratch = Scratch::new("grows-long-name");
    let source = scratch.source(&"n".repeat(240), b"data");
    let mut rsend = scratch.rsend(&[]);
    let name = Path::new(source.file_name().unwrap());
    let sender = begin(&scratch, rsend.current_dir(scratch.root()), Some(name));
    until_later_than(&scratch, &source);
    OpenOptions::new().append(true).open(&source).unwrap().write_all(b"more").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    sender.wait(BOUND).assert_done();
    let received = receiver.wait(BOUND);
    received.assert_done();
    assert!(received.said.contains("grew"), "{}", received.said);
}

#[test]
fn a_source_written_or_replaced_meanwhile_is_reported() {
    let scratch = Scratch::new("rewritten");
    let (sent, received) = changed(&scratch, false, |source| {
        OpenOptions::new().write(true).open(source).unwrap().write_all(b"new").unwrap();
    });
    sent.assert(0, "was written to while it was sent");
    received.assert(0, "was written to while it was sent");
    let replaced: [(Change, &str); 2] = [
        (
            ("replaced", |source| {
                fs::write(source.with_extension("new"), b"another").unwrap();
                fs::rename(source.with_extension("new"), source).unwrap();
            }),
            "was replaced while it was sent",
        ),
        (("removed", |source| fs::remove_file(source).unwrap()), "was removed or renamed while it was sent"),
    ];
    for ((name, replace), words) in replaced {
        let scratch = Scratch::new(name);
        let (sent, received) = changed(&scratch, false, replace);
        sent.assert(0, words);
        received.assert(0, words);
        assert!(copy(&scratch) == vec![7; ANNOUNCED]);
    }
}

/// An unchanged source causes no message, and a source without a length announces none.
#[test]
fn an_unchanged_source_is_sent_whole_and_silently() {
    let scratch = Scratch::new("steady");
    fs::write(scratch.data("in"), vec![9; 70_000]).unwrap();
    fs::write(scratch.data("empty"), b"").unwrap();
    mkfifo(&scratch.data("fifo"));
    // files that report a length of 0 and of a page, and have another one
    let lying = ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"].map(Path::new);
    let ours = ["in", "empty", "fifo"].map(|name| scratch.data(name));
    for source in ours.iter().map(|path| &**path).chain(lying.into_iter().filter(|path| path.exists())) {
        let fed = source.ends_with("fifo").then(|| {
            let fifo = source.to_owned();
            thread::spawn(move || OpenOptions::new().write(true).open(fifo).unwrap().write_all(&[5; 1000]))
        });
        let (sent, received) = scratch.pair(
            scratch.rsend(&["-q", &scratch.address()]).arg(source),
            scratch.rrecv(&["-q"]).arg(scratch.data("out")),
        );
        for ended in [&sent, &received] {
            assert_eq!((ended.code, ended.said.as_str()), (0, ""), "{}", source.display());
        }
        match fed {
            Some(fed) => {
                fed.join().unwrap().unwrap();
                assert_eq!(copy(&scratch), [5; 1000]);
            }
            None if source.starts_with("/proc") => assert!(!copy(&scratch).is_empty()),
            None => assert_eq!(copy(&scratch), fs::read(source).unwrap(), "{}", source.display()),
        }
    }
}

/// A shell does this with `{ head -c 1000 >/dev/null; rsend ...; } < file`.
#[test]
fn standard_input_is_sent_from_its_offset() {
    use std::io::Seek;
    let scratch = Scratch::new("middle");
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    fs::write(scratch.data("in"), &bytes).unwrap();
    for at in [0, 1, 60_000, 99_999, 100_000, 200_000] {
        let mut file = File::open(scratch.data("in")).unwrap();
        file.seek(std::io::SeekFrom::Start(at as u64)).unwrap();
        let (sent, received) = scratch.pair(
            scratch.rsend(&["-q", &scratch.address()]).stdin(Stdio::from(file)),
            scratch.rrecv(&["-q"]).arg(scratch.data("out")),
        );
        assert_eq!((sent.code, received.code), (0, 0), "{at}: {} {}", sent.said, received.said);
        assert_eq!(copy(&scratch), bytes[at.min(bytes.len())..]);
    }
}

#[test]
fn a_directory_is_refused_with_a_remedy() {
    let scratch = Scratch::new("directory");
    let directory = scratch.data("my photos");
    fs::create_dir(&directory).unwrap();
    let words = format!("tar c '{}' | rsend ADDR", directory.display());
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(&directory)).assert(2, &words);
}

/// Asserts only that the transfer is not faster than its limit, since a busy machine may make it slower.
#[test]
fn rate_limit_is_not_exceeded() {
    let scratch = Scratch::new("rate");
    let bytes = vec![3; 600_000];
    fs::write(scratch.data("in"), &bytes).unwrap();
    for by_pipe in [false, true] {
        let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
        let began = std::time::Instant::now();
        let mut rsend = scratch.rsend(&["--rate-limit", "400K", &scratch.address()]);
        if by_pipe {
            let mut sender = scratch.start("rsend", rsend.stdin(Stdio::piped()));
            sender.stdin().write_all(&bytes).unwrap();
            sender.wait(BOUND).assert_done();
        } else {
            scratch.run("rsend", rsend.arg(scratch.data("in"))).assert_done();
        }
        assert!(began.elapsed().as_millis() > 1000, "{:?}", began.elapsed());
        receiver.wait(BOUND).assert_done();
        assert!(copy(&scratch) == bytes);
    }
    for wrong in ["0", "x"] {
        assert_eq!(scratch.run("rsend", &mut scratch.rsend(&["--rate-limit", wrong, "localhost"])).code, 2);
    }
}
