//! Addresses that are in use, stale, or another user's.

use crate::support::{BOUND, NOBODY, Scratch, is_root, option, wait_for};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn an_address_in_use_is_refused() {
    let scratch = Scratch::new("in-use");
    let first = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    scratch.run("rrecv", &mut scratch.rrecv(&[])).assert(3, "another process listens there");
    fs::write(scratch.data("in"), b"still there").unwrap();
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    first.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"still there");
    fs::write(scratch.socket(), b"a file").unwrap();
    scratch.run("rrecv", &mut scratch.rrecv(&[])).assert(3, "no socket");
    assert_eq!(fs::read(scratch.socket()).unwrap(), b"a file");
    scratch
        .run("rsend", &mut scratch.rsend(&["--connect-timeout", "200ms", &scratch.address()]))
        .assert(3, "cannot connect");
}

#[test]
fn a_stale_socket_is_replaced() {
    let scratch = Scratch::new("stale");
    let mut dead = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    dead.kill();
    assert_eq!(dead.wait(BOUND).code, -9);
    assert!(scratch.socket().exists());
    scratch
        .run("rsend", &mut scratch.rsend(&["--connect-timeout", "200ms", &scratch.address()]))
        .assert(3, "cannot connect");
    fs::write(scratch.data("in"), b"x").unwrap();
    let receiver = scratch.start("rrecv", scratch.rrecv(&["-v"]).arg(scratch.data("out")));
    wait_for("rrecv to listen", || receiver.said().contains("listening"));
    scratch.run("rsend", scratch.rsend(&[&scratch.address()]).arg(scratch.data("in"))).assert_done();
    assert_eq!(receiver.wait(BOUND).code, 0);
    scratch.assert_only(&["in", "out"]);
}

#[test]
fn the_default_address_is_a_port_of_this_user() {
    let scratch = Scratch::new("port");
    let receiver = scratch.start("rrecv", scratch.command("rrecv").arg(scratch.data("out")));
    wait_for("rrecv to listen", || scratch.root().join("superpipe/7471.sock").exists());
    fs::write(scratch.data("in"), b"by port").unwrap();
    scratch.run("rsend", scratch.rsend(&["localhost:7471"]).arg(scratch.data("in"))).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"by port");
    assert_eq!(fs::read_dir(scratch.root().join("superpipe")).unwrap().count(), 0);
    scratch
        .run("rrecv", scratch.command("rrecv").args(["--listen", "192.0.2.1:7471"]))
        .assert(3, "another host");
    fs::set_permissions(scratch.root().join("superpipe"), Permissions::from_mode(0o755)).unwrap();
    scratch.run("rrecv", &mut scratch.command("rrecv")).assert(3, "lets others in");
}

#[test]
fn port_0_chooses_a_free_port_and_reports_it() {
    let scratch = Scratch::new("port-0");
    let events = scratch.root().join("events");
    fs::write(scratch.data("in"), b"by a free port").unwrap();
    for listen in ["localhost:0", ":0"] {
        let mut rrecv = scratch.command("rrecv");
        rrecv.args(["--listen", listen]).arg(option("json", &events)).arg(scratch.data("out"));
        let receiver = scratch.start("rrecv", &mut rrecv);
        let told = || fs::read_to_string(&events).unwrap_or_default();
        wait_for("rrecv to name its port", || {
            told().contains(r#"{"event":"listening""#) && told().ends_with('\n')
        });
        let said = receiver.said();
        let address = said.strip_prefix("rrecv: listening at ").unwrap().split(' ').next().unwrap();
        assert!(!address.ends_with(":0"), "{said}");
        let event = format!(r#"{{"event":"listening","address":"{address}"}}"#);
        assert!(told().contains(&event), "{}", told());
        scratch.run("rsend", scratch.rsend(&[address]).arg(scratch.data("in"))).assert_done();
        receiver.wait(BOUND).assert_done();
        assert_eq!(fs::read(scratch.data("out")).unwrap(), b"by a free port");
        fs::remove_file(&events).unwrap();
    }
    scratch.run("rsend", &mut scratch.rsend(&["localhost:0"])).assert(2, "port 0 stands for any free port");
}

#[test]
fn another_users_socket_is_refused() {
    if !is_root("another user's socket") {
        return;
    }
    let scratch = Scratch::new("foreign");
    scratch.open_to_all();
    // the socket is root's; rsend and rrecv are nobody's
    let receiver = scratch.start_rrecv(&mut scratch.rrecv(&[]));
    let rsend = scratch.rsend(&["--connect-timeout", "200ms", &scratch.address()]);
    scratch.run("rsend", &mut scratch.as_nobody(&rsend)).assert(7, "");
    let rrecv = scratch.rrecv(&[]);
    scratch.run("rrecv", &mut scratch.as_nobody(&rrecv)).assert(7, "uid 0 has a socket there");
    receiver.signal("TERM");
    receiver.wait(BOUND).assert(143, "");
    // nobody's directory in the place of root's
    let port_dir = scratch.root().join("superpipe");
    fs::create_dir(&port_dir).unwrap();
    std::os::unix::fs::chown(&port_dir, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o700)).unwrap();
    scratch.run("rsend", &mut scratch.rsend(&["localhost"])).assert(3, &format!("belongs to uid {NOBODY}"));
    scratch.run("rrecv", &mut scratch.command("rrecv")).assert(3, &format!("belongs to uid {NOBODY}"));
}

#[test]
fn a_different_runtime_directory_is_reported() {
    let scratch = Scratch::new("runtime-dir");
    let mut rrecv = scratch.command("rrecv");
    rrecv.env_remove("XDG_RUNTIME_DIR").args(["--listen", "localhost:0"]).arg(scratch.data("out"));
    let receiver = scratch.start("rrecv", &mut rrecv);
    wait_for("rrecv to name its port", || receiver.said().ends_with('\n'));
    let said = receiver.said();
    let address = said.strip_prefix("rrecv: listening at ").unwrap().split(' ').next().unwrap();
    let rsend = scratch.run("rsend", &mut scratch.rsend(&["--connect-timeout", "200ms", address]));
    rsend.assert(3, "start the receiver first; there is a socket of yours at /tmp/superpipe-");
    assert!(rsend.said.contains("XDG_RUNTIME_DIR must be the same at both ends"), "{}", rsend.said);
    receiver.signal("TERM");
    receiver.wait(BOUND);
}
