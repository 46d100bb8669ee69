//! Processes of other users at shm:PATH: as peers, and as obstacles to a listener.

use crate::support::{BOUND, NOBODY, Scratch, is_root};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn a_peer_of_another_user_needs_peer_uid() {
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

    // a listener of the user nobody in the place of root's
    let mut rrecv = scratch.rrecv(&[]);
    let receiver = scratch.start_rrecv(&mut scratch.as_nobody(rrecv.arg(scratch.data("out"))));
    let words = format!("the peer, process {}, belongs to uid {NOBODY}", receiver.id());
    let refused = scratch.run("rsend", &mut rsend(&[]));
    refused.assert(7, &words);
    assert!(refused.said.contains(&format!("--peer-uid {NOBODY}")), "{}", refused.said);
    receiver.until_it_goes_on("belongs to uid 0");
    scratch.run("rsend", &mut rsend(&["--peer-uid", "4711"])).assert(7, "and uid 4711 is asked for");
    // root needs permission like other users
    scratch.run("rsend", &mut rsend(&own)).assert(7, &format!("it takes peers of uid {NOBODY} only"));
    assert!(!scratch.data("out").exists());
    receiver.signal("TERM");
    receiver.wait(BOUND);

    // only the receiver accepts the other user, then both ends do
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
fn peer_uid_is_refused_over_rdma() {
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
fn a_foreign_lock_does_not_stop_a_listener() {
    let scratch = Scratch::new("locks");
    fs::write(scratch.data("in"), b"x").unwrap();
    // a process that can read the directory can lock it
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

/// In a user namespace every unmapped user has the uid 65534. A process that has this uid itself must not take all of them for its
/// own user.
#[test]
fn a_listener_behind_the_overflow_uid_is_refused() {
    if !is_root("a listener of another user, seen from a user namespace") {
        return;
    }
    let can_unshare = Command::new("unshare").args(["-U", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        return eprintln!("NOT TESTED without user namespaces");
    }
    let scratch = Scratch::new("overflow-uid");
    scratch.open_to_all();
    fs::write(scratch.data("secret"), b"for this user's eyes").unwrap();
    fs::set_permissions(scratch.data("secret"), Permissions::from_mode(0o644)).unwrap();
    // Outside of the namespace, the listener's uid is 65534 and rsend's is 0.
    let out = scratch.data("out");
    let mut foreign = scratch.as_nobody(scratch.rrecv(&["--peer-uid", "0"]).arg(&out));
    let receiver = scratch.start_rrecv(&mut foreign);
    fs::set_permissions(scratch.socket(), Permissions::from_mode(0o666)).unwrap();
    let rsend = scratch.rsend(&["--connect-timeout", "3s", &scratch.address()]);
    let mut inside = Command::new("unshare");
    inside.arg("-U").arg(rsend.get_program()).args(rsend.get_args()).arg(scratch.data("secret"));
    let ended = scratch.run("rsend", inside.stdin(Stdio::null()));
    let got = fs::read(&out).unwrap_or_default();
    drop(receiver);
    assert!(got.is_empty(), "uid {NOBODY} outside got the file of uid 0; rsend said: {}", ended.said);
    assert_eq!(ended.code, 7, "{}", ended.said);
}

/// Only texts about users name the option `peer_uid` of the library. A path may have the word, and is printed as it is.
#[test]
fn a_path_that_has_the_name_of_an_option_is_printed_as_it_is() {
    let scratch = Scratch::new("option-in-path");
    fs::write(scratch.data("in"), b"x").unwrap();
    let address = format!("shm:{}/a peer_uid b", scratch.root().display());
    let mut rsend = scratch.rsend(&["--connect-timeout", "100ms", &address]);
    scratch.run("rsend", rsend.arg(scratch.data("in"))).assert(3, "/a peer_uid b: no such socket");
}
