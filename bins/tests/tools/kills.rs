//! SIGKILL of either end after a random share of the bytes: the other end notices, and no file is left.

use crate::support::{BOUND, Noise, Scratch, feed, option, verify, wait_for};
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

const ROUNDS: u64 = 60;
const TOTAL: u64 = 24 << 20;
/// Time that `--help` promises, under --idle-timeout.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// Outcomes of the rounds, with their counts.
type Coverage = BTreeMap<String, u32>;

#[test]
fn a_kill_at_any_moment_is_noticed_in_time() {
    let mut noise = Noise::from_time("kills");
    let mut coverage = Coverage::new();
    for round in 0..ROUNDS {
        // one round in five ends before or in the handshake, one in five after the last byte was fed
        let at = match round / 2 % 5 {
            0 => None,
            1 => Some(TOTAL),
            _ => Some(noise.below(TOTAL)),
        };
        let victim = if round % 2 == 0 { "rsend" } else { "rrecv" };
        kill(victim, at, &mut noise, &mut coverage);
    }
    assert_eq!(coverage.values().sum::<u32>() as u64, ROUNDS);
    for (what, count) in coverage {
        eprintln!("{count:3} x {what}");
    }
}

#[test]
fn a_kill_is_noticed_while_the_peer_waits_for_a_pipe() {
    let scratch = Scratch::new("idle-kills");
    let options = ["--idle-timeout", "60s", "-v"];
    for victim in ["rsend", "rrecv"] {
        for fed in [0, 100, 8 << 20] {
            // the input stays open, and no process reads the output
            let mut receiver = scratch.start_rrecv(scratch.rrecv(&options).stdout(Stdio::piped()));
            let mut rsend = scratch.rsend(&options);
            let mut sender = scratch.start("rsend", rsend.arg(scratch.address()).stdin(Stdio::piped()));
            let (mut stdin, _stdout) = (sender.stdin(), receiver.stdout());
            sender.until_connected(1);
            receiver.until_connected(1);
            let feeder = thread::spawn(move || {
                feed(&mut stdin, 1, fed, |_| {});
                stdin
            });
            thread::sleep(Duration::from_millis(200));
            if fed > 0 {
                wait_for("the transfer to begin", || !scratch.socket().exists());
            }
            match victim {
                // no transfer had begun, so another sender may begin one
                "rsend" if fed == 0 => {
                    sender.kill();
                    let killed = Instant::now();
                    receiver.until_it_goes_on("");
                    assert!(killed.elapsed() < NOTICED_WITHIN);
                    scratch.run("rsend", &mut scratch.rsend(&[&scratch.address()])).assert_done();
                    assert_eq!(receiver.wait(BOUND).code, 0);
                }
                "rsend" => {
                    sender.kill();
                    receiver.wait(NOTICED_WITHIN).assert(5, "");
                }
                _ => {
                    receiver.kill();
                    sender.wait(NOTICED_WITHIN).assert(5, "");
                    if fed == 0 {
                        // a killed listener leaves its socket, which the next one replaces
                        fs::remove_file(scratch.socket()).unwrap();
                    }
                }
            }
            drop(feeder.join().unwrap());
            scratch.assert_only(&[]);
        }
    }
}

/// Runs one round. Kills `victim` once `at` bytes were fed, or near the handshake.
fn kill(victim: &str, at: Option<u64>, noise: &mut Noise, coverage: &mut Coverage) {
    let scratch = Scratch::new("kills");
    let seed = noise.word();
    let (out, events) = (scratch.data("out"), scratch.root().join("events"));
    let options = ["--idle-timeout", "60s", "-v"];
    let mut rrecv = scratch.rrecv(&options);
    let mut rsend = scratch.rsend(&options);
    // Only a receiver that is killed early can be missing.
    let connect_timeout = if at.is_none() { "2s" } else { "60s" };
    rsend.args(["--connect-timeout", connect_timeout, &scratch.address()]).stdin(Stdio::piped());
    let survivor = if victim == "rsend" { &mut rrecv } else { &mut rsend };
    survivor.arg(option("json", &events));
    let mut receiver = Some(scratch.start_rrecv(rrecv.arg(&out)));
    let mut sender = Some(scratch.start("rsend", &mut rsend));
    let stdin = sender.as_mut().unwrap().stdin();
    if at.is_some_and(|at| at != TOTAL) {
        sender.as_ref().unwrap().until_connected(1);
        receiver.as_ref().unwrap().until_connected(1);
    }
    let mut killed = None;
    let mut kill = || {
        let tool = if victim == "rsend" { sender.take() } else { receiver.take() };
        if let Some(mut tool) = tool {
            tool.kill();
            killed = Some((Instant::now(), tool));
        }
    };
    match at {
        None => {
            thread::sleep(Duration::from_micros(noise.below(4000)));
            kill();
            feed(stdin, seed, TOTAL, |_| {});
        }
        Some(TOTAL) => {
            feed(stdin, seed, TOTAL, |_| {});
            // during the rest of the transfer, the comparison of checksums or fsync, or shortly after
            thread::sleep(Duration::from_micros(noise.below(25_000)));
            kill();
        }
        Some(at) => {
            feed(stdin, seed, TOTAL, |fed| {
                if fed >= at {
                    kill();
                }
            });
        }
    }
    let (when, victim_tool) = killed.unwrap();
    // Reaps the victim, which may have ended by itself just before.
    let victim_ended = victim_tool.wait(BOUND);
    let name = if victim == "rsend" { "rrecv" } else { "rsend" };
    let survivor = sender.or(receiver).unwrap();
    let listens = || name == "rrecv" && scratch.socket().exists();
    // An rrecv that saw no connection or no transfer goes on listening. Otherwise it is about to notice the loss.
    let is_about_to = || match survivor.has_connected() {
        true => !survivor.goes_on(""),
        false => when.elapsed() < Duration::from_millis(100),
    };
    while listens() && is_about_to() {
        assert!(when.elapsed() < NOTICED_WITHIN, "{}", survivor.said());
        thread::sleep(Duration::from_millis(1));
    }
    let waits_on = listens();
    if waits_on {
        survivor.signal("TERM");
    }
    let ended = survivor.wait(NOTICED_WITHIN.saturating_sub(when.elapsed()).max(Duration::from_secs(1)));
    let moved = moved(&events);
    let share = match moved {
        0 => "nothing had moved".to_owned(),
        TOTAL => "everything had moved".to_owned(),
        moved => {
            let quarter = moved * 4 / TOTAL;
            format!("{} to {} % had moved", quarter * 25, quarter * 25 + 25)
        }
    };
    match (name, ended.code) {
        ("rrecv", 143) if waits_on => assert!(moved == 0 && !out.exists()),
        ("rsend", 3) if at.is_none() => assert!(ended.said.contains("cannot connect"), "{}", ended.said),
        (_, 5) => ended.assert(5, ""),
        // The victim was killed after its last message, so the transfer is complete.
        ("rrecv", 0) => verify(File::open(&out).unwrap(), seed, TOTAL),
        ("rsend", 0) => assert!(moved == TOTAL && out.exists()),
        (_, code) => panic!("{name} ended with {code} when {share}: {}", ended.said),
    }
    // The file is complete or absent, after any kill.
    if out.exists() {
        assert_eq!(moved, TOTAL);
        verify(File::open(&out).unwrap(), seed, TOTAL);
        fs::remove_file(&out).unwrap();
    }
    if victim == "rrecv" {
        // An rrecv that was killed while it listened leaves its socket, which the next one replaces.
        let _ = fs::remove_file(scratch.socket());
    }
    scratch.assert_only(&[]);
    let end = if victim_ended.code == -9 { "killed" } else { "over before it was killed" };
    *coverage.entry(format!("{victim} {end} when {share}: {name} ended with {}", ended.code)).or_default() +=
        1;
}

/// Returns the bytes of the survivor's end event.
fn moved(events: &std::path::Path) -> u64 {
    let events = fs::read_to_string(events).unwrap();
    let end: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(end["event"], "end");
    end["bytes"].as_u64().unwrap()
}
