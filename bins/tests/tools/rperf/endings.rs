//! Ends of a measurement: wrong contents, kills, signals, silent peers, and wrong usage.

use super::QUICK;
use crate::support::{BOUND, Scratch};
use core::time::Duration;
use std::fs;
use std::process::Stdio;

/// Time that `--help` promises, under --idle-timeout.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn a_wrong_byte_is_reported_at_both_ends() {
    let scratch = Scratch::new("perf-flip");
    let words = |message: u32, bytes: u32, at: u32| {
        format!("message {message} of {bytes} bytes differs from byte {at} on")
    };
    for (arguments, words) in [
        (&["--inject-flip", "3"][..], words(0, 8, 3)),
        // first message of the second size
        (&["--inject-flip", "5007"], words(1, 8192, 4999)),
        // a timed message
        (&["--verify", "--inject-flip", "81"], words(10, 8, 1)),
        (&["--verify", "--inject-flip", "81", "--test", "stream"], words(10, 8, 1)),
        (&["--fresh", "--verify", "--inject-flip", "81"], words(10, 8, 1)),
    ] {
        let (_, client, server) =
            scratch.measure(&[&["-q", "--sizes", "8,8K"], arguments, &QUICK[..]].concat());
        client.assert(6, &format!("server: the received data differ from the sent data: {words}"));
        server.assert(6, &format!("the received data differ from the sent data: {words}"));
    }
    // a message that is not compared fails nothing
    let (_, client, server) =
        scratch.measure(&[&["-q", "--sizes", "8", "--inject-flip", "81"], &QUICK[..]].concat());
    assert_eq!((client.code, server.code), (0, 0));
}

#[test]
fn a_kept_server_serves_the_next_client() {
    let scratch = Scratch::new("perf-keep");
    let server = scratch.start_server(&["--keep"]);
    for arguments in [&["--sizes", "8"][..], &["--sizes", "8", "--inject-flip", "0"], &["--sizes", "8,4K"]] {
        let mut client = scratch.client(&[&["-q"], arguments, &QUICK[..]].concat());
        let code = scratch.run("rperf", &mut client).code;
        assert_eq!(code, if arguments.len() == 4 { 6 } else { 0 });
    }
    server.signal("TERM");
    let ended = server.wait(BOUND);
    assert_eq!(ended.code, 143);
    let said: Vec<_> = ended.said.lines().collect();
    assert_eq!(said.len(), 2, "{}", ended.said);
    assert!(said[0].contains("the received data differ from the sent data") && said[1].contains("SIGTERM"));
    scratch.assert_only(&[]);
}

#[test]
fn the_end_of_either_side_is_reported_at_the_other() {
    let scratch = Scratch::new("perf-kill");
    let endless = ["--time", "1h", "--warmup", "1", "-v", "--sizes", "4K"];
    // of two connections the measured one is closed first, with the reason
    for (test, connections) in [(&["--test=latency"][..], 1), (&["--test=stream"], 1), (&["--reconnect"], 2)]
    {
        for (victim, signal, code, words) in [
            ("client", "KILL", 5, "the peer"),
            ("server", "KILL", 5, "the peer"),
            ("client", "INT", 5, "rperf was interrupted (SIGINT) before the measurement was complete"),
            ("server", "TERM", 5, "rperf serve was ended (SIGTERM) before the measurement was complete"),
        ] {
            let server = scratch.start_server(&["-v"]);
            let arguments = [test, &endless[..]].concat();
            let client = scratch.start("rperf", &mut scratch.client(&arguments));
            client.until_connected(connections);
            server.until_connected(connections);
            server.until_it_measures();
            let (killed, survivor) = if victim == "client" { (client, server) } else { (server, client) };
            killed.signal(signal);
            let ended = survivor.wait(NOTICED_WITHIN);
            assert_eq!(ended.code, code, "{victim} {signal} with {test:?}: {}", ended.said);
            let last = ended.said.lines().last().unwrap();
            assert!(last.contains(words), "{victim} {signal} with {test:?}: {}", ended.said);
            let code = killed.wait(BOUND).code;
            assert_eq!(
                code,
                match signal {
                    "KILL" => -9,
                    "INT" => 130,
                    _ => 143,
                }
            );
            let _ = fs::remove_file(scratch.socket());
        }
    }
    scratch.assert_only(&[]);
}

#[test]
fn a_silent_peer_is_an_idle_timeout() {
    let scratch = Scratch::new("perf-silent");
    let server = scratch.start_server(&["-v"]);
    let arguments = ["--idle-timeout", "3s", "--time", "1h", "-v", "--sizes", "4K"];
    let client = scratch.start("rperf", &mut scratch.client(&arguments));
    client.until_connected(1);
    server.until_connected(1);
    server.until_it_measures();
    server.signal("STOP");
    client.wait(BOUND).assert(4, "silent");
    server.signal("CONT");
    let ended = server.wait(BOUND);
    assert!([4, 5].contains(&ended.code), "{}", ended.said);
}

#[test]
fn wrong_usage_exits_with_2() {
    let scratch = Scratch::new("perf-usage");
    for wrong in [
        &[][..],
        &["--sizes", "2G", "localhost"],
        &["--sizes", "9..8", "localhost"],
        &["--iterations", "0", "localhost"],
        &["--test", "both", "localhost"],
        &["--fresh=cold", "localhost"],
        &["localhost", "elsewhere"],
        &["serve", "localhost"],
        &["serve", "--sizes", "8"],
        &["serve", "--keep", "--trace=x"],
        &["-q", "-v", "localhost"],
    ] {
        let ended = scratch.run("rperf", scratch.command("rperf").args(wrong));
        assert_eq!(ended.code, 2, "{wrong:?}: {}", ended.said);
    }
    for (arguments, words) in [
        (&["--help"][..], "Measurement:"),
        (&["serve", "--help"], "--keep"),
        (&["--version"], "rperf"),
        (&["--generate", "man"], "OPTIONS OF SERVE"),
        (&["--generate", "bash"], "complete"),
    ] {
        let out = scratch.command("rperf").args(arguments).stdout(Stdio::piped()).output().unwrap();
        assert!(out.status.success() && String::from_utf8(out.stdout).unwrap().contains(words), "{words}");
    }
    let mut nobody = scratch.client(&["--connect-timeout", "200ms"]);
    scratch.run("rperf", &mut nobody).assert(3, "cannot connect");
    let mut serve = scratch.command("rperf");
    serve.args(["serve", "--accept-timeout", "50ms", "--listen", &scratch.address()]);
    scratch.run("rperf", &mut serve).assert(3, "nobody connected");
    scratch.run("rperf", &mut scratch.client(&["--core", "8000"])).assert(2, "core 8000 does not exist");
}
