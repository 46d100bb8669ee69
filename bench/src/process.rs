//! The other process: forked, pinned, and sure to end.
//!
//! It ends when its work returns, when its parent dies (the kernel sends SIGKILL), when it is dropped, and, by
//! [`Patience`], when it waits in vain.

use core::panic::AssertUnwindSafe;
use core::ptr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::Command;

use crate::failure::Failure;
use crate::pin::{Cores, pin_to};
use crate::spin::Patience;

/// What a server waits for its next command: the client may be checking contents or printing meanwhile.
const SERVER_PATIENCE_S: u64 = 120;
/// What a client waits for its server, which answers at once or not at all.
const CLIENT_PATIENCE_S: u64 = 20;

/// A forked process that ends no later than this value.
pub struct Peer {
    pid: libc::pid_t,
}

impl Peer {
    /// Forks `server`, pinned to its core, and pins the calling process to its own. What both share must have
    /// been mapped before.
    ///
    /// # Errors
    /// [`Failure::Os`] when the fork fails, [`Failure::Usage`] when a core is not there. Fails as well when the
    /// process has other threads: a lock that one of them holds would stay locked in the copy for ever.
    pub fn fork(
        cores: Cores,
        server: impl FnOnce(&Patience) -> Result<(), Failure>,
    ) -> Result<(Self, Patience), Failure> {
        let thread_count =
            fs::read_dir("/proc/self/task").map_err(|e| Failure::Os("count threads", e))?.count();
        if thread_count != 1 {
            return Err(Failure::Usage(format!("cannot fork a process of {thread_count} threads")));
        }
        pin_to(cores.server)?;
        pin_to(cores.client)?;
        // SAFETY: getpid has no conditions.
        let parent = unsafe { libc::getpid() };
        // SAFETY: this is the only thread, checked above, so the copy has no lock held by a thread it lacks.
        match unsafe { libc::fork() } {
            -1 => Err(Failure::last_os("fork")),
            0 => run_to_end(parent, cores, server),
            pid => Ok((Self { pid }, Patience::new(CLIENT_PATIENCE_S, Some(pid)))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: the pid is that of our own child, which was not waited for yet, so it cannot have been reused.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        // SAFETY: as above; a null status is allowed.
        unsafe { libc::waitpid(self.pid, ptr::null_mut(), 0) };
    }
}

/// Lets a command that is about to be started die with the process that starts it.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec the closure makes one system call, which takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

fn run_to_end(parent: libc::pid_t, cores: Cores, server: impl FnOnce(&Patience) -> Result<(), Failure>) -> ! {
    // SAFETY: prctl with these arguments touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: getppid has no conditions. A parent that died before the line above would never be noticed by it.
    if unsafe { libc::getppid() } != parent {
        exit_now(Failure::PeerLost.code());
    }
    let patience = Patience::new(SERVER_PATIENCE_S, None);
    let outcome =
        panic::catch_unwind(AssertUnwindSafe(|| pin_to(cores.server).and_then(|()| server(&patience))));
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
