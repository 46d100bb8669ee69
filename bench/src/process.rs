//! The other process: forked, pinned, and certain to end.
//!
//! It ends when its work returns, when its parent dies (the kernel sends SIGKILL), when it is dropped, and when one of its
//! waits reaches its [`Timeout`].

use core::panic::AssertUnwindSafe;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{fs, io, panic};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal, waitpid,
};
use superpipe::os::pin_current_thread;

use crate::failure::Failure;
use crate::options::Cores;
use crate::spin::Timeout;

/// Seconds that a server waits for its next command: the client may be checking contents or printing meanwhile.
const SERVER_TIMEOUT_S: u64 = 120;
/// Seconds that a client waits for its server, which answers at once or not at all.
const CLIENT_TIMEOUT_S: u64 = 20;

/// A forked process that ends no later than this value.
pub struct Peer {
    pid: Pid,
}

impl Peer {
    /// Forks `server`, pinned to its core, and pins the calling process to its own. Memory that both share must have
    /// been mapped before.
    ///
    /// # Errors
    /// [`Failure::Os`] when the fork fails, [`Failure::Usage`] when a core does not exist or the process has
    /// other threads: a lock that one of them holds would stay locked in the copy for ever.
    pub fn fork(
        cores: Cores,
        server: impl FnOnce(&Timeout) -> Result<(), Failure>,
    ) -> Result<(Self, Timeout), Failure> {
        let thread_count =
            fs::read_dir("/proc/self/task").map_err(|e| Failure::Os("count threads", e))?.count();
        if thread_count != 1 {
            return Err(Failure::Usage(format!("cannot fork a process of {thread_count} threads")));
        }
        pin_to(cores.server)?;
        pin_to(cores.client)?;
        let parent = getpid();
        // SAFETY: this is the only thread, checked above, so the copy has no lock held by a thread it lacks.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            run_to_end(parent, cores, server);
        }
        let pid = Pid::from_raw(pid.max(0)).ok_or_else(|| Failure::Os("fork", io::Error::last_os_error()))?;
        Ok((Self { pid }, Timeout::new(CLIENT_TIMEOUT_S, Some(pid))))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The child was not waited for yet, so its pid cannot have been reused, and neither call can fail.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// [`Failure::Usage`] if the core does not exist or is not allowed to this process.
pub fn pin_to(core: usize) -> Result<(), Failure> {
    pin_current_thread(core).map_err(|error| Failure::Usage(error.to_string()))
}

/// Makes a command that is about to be started die with the process that starts it.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the closure makes one system call, which takes no lock and allocates nothing.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) }
}

fn run_to_end(parent: Pid, cores: Cores, server: impl FnOnce(&Timeout) -> Result<(), Failure>) -> ! {
    // A parent that died before the first call is noticed by the second.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != Some(parent) {
        exit_now(Failure::PeerLost.code());
    }
    let timeout = Timeout::new(SERVER_TIMEOUT_S, None);
    let outcome =
        panic::catch_unwind(AssertUnwindSafe(|| pin_to(cores.server).and_then(|()| server(&timeout))));
    match outcome {
        Ok(Ok(())) => exit_now(0),
        Ok(Err(failure)) => {
            eprintln!("error: other process: {failure}");
            exit_now(failure.code())
        }
        Err(_) => exit_now(101),
    }
}

fn exit_now(code: u8) -> ! {
    // SAFETY: _exit has no conditions; the parent's atexit handlers and buffers must not run twice.
    unsafe { libc::_exit(i32::from(code)) }
}
