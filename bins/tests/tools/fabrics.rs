//! Choice of fabric, device and core, and what is refused before anything is sent, with RDMA devices and without.

use crate::support::{BOUND, Ended, Scratch, option};
use std::fs;

/// Asserts like [`Ended::assert`], for a tool that prints more than one line.
fn assert_told(ended: &Ended, code: i32, words: &str) {
    assert_eq!(ended.code, code, "{}", ended.said);
    assert!(ended.said.contains(words), "{}\n lacks {words:?}", ended.said);
}

/// Returns true if this host has an RDMA device, and then prints what is not checked.
fn has_device(what: &str) -> bool {
    let has = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
    if has {
        eprintln!("NOT CHECKED: {what}: this host has an RDMA device");
    }
    has
}

#[test]
fn a_missing_rdma_device_is_reported_with_a_remedy() {
    if has_device("no RDMA device") {
        return;
    }
    let scratch = Scratch::new("no-device");
    let quick = ["--connect-timeout", "5s"];
    for address in ["verbs:192.0.2.1", "verbs:localhost:7", "192.0.2.1:7"] {
        for tool in ["rsend", "rperf"] {
            let ended = scratch.run(tool, scratch.command(tool).args(quick).arg(address));
            assert_eq!((ended.code, ended.said.lines().count()), (9, 1), "{address}: {}", ended.said);
            assert!(
                ended.said.contains("rdma link add rxe0 type rxe netdev eth0")
                    || ended.said.contains("; install "),
                "{}",
                ended.said
            );
        }
    }
    let listening = ["--listen", "verbs::7"];
    scratch.run("rrecv", scratch.command("rrecv").args(listening)).assert(9, "; ");
    scratch.run("rperf", scratch.command("rperf").arg("serve").args(listening)).assert(9, "; ");
    let wanted = ["--listen", ":7", "--device", "rxe0"];
    scratch.run("rrecv", scratch.command("rrecv").args(wanted)).assert(9, "; ");
}

#[test]
fn a_plain_address_works_without_a_device_and_says_so() {
    if has_device("a listener without RDMA") {
        return;
    }
    let scratch = Scratch::new("no-verbs");
    fs::write(scratch.data("in"), b"by shared memory").unwrap();
    // also without -v, since it would wait for other hosts in vain
    for options in [&["-v"][..], &[]] {
        let mut rrecv = scratch.command("rrecv");
        let receiver =
            scratch.start("rrecv", rrecv.args(options).args(["--listen", ":7"]).arg(scratch.data("out")));
        let mut sender = scratch.rsend(&["-v", "localhost:7"]);
        let sent = scratch.run("rsend", sender.arg(scratch.data("in")));
        assert_told(&sent, 0, "connected by shm: auto, arrival by flag (");
        let received = receiver.wait(BOUND);
        assert_told(&received, 0, "superpipe/7.sock; other hosts cannot connect: ");
        assert_told(&received, 0, "; at the other end: rsend localhost:7\n");
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"by shared memory");
    }
    let mut server = scratch.command("rperf");
    let server = scratch.start("rperf", server.args(["serve", "--listen", ":7"]));
    let words = "other hosts cannot connect: ";
    crate::support::wait_for("rperf to say so", || server.said().contains(words));
    assert!(server.said().contains("; at the other end: rperf localhost:7\n"), "{}", server.said());
    drop(server);
    // -q leaves only errors, and --json=- only events
    for (options, other_words) in
        [(["-q", "--accept-timeout=100ms"], 1), (["--json=-", "--accept-timeout=100ms"], 2)]
    {
        let mut rrecv = scratch.command("rrecv");
        let ended = scratch.run("rrecv", rrecv.args(options).args(["--listen", ":7"]));
        assert_eq!((ended.code, ended.said.lines().count()), (3, other_words), "{}", ended.said);
        assert!(!ended.said.contains(words), "{}", ended.said);
    }
}

/// With `-v` a listener prints its address as the other end writes it, quoted for a shell.
#[test]
fn a_listener_prints_the_command_of_the_other_end() {
    let scratch = Scratch::new("how-to");
    let odd = scratch.root().join("it's odd");
    let odd_word = format!("'shm:{}'", odd.display().to_string().replace('\'', r"'\''"));
    for (listen, word) in [
        (scratch.address(), scratch.address()),
        (format!("shm:{}", odd.display()), odd_word),
        ("localhost:7".to_owned(), "localhost:7".to_owned()),
        ("127.0.0.1:7".to_owned(), "localhost:7".to_owned()),
    ] {
        let mut rrecv = scratch.command("rrecv");
        let rrecv = rrecv.args(["--accept-timeout", "100ms", "--listen", &listen]);
        scratch.run("rrecv", rrecv).assert(3, "nobody connected");
        let ended = scratch.run("rrecv", rrecv.arg("-v"));
        assert_told(&ended, 3, &format!("; at the other end: rsend {word}\n"));
    }
}

#[test]
fn rdma_options_are_refused_with_shared_memory() {
    let scratch = Scratch::new("contradictions");
    let address = scratch.address();
    for (wrong, words) in [
        (["--device", "rxe0"], "write verbs:HOST:PORT"),
        (["--gid-index", "1"], "write verbs:HOST:PORT"),
        (["--arrival", "notify"], "cannot be notified"),
        (["--protocol", "register"], "propose register-cached"),
    ] {
        for to in [&address, "localhost:7"] {
            scratch.run("rsend", &mut scratch.rsend(&[&wrong[..], &[to]].concat())).assert(2, words);
            scratch.run("rperf", scratch.command("rperf").args(wrong).arg(to)).assert(2, words);
            let listen = ["--listen", to];
            scratch.run("rrecv", scratch.command("rrecv").args(wrong).args(listen)).assert(2, words);
        }
    }
    let ended = scratch.run("rsend", &mut scratch.rsend(&["--device", "a/b", "verbs:h"]));
    assert_told(&ended, 2, "no RDMA device's name");
    scratch.assert_only(&[]);
}

#[test]
fn an_unknown_host_is_a_connect_failure() {
    let scratch = Scratch::new("no-name");
    for address in ["no-such-host.invalid:7", "verbs:no-such-host.invalid"] {
        let ended = scratch.run("rsend", &mut scratch.rsend(&["--connect-timeout", "20s", address]));
        // A host without a device may report that instead.
        assert!([3, 4, 9].contains(&ended.code), "{address}: {}", ended.said);
    }
}

#[test]
fn arrival_is_negotiated_and_reported_with_its_reason() {
    let scratch = Scratch::new("arrival");
    fs::write(scratch.data("in"), vec![7; 300_000]).unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-v", "--arrival", "checked-flag", &scratch.address()]).arg(scratch.data("in")),
        scratch.rrecv(&["-v"]).arg(option("json", &scratch.root().join("events"))).arg(scratch.data("out")),
    );
    assert_told(&sent, 0, "arrival by checked-flag (it was asked for)");
    assert_told(&received, 0, "arrival by checked-flag (it was asked for)");
    let events = fs::read_to_string(scratch.root().join("events")).unwrap();
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let connection = &events.last().unwrap()["connection"];
    assert_eq!((&connection["fabric"], &connection["device"]), (&"shm".into(), &serde_json::Value::Null));
    assert_eq!(
        (&connection["arrival"], &connection["arrival_reason"]),
        (&"checked-flag".into(), &"it was asked for".into())
    );
    assert_eq!(events[0]["settings"]["arrival"], "auto");
    assert_eq!(fs::read(scratch.data("out")).unwrap(), vec![7; 300_000]);
}

#[test]
fn core_auto_chooses_and_reports_an_allowed_core() {
    let scratch = Scratch::new("core-auto");
    fs::write(scratch.data("in"), b"x").unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["--json=-", "--core", "auto", &scratch.address()]).arg(scratch.data("in")),
        scratch.rrecv(&["-v", "--core", "auto"]).arg(scratch.data("out")),
    );
    assert_eq!(sent.code, 0, "{}", sent.said);
    assert_told(&received, 0, "of the peer");
    let core = |text: &str| {
        text.split("pinned to core ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned()
    };
    let allowed: Vec<_> = superpipe::os::allowed_cores().iter().map(|core| core.to_string()).collect();
    let ours = core(&received.said);
    assert!(allowed.contains(&ours) && (ours != "0" || allowed == ["0"]), "{ours} of {allowed:?}");
    let events: Vec<serde_json::Value> =
        sent.said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["settings"]["core"], "auto");
    let theirs = events.last().unwrap()["core"].to_string();
    assert!(
        allowed.contains(&theirs) && (theirs != ours || allowed.len() == 1),
        "{theirs} and {ours} of {allowed:?}"
    );
}
