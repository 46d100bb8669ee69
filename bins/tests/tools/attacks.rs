//! Attacks on the side of files that succeeded once, each with what must come of it.

use crate::ahead::Mounted;
use crate::support::{BOUND, Scratch, Tool, is_root, wait_for};
use core::time::Duration;
use rustix::fs::{XattrFlags, setxattr};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// A source of these bytes.
fn source(scratch: &Scratch, name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch.root().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A shell that runs `script`, in which "$@" is an rrecv with these arguments.
fn shell(scratch: &Scratch, script: &str, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_rrecv"), "--listen", &scratch.address()]);
    shell.args(arguments).env("DATA", scratch.data("")).current_dir(scratch.data(""));
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    shell
}

/// Waits until an rsend with `--json` has opened its source.
fn until_begun(events: &Path) {
    wait_for("rsend to begin", || fs::read_to_string(events).is_ok_and(|text| text.contains("start")));
}

fn send(scratch: &Scratch, input: &Path) -> i32 {
    scratch.run("rsend", scratch.rsend(&["-q", &scratch.address()]).arg(input)).code
}

#[test]
fn append_to_a_log_that_is_rotated_is_not_lost_with_success() {
    for is_replaced in [false, true] {
        let scratch = Scratch::new("attack-rotated");
        let (log, input) = (scratch.data("log"), source(&scratch, "in", b"data"));
        fs::write(&log, b"old").unwrap();
        let receiver = scratch.start_rrecv(scratch.rrecv(&["-q", "--append"]).arg(&log));
        fs::remove_file(&log).unwrap();
        if is_replaced {
            fs::write(&log, b"new|").unwrap();
        }
        let sent = send(&scratch, &input);
        let received = receiver.wait(BOUND);
        let is_there = fs::read(&log).is_ok_and(|found| found.ends_with(b"data"));
        assert!(is_there || (sent, received.code) == (8, 8), "{sent} {received:?}, and the data are nowhere");
    }
}

#[test]
fn append_adds_to_the_end_of_a_descriptor_or_refuses_it() {
    let scratch = Scratch::new("attack-append-descriptor");
    let (log, input) = (scratch.data("log"), source(&scratch, "in", b"data"));
    for (script, name) in [(r#"exec "$@" 7<> log"#, "/dev/fd/7"), (r#"exec "$@" 1<> log"#, "-")] {
        fs::write(&log, b"precious").unwrap();
        let mut tool = scratch.start("rrecv", &mut shell(&scratch, script, &["-q", "--append", name]));
        wait_for("rrecv", || scratch.socket().exists() || tool.has_ended());
        if !tool.has_ended() {
            send(&scratch, &input);
        }
        let ended = tool.wait(BOUND);
        let found = fs::read_to_string(&log).unwrap();
        assert!(found.starts_with("precious"), "{found:?} with {}", ended.code);
    }
}

#[test]
fn neither_no_clobber_nor_append_overwrites_a_disk() {
    if !is_root("a block device") {
        return;
    }
    for option in ["--no-clobber", "--append"] {
        let scratch = Scratch::new("attack-disk");
        let (image, input) = (scratch.root().join("image"), source(&scratch, "in", b"data"));
        fs::write(&image, [b"precious".to_vec(), vec![0; 1 << 20]].concat()).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&image).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            eprintln!("NOT TESTED: a block device");
            return;
        };
        let disk = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let mut tool = scratch.start("rrecv", &mut scratch.rrecv(&["-q", option, &disk]));
        wait_for("rrecv", || scratch.socket().exists() || tool.has_ended());
        if !tool.has_ended() {
            send(&scratch, &input);
        }
        let ended = tool.wait(BOUND);
        let begin = fs::read(&disk).unwrap()[..8].to_vec();
        assert!(Command::new("losetup").args(["-d", &disk]).status().unwrap().success());
        assert_eq!(String::from_utf8(begin).unwrap(), "precious", "{option}: {}", ended.code);
    }
}

#[test]
fn a_descriptor_by_another_proc_is_a_descriptor() {
    if !is_root("a second /proc") {
        return;
    }
    let scratch = Scratch::new("attack-proc");
    fs::create_dir(scratch.root().join("proc")).unwrap();
    let at = scratch.root().join("proc");
    let Some(_mounted) = Mounted::new(&["-t", "proc"], Path::new("proc"), &at) else {
        eprintln!("NOT TESTED: a second /proc");
        return;
    };
    let (log, input) = (scratch.data("log"), source(&scratch, "in", b"data"));
    fs::write(&log, b"before|").unwrap();
    let name = at.join("self/fd/1").display().to_string();
    let mut tool = scratch.start("rrecv", &mut shell(&scratch, r#"exec "$@" >> log"#, &["-q", &name]));
    wait_for("rrecv", || scratch.socket().exists() || tool.has_ended());
    if !tool.has_ended() {
        send(&scratch, &input);
    }
    let ended = tool.wait(BOUND);
    let found = fs::read_to_string(&log).unwrap();
    assert!(found.starts_with("before|"), "{found:?} with {}", ended.code);
}

#[test]
fn a_trace_does_not_replace_the_data_by_an_alias_that_nobody_knew() {
    if !is_root("an overlay") {
        return;
    }
    let scratch = Scratch::new("attack-alias");
    let root = scratch.root().join("disk");
    fs::create_dir(&root).unwrap();
    let Some(_disk) = Mounted::new(&["-t", "tmpfs"], Path::new("x"), &root) else { return };
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let of = |name: &str| root.join(name).display().to_string();
    let layers = format!("lowerdir={},upperdir={},workdir={}", of("lower"), of("upper"), of("work"));
    let Some(_merged) = Mounted::new(&["-t", "overlay", "-o", &layers], Path::new("x"), &root.join("merged"))
    else {
        eprintln!("NOT TESTED: an overlay");
        return;
    };
    let (out, input) = (root.join("merged/out"), source(&scratch, "in", b"data"));
    let trace = format!("--trace={}", root.join("upper/out").display());
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-q", &trace]).arg(&out));
    let sent = send(&scratch, &input);
    let received = receiver.wait(BOUND);
    let found = fs::read(&out).unwrap();
    assert!(found == b"data", "{sent} {received:?}: {}", String::from_utf8_lossy(&found[..20]));
}

#[test]
fn without_proc_a_new_file_is_no_more_open_than_the_old_one() {
    const ANY: u32 = u32::MAX;
    if !is_root("no /proc") {
        return;
    }
    let scratch = Scratch::new("attack-acl");
    let (out, input) = (scratch.data("out"), source(&scratch, "in", b"data"));
    fs::write(&out, b"old").unwrap();
    let mut list = vec![2, 0, 0, 0];
    for (tag, rights, of) in
        [(0x01_u16, 6_u16, ANY), (0x02, 6, 1000), (0x04, 0, ANY), (0x10, 6, ANY), (0x20, 0, ANY)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(of.to_le_bytes());
    }
    setxattr(&out, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", r#"umount -l /proc && exec "$@""#, "sh", env!("CARGO_BIN_EXE_rrecv")]);
    command.args(["-q", "--listen", &scratch.address()]).arg(&out).stdin(Stdio::null());
    let receiver = scratch.start_rrecv(&mut command);
    let sent = send(&scratch, &input);
    let received = receiver.wait(BOUND);
    assert_eq!((sent, received.code), (0, 0), "{}", received.said);
    let has_list = rustix::fs::getxattr(&out, "system.posix_acl_access", &mut [0_u8; 256][..]).is_ok();
    let mode = fs::metadata(&out).unwrap().mode() & 0o777;
    assert!(has_list || mode & 0o070 == 0, "mode {mode:o} and no list: the group may do what it was denied");
}

#[test]
fn without_proc_what_a_killed_rrecv_leaves_in_a_directory_is_swept() {
    if !is_root("no /proc") {
        return;
    }
    let scratch = Scratch::new("attack-swept");
    let input = source(&scratch, "in", b"data");
    let receive = || -> Tool {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", r#"umount -l /proc && exec "$@""#, "sh"]);
        command.args([env!("CARGO_BIN_EXE_rrecv"), "-q", "--listen", &scratch.address(), "--preserve"]);
        let _ = fs::remove_file(scratch.socket());
        scratch.start_rrecv(command.arg(scratch.data("")).stdin(Stdio::null()))
    };
    let mut killed = receive();
    killed.kill();
    killed.wait(BOUND);
    let receiver = receive();
    scratch.run("rsend", scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input)).assert_done();
    receiver.wait(BOUND).assert_done();
    assert_eq!(scratch.names(), ["in"]);
}

#[test]
fn an_empty_file_that_grows_is_announced_as_empty() {
    let scratch = Scratch::new("attack-empty");
    let (input, events) = (source(&scratch, "in", b""), scratch.root().join("events"));
    let mut rsend = scratch.rsend(&["--connect-timeout", "1h", &scratch.address()]);
    rsend.arg(format!("--json={}", events.display())).arg(&input);
    let sender = scratch.start("rsend", &mut rsend);
    until_begun(&events);
    thread::sleep(Duration::from_millis(50));
    OpenOptions::new().append(true).open(&input).unwrap().write_all(b"more").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    let (sent, received) = (sender.wait(BOUND), receiver.wait(BOUND));
    let copied = fs::read(scratch.data("out")).unwrap();
    assert!(copied.is_empty(), "{} bytes, with {} {}", copied.len(), sent.code, received.code);
    assert!(sent.said.contains("grew") && received.said.contains("grew"));
}

#[test]
fn a_remark_survives_a_long_name() {
    let scratch = Scratch::new("attack-remark");
    let input = source(&scratch, &"n".repeat(240), b"data");
    let events = scratch.root().join("events");
    let mut rsend = scratch.rsend(&["--connect-timeout", "1h", &scratch.address()]);
    rsend.current_dir(scratch.root()).arg(format!("--json={}", events.display()));
    let sender = scratch.start("rsend", rsend.arg(input.file_name().unwrap()));
    until_begun(&events);
    thread::sleep(Duration::from_millis(50));
    OpenOptions::new().append(true).open(&input).unwrap().write_all(b"more").unwrap();
    let receiver = scratch.start_rrecv(scratch.rrecv(&[]).arg(scratch.data("out")));
    sender.wait(BOUND).assert_done();
    let received = receiver.wait(BOUND);
    received.assert_done();
    assert!(received.said.contains("grew"), "{}", received.said);
}

#[test]
fn a_name_that_cannot_cross_costs_no_transfer_that_needs_none() {
    let scratch = Scratch::new("attack-newline");
    let input = source(&scratch, "a\nb", b"data");
    for options in [&["-q"][..], &["-q", "--preserve"]] {
        let mut receiver = scratch.start_rrecv(scratch.rrecv(options).arg(scratch.data("out")));
        let sent = scratch.run("rsend", scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input));
        if sent.code != 0 {
            receiver.kill();
        }
        receiver.wait(BOUND);
        sent.assert_done();
    }
}

#[test]
fn a_peers_name_cannot_steer_a_terminal() {
    let scratch = Scratch::new("attack-names");
    fs::write(scratch.data("a\u{202E}gpj.exe"), b"old").unwrap();
    for (name, options) in
        [("a\u{202E}gpj.exe", &["--no-clobber", "--preserve"][..]), ("a\u{9b}2Jb", &["--preserve"])]
    {
        let input = source(&scratch, name, b"data");
        let mut receiver = scratch.start_rrecv(scratch.rrecv(options).arg(scratch.data("")));
        scratch.run("rsend", scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input));
        thread::sleep(Duration::from_millis(100));
        if !receiver.has_ended() {
            receiver.kill();
        }
        let said = receiver.wait(BOUND).said;
        assert!(!said.contains('\u{202E}'), "{said}");
        // wire.md 8.1: without control characters
        assert!(!scratch.names().iter().any(|name| name.contains('\u{9b}')), "{:?}", scratch.names());
    }
}

#[test]
fn a_limit_that_an_append_will_meet_is_told_before() {
    let scratch = Scratch::new("attack-limit");
    let (log, input) = (scratch.data("log"), source(&scratch, "in", &[7; 1_000_000]));
    fs::write(&log, vec![1; 1_500_000]).unwrap();
    // in blocks of 512 bytes: 2048000 bytes, enough for a segment
    let script = r#"ulimit -f 4000; exec "$@""#;
    let receiver = scratch.start_rrecv(&mut shell(&scratch, script, &["--append", "log"]));
    assert_eq!(send(&scratch, &input), 8);
    assert_eq!(receiver.wait(BOUND).code, 8);
    assert_eq!(fs::metadata(&log).unwrap().len(), 1_500_000, "some of it was written");
}

#[test]
fn a_sender_that_is_held_back_shows_life() {
    let scratch = Scratch::new("attack-slow");
    let input = source(&scratch, "in", b"data");
    let receiver =
        scratch.start_rrecv(scratch.rrecv(&["-q", "--idle-timeout", "400ms"]).arg(scratch.data("out")));
    let sent =
        scratch.run("rsend", scratch.rsend(&["-q", "--rate-limit", "1", &scratch.address()]).arg(&input));
    receiver.wait(BOUND).assert_done();
    sent.assert_done();
}

#[test]
fn events_that_share_a_file_with_standard_error_are_refused_or_whole() {
    let scratch = Scratch::new("attack-events");
    let (log, input) = (scratch.data("log"), source(&scratch, "in", b"data"));
    let mut rsend = scratch.rsend(&["-v", "--json=log", &scratch.address()]);
    rsend.current_dir(scratch.data("")).arg(&input).stderr(File::create(&log).unwrap());
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-q"]).arg(scratch.data("out")));
    let code = rsend.spawn().unwrap().wait().unwrap().code();
    let mut receiver = receiver;
    if code == Some(2) {
        receiver.kill();
    }
    receiver.wait(BOUND);
    let said = fs::read_to_string(&log).unwrap();
    assert!(code == Some(2) || said.lines().any(|line| line.starts_with(r#"{"event":"start""#)), "{said}");
}

#[test]
fn a_file_whose_owner_alone_can_be_given_is_replaced() {
    if !is_root("a process that may give files away and not act for their owners") {
        return;
    }
    let scratch = Scratch::new("attack-fowner");
    let (out, input) = (scratch.data("out"), source(&scratch, "in", b"data"));
    fs::write(&out, b"old").unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&out, Some(65534), Some(65534)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-fowner", "--inh-caps=-fowner", env!("CARGO_BIN_EXE_rrecv"), "-q"]);
    command.args(["--listen", &scratch.address()]).arg(&out).stdin(Stdio::null());
    let receiver = scratch.start_rrecv(&mut command);
    assert_eq!((send(&scratch, &input), receiver.wait(BOUND).code), (0, 0));
}

#[test]
fn what_rrecv_says_does_not_stand_in_the_data() {
    // as nohup does it: standard error is standard output
    for script in [r#"exec "$@" > out 2>&1"#, r#""$@" 2>&1 | cat > out"#] {
        let scratch = Scratch::new("attack-nohup");
        let input = source(&scratch, "in", b"data");
        let mut tool = scratch.start("rrecv", &mut shell(&scratch, script, &[]));
        wait_for("rrecv", || scratch.socket().exists() || tool.has_ended());
        if !tool.has_ended() {
            send(&scratch, &input);
        }
        let ended = tool.wait(BOUND);
        let found = fs::read_to_string(scratch.data("out")).unwrap();
        // of a pipeline the code is that of its last command
        let is_refused = found.starts_with("rrecv: FILE (standard output) and messages (standard error)");
        assert!(ended.code == 2 || is_refused, "{found:?} with {}", ended.code);
    }
}

#[test]
fn a_mode_that_is_preserved_lets_in_nobody_whom_the_list_kept_out() {
    const ANY: u32 = u32::MAX;
    let scratch = Scratch::new("attack-mask");
    let (out, input) = (scratch.data("out"), source(&scratch, "in", b"data"));
    fs::set_permissions(&input, fs::Permissions::from_mode(0o660)).unwrap();
    fs::write(&out, b"old").unwrap();
    let mut list = vec![2, 0, 0, 0];
    // user 65534 is named, and the mask leaves it nothing
    for (tag, rights, of) in
        [(0x01_u16, 6_u16, ANY), (0x02, 6, 65534), (0x04, 0, ANY), (0x10, 0, ANY), (0x20, 0, ANY)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(of.to_le_bytes());
    }
    setxattr(&out, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    let (sent, received) = scratch.pair(
        scratch.rsend(&["-q", "--preserve", &scratch.address()]).arg(&input),
        scratch.rrecv(&["-q", "--preserve"]).arg(&out),
    );
    sent.assert_done();
    received.assert_done();
    let mut now = [0_u8; 256];
    let Ok(bytes) = rustix::fs::getxattr(&out, "system.posix_acl_access", &mut now[..]) else { return };
    let rights = |tag: u8| now[4..bytes].chunks(8).find(|entry| entry[0] == tag).map_or(0, |entry| entry[2]);
    assert_eq!(rights(0x02) & rights(0x10), 0, "user 65534 may read what neither file let it read");
}

#[test]
fn a_limit_that_no_connection_can_be_made_with_ends_rrecv() {
    let scratch = Scratch::new("attack-hopeless");
    let input = source(&scratch, "in", b"data");
    let script = r#"ulimit -f 100; exec "$@""#;
    let mut tool = scratch.start("rrecv", &mut shell(&scratch, script, &["-q", "out"]));
    wait_for("rrecv", || scratch.socket().exists() || tool.has_ended());
    if !tool.has_ended() {
        assert_eq!(send(&scratch, &input), 9);
    }
    wait_for("rrecv to end", || tool.has_ended());
    assert_eq!(tool.wait(BOUND).code, 9);
}

#[test]
fn an_old_file_below_a_private_directory_is_replaced() {
    if !is_root("another user") {
        return;
    }
    let scratch = Scratch::new("attack-cwd");
    scratch.open_to_all();
    let below = scratch.data("private/below");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("out"), b"old").unwrap();
    for (path, mode) in [(below.join("out"), 0o666), (below.clone(), 0o777), (scratch.data("private"), 0o700)]
    {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let input = source(&scratch, "in", b"data");
    let nobody = scratch.as_nobody(&scratch.rrecv(&["-q", "out"]));
    // entered before the rights are given up, as sudo and services do
    let mut rrecv = Command::new("setpriv");
    rrecv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(nobody.get_program());
    rrecv.args(nobody.get_args()).current_dir(&below).stdin(Stdio::null());
    let mut receiver = scratch.start("rrecv", &mut rrecv);
    wait_for("rrecv", || scratch.socket().exists() || receiver.has_ended());
    assert!(!receiver.has_ended(), "{}", receiver.said());
    let mut rsend = scratch.rsend(&["-q", &scratch.address()]);
    scratch.run("rsend", &mut scratch.as_nobody(rsend.arg(&input))).assert_done();
    receiver.wait(BOUND).assert_done();
}
