//! Scratch directory of a test, and the tools that it starts there.

use super::process::{BOUND, Ended, Tool, handle_signals, wait_for};
use super::program::program;
use super::system::NOBODY;
use core::sync::atomic::{AtomicU32, Ordering};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Scratch directory of one test, with mode 0700: one directory for data, and one for the tools' standard error.
pub(crate) struct Scratch {
    root: PathBuf,
    /// names in /dev/shm before the test
    shared_before: Vec<OsString>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        handle_signals();
        // Tests side by side can have one name.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("superpipe-{test}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data")).unwrap();
        fs::create_dir_all(root.join("said")).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        Self { root, shared_before: shared() }
    }

    /// Gives other users access, to the data as well.
    pub(crate) fn open_to_all(&self) {
        for dir in [self.root.clone(), self.data("")] {
            fs::set_permissions(dir, Permissions::from_mode(0o777)).unwrap();
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file of the test's data.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }

    /// Creates a file to send, outside the data.
    pub(crate) fn source(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the names of the test's data, with hidden ones.
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

    /// Returns a command for a tool, with /dev/null as standard input and standard output.
    pub(crate) fn command(&self, name: &'static str) -> Command {
        let mut command = Command::new(program(name));
        command.env("XDG_RUNTIME_DIR", &self.root).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub(crate) fn rsend(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("rsend");
        command.args(arguments);
        command
    }

    /// Returns a command for an rrecv that listens at this directory's socket.
    pub(crate) fn rrecv(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("rrecv");
        command.arg("--listen").arg(self.address()).args(arguments);
        command
    }

    /// Returns a command for a shell that runs `script` in the directory of the data. `"$@"` is an rrecv with these arguments.
    pub(crate) fn shell(&self, script: &str, arguments: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", &program("rrecv"), "--listen", &self.address()]);
        shell.args(arguments).current_dir(self.data("")).stdin(Stdio::null()).stdout(Stdio::null());
        shell
    }

    /// Returns a command for an rrecv without /proc, which needs root.
    pub(crate) fn rrecv_without_proc(&self, arguments: &[&str]) -> Command {
        let mut rrecv = Command::new("unshare");
        rrecv.args(["-m", "sh", "-c", r#"umount -l /proc && exec "$@""#, "sh", &program("rrecv")]);
        rrecv.arg("--listen").arg(self.address()).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        rrecv
    }

    /// Returns the same command as the user nobody, with a copy of the tool, since nobody may not enter the build directory.
    pub(crate) fn as_nobody(&self, command: &Command) -> Command {
        let name = command.get_program().to_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let copy = self.root.join(name);
        if !copy.exists() {
            // Another process copies: a child of another test could inherit a descriptor that this process has open for writing,
            // and a program that is open for writing cannot be started.
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

    /// Waits until this rrecv listens or has ended. Returns true if it listens.
    #[track_caller]
    pub(crate) fn listens(&self, rrecv: &mut Tool) -> bool {
        wait_for("rrecv to listen or end", || self.socket().exists() || rrecv.has_ended());
        !rrecv.has_ended()
    }

    /// Sends this file with rsend.
    pub(crate) fn send(&self, input: &Path) -> Ended {
        self.run("rsend", self.rsend(&["-q", &self.address()]).arg(input))
    }

    pub(crate) fn run(&self, name: &'static str, command: &mut Command) -> Ended {
        self.start(name, command).wait(BOUND)
    }

    /// Runs one transfer. Returns the ends of rsend and rrecv.
    pub(crate) fn pair(&self, rsend: &mut Command, rrecv: &mut Command) -> (Ended, Ended) {
        let receiver = self.start_rrecv(rrecv);
        let sender = self.run("rsend", rsend);
        (sender, receiver.wait(BOUND))
    }

    /// Asserts that only these names are left in the data, and neither a socket nor shared memory.
    pub(crate) fn assert_only(&self, names: &[&str]) {
        assert_eq!(self.names(), names);
        assert!(!self.socket().exists(), "the socket is left");
        let mut left = shared();
        left.retain(|name| !self.shared_before.contains(name));
        assert!(left.is_empty(), "left in /dev/shm: {left:?}");
    }
}

/// Returns the names of shared memory that may belong to a tool.
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
