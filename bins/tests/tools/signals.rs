//! Signals at random times to either end: the file is completely old or completely new, an exit code of 0 means new, and no other
//! file is left.

use crate::support::{BOUND, Ended, Noise, Scratch, Tool};
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Instant;

/// Rounds that are few enough for a run of all tests. SUPERPIPE_SIGNAL_ROUNDS sets another number.
const ROUNDS: u64 = 60;
const SIGNALS: [&str; 6] = ["INT", "TERM", "HUP", "KILL", "STOP", "CONT"];
/// Sizes of the data. The largest takes about 20 ms to send, and as long to sync to disk.
const SIZES: [usize; 5] = [0, 1, 100_000, 8 << 20, 32 << 20];
/// Longest pauses before a signal, in microseconds: fractions of a run without signals, up to all of it.
const PAUSES: [u64; 3] = [300, 5_000, 60_000];
const OLD: &[u8] = b"as it was";

#[test]
fn a_signal_at_any_moment_leaves_the_old_or_new_file() {
    let rounds = std::env::var("SUPERPIPE_SIGNAL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut noise = Noise::from_time("signals");
    let data = noise.bytes(SIZES[SIZES.len() - 1]);
    let mut coverage = BTreeMap::<String, u64>::new();
    for _ in 0..rounds {
        *coverage.entry(round(&mut noise, &data)).or_default() += 1;
    }
    assert_eq!(coverage.values().sum::<u64>(), rounds);
    for (what, count) in coverage {
        eprintln!("{count:3} x {what}");
    }
}

/// Runs one transfer with signals, and one without, which must find no leftovers of the first. Returns the outcome.
fn round(noise: &mut Noise, data: &[u8]) -> String {
    let scratch = Scratch::new("signals");
    let (source, out) = (scratch.data("in"), scratch.data("out"));
    let new = &data[..SIZES[usize::try_from(noise.below(SIZES.len() as u64)).unwrap()]];
    fs::write(&source, new).unwrap();
    let is_replaced = noise.below(2) == 0;
    if is_replaced {
        fs::write(&out, OLD).unwrap();
    }
    let options = ["-q", "--idle-timeout", "60s"];
    let rrecv = || {
        let mut command = scratch.rrecv(&options);
        command.arg(&out);
        command
    };
    let mut rsend = scratch.rsend(&options);
    rsend.args(["--connect-timeout", "2s", &scratch.address()]).arg(&source);

    let receiver = scratch.start("rrecv", &mut rrecv());
    let sender = scratch.start("rsend", &mut rsend);
    let mut sent_signals = Vec::new();
    for _ in 0..=noise.below(4) {
        let longest = PAUSES[usize::try_from(noise.below(PAUSES.len() as u64)).unwrap()];
        thread::sleep(Duration::from_micros(noise.below(longest)));
        let signal = SIGNALS[usize::try_from(noise.below(SIGNALS.len() as u64)).unwrap()];
        let (tool, name) = if noise.below(2) == 0 { (&sender, "rsend") } else { (&receiver, "rrecv") };
        tool.signal_at_once(signal);
        sent_signals.push(format!("{name} {signal}"));
    }
    for tool in [&sender, &receiver] {
        tool.signal_at_once("CONT");
    }
    let sent = sender.wait(BOUND);
    let received = ended(receiver);

    let is_new = match fs::read(&out) {
        Ok(bytes) if bytes == new => true,
        Ok(bytes) => {
            assert!(is_replaced && bytes == OLD, "{sent_signals:?}: {} bytes that are neither", bytes.len());
            false
        }
        Err(_) => {
            assert!(!is_replaced, "{sent_signals:?}: the old file is gone");
            false
        }
    };
    for (name, ended) in [("rsend", &sent), ("rrecv", &received)] {
        let story = || format!("{sent_signals:?}: {name} ended with {}: {}", ended.code, ended.said);
        assert!([0, 3, 5, 129, 130, 143, -9].contains(&ended.code), "{}", story());
        assert!(ended.code != 0 || is_new, "{}", story());
    }

    // a killed tool may have left its socket and a hidden file; the next run removes both
    let receiver = scratch.start("rrecv", &mut rrecv());
    let mut rsend = scratch.rsend(&options);
    scratch
        .run("rsend", rsend.args(["--connect-timeout", "60s", &scratch.address()]).arg(&source))
        .assert_done();
    receiver.wait(BOUND).assert_done();
    assert!(fs::read(&out).unwrap() == new);
    scratch.assert_only(&["in", "out"]);
    let mut left: Vec<_> =
        fs::read_dir(scratch.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["data", "said"], "{sent_signals:?}");
    format!("rsend {:4}, rrecv {:4}, {}", sent.code, received.code, if is_new { "new" } else { "old" })
}

/// Returns the end of a receiver whose sender has ended. If no transfer had begun, it goes on listening and gets SIGTERM.
fn ended(mut receiver: Tool) -> Ended {
    let notices_until = Instant::now() + Duration::from_millis(300);
    while !receiver.has_ended() && Instant::now() < notices_until {
        thread::sleep(Duration::from_millis(1));
    }
    if !receiver.has_ended() {
        receiver.signal_at_once("TERM");
    }
    receiver.wait(BOUND)
}
