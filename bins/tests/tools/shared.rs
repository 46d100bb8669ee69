//! Two arguments of a command that name one file: refused before any file is opened, unless that is harmless.

use crate::support::{BOUND, Mounted, Scratch, is_root, program};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const CONTENTS: &str = "what is there";

/// Arguments of each tool that name files.
const TOOLS: [(&str, &[&str]); 3] = [
    ("rsend", &["FILE", "--json", "--trace"]),
    ("rrecv", &["FILE", "--json", "--trace"]),
    ("rperf", &["--json", "--csv", "--plot", "--picture", "--trace"]),
];

/// Pairs of names of one file. Standard input and standard output are `file` in the pairs that name them.
const NAMES: [(&str, &str); 10] = [
    ("file", "file"),
    ("file", "sub/..//file"),
    ("file", "hard"),
    ("soft", "file"),
    ("new", "new"),
    ("new", "sub/../new"),
    ("dangling", "new"),
    ("/dev/fd/0", "file"),
    ("/dev/stdout", "hard"),
    ("/dev/stdout", "/dev/fd/1"),
];

impl Scratch {
    /// Creates a file with several names, and two names of a file that does not exist. Returns the names.
    fn with_names(&self) -> Vec<String> {
        fs::create_dir(self.data("sub")).unwrap();
        fs::write(self.data("file"), CONTENTS).unwrap();
        fs::hard_link(self.data("file"), self.data("hard")).unwrap();
        symlink("file", self.data("soft")).unwrap();
        symlink("new", self.data("dangling")).unwrap();
        self.names()
    }

    /// Returns a command that fails with 3, for lack of a peer, unless its names are refused.
    fn naming(&self, tool: &'static str, named: &[(&str, &str)]) -> Command {
        let mut command = self.command(tool);
        match tool {
            "rsend" => command.args(["-q", "--connect-timeout=1ms", &self.address()]),
            "rrecv" => command.args(["-q", "--accept-timeout=1ms", "--listen", &self.address()]),
            _ => command.args(["-q", "--connect-timeout=1ms", &self.address()]),
        };
        for &(argument, name) in named {
            let path = if name.starts_with('/') { name.into() } else { self.data(name) };
            if argument == "FILE" {
                command.arg(path);
            } else {
                command.arg(format!("{argument}={}", path.display()));
            }
        }
        if named.iter().any(|(_, name)| name.starts_with('/')) {
            command.stdin(self.opened("file")).stdout(self.opened("file"));
        }
        command
    }

    fn opened(&self, name: &str) -> File {
        OpenOptions::new().read(true).append(true).open(self.data(name)).unwrap()
    }

    #[track_caller]
    fn assert_as_it_was(&self, names: &[String]) {
        assert_eq!(fs::read_to_string(self.data("file")).unwrap(), CONTENTS);
        assert_eq!(self.names(), names);
    }
}

#[test]
fn two_arguments_that_name_one_file_are_refused() {
    let scratch = Scratch::new("shared");
    let names = scratch.with_names();
    for (tool, arguments) in TOOLS {
        for (index, one) in arguments.iter().enumerate() {
            for other in &arguments[index + 1..] {
                for (name, alias) in NAMES.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
                    let named = [(*one, name), (*other, alias)];
                    let ended = scratch.run(tool, &mut scratch.naming(tool, &named));
                    assert_eq!(ended.code, 2, "{tool} {named:?}: {}", ended.said);
                    ended.assert(2, "are the same file");
                    scratch.assert_as_it_was(&names);
                }
            }
        }
    }
}

#[test]
fn a_standard_stream_that_is_a_named_file_is_refused() {
    let scratch = Scratch::new("shared-streams");
    let names = scratch.with_names();
    for report in ["--json", "--trace"] {
        let mut rsend = scratch.naming("rsend", &[(report, "file")]);
        scratch.run("rsend", rsend.stdin(scratch.opened("hard"))).assert(2, "FILE (standard input)");
        let mut rrecv = scratch.naming("rrecv", &[(report, "file")]);
        scratch.run("rrecv", rrecv.stdout(scratch.opened("soft"))).assert(2, "FILE (standard output)");
        scratch.assert_as_it_was(&names);
    }
    // data and events in one output: by one descriptor, and by two
    let mut rrecv = scratch.naming("rrecv", &[("--json", "/dev/stdout")]);
    scratch.run("rrecv", &mut rrecv).assert(2, "are the same file");
    let mut both = Command::new("sh");
    both.args(["-c", "exec \"$@\" 2>&1", "sh", &program("rrecv"), "--json=-"]);
    both.args(["--accept-timeout=1ms", "--listen", &scratch.address()]).stdout(scratch.opened("file"));
    assert_eq!(both.status().unwrap().code(), Some(2));
    let kept = fs::read_to_string(scratch.data("file")).unwrap();
    assert!(kept.starts_with(CONTENTS), "{kept}");
    fs::write(scratch.data("file"), CONTENTS).unwrap();
    // the table and a report, and two reports
    let mut rperf = scratch.command("rperf");
    rperf.args(["--connect-timeout=1ms", &scratch.address()]);
    rperf.arg(format!("--csv={}", scratch.data("hard").display()));
    scratch.run("rperf", rperf.stdout(scratch.opened("file"))).assert(2, "the table (standard output)");
    let mut rperf = scratch.client(&["-q", "--csv=-", "--json=-", "--connect-timeout=1ms"]);
    scratch.run("rperf", rperf.stdout(Stdio::piped())).assert(2, "are the same file");
    scratch.assert_as_it_was(&names);
}

#[test]
fn the_null_device_may_be_shared() {
    let scratch = Scratch::new("shared-null");
    let null = ["--json=/dev/null", "--trace=/dev/null", "-q"];
    fs::write(scratch.data("in"), CONTENTS).unwrap();
    let (sender, receiver) = scratch.pair(
        scratch.rsend(&null).arg(scratch.address()).arg(scratch.data("in")),
        scratch.rrecv(&null).arg("/dev/null"),
    );
    sender.assert_done();
    receiver.assert_done();
    // different files are accepted
    let own =
        |of: &str, report: &str| format!("--{report}={}", scratch.data(&format!("{of}.{report}")).display());
    let (sender, receiver) = scratch.pair(
        scratch
            .rsend(&["-q", &own("rsend", "json"), &own("rsend", "trace"), &scratch.address()])
            .arg(scratch.data("in")),
        scratch.rrecv(&["-q", &own("rrecv", "json"), &own("rrecv", "trace")]).arg(scratch.data("out")),
    );
    sender.assert_done();
    receiver.assert_done();
    assert_eq!(fs::read_to_string(scratch.data("out")).unwrap(), CONTENTS);
    scratch.assert_only(&["in", "out", "rrecv.json", "rrecv.trace", "rsend.json", "rsend.trace"]);
    let server = scratch.start_server(&["-q", "--trace=/dev/null"]);
    let all = ["json", "csv", "plot", "picture", "trace"].map(|report| format!("--{report}=/dev/null"));
    let mut client = scratch.client(&["-q", "--sizes=1K", "--iterations=3", "--warmup=1"]);
    scratch.run("rperf", client.args(all)).assert_done();
    server.wait(BOUND).assert_done();
}

/// An overlay and its upper directory give one file two names with different inode numbers.
#[test]
fn a_trace_does_not_replace_data_under_an_alias() {
    if !is_root("an overlay") {
        return;
    }
    let scratch = Scratch::new("shared-overlay");
    let root = scratch.root().join("disk");
    fs::create_dir(&root).unwrap();
    let Some(_disk) = Mounted::new(&["-t", "tmpfs"], Path::new("x"), &root) else {
        eprintln!("NOT TESTED: an overlay");
        return;
    };
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
    let (out, input) = (root.join("merged/out"), scratch.source("in", b"data"));
    let trace = format!("--trace={}", root.join("upper/out").display());
    let receiver = scratch.start_rrecv(scratch.rrecv(&["-q", &trace]).arg(&out));
    let sent = scratch.send(&input);
    let received = receiver.wait(BOUND);
    let found = fs::read(&out).unwrap();
    assert!(found == b"data", "{sent:?} {received:?}: {}", String::from_utf8_lossy(&found[..20]));
}

#[test]
fn events_in_the_file_of_standard_error_are_refused() {
    let scratch = Scratch::new("shared-events");
    let (log, input) = (scratch.data("log"), scratch.source("in", b"data"));
    let mut rsend = scratch.rsend(&["-v", "--connect-timeout=1ms", "--json=log", &scratch.address()]);
    rsend.current_dir(scratch.data("")).arg(&input).stderr(File::create(&log).unwrap());
    let status = rsend.status().unwrap();
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("are the same file"), "{said}");
}

/// nohup makes standard error the file of standard output.
#[test]
fn messages_in_the_file_of_the_data_are_refused() {
    for script in [r#"exec "$@" > out 2>&1"#, r#""$@" 2>&1 | cat > out"#] {
        let scratch = Scratch::new("shared-messages");
        let input = scratch.source("in", b"data");
        let mut receiver = scratch.start("rrecv", &mut scratch.shell(script, &[]));
        if scratch.listens(&mut receiver) {
            scratch.send(&input);
        }
        let ended = receiver.wait(BOUND);
        let found = fs::read_to_string(scratch.data("out")).unwrap();
        // a pipeline has the exit code of its last command
        assert!(ended.code == 2 || script.contains('|'), "{found:?} with {}", ended.code);
        let words = "rrecv: FILE (standard output) and messages (standard error)";
        assert!(found.starts_with(words), "{found:?} with {}", ended.code);
    }
}
