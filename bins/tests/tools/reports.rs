//! Reports: their options and outputs, and the end of a run whose report cannot be written.

use crate::support::{BOUND, Ended, Scratch, Tool, mkfifo, option, program};
use core::time::Duration;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Options for reports of each tool.
const REPORTS: [(&str, &[&str]); 3] = [
    ("rsend", &["--json", "--trace"]),
    ("rrecv", &["--json", "--trace"]),
    ("rperf", &["--json", "--csv", "--plot", "--picture", "--trace"]),
];

impl Scratch {
    /// Returns a command without a peer, in the directory of the data.
    fn alone(&self, tool: &'static str) -> Command {
        let mut command = self.command(tool);
        match tool {
            "rrecv" => command.args(["--accept-timeout=1ms", "--listen", &self.address()]),
            _ => command.arg("--connect-timeout=1ms"),
        };
        command.current_dir(self.data(""));
        command
    }
}

#[test]
fn a_report_takes_no_other_argument_for_its_file() {
    let scratch = Scratch::new("reports-equals");
    fs::write(scratch.data("copy.img"), "precious").unwrap();
    for (tool, reports) in REPORTS {
        for report in reports {
            for wrong in
                [&[*report, "copy.img"][..], &[report, "localhost", "copy.img"], &[&format!("{report}=")]]
            {
                let ended = scratch.run(tool, scratch.alone(tool).args(wrong));
                assert_eq!(ended.code, 2, "{tool} {wrong:?}: {}", ended.said);
                let words = format!("{report}=<FILE>");
                assert!(ended.said.contains(&words), "{tool} {wrong:?}: {}", ended.said);
                assert_eq!(fs::read_to_string(scratch.data("copy.img")).unwrap(), "precious");
                scratch.assert_only(&["copy.img"]);
            }
        }
    }
}

impl Ended {
    /// Asserts that standard error held only events, and that the last one has this code and these words. Returns that event.
    #[track_caller]
    fn assert_pure(&self, code: i32, words: &str) -> Value {
        assert_eq!(self.code, code, "{}", self.said);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", self.said));
        let events: Vec<Value> = self.said.lines().map(parse).collect();
        let end = events.last().unwrap().clone();
        assert_eq!((&events[0]["event"], &end["event"]), (&"start".into(), &"end".into()), "{}", self.said);
        assert_eq!(end["exit_code"], code);
        assert!(end["error"].as_str().unwrap_or_default().contains(words), "{}", self.said);
        end
    }
}

#[test]
fn events_on_standard_error_are_its_only_output() {
    let scratch = Scratch::new("reports-pure");
    fs::write(scratch.data("in"), "x").unwrap();
    for name in ["-", "/dev/stderr", "/dev/fd/2"] {
        let json = format!("--json={name}");
        let with =
            |tool, arguments: &[&str]| scratch.run(tool, scratch.alone(tool).arg(&json).args(arguments));
        let address = &scratch.address();
        with("rsend", &["--trace=/nowhere/x", address, "in"]).assert_pure(8, "cannot write to /nowhere/x");
        with("rsend", &["--trace=in", address, "in"]).assert_pure(2, "are the same file");
        with("rsend", &["--core=8000", address, "in"]).assert_pure(2, "core 8000");
        with("rsend", &[address, "in"]).assert_pure(3, "cannot connect");
        with("rsend", &[address, "none"]).assert_pure(8, "cannot read none");
        with("rrecv", &["--trace=/nowhere/x", "out"]).assert_pure(8, "cannot write to /nowhere/x");
        with("rrecv", &["--trace=./out", "out"]).assert_pure(2, "are the same file");
        with("rrecv", &["/nowhere/x"]).assert_pure(8, "cannot write to /nowhere/x");
        with("rrecv", &["out"]).assert_pure(3, "nobody connected");
        // a failed trace does not fail the transfer
        let (sender, receiver) = scratch.pair(
            scratch.rsend(&[&json, "--trace=/dev/full", address]).arg(scratch.data("in")),
            &mut scratch.rrecv(&[&json, "--trace=/dev/full"]),
        );
        for ended in [sender, receiver] {
            let end = ended.assert_pure(0, "");
            assert_eq!(end["report_error"], "cannot write to /dev/full: no space left on device");
        }
    }
    scratch.assert_only(&["in"]);
}

#[test]
fn the_end_counts_landing_buffers_that_grow() {
    let scratch = Scratch::new("reports-growth");
    fs::write(scratch.data("in"), vec![7; 4 << 20]).unwrap();
    let address = &scratch.address();
    for (landing, grows) in [("--landing=on-demand", true), ("--landing=at-connect", false)] {
        let (sender, receiver) = scratch.pair(
            scratch.rsend(&["--json=-", landing, address]).arg(scratch.data("in")),
            scratch.rrecv(&["--json=-", landing]).arg(scratch.data("out")),
        );
        let [sent, received] = [sender, receiver].map(|ended| ended.assert_pure(0, "")["growth"].clone());
        let count = |counts: &Value, name: &str| counts[name].as_u64().unwrap();
        assert_eq!(count(&received, "provisioned") > 0, grows, "{received}");
        assert_eq!(count(&received, "landing_bytes_peak") > 0, grows, "{received}");
        assert_eq!(count(&sent, "moves") > 0, grows, "{sent}");
        // The transfer may end before the last one is provisioned.
        let provisioned = count(&received, "provisioned");
        assert!((provisioned..=provisioned + 1).contains(&count(&sent, "asked")), "{sent} {received}");
        assert_eq!(count(&sent, "asked_in_vain"), 0, "{sent}");
        fs::remove_file(scratch.data("out")).unwrap();
    }
    let (_, receiver) = scratch.pair(
        scratch.rsend(&["--landing=on-demand", address]).arg(scratch.data("in")),
        scratch.rrecv(&["-v", "--landing=on-demand"]).arg(scratch.data("out")),
    );
    assert!(receiver.code == 0 && receiver.said.contains("landing buffers: "), "{}", receiver.said);
}

#[test]
fn events_are_written_at_a_descriptors_offset() {
    let scratch = Scratch::new("reports-descriptor");
    for (index, path) in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].into_iter().enumerate() {
        let log = scratch.data(&index.to_string());
        fs::write(&log, "before\n").unwrap();
        let mut rsend = scratch.rsend(&["--connect-timeout=1ms", &scratch.address()]);
        rsend.arg(option("json", path.as_ref())).stdout(OpenOptions::new().append(true).open(&log).unwrap());
        scratch.run("rsend", &mut rsend).assert(3, "cannot connect");
        let lines = fs::read_to_string(&log).unwrap();
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "before"), "{lines:?}");
        assert!(lines[1].contains("start") && lines[2].contains("end"), "{lines:?}");
    }
}

#[test]
fn a_signal_ends_a_tool_whose_report_is_unread() {
    let scratch = Scratch::new("reports-fifo");
    mkfifo(&scratch.data("fifo"));
    for tool in ["rsend", "rrecv"] {
        let mut command = scratch.alone(tool);
        command.arg("--json=fifo");
        if tool == "rsend" {
            command.arg(scratch.address());
        }
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let tool = scratch.start(tool, &mut command);
            tool.signal(signal);
            tool.wait(BOUND).assert(code, signal);
        }
    }
    scratch.assert_only(&["fifo"]);
}

/// Creates a FIFO that is open at both ends, and full.
fn full_pipe(path: &Path) -> File {
    mkfifo(path);
    let mut pipe =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    while pipe.write(&[b'\n'; 4096]).is_ok() {}
    pipe
}

#[test]
fn a_stalled_reader_of_events_fails_no_transfer() {
    let scratch = Scratch::new("reports-stalled");
    let fifo = scratch.data("fifo");
    let _full = full_pipe(&fifo);
    fs::write(scratch.data("in"), "x").unwrap();
    let (sender, receiver) = scratch.pair(
        scratch.rsend(&["-q", "--connect-timeout=60s", &scratch.address()]).arg(scratch.data("in")),
        scratch.rrecv(&["-q"]).arg(option("json", &fifo)).arg(scratch.data("out")),
    );
    sender.assert_done();
    let fifo = fifo.display();
    receiver.assert(0, &format!("cannot write events to {fifo}: its reader read nothing within 10s"));
    assert_eq!(fs::read(scratch.data("out")).unwrap(), b"x");
}

/// A client whose standard output is a full pipe, and its server.
struct Stalled {
    scratch: Scratch,
    full: File,
    client: Tool,
    server: Tool,
}

fn stalled(test: &str, reports: &[&str]) -> Stalled {
    let scratch = Scratch::new(test);
    let fifo = scratch.data("fifo");
    let full = full_pipe(&fifo);
    let server = scratch.start_server(&["-v"]);
    let mut client = scratch.client(&[reports, &["--sizes=8", "--iterations=3", "--warmup=1"]].concat());
    let stdout = OpenOptions::new().write(true).open(&fifo).unwrap();
    let client = scratch.start("rperf", client.stdout(stdout));
    Stalled { scratch, full, client, server }
}

/// Arguments with which rperf writes a table or a report to standard output.
const TO_STDOUT: [(&str, &[&str]); 3] =
    [("table", &[]), ("json", &["-q", "--json=-"]), ("plot", &["-q", "--plot=/dev/stdout"])];

#[test]
fn a_stalled_reader_of_results_ends_the_measurement() {
    let all = TO_STDOUT.map(|(name, reports)| (name, stalled(&format!("reports-stalled-{name}"), reports)));
    for (name, Stalled { scratch, full, client, server }) in all {
        let to = if name == "plot" { "/dev/stdout" } else { "standard output" };
        let words = format!("cannot write to {to}: its reader read nothing within 10s");
        client.wait(BOUND).assert(8, &words);
        let served = server.wait(BOUND);
        // a plot is drawn after the server has ended
        if name == "plot" {
            served.assert_done();
        } else {
            served.assert(8, &format!("client: {words}"));
        }
        drop(full);
        scratch.assert_only(&["fifo"]);
    }
}

#[test]
fn a_signal_ends_rperf_whose_results_are_unread() {
    for has_reader in [true, false] {
        let all = TO_STDOUT.map(|(name, reports)| stalled(&format!("reports-signal-{name}"), reports));
        for Stalled { server, .. } in &all {
            server.until_connected(1);
        }
        // the client blocks on its results soon; an earlier signal must have the same effect
        thread::sleep(Duration::from_millis(500));
        for Stalled { scratch, full, client, server } in all {
            client.signal("INT");
            // in a shell's pipeline the signal also ends the reader
            let full = has_reader.then_some(full);
            let ended = client.wait(BOUND);
            ended.assert(130, "SIGINT");
            assert_eq!(ended.signal, Some(2), "it dies by the signal");
            server.wait(BOUND);
            drop(full);
            scratch.assert_only(&["fifo"]);
        }
    }
}

#[test]
fn a_report_on_standard_output_is_its_only_content() {
    let scratch = Scratch::new("reports-stdout");
    for (name, reports) in [("-", &["csv", "json", "plot", "picture"][..]), ("/dev/stdout", &["csv", "json"])]
    {
        for report in reports {
            let report_to = format!("--{report}={name}");
            let arguments = [report_to.as_str(), "--sizes=64,1K", "--iterations=3", "--warmup=1"];
            let (out, client, server) = scratch.measure(&arguments);
            client.assert_done();
            server.assert_done();
            assert!(client.said.contains("half a round trip"), "the table is there: {}", client.said);
            let lines: Vec<_> = out.lines().collect();
            match *report {
                "csv" => {
                    let columns = lines[0].split(',').count();
                    assert!(lines.len() == 3 && lines[0].starts_with("event,test,bytes"), "{out}");
                    assert!(lines[1..].iter().all(|line| line.split(',').count() == columns), "{out}");
                }
                "json" => {
                    assert_eq!(lines.len(), 2, "{out}");
                    assert!(lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
                }
                _ => assert!(out.starts_with("<svg") && out.trim_end().ends_with("</svg>"), "{out}"),
            }
        }
    }
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$@\" >&-", "sh", &program("rperf"), &scratch.address()]);
    scratch.run("rperf", &mut closed).assert(8, "cannot write to standard output: bad file descriptor");
}
