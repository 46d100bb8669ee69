//! Help, version and man page; errors for wrong arguments; and the exit codes, which must agree in the program, its help, its man
//! page and docs/tools.md.

use crate::support::{BOUND, Ended, Scratch, option};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use superpipe_tools::exit::Code;

/// Exit code of a panic, which no test provokes.
const BUG: u8 = 101;

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let scratch = Scratch::new("manual-full");
    for tool in ["rsend", "rrecv", "rperf", "superpipe-top"] {
        for asked in
            [&["--help"][..], &["-h"], &["--version"], &["--generate", "man"], &["--generate", "bash"]]
        {
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            let ended = scratch.run(tool, scratch.command(tool).args(asked).stdout(full));
            ended.assert(8, "cannot write to standard output: no space left on device");
            let path = scratch.command(tool).get_program().to_owned();
            let mut closed = Command::new("sh");
            closed.args(["-c", "exec \"$@\" >&-", "sh"]).arg(path).args(asked);
            scratch.run(tool, &mut closed).assert(8, "cannot write to standard output: bad file descriptor");
            // a reader that has ended is no failure
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let ended = scratch.run(tool, scratch.command(tool).args(asked).stdout(writer));
            assert_eq!((ended.code, ended.said.as_str()), (0, ""), "{tool} {asked:?}");
            let out = scratch.command(tool).args(asked).stdout(Stdio::piped()).output().unwrap();
            assert!(out.status.success() && !out.stdout.is_empty() && out.stderr.is_empty());
        }
    }
}

#[test]
fn a_value_without_its_equals_sign_is_named() {
    let scratch = Scratch::new("manual-equals");
    for (wrong, words) in [
        (["localhost", "--fresh", "plain"], "write --fresh=plain"),
        (["--fresh", "plain", "localhost"], "write --fresh=plain"),
        (["localhost", "--reconnect", "3"], "write --reconnect=3"),
    ] {
        let ended = scratch.run("rperf", scratch.command("rperf").args(wrong));
        assert!(ended.code == 2 && ended.said.contains(words), "{}", ended.said);
    }
}

/// Parses lines that begin with an exit code, up to the first other line. Returns the codes with their meanings.
fn codes<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<u8, String> {
    let code = |line: &str| {
        let (number, meaning) = line.trim().split_once(' ')?;
        Some((number.parse().ok()?, meaning.trim().to_owned()))
    };
    lines.map_while(code).collect()
}

#[test]
fn exit_codes_agree_in_help_man_page_and_docs() {
    let scratch = Scratch::new("manual-codes");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tools.md")).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| exit code |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.flat_map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        cells.chunks(2).map(|pair| pair.join(" ")).collect::<Vec<_>>()
    });
    let cells: Vec<_> = cells.collect();
    let page = codes(cells.iter().map(String::as_str));
    let numbers: Vec<_> = page.keys().copied().collect();
    let mut known: Vec<_> = Code::ALL.into_iter().map(Code::number).chain([BUG]).collect();
    known.sort_unstable();
    assert_eq!(numbers, known);
    for tool in ["rsend", "rrecv", "rperf", "superpipe-top"] {
        let printed = |arguments: &[&str]| {
            let out = scratch.command(tool).args(arguments).stdout(Stdio::piped()).output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        };
        let help = printed(&["--help"]);
        let help = codes(help.split_once("Exit codes:\n").unwrap().1.lines());
        assert_eq!(help, page, "{tool}");
        let man = printed(&["--generate", "man"]).replace("\\&", "").replace("\\-", "-");
        let man = codes(man.split_once(".SH \"EXIT CODES\"\n.nf\n").unwrap().1.lines());
        assert_eq!(man, page, "{tool}");
    }
}

#[test]
fn every_exit_code_has_its_cause() {
    let scratch = Scratch::new("manual-causes");
    let address = &scratch.address();
    fs::write(scratch.data("in"), "what is sent").unwrap();
    let sends = |arguments: &[&str]| {
        let mut rsend = scratch.rsend(&[&["-q", address], arguments].concat());
        rsend.arg(scratch.data("in"));
        rsend
    };
    let mut met = BTreeSet::new();
    let mut met_as = |code: u8, ended: &[Ended]| {
        for ended in ended {
            // a shell shows the end by a signal as 128 plus its number
            let shown = if ended.code < 0 { 128 - ended.code } else { ended.code };
            assert_eq!(shown, i32::from(code), "{}", ended.said);
        }
        met.insert(code);
    };
    let both = |(one, other)| [one, other];
    met_as(0, &both(scratch.pair(&mut sends(&[]), scratch.rrecv(&["-q"]).arg(scratch.data("out")))));
    met_as(2, &[scratch.run("rsend", &mut sends(&["--folds=x"]))]);
    met_as(3, &[scratch.run("rsend", &mut sends(&["--connect-timeout=1ms"]))]);
    met_as(6, &both(scratch.pair(&mut sends(&["--inject-flip=3"]), &mut scratch.rrecv(&["-q"]))));
    let server = scratch.start_server(&["-q"]);
    met_as(7, &[scratch.run("rsend", &mut sends(&[]))]);
    server.signal("TERM");
    server.wait(BOUND);
    met_as(8, &[scratch.run("rsend", scratch.rsend(&["-q", address]).arg(scratch.data("none")))]);
    // a message with more events than the recorder keeps cannot be drawn
    let server = scratch.start_server(&["-q"]);
    let mut client =
        scratch.client(&["-q", "--sizes=16M", "--block-bytes=128", "--iterations=3", "--warmup=1"]);
    client.arg(option("picture", &scratch.data("picture")));
    met_as(9, &[scratch.run("rperf", &mut client), server.wait(BOUND)]);
    let known: Vec<_> = Code::ALL.into_iter().map(Code::number).collect();
    for &code in known.iter().filter(|&&code| code > 128) {
        let receiver = scratch.start_rrecv(&mut scratch.rrecv(&["-q"]));
        receiver.signal(["HUP", "INT", "TERM"][usize::from(code != 129) + usize::from(code == 143)]);
        met_as(code, &[receiver.wait(BOUND)]);
    }
    for (signal, code, timeout) in [("STOP", 4, "3s"), ("KILL", 5, "60s")] {
        let receiver = scratch.start_rrecv(&mut scratch.rrecv(&["-v", "--idle-timeout", "60s"]));
        let mut rsend = scratch.rsend(&["-v", "--idle-timeout", timeout]);
        // endless data, so that it waits for the receiver and not for its source
        let sender = scratch.start("rsend", rsend.args([address, "/dev/zero"]));
        sender.until_connected(1);
        receiver.until_connected(1);
        receiver.signal(signal);
        met_as(code, &[sender.wait(BOUND)]);
        drop(receiver);
        let _ = fs::remove_file(scratch.socket());
    }
    assert_eq!(met, known.into_iter().collect());
}
