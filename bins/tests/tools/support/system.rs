//! Users, mounts, limits, pipes and cores of the system, and options with paths.

use rustix::fs::{OFlags, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// User and group of the other user in the tests.
pub(crate) const NOBODY: u32 = 65534;

/// A mount, until this is dropped.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts with these arguments of mount(8). Returns none if that is not allowed.
    pub(crate) fn new(arguments: &[&str], from: &Path, to: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(arguments).args([from, to]).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(to.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Returns true for root. Otherwise prints what is not tested.
pub(crate) fn is_root(what: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let is_root = uid.split_whitespace().nth(1) == Some("0");
    if !is_root {
        eprintln!("NOT TESTED without root: {what}");
    }
    is_root
}

/// Returns a core that this process may use.
pub(crate) fn some_core() -> String {
    superpipe::os::allowed_cores().iter().next().unwrap().to_string()
}

/// Returns the same command with this limit on open files.
pub(crate) fn with_files(limit: u32, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!(r#"ulimit -n {limit} && exec "$0" "$@""#));
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.stdin(Stdio::null()).stdout(Stdio::null());
    limited
}

/// Returns `--name=PATH`.
pub(crate) fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// Returns a full pipe that no process reads.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    loop {
        match writer.write(&[b'x'; 4096]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            written => assert!(written.unwrap() > 0),
        }
    }
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

pub(crate) fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Opens an existing file for writing.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}
