//! Refinements of the superpipeline, set at one end: both ends use and report them.

use crate::support::{BOUND, Noise, Scratch, option};
use serde_json::{Value, json};
use std::fs;

/// Sends `data` from a file to a file, and returns the last events of rsend and rrecv.
fn moves(scratch: &Scratch, data: &[u8], sender: &[&str], receiver: &[&str]) -> [Value; 2] {
    let [input, output, sent, received] = ["in", "out", "sent", "received"].map(|name| scratch.data(name));
    fs::write(&input, data).unwrap();
    let (rsend, rrecv) = scratch.pair(
        scratch.rsend(&[&scratch.address()]).arg(option("json", &sent)).args(sender).arg(&input),
        scratch.rrecv(&[]).arg(option("json", &received)).args(receiver).arg(&output),
    );
    rsend.assert_done();
    rrecv.assert_done();
    assert!(fs::read(&output).unwrap() == data, "rsend {sender:?}, rrecv {receiver:?}: the copy differs");
    [sent, received].map(|events| {
        let events = fs::read_to_string(events).unwrap();
        serde_json::from_str(events.lines().last().unwrap()).unwrap()
    })
}

/// Refinements of a connection, as its reports have them.
fn refinements(end: &Value) -> Value {
    let connection = &end["connection"];
    let names = ["c0_bytes", "growth", "first_chunk", "sub_blocks", "triple_buffer"];
    json!(names.map(|name| &connection[name]))
}

#[test]
fn one_end_sets_the_superpipeline_of_both() {
    const SIZE: usize = 3_000_017;
    let scratch = Scratch::new("refinements");
    let data = Noise::from_time("refinements").bytes(SIZE);
    let by_default = json!([64 << 10, 1.5, "with-rts", true, false]);
    assert_eq!(
        moves(&scratch, &data, &[], &[]).map(|end| refinements(&end)),
        [by_default.clone(), by_default]
    );
    for (options, values) in [
        (
            "--c0 8K --growth 2 --sub-blocks off --overlap off --triple-buffer on",
            json!([8192, 2.0, "after-cts", false, true]),
        ),
        ("--c0 1 --growth 1 --optimistic off", json!([1, 1.0, "during-rendezvous", true, false])),
        ("--growth 4 --overlap off --optimistic on", json!([64 << 10, 4.0, "after-cts", true, false])),
        ("--c0 1M --overlap on --optimistic on", json!([1 << 20, 1.5, "with-rts", true, false])),
        ("--overlap on --optimistic off", json!([64 << 10, 1.5, "during-rendezvous", true, false])),
    ] {
        let options: Vec<_> = options.split(' ').collect();
        for (sender, receiver) in [(&options[..], &[][..]), (&[], &options[..]), (&options[..], &options[..])]
        {
            for end in moves(&scratch, &data, sender, receiver) {
                assert_eq!(refinements(&end), values, "rsend {sender:?}, rrecv {receiver:?}");
            }
        }
    }
}

#[test]
fn the_start_event_has_the_proposals() {
    let scratch = Scratch::new("proposals");
    let events = scratch.root().join("events");
    let options = ["--c0=8K", "--growth=2", "--sub-blocks=off", "--overlap=off", "--triple-buffer=on"];
    let mut rsend = scratch.rsend(&[&options[..], &["--connect-timeout=1ms", &scratch.address()]].concat());
    scratch.run("rsend", rsend.arg(option("json", &events))).assert(3, "");
    let events = fs::read_to_string(events).unwrap();
    let start: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    let names = ["c0_bytes", "growth", "sub_blocks", "overlap", "optimistic", "triple_buffer"];
    let settings = names.map(|name| &start["settings"][name]);
    assert_eq!(json!(settings), json!([8192, 2.0, "off", "off", null, "on"]));
}

#[test]
fn values_out_of_range_are_usage_errors() {
    let scratch = Scratch::new("out-of-range");
    for (option, words) in [
        ("--growth=5", "must be a number from 1 to 4, such as 1.5"),
        ("--growth=0.99", "must be a number from 1 to 4, such as 1.5"),
        ("--growth=NaN", "must be a number from 1 to 4, such as 1.5"),
        ("--sub-blocks=maybe", "[possible values: on, off]"),
        ("--triple-buffer=3", "[possible values: on, off]"),
        ("--c0=x", "unknown unit 'x'; write 4096, 64K, 1.5M or 1G"),
        ("--c0=0", "c0_bytes is 0; it must be 1 to 1048576"),
        ("--c0=2G", "c0_bytes is 2147483648; it must be 1 to 1048576"),
    ] {
        for (tool, mut command) in
            [("rsend", scratch.rsend(&[option, &scratch.address()])), ("rrecv", scratch.rrecv(&[option]))]
        {
            let ended = scratch.run(tool, &mut command);
            assert_eq!(ended.code, 2, "{option}: {}", ended.said);
            assert!(ended.said.contains(words), "{option}: {}", ended.said);
        }
    }
}

#[test]
fn ends_that_disagree_name_both_values() {
    let scratch = Scratch::new("refined-twice");
    for (option, ours, theirs, words) in [
        ("c0", "8K", "64K", "c0 is 8192 at the listening end and 65536 at the connecting end"),
        ("growth", "1", "2", "growth is 256 at the listening end and 512 at the connecting end"),
        ("sub-blocks", "off", "on", "sub-blocks is off at the listening end and on at the connecting end"),
        ("triple-buffer", "on", "off", "triple-buffer is on at the listening end and off at the connecting"),
        ("optimistic", "off", "on", "first-chunk is during-rendezvous at the listening end and with-rts at"),
    ] {
        let [ours, theirs] = [ours, theirs].map(|value| format!("--{option}={value}"));
        let receiver = scratch.start_rrecv(scratch.rrecv(&[&ours]).arg(scratch.data("out")));
        scratch.run("rsend", &mut scratch.rsend(&[&theirs, &scratch.address()])).assert(2, words);
        receiver.until_it_goes_on("the two ends disagree");
        receiver.signal("TERM");
        receiver.wait(BOUND);
    }
}
