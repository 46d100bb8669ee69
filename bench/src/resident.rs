//! A peer's two processes, which stay and run one test after the other: starting them takes longer than a test, and longer
//! than the cores stay at a distance.
//!
//! ```text
//! run ── "latency:8:20000" ──▶ NAME.client, NAME.server   named pipes, one per process
//!     ◀── one JSON object ──── standard output
//! ```
//!
//! Between tests both processes wait in a read, which keeps no core busy.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::failure::Failure;
use crate::process::die_with_parent;

/// Deadline of the start and of a test.
const SECONDS_MAX: u64 = 60;
/// Time between two looks at a process that has printed nothing.
const LOOK: Duration = Duration::from_millis(200);
const SAID_BYTES_MAX: usize = 1 << 16;
/// Characters of a failed program's output that an error quotes.
pub const QUOTED_MAX: usize = 2000;
/// Time for an orderly end.
const END: Duration = Duration::from_secs(5);

/// What the processes print to standard error.
type Said = Arc<Mutex<Vec<u8>>>;

/// The processes. Dropping ends them.
pub struct Resident {
    name: String,
    child: Child,
    /// writing ends of the named pipes, and their paths
    controls: Vec<(File, PathBuf)>,
    objects: Receiver<Value>,
    said: Said,
    /// the object that the processes print when they have started
    hello: Value,
}

impl Resident {
    /// Starts the command of a harness, whose named pipes will be `control` with the suffixes `.client` and `.server`.
    ///
    /// # Errors
    /// [`Failure::Os`] if it does not start, with what it said.
    pub fn start(name: &str, command: &mut Command, control: &Path) -> Result<Self, Failure> {
        let fail = |error: io::Error| failure(name, &error.to_string());
        command.arg("--control").arg(control);
        let controls = ["client", "server"].map(|role| make_pipe(&control.with_extension(role)));
        let controls = controls.into_iter().collect::<io::Result<_>>().map_err(fail)?;
        let mut child = die_with_parent(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let objects = child.stdout.take().map_or_else(|| mpsc::channel().1, objects);
        let said = child.stderr.take().map_or_else(Said::default, text);
        let name = name.to_owned();
        let mut resident = Self { name, child, controls, objects, said, hello: Value::Null };
        resident.hello = resident.await_object("version")?;
        Ok(resident)
    }

    /// The object that the processes printed when they had started.
    #[must_use]
    pub const fn hello(&self) -> &Value {
        &self.hello
    }

    /// Runs a test, and returns its result.
    ///
    /// # Errors
    /// [`Failure::Os`] if the processes have ended, with what they said, or print no result in time.
    pub fn run(&mut self, test: &str) -> Result<Value, Failure> {
        for (control, _) in &mut self.controls {
            let written = control.write_all(format!("{test}\n").as_bytes());
            written.map_err(|error| failure(&self.name, &error.to_string()))?;
        }
        self.await_object("result")
    }

    /// Waits for an object of an event.
    fn await_object(&mut self, event: &str) -> Result<Value, Failure> {
        let until = Instant::now() + Duration::from_secs(SECONDS_MAX);
        let mut has_ended = false;
        loop {
            match self.objects.recv_timeout(LOOK) {
                Ok(object) if object["event"] == event => return Ok(object),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(failure(&self.name, &format!("no {event} within {SECONDS_MAX} s")));
                }
                // One of the two processes may have ended, and the other one keep the pipe open.
                Err(RecvTimeoutError::Timeout) if !has_ended => {
                    has_ended = matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // What it said last may still be on its way.
                    thread::sleep(LOOK);
                    let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                    let said: String =
                        String::from_utf8_lossy(&said).trim().chars().take(QUOTED_MAX).collect();
                    return Err(failure(&self.name, &format!("it ended: {said}")));
                }
            }
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        for (control, path) in self.controls.drain(..) {
            // The end of its tests, for the process that reads them.
            drop(control);
            // The directory is temporary.
            let _ = fs::remove_file(path);
        }
        let until = Instant::now() + END;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        // It may have ended meanwhile.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failure(name: &str, why: &str) -> Failure {
    Failure::Os("run a peer", io::Error::other(format!("{name}: {why}")))
}

/// Makes a named pipe, and opens it for writing. That it is open for reading as well keeps the open from waiting for the reader.
fn make_pipe(path: &Path) -> io::Result<(File, PathBuf)> {
    // One of a process that was ended before it could remove it.
    let _ = fs::remove_file(path);
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
    let pipe = File::options().read(true).write(true).open(path)?;
    Ok((pipe, path.to_owned()))
}

/// Reads the JSON objects among the lines of a stream, in a thread.
fn objects(source: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            let Ok(object) = serde_json::from_str(line.trim()) else { continue };
            if sender.send(object).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads a stream in a thread, and keeps the beginning of what it says.
fn text(mut source: impl Read + Send + 'static) -> Said {
    let said = Said::default();
    let kept = Arc::clone(&said);
    thread::spawn(move || {
        let mut piece = [0; 1024];
        while let Ok(bytes @ 1..) = source.read(&mut piece) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < SAID_BYTES_MAX {
                kept.extend_from_slice(&piece[..bytes]);
            }
        }
    });
    said
}

#[cfg(test)]
mod tests {
    use super::Resident;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs, process};

    /// A harness of a shell: its two processes echo what they read, the client as an object. The server's pipe is open before
    /// the first test, as a server's that takes part in each test: what nobody has opened yet is lost with its writer.
    const ECHO: &str = r#"
        exec 3<"$2.server"
        echo a banner
        echo '{"event":"version","version":"shell 1"}'
        (n=0; while read -r test; do n=$((n + 1)); done <&3; echo "$n tests" >"$2.ended") &
        while read -r test; do
            [ "$test" != stop ] || { echo too bad >&2; exit 3; }
            echo '{"event":"aside"}'
            echo "{\"event\":\"result\",\"test\":\"$test\"}"
        done <"$2.client"
        wait
    "#;

    fn start(script: &str, control: &Path) -> Result<Resident, crate::failure::Failure> {
        Resident::start("shell", Command::new("sh").args(["-c", script, "sh"]), control)
    }

    fn control(name: &str) -> PathBuf {
        env::temp_dir().join(format!("superpipe-resident-{}-{name}", process::id()))
    }

    #[test]
    fn tests_run_one_by_one_and_both_processes_end() {
        let control = control("echo");
        let mut resident = start(ECHO, &control).unwrap();
        assert_eq!(resident.hello()["version"], "shell 1");
        for test in ["latency:8:20", "stream:64:9"] {
            assert_eq!(resident.run(test).unwrap()["test"], test);
        }
        drop(resident);
        let ended = control.with_extension("ended");
        assert_eq!(fs::read_to_string(&ended).unwrap(), "2 tests\n");
        fs::remove_file(ended).unwrap();
        assert!(["client", "server"].iter().all(|role| !control.with_extension(role).exists()));
    }

    #[test]
    fn a_peer_that_ends_says_why() {
        let mut resident = start(ECHO, &control("stop")).unwrap();
        let failure = resident.run("stop").unwrap_err().to_string();
        assert!(failure.contains("shell: it ended: too bad"), "{failure}");
        drop(resident);
        let _ = fs::remove_file(control("stop").with_extension("ended"));
        let failure = start("echo no library >&2", &control("none")).err().unwrap().to_string();
        assert!(failure.contains("no library"), "{failure}");
    }
}
