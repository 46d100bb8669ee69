//! Scratch directories, child processes with bounded waits, and data that can be made again.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use signal_hook::flag;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Instant;

/// Long enough for whatever ends at all.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// For whoever waits for something to happen.
const LOOK: Duration = Duration::from_millis(1);
/// What a tool says with `-v`.
const LISTENING: &str = ": listening at ";
const CONNECTED: &str = ": connected by ";
/// What rrecv says after an attempt that came to nothing.
const GOES_ON: &str = "; still listening at ";
/// HUP, INT and TERM.
const BY_SIGNAL: [i32; 3] = [1, 2, 15];
/// What processes of another user run as.
pub(crate) const NOBODY: u32 = 65534;

/// A directory of one test's own, 0700, with a place for data and one for what the tools say.
pub(crate) struct Scratch {
    root: PathBuf,
    /// what others have left there
    shared_before: Vec<OsString>,
}

/// One running tool.
pub(crate) struct Tool {
    name: &'static str,
    child: Child,
    said: PathBuf,
}

/// How a tool ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// the exit code; minus the signal, or as a shell shows it where the tool ends by it in good order: [`BY_SIGNAL`]
    pub(crate) code: i32,
    /// the signal that ended it
    pub(crate) signal: Option<i32>,
    /// all that it said on standard error
    pub(crate) said: String,
}

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        handle_signals();
        let root = std::env::temp_dir().join(format!("superpipe-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data")).unwrap();
        fs::create_dir_all(root.join("said")).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        Self { root, shared_before: shared() }
    }

    /// Lets other users in, to the data as well.
    pub(crate) fn open_to_all(&self) {
        for dir in [self.root.clone(), self.data("")] {
            fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the test's data.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }

    /// The names of the test's data, hidden ones too.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("socket")
    }

    pub(crate) fn address(&self) -> String {
        format!("shm:{}", self.socket().display())
    }

    /// A tool that is not started yet: nothing comes in, what goes out is kept.
    pub(crate) fn command(&self, name: &'static str) -> Command {
        let path = match name {
            "rsend" => env!("CARGO_BIN_EXE_rsend"),
            "rperf" => env!("CARGO_BIN_EXE_rperf"),
            _ => env!("CARGO_BIN_EXE_rrecv"),
        };
        let mut command = Command::new(path);
        command.env("XDG_RUNTIME_DIR", &self.root).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub(crate) fn rsend(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("rsend");
        command.args(arguments);
        command
    }

    /// An rrecv that listens at this directory's socket.
    pub(crate) fn rrecv(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("rrecv");
        command.arg("--listen").arg(self.address()).args(arguments);
        command
    }

    /// The same tool as another user, who cannot see the build directory.
    pub(crate) fn as_nobody(&self, command: &Command) -> Command {
        let name = command.get_program().to_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let copy = self.root.join(name);
        if !copy.exists() {
            // By another process: what this one has open for writing, a child of another test's could have as well, and a program
            // that is open for writing cannot be started.
            let copied = Command::new("cp").arg(command.get_program()).arg(&copy).status();
            assert!(copied.unwrap().success());
            fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
        }
        let mut other = Command::new(copy);
        other.args(command.get_args()).uid(NOBODY).gid(NOBODY);
        other.env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null()).stdout(Stdio::null());
        other
    }

    pub(crate) fn start(&self, name: &'static str, command: &mut Command) -> Tool {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let said = self.root.join("said").join(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        Tool { name, child, said }
    }

    /// Starts an rrecv and waits until it listens.
    pub(crate) fn start_rrecv(&self, command: &mut Command) -> Tool {
        let tool = self.start("rrecv", command);
        wait_for("rrecv to listen", || self.socket().exists());
        tool
    }

    pub(crate) fn run(&self, name: &'static str, command: &mut Command) -> Ended {
        self.start(name, command).wait(BOUND)
    }

    /// One transfer: how rsend and rrecv ended.
    pub(crate) fn pair(&self, rsend: &mut Command, rrecv: &mut Command) -> (Ended, Ended) {
        let receiver = self.start_rrecv(rrecv);
        let sender = self.run("rsend", rsend);
        (sender, receiver.wait(BOUND))
    }

    /// Nothing of a transfer is there any more but these data.
    pub(crate) fn assert_only(&self, names: &[&str]) {
        assert_eq!(self.names(), names);
        assert!(!self.socket().exists(), "the socket is left");
        let mut left = shared();
        left.retain(|name| !self.shared_before.contains(name));
        assert!(left.is_empty(), "left in /dev/shm: {left:?}");
    }
}

/// Has the tools not ignore what these tests may have been started to ignore, as a script's background jobs are: what is handled
/// here is handled by default in children.
fn handle_signals() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        for signal in BY_SIGNAL {
            flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}

/// Named shared memory that could be a tool's.
fn shared() -> Vec<OsString> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("superpipe"))
        .collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("kept for a look: {}", self.root.display());
        } else {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
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

    /// Whether it has ended. It is there to be waited for all the same.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits until it says that there are so many connections, for which it takes `-v`: from then on it can tell why it ends.
    #[track_caller]
    pub(crate) fn until_connected(&self, connections: usize) {
        wait_for("the connection", || self.said().matches(CONNECTED).count() >= connections);
    }

    /// Waits until an rrecv says, with these words, that an attempt came to nothing, and that it listens.
    #[track_caller]
    pub(crate) fn until_it_goes_on(&self, words: &str) {
        wait_for(&format!("rrecv to go on after {words:?}"), || self.goes_on(words));
    }

    /// Whether it said so.
    pub(crate) fn goes_on(&self, words: &str) -> bool {
        self.said().lines().any(|line| line.contains(words) && line.contains(GOES_ON))
    }

    /// Whether it said, by `-v`, that somebody is connected.
    pub(crate) fn has_connected(&self) -> bool {
        self.said().contains(CONNECTED)
    }

    /// Sends a signal by the shell's own kill: STOP, CONT, and as soon as the tool handles them HUP, INT and TERM.
    pub(crate) fn signal(&self, name: &str) {
        if let Some(number) = [("HUP", 1), ("INT", 2), ("TERM", 15)]
            .iter()
            .find_map(|&(of, number)| (of == name).then_some(number))
        {
            wait_for("signals to be handled", || self.handles(number));
        }
        self.signal_at_once(name);
    }

    /// Sends a signal, whether the tool handles it yet or not.
    pub(crate) fn signal_at_once(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Whether this signal has a handler, or there is no process any more.
    fn handles(&self, number: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_none_or(|set| u64::from_str_radix(set.trim(), 16).unwrap() >> (number - 1) & 1 == 1)
    }

    /// Waits for the end; a tool that does not end is killed, and the test fails.
    #[track_caller]
    pub(crate) fn wait(mut self, bound: Duration) -> Ended {
        let deadline = Instant::now() + bound;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{} does not end; it said: {}", self.name, self.said());
            thread::sleep(LOOK);
        };
        let by_signal = |signal| if BY_SIGNAL.contains(&signal) { 128 + signal } else { -signal };
        let code = status.code().unwrap_or_else(|| by_signal(status.signal().unwrap()));
        Ended { code, signal: status.signal(), said: self.said() }
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
    /// It ended with this code, and beside what `-v` adds it said one line, which holds these words; with 0 any line will do.
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{}", self.said);
        let added = |line: &&str| line.contains(LISTENING) || line.contains(CONNECTED);
        let said: Vec<_> = self.said.lines().filter(|line| !added(line)).collect();
        assert_eq!(said.len(), 1, "{}", self.said);
        let tools = ["rsend: ", "rrecv: ", "rperf: ", "rperf serve: "];
        assert!(tools.iter().any(|tool| said[0].starts_with(tool)), "{}", self.said);
        assert!(said[0].contains(words), "{} lacks {words:?}", self.said);
    }

    #[track_caller]
    pub(crate) fn assert_done(&self) {
        assert_eq!(self.code, 0, "{}", self.said);
    }
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !happened() {
        assert!(Instant::now() < deadline, "waited for {what}");
        thread::sleep(LOOK);
    }
}

/// Whether this is root; where it is not, what needs root is left out, loudly.
pub(crate) fn is_root(what: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let is_root = uid.split_whitespace().nth(1) == Some("0");
    if !is_root {
        eprintln!("NOT TESTED without root: {what}");
    }
    is_root
}

/// A core that this process may use.
pub(crate) fn some_core() -> String {
    superpipe::os::allowed_cores().iter().next().unwrap().to_string()
}

/// Bytes that look random, and are the same for the same seed.
#[derive(Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A seed that differs each time, printed; SUPERPIPE_SEED repeats one.
    pub(crate) fn from_time(test: &str) -> Self {
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into();
        let seed = std::env::var("SUPERPIPE_SEED").map_or_else(|_| clock(), |seed| seed.parse().unwrap());
        eprintln!("{test}: SUPERPIPE_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.word().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

/// Writes `total` bytes of noise, calling `at` with what was written so far. Ends quietly where nobody reads.
pub(crate) fn feed(mut pipe: impl Write, seed: u64, total: u64, mut at: impl FnMut(u64)) {
    const PIECE: usize = 256 << 10;
    let mut noise = Noise::new(seed);
    let mut piece = vec![0; PIECE];
    let mut written = 0;
    while written < total {
        at(written);
        let bytes = usize::try_from(total - written).unwrap_or(PIECE).min(PIECE);
        noise.fill(&mut piece[..bytes]);
        if pipe.write_all(&piece[..bytes]).is_err() {
            return;
        }
        written += bytes as u64;
    }
    at(written);
}

/// Reads to the end, and checks that it was the noise of `feed`.
pub(crate) fn verify(mut pipe: impl Read, seed: u64, total: u64) {
    const PIECE: usize = 256 << 10;
    let mut noise = Noise::new(seed);
    let (mut expected, mut got) = (vec![0; PIECE], vec![0; PIECE]);
    let mut read = 0;
    while read < total {
        let bytes = usize::try_from(total - read).unwrap_or(PIECE).min(PIECE);
        noise.fill(&mut expected[..bytes]);
        pipe.read_exact(&mut got[..bytes]).unwrap();
        assert!(got[..bytes] == expected[..bytes], "the bytes after {read} differ");
        read += bytes as u64;
    }
    assert_eq!(pipe.read(&mut got).unwrap(), 0, "more than {total} bytes");
}

/// `--option=PATH`, as options that name files are written.
pub(crate) fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}

pub(crate) fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Opens for writing what must be there already.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}
