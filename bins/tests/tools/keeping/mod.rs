//! `rrecv --keep`: many senders, whose files go into one directory.

mod bad_senders;
mod names;

use crate::support::{BOUND, Noise, Scratch, Tool, feed, option, wait_for};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

impl Scratch {
    /// Returns a command for an rrecv that keeps files in the data.
    fn keeper(&self, arguments: &[&str]) -> Command {
        let mut command = self.rrecv(arguments);
        command.arg("--keep").arg(self.data(""));
        command
    }

    /// Starts to send these bytes by this name.
    fn start_sending(&self, name: &str, bytes: &[u8]) -> Tool {
        let mut rsend = self.rsend(&["-q", &self.address()]);
        self.start("rsend", rsend.arg(self.source(name, bytes)))
    }

    /// Sends these bytes by this name, which must succeed.
    #[track_caller]
    fn send_and_compare(&self, name: &str, bytes: &[u8]) {
        self.start_sending(name, bytes).wait(BOUND).assert_done();
        assert!(fs::read(self.data(name)).unwrap() == bytes, "{name}");
    }
}

impl Tool {
    /// Waits until the tool has printed these words.
    #[track_caller]
    fn until_said(&self, words: &str) {
        wait_for(&format!("{words:?}"), || self.said().contains(words));
    }
}

#[test]
fn many_senders_are_served_at_once_and_in_turn() {
    const EACH: usize = 20;
    let scratch = Scratch::new("many");
    let mut noise = Noise::from_time("many");
    let events = scratch.root().join("events");
    let mut keeper = scratch.keeper(&["--count", "40"]);
    let receiver = scratch.start_rrecv(keeper.arg(option("json", &events)));
    let mut file = |index: usize| {
        let most = [1, 100, 5000, 100_000, 6 << 20][index % 5];
        let bytes = usize::try_from(noise.below(most)).unwrap();
        (format!("file-{index}"), noise.bytes(bytes))
    };
    let files: Vec<_> = (0..2 * EACH).map(&mut file).collect();
    let senders: Vec<_> =
        files[..EACH].iter().map(|(name, bytes)| scratch.start_sending(name, bytes)).collect();
    for sender in senders {
        sender.wait(BOUND).assert_done();
    }
    for (name, bytes) in &files[EACH..] {
        scratch.send_and_compare(name, bytes);
    }
    let ended = receiver.wait(BOUND);
    assert_eq!(ended.code, 0, "{}", ended.said);
    let total: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let last = ended.said.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("rrecv: 40 transfers complete, 0 failed: {total} bytes in ")),
        "{last}"
    );
    assert_eq!(ended.said.lines().count(), 41, "{}", ended.said);
    let events = fs::read_to_string(events).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (name, bytes) in &files {
        assert!(fs::read(scratch.data(name)).unwrap() == *bytes, "{name}");
        let of = |event: &&Value| event["event"] == "transfer" && event["name"] == *name;
        let found: Vec<_> = events.iter().filter(of).collect();
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!((&found[0]["bytes"], &found[0]["exit_code"]), (&bytes.len().into(), &0.into()));
        assert_eq!(found[0]["checksum"], "crc64");
    }
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["complete"], &end["failed"]), (&"end".into(), &40.into(), &0.into()));
    assert_eq!(end["bytes"], total);
    let mut names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    scratch.assert_only(&names);
}

#[test]
fn a_slow_sender_keeps_nobody_waiting() {
    let scratch = Scratch::new("slow");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--count", "4"]));
    let mut rsend = scratch.rsend(&["-q", "--name", "slow", &scratch.address()]);
    let mut slow = scratch.start("rsend", rsend.stdin(Stdio::piped()));
    feed(slow.stdin(), 5, 3 << 20, |at| {
        if at == 1 << 20 {
            for name in ["one", "two", "three"] {
                scratch.send_and_compare(name, &Noise::new(7).bytes(2 << 20));
            }
        }
    });
    slow.wait(BOUND).assert_done();
    receiver.wait(BOUND).assert_done();
    let mut expected = Vec::new();
    feed(&mut expected, 5, 3 << 20, |_| {});
    assert!(fs::read(scratch.data("slow")).unwrap() == expected);
    scratch.assert_only(&["one", "slow", "three", "two"]);
}

#[test]
fn mode_and_time_are_kept_on_request() {
    let scratch = Scratch::new("keep-preserve");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--preserve", "--count", "1", "-q"]));
    let input = scratch.source("in", b"data");
    scratch.send(&input).assert(7, "start rsend with --preserve");
    fs::set_permissions(&input, Permissions::from_mode(0o640)).unwrap();
    let mut rsend = scratch.rsend(&["-q", "--preserve", &scratch.address()]);
    scratch.run("rsend", rsend.arg(&input)).assert_done();
    receiver.wait(BOUND).assert(0, "start rsend with --preserve");
    let [sent, kept] = [&input, &scratch.data("in")].map(|path| fs::metadata(path).unwrap());
    assert_eq!((kept.mode() & 0o777, kept.modified().unwrap()), (0o640, sent.modified().unwrap()));
    scratch.assert_only(&["in"]);
}

#[test]
fn a_signal_ends_it_and_leaves_no_incomplete_file() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let scratch = Scratch::new("keep-signal");
        let receiver = scratch.start_rrecv(&mut scratch.keeper(&[]));
        scratch.send_and_compare("whole", b"data");
        let mut rsend = scratch.rsend(&["-q", "--name", "part", &scratch.address()]);
        let mut sender = scratch.start("rsend", rsend.stdin(Stdio::piped()));
        let mut stdin = sender.stdin();
        feed(&mut stdin, 1, 8 << 20, |_| {});
        receiver.signal(signal);
        let ended = receiver.wait(BOUND);
        assert_eq!(ended.code, code, "{}", ended.said);
        let last = ended.said.lines().last().unwrap();
        assert!(last.contains("1 transfer complete, 0 failed, 1 given up"), "{last}");
        drop(stdin);
        sender.wait(BOUND).assert(5, &format!("(SIG{signal}) before the transfer was complete"));
        scratch.assert_only(&["whole"]);
    }
}

#[test]
fn it_ends_when_nobody_comes_any_more() {
    let scratch = Scratch::new("keep-idle");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--accept-timeout", "500ms"]));
    receiver.wait(BOUND).assert(3, "nobody connected");
    let receiver = scratch.start_rrecv(&mut scratch.keeper(&["--accept-timeout", "6s"]));
    scratch.send_and_compare("file", b"data");
    receiver.wait(BOUND).assert_done();
    for (directory, words) in [("none", "no such file or directory"), ("file", "not a directory")] {
        let mut rrecv = scratch.rrecv(&["--keep"]);
        scratch.run("rrecv", rrecv.arg(scratch.data(directory))).assert(8, words);
    }
    let mut rrecv = scratch.keeper(&["--shared-max", "1M", "-q"]);
    let receiver = scratch.start_rrecv(&mut rrecv);
    let sender = scratch.start_sending("more", b"data");
    receiver.wait(BOUND).assert(9, "--shared-max");
    drop(sender);
    scratch.assert_only(&["file"]);
}
