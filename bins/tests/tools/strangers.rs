//! Other users at shm:PATH: who may be a peer, and who can keep a receiver from listening.

use crate::support::{BOUND, NOBODY, Scratch, is_root};
use std::fs::{self, File};

#[test]
fn another_user_gets_and_gives_nothing_unasked() {
    if !is_root("peers of another user") {
        return;
    }
    let scratch = Scratch::new("strangers");
    scratch.open_to_all();
    fs::write(scratch.data("in"), b"secret").unwrap();
    let rsend = |options: &[&str]| {
        let mut command = scratch.rsend(options);
        command.arg(scratch.address()).arg(scratch.data("in"));
        command
    };
    let nobody = NOBODY.to_string();
    let own = ["--peer-uid", &nobody];

    // a listener of nobody's where root's was meant
    let mut rrecv = scratch.rrecv(&[]);
    let receiver = scratch.start_rrecv(&mut scratch.as_nobody(rrecv.arg(scratch.data("out"))));
    let words = format!("the peer, process {}, belongs to uid {NOBODY}", receiver.id());
    let refused = scratch.run("rsend", &mut rsend(&[]));
    refused.assert(7, &words);
    assert!(refused.said.contains(&format!("--peer-uid {NOBODY}")), "{}", refused.said);
    receiver.until_it_goes_on("belongs to uid 0");
    scratch.run("rsend", &mut rsend(&["--peer-uid", "4711"])).assert(7, "and uid 4711 is asked for");
    // root is no exception where it comes unasked
    scratch.run("rsend", &mut rsend(&own)).assert(7, &format!("it takes peers of uid {NOBODY} only"));
    assert!(!scratch.data("out").exists());
    receiver.signal("TERM");
    receiver.wait(BOUND);

    // one asks for the other, and then both do
    let mut rrecv = scratch.rrecv(&["-v", "--peer-uid", "0"]);
    let receiver = scratch.start_rrecv(&mut scratch.as_nobody(rrecv.arg(scratch.data("out"))));
    let named = format!("the peer is process {} of uid {NOBODY}", receiver.id());
    scratch.run("rsend", &mut rsend(&[])).assert(7, &format!("belongs to uid {NOBODY}"));
    receiver.until_it_goes_on("it takes peers of uid 0 only");
    let sent = scratch.run("rsend", rsend(&own).arg("-v"));
    sent.assert_done();
    assert!(sent.said.contains(&named), "{} lacks {named}", sent.said);
    let received = receiver.wait(BOUND);
    received.assert_done();
    assert!(received.said.contains("of uid 0"), "{}", received.said);
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"secret");
    scratch.assert_only(&["in", "out"]);
}

#[test]
fn a_user_cannot_be_asked_for_where_nobody_tells_users() {
    let scratch = Scratch::new("no-users");
    let asked = ["--peer-uid", "0"];
    for address in ["verbs:localhost:7", "192.0.2.1:7"] {
        let words = "over RDMA nobody tells the peer's user";
        scratch.run("rsend", scratch.rsend(&asked).arg(address)).assert(2, words);
    }
    for address in ["verbs::7", ":7"] {
        let words = "over RDMA nobody tells the peer's user";
        scratch
            .run("rrecv", scratch.command("rrecv").args(asked).args(["--listen", address]))
            .assert(2, words);
    }
}

#[test]
fn nobody_elses_lock_keeps_a_receiver_from_listening() {
    let scratch = Scratch::new("locks");
    fs::write(scratch.data("in"), b"x").unwrap();
    // whoever can read the directory can lock it
    let directory = File::open(scratch.root()).unwrap();
    directory.try_lock().unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")),
        scratch.rrecv(&[]).arg(scratch.data("out")),
    );
    assert_eq!((sent.code, received.code), (0, 0), "{} {}", sent.said, received.said);
    if is_root("a lock that another user has made") {
        let squatted = scratch.root().join(".socket.superpipe-lock");
        let file = File::create(&squatted).unwrap();
        std::os::unix::fs::chown(&squatted, Some(NOBODY), Some(NOBODY)).unwrap();
        file.try_lock().unwrap();
        let (sent, received) = scratch.pair(
            scratch.rsend(&[&scratch.address()]).arg(scratch.data("in")),
            scratch.rrecv(&[]).arg(scratch.data("out")),
        );
        assert_eq!((sent.code, received.code), (0, 0), "{} {}", sent.said, received.said);
        assert!(squatted.exists());
    }
    scratch.assert_only(&["in", "out"]);
}
