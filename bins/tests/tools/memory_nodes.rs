//! `--memory-node`: what is asked for is done, told, or refused.

use crate::support::{Scratch, option, wait_for};
use std::fs;

/// Returns the nodes with memory that this machine lists.
fn nodes() -> Vec<u32> {
    superpipe::os::numa::Nodes::of_machine().with_memory()
}

#[test]
fn each_choice_works_and_is_told() {
    let nodes = nodes();
    for asked in ["auto", "core", "device", "0"] {
        if asked == "0" && !nodes.is_empty() && !nodes.contains(&0) {
            continue;
        }
        let scratch = Scratch::new("memory-node");
        fs::write(scratch.data("in"), vec![7; 300_000]).unwrap();
        let (sent, received) = scratch.pair(
            scratch.rsend(&["-v", "--memory-node", asked, &scratch.address()]).arg(scratch.data("in")),
            scratch
                .rrecv(&["--landing", "on-demand", "--memory-node", asked])
                .arg(option("json", &scratch.root().join("events")))
                .arg(scratch.data("out")),
        );
        assert_eq!((sent.code, received.code), (0, 0), "{}{}", sent.said, received.said);
        let is_told = sent.said.contains("; memory node ") || sent.said.contains("; no memory node chosen (");
        assert!(is_told || asked == "auto", "{}", sent.said);
        if nodes.len() == 1 && ["core", "device"].contains(&asked) {
            assert!(
                sent.said.contains("no memory node chosen (this machine has one memory node)"),
                "{}",
                sent.said
            );
        }
        let events = fs::read_to_string(scratch.root().join("events")).unwrap();
        let events: Vec<serde_json::Value> =
            events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events[0]["settings"]["memory_node"], asked);
        let connection = &events.last().unwrap()["connection"];
        assert!(
            connection["memory_node_reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "{connection}"
        );
        if asked == "0" && !nodes.is_empty() {
            assert_eq!(connection["memory_node"], 0);
            assert!(sent.said.contains("; memory node 0 (it was asked for)"), "{}", sent.said);
        }
        assert_eq!(fs::read(scratch.data("out")).unwrap(), vec![7; 300_000]);
    }
}

#[test]
fn a_node_that_does_not_exist_is_refused() {
    let scratch = Scratch::new("no-memory-node");
    let words = "memory node 1000 does not exist: ";
    scratch.run("rrecv", &mut scratch.rrecv(&["--memory-node", "1000"])).assert(2, words);
    scratch.run("rsend", &mut scratch.rsend(&["--memory-node", "1000", &scratch.address()])).assert(2, words);
    let words = "expected auto, core, device, or the number of a memory node";
    let refused = scratch.run("rrecv", &mut scratch.rrecv(&["--memory-node", "near"]));
    assert_eq!(refused.code, 2, "{}", refused.said);
    assert!(refused.said.contains(words), "{}", refused.said);
}

#[test]
fn rperf_places_its_own_buffers_likewise() {
    let Some(node) = nodes().first().map(u32::to_string) else {
        eprintln!("skipped: the kernel lists no memory nodes");
        return;
    };
    let scratch = Scratch::new("rperf-memory-node");
    let mut serve = scratch.command("rperf");
    let serve = serve.args(["serve", "--listen", &scratch.address(), "--memory-node", &node]);
    let server = scratch.start("rperf", serve);
    wait_for("rperf serve to listen", || scratch.socket().exists());
    let quick = ["--sizes", "64K", "--protocol", "register-cached", "-v", "--memory-node", &node];
    let ended = scratch.run("rperf", scratch.command("rperf").arg(scratch.address()).args(quick));
    assert_eq!(ended.code, 0, "{}", ended.said);
    assert!(ended.said.contains(&format!("; memory node {node} (it was asked for)")), "{}", ended.said);
    drop(server);
}
