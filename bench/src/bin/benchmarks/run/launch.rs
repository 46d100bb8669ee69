//! Running a program to its end, with a deadline, and its output.

use core::time::Duration;
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;
use superpipe_bench::failure::Failure;
use superpipe_bench::process::die_with_parent;
use superpipe_bench::resident::QUOTED_MAX;

/// Deadline of a program: a whole sweep of a limit, or all sizes of a client.
pub(crate) const SECONDS_MAX: u64 = 180;

/// Returns the JSON objects that the command prints, if it succeeds in time.
pub(crate) fn objects(command: &mut Command) -> Result<Vec<Value>, Failure> {
    let text = output(command)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line.trim()).ok()).collect())
}

/// Returns the output of the command, if it succeeds in time.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let refused =
        |error: io::Error| Failure::Os("run a program", io::Error::other(format!("{name}: {error}")));
    let mut child = die_with_parent(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(refused)?;
    let stdout = child.stdout.take().map(read_aside);
    let stderr = child.stderr.take().map(read_aside);
    let text = stdout.map(|text| text.recv_timeout(Duration::from_secs(SECONDS_MAX)));
    let Some(Ok(text)) = text else {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(refused(io::Error::other(format!("no end within {SECONDS_MAX} s"))));
    };
    let status = child.wait().map_err(refused)?;
    if status.success() {
        return Ok(text);
    }
    let said = stderr.and_then(|text| text.recv_timeout(Duration::from_secs(1)).ok()).unwrap_or_default();
    let said: String = said.trim().chars().take(QUOTED_MAX).collect();
    Err(refused(io::Error::other(format!("{status}: {said}"))))
}

/// Reads to the end in a thread, so that no full pipe stops the program.
fn read_aside(mut source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is all there is.
        let _ = source.read_to_end(&mut bytes);
        // Nobody listens any more after the deadline.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::objects;
    use std::process::Command;

    #[test]
    fn objects_are_found_among_other_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo a table; echo '{\"a\":1}'; echo; echo '{\"a\":2}'"]);
        let found = objects(&mut command).unwrap();
        assert_eq!(found.iter().map(|object| object["a"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
    }

    #[test]
    fn a_failure_says_what_the_program_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo too bad >&2; exit 3"]);
        let failure = objects(&mut command).unwrap_err().to_string();
        assert!(failure.contains("too bad") && failure.contains('3'), "{failure}");
    }
}
