//! Help, version and man page: printed, or said why not; and what they say of an argument that is wrong.

use crate::support::Scratch;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

#[test]
fn help_that_cannot_be_printed_is_a_failure() {
    let scratch = Scratch::new("manual-full");
    for tool in ["rsend", "rrecv", "rperf"] {
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
            // a reader that has had enough
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
