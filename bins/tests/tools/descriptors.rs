//! Outputs that are named by a path and are a descriptor all the same: each is written where it stands.

use crate::support::{BOUND, Scratch};
use core::sync::atomic::{AtomicU32, Ordering};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Stdio};

/// A shell that runs `script`, in which "$@" is an rrecv with these arguments and $LOG is `log`.
fn shell(scratch: &Scratch, script: &str, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_rrecv"), "--listen", &scratch.address()]);
    shell.args(arguments).env("LOG", scratch.data("log")).stdin(Stdio::null()).stdout(Stdio::null());
    shell
}

/// Returns the contents of `log` after one transfer of `data` by this script; `log` is still the same file.
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
        .pair(scratch.rsend(&[&scratch.address()]).arg(&input), &mut shell(&scratch, script, &arguments));
    sent.assert_done();
    received.assert_done();
    assert_eq!(fs::metadata(&log).unwrap().ino(), inode, "the file is another one");
    scratch.assert_only(&["link", "log"]);
    fs::read_to_string(&log).unwrap()
}

#[test]
fn a_log_that_is_appended_to_keeps_what_it_has() {
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", "LINK", "-"] {
        assert_eq!(log_after(r#"exec "$@" >> "$LOG""#, &[name]), "before|data", "{name}");
    }
    for name in ["/dev/fd/7", "/proc/self/fd/7"] {
        assert_eq!(log_after(r#"exec "$@" 7>> "$LOG""#, &[name]), "before|data", "{name}");
    }
}

#[test]
fn a_descriptor_in_the_middle_of_a_file_is_written_there() {
    assert_eq!(log_after(r#"exec "$@" 1<> "$LOG""#, &["/dev/stdout"]), "datare|");
    let script = r#"exec 7<> "$LOG"; dd bs=3 count=1 <&7 2>/dev/null; exec "$@""#;
    assert_eq!(log_after(script, &["/dev/fd/7"]), "befdata");
    let script = r#"exec > "$LOG"; printf head-; "$@"; printf -- -tail"#;
    assert_eq!(log_after(script, &["/dev/stdout"]), "head-data-tail");
}

#[test]
fn a_trace_goes_where_its_descriptor_stands() {
    let log = log_after(r#"exec "$@" 7>> "$LOG""#, &["--trace=/dev/fd/7", "-"]);
    let trace = log.strip_prefix("before|").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(trace).is_ok(), "{trace}");
}

#[test]
fn what_is_no_output_is_refused() {
    let scratch = Scratch::new("no-output");
    fs::write(scratch.data("log"), b"before|").unwrap();
    let fails = |script: &str, name: &str, words: &str| {
        scratch.run("rrecv", &mut shell(&scratch, script, &[name])).assert(8, words);
    };
    fails(r#"exec "$@" 7< "$LOG""#, "/dev/fd/7", "cannot write to /dev/fd/7: bad file descriptor");
    fails(r#"exec "$@" >&-"#, "/dev/stdout", "cannot write to /dev/stdout: bad file descriptor");
    fails(r#"exec "$@""#, "/dev/fd/77", "cannot write to /dev/fd/77: ");
    // a file that another process has open, and goes on writing to
    let mine = OpenOptions::new().append(true).open(scratch.data("log")).unwrap();
    let name = format!("/proc/{}/fd/{}", std::process::id(), mine.as_raw_fd());
    fails(r#"exec "$@""#, &name, "it is a descriptor of another process");
    assert_eq!(fs::read(scratch.data("log")).unwrap(), b"before|");
    scratch.assert_only(&["log"]);
}

#[test]
fn a_pipe_of_another_process_is_opened_as_it_is() {
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
fn a_descriptor_in_the_middle_of_a_file_is_read_from_there() {
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
