//! A running tool, its end, and bounded waits.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use signal_hook::flag;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Instant;

/// Bound of every wait, which only a hang exceeds.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// Interval of polling.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Texts of a tool with `-v`.
const LISTENING: &str = ": listening at ";
const CONNECTED: &str = ": connected by ";
/// Text of rrecv after a failed attempt.
const GOES_ON: &str = "; still listening at ";
/// Signals by which a tool ends itself: HUP, INT and TERM.
pub(super) const BY_SIGNAL: [i32; 3] = [1, 2, 15];

/// A running tool.
pub(crate) struct Tool {
    pub(super) name: &'static str,
    pub(super) child: Child,
    pub(super) said: PathBuf,
}

/// End of a tool.
#[derive(Debug)]
pub(crate) struct Ended {
    /// exit code; after a signal of [`BY_SIGNAL`] 128 plus its number, as a shell shows it; after another one minus its number
    pub(crate) code: i32,
    /// signal that ended the tool
    pub(crate) signal: Option<i32>,
    /// its standard error
    pub(crate) said: String,
}

impl Tool {
    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the tool has ended. [`wait`](Self::wait) may still be called.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits until the tool, which needs `-v`, has reported this many connections. From then on it tells its peer why it ends.
    #[track_caller]
    pub(crate) fn until_connected(&self, connections: usize) {
        wait_for("the connection", || self.said().matches(CONNECTED).count() >= connections);
    }

    /// Waits until a listener reports a failed attempt with these words, and that it goes on listening.
    #[track_caller]
    pub(crate) fn until_it_goes_on(&self, words: &str) {
        wait_for(&format!("rrecv to go on after {words:?}"), || self.goes_on(words));
    }

    /// Waits until a listener reports another tool, with these words, or with what that tool said: either end may notice it first.
    #[track_caller]
    pub(crate) fn until_it_refuses(&self, words: &str) {
        let noticed = [words, "ended the connection: wrong protocol, version or user (code 7)"];
        wait_for(&format!("{words:?}"), || noticed.iter().any(|words| self.goes_on(words)));
    }

    /// Returns true if the listener has reported a failed attempt with these words.
    pub(crate) fn goes_on(&self, words: &str) -> bool {
        self.said().lines().any(|line| line.contains(words) && line.contains(GOES_ON))
    }

    /// Returns true if the tool, which needs `-v`, has reported a connection.
    pub(crate) fn has_connected(&self) -> bool {
        self.said().contains(CONNECTED)
    }

    /// Sends a signal with the shell's kill. Waits first until the tool handles it, if it is HUP, INT or TERM.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(number) = [("HUP", 1), ("INT", 2), ("TERM", 15)]
            .iter()
            .find_map(|&(of, number)| (of == name).then_some(number))
        {
            wait_for("signals to be handled", || self.handles(number));
        }
        self.signal_at_once(name);
    }

    /// Sends a signal without waiting for its handler.
    pub(crate) fn signal_at_once(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Returns true if the tool has a handler for this signal, or has ended.
    fn handles(&self, number: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_none_or(|set| u64::from_str_radix(set.trim(), 16).unwrap() >> (number - 1) & 1 == 1)
    }

    /// Waits for the end. Kills a tool that does not end within `bound`, and fails the test.
    #[track_caller]
    pub(crate) fn wait(mut self, bound: Duration) -> Ended {
        let deadline = Instant::now() + bound;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{} does not end; it said: {}", self.name, self.said());
            thread::sleep(POLL_INTERVAL);
        };
        let by_signal = |signal| if BY_SIGNAL.contains(&signal) { 128 + signal } else { -signal };
        let code = status.code().unwrap_or_else(|| by_signal(status.signal().unwrap()));
        Ended { code, signal: status.signal(), said: self.said() }
    }

    /// Returns the CPU time of the tool so far.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // behind the name, which may contain spaces: proc_pid_stat(5), fields 14 and 15, in units of 10 ms
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        Duration::from_millis([11, 12].map(|at| fields[at].parse::<u64>().unwrap() * 10).iter().sum())
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Asserts that the tool ended with this code, and printed one line besides those of `-v`, which contains these words.
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}", self.said);
        let added =
            |line: &&str| [LISTENING, CONNECTED, ": window: "].iter().any(|words| line.contains(words));
        let said: Vec<_> = self.said.lines().filter(|line| !added(line)).collect();
        assert_eq!(said.len(), 1, "{}", self.said);
        let tools = ["rsend: ", "rrecv: ", "rperf: ", "rperf serve: ", "superpipe-top: "];
        assert!(tools.iter().any(|tool| said[0].starts_with(tool)), "{}", self.said);
        assert!(said[0].contains(words), "{} lacks {words:?}", self.said);
    }

    #[track_caller]
    pub(crate) fn assert_done(&self) {
        assert_eq!(self.code, 0, "{}", self.said);
    }
}

/// Waits until `happened` returns true, for [`BOUND`] at most.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !happened() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Restores the default action of HUP, INT and TERM in children, in case these tests run as a script's background job with signals
/// ignored: a signal with a handler here has its default action after exec.
pub(super) fn handle_signals() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        for signal in BY_SIGNAL {
            flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}
