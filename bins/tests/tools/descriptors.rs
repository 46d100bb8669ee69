//! Paths that name a descriptor: the tools read and write it at its offset.

use crate::support::{BOUND, Mounted, Scratch, is_root};
use core::sync::atomic::{AtomicU32, Ordering};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

/// Returns the contents of `log` after one transfer of `data` by this script. Asserts that `log` is still the same file.
#[track_caller]
fn log_after(script: &str, arguments: &[&str]) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let scratch = Scratch::new(&format!("descriptor-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let log = scratch.data("log");
    fs::write(&log, b"before|").unwrap();
    let inode = fs::metadata(&log).unwrap().ino();
    symlink("/dev/stdout", scratch.data("link")).unwrap();
    let input = scratch.root().join("in");
    fs::write(&input, b"data").unwrap();
    let link = scratch.data("link").display().to_string();
    let arguments: Vec<_> =
        arguments.iter().map(|word| if *word == "LINK" { link.as_str() } else { *word }).collect();
    let (sent, received) = scratch
        .pair(scratch.rsend(&[&scratch.address()]).arg(&input), &mut scratch.shell(script, &arguments));
    sent.assert_done();
    received.assert_done();
    assert_eq!(fs::metadata(&log).unwrap().ino(), inode, "the file is another one");
    scratch.assert_only(&["link", "log"]);
    fs::read_to_string(&log).unwrap()
}

#[test]
fn an_appending_descriptor_keeps_the_old_contents() {
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", "LINK", "-"] {
        assert_eq!(log_after(r#"exec "$@" >> log"#, &[name]), "before|data", "{name}");
    }
    for name in ["/dev/fd/7", "/proc/self/fd/7"] {
        assert_eq!(log_after(r#"exec "$@" 7>> log"#, &[name]), "before|data", "{name}");
    }
}

#[test]
fn a_descriptor_path_of_a_second_proc_is_recognized() {
    if !is_root("a second /proc") {
        return;
    }
    let scratch = Scratch::new("second-proc");
    let at = scratch.root().join("proc");
    fs::create_dir(&at).unwrap();
    let Some(_mounted) = Mounted::new(&["-t", "proc"], Path::new("proc"), &at) else {
        eprintln!("NOT TESTED: a second /proc");
        return;
    };
    let (log, input) = (scratch.data("log"), scratch.source("in", b"data"));
    fs::write(&log, b"before|").unwrap();
    let name = at.join("self/fd/1").display().to_string();
    let mut receiver = scratch.start("rrecv", &mut scratch.shell(r#"exec "$@" >> log"#, &["-q", &name]));
    if scratch.listens(&mut receiver) {
        scratch.send(&input);
    }
    let ended = receiver.wait(BOUND);
    let found = fs::read_to_string(&log).unwrap();
    assert!(found.starts_with("before|"), "{found:?} with {}", ended.code);
}

#[test]
fn a_descriptor_is_written_at_its_offset() {
    assert_eq!(log_after(r#"exec "$@" 1<> log"#, &["/dev/stdout"]), "datare|");
    let script = r#"exec 7<> log; dd bs=3 count=1 <&7 2>/dev/null; exec "$@""#;
    assert_eq!(log_after(script, &["/dev/fd/7"]), "befdata");
    let script = r#"exec > log; printf head-; "$@"; printf -- -tail"#;
    assert_eq!(log_after(script, &["/dev/stdout"]), "head-data-tail");
}

#[test]
fn a_trace_is_written_at_its_descriptors_offset() {
    let log = log_after(r#"exec "$@" 7>> log"#, &["--trace=/dev/fd/7", "-"]);
    let trace = log.strip_prefix("before|").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(trace).is_ok(), "{trace}");
}

#[test]
fn a_descriptor_that_is_no_output_is_refused() {
    let scratch = Scratch::new("no-output");
    fs::write(scratch.data("log"), b"before|").unwrap();
    let fails = |script: &str, name: &str, words: &str| {
        scratch.run("rrecv", &mut scratch.shell(script, &[name])).assert(8, words);
    };
    fails(r#"exec "$@" 7< log"#, "/dev/fd/7", "cannot write to /dev/fd/7: bad file descriptor");
    fails(r#"exec "$@" >&-"#, "/dev/stdout", "cannot write to /dev/stdout: bad file descriptor");
    fails(r#"exec "$@""#, "/dev/fd/77", "cannot write to /dev/fd/77: ");
    // a file that another process has open for writing
    let mine = OpenOptions::new().append(true).open(scratch.data("log")).unwrap();
    let name = format!("/proc/{}/fd/{}", std::process::id(), mine.as_raw_fd());
    fails(r#"exec "$@""#, &name, "it is a descriptor of another process");
    assert_eq!(fs::read(scratch.data("log")).unwrap(), b"before|");
    scratch.assert_only(&["log"]);
}

#[test]
fn a_pipe_of_another_process_is_written_to() {
    let scratch = Scratch::new("foreign-pipe");
    let (mut reader, writer) = std::io::pipe().unwrap();
    fs::write(scratch.root().join("in"), b"data").unwrap();
    let name = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(name));
    let input = scratch.root().join("in");
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(input)).assert_done();
    receiver.wait(BOUND).assert_done();
    drop(writer);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"data");
}

#[test]
fn a_descriptor_is_read_from_its_offset() {
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"] {
        let scratch = Scratch::new("descriptor-read");
        let input = scratch.root().join("in");
        fs::write(&input, b"head|rest").unwrap();
        let mut file = File::open(&input).unwrap();
        file.seek(SeekFrom::Start(5)).unwrap();
        let (sent, received) = scratch.pair(
            scratch.rsend(&[&scratch.address(), path]).stdin(file),
            scratch.rrecv(&[]).arg(scratch.data("out")),
        );
        sent.assert_done();
        received.assert_done();
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"rest", "{path}");
    }
}
