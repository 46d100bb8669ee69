//! SIGINT, SIGTERM and SIGHUP: the first asks the tool to tell its peer and clean up, the second ends it at once. One that
//! whoever started the tool had it ignore, as nohup does, stays ignored.

use crate::exit::{BY_SIGNAL, Code, Failure, explain};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use superpipe::os::signals::is_ignored;

/// The signals that end a tool, each with its code and its part of a line.
const ENDING: [(c_int, Code, &str); 3] = [
    (SIGINT, Code::Interrupted, "interrupted by SIGINT"),
    (SIGTERM, Code::Terminated, "ended by SIGTERM"),
    (SIGHUP, Code::HungUp, "ended by SIGHUP"),
];

/// The first signal that came, if one did.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    came: &'static AtomicBool,
    which: &'static AtomicUsize,
    /// the work that they interrupt: "transfer"
    work: &'static str,
}

impl Signals {
    /// Handles all of them from now on, for the rest of the process: the flags live as long.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn install(work: &'static str) -> Result<Self, Failure> {
        let came: &'static Arc<AtomicBool> = Box::leak(Box::default());
        let which: &'static Arc<AtomicUsize> = Box::leak(Box::default());
        let install = || -> io::Result<()> {
            for (signal, ..) in ENDING.into_iter().filter(|&(signal, ..)| !is_ignored(signal)) {
                // in this order: the first signal finds `came` still false, and the second does not
                flag::register_conditional_default(signal, Arc::clone(came))?;
                flag::register_usize(signal, Arc::clone(which), signal.unsigned_abs() as usize)?;
                flag::register(signal, Arc::clone(came))?;
            }
            // caught and not looked at: a file that may not grow any more is then an error like any other
            flag::register(libc::SIGXFSZ, Arc::default())?;
            Ok(())
        };
        install().map_err(|error| Failure::new(Code::Device, explain("cannot handle signals", &error)))?;
        Ok(Self { came, which, work })
    }

    /// The flag that the library looks at in every wait.
    #[must_use]
    pub fn flag(&self) -> &'static AtomicBool {
        self.came
    }

    /// The failure that a signal is, if one came.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let came = self.came.load(Ordering::Relaxed).then(|| self.which.load(Ordering::Relaxed))?;
        let ended = ENDING.into_iter().find(|(signal, ..)| signal.unsigned_abs() as usize == came);
        let (_, code, how) = ended.unwrap_or(ENDING[0]);
        Some(Failure::new(code, format!("{how}; the {} is not complete", self.work)))
    }
}

/// Ends a tool that has told and cleaned up all: by the signal that ended its work, if one did. A shell that runs it in a loop
/// then knows that the loop is to end, too.
#[must_use]
pub fn end(code: Code) -> ExitCode {
    if code.is_signal() {
        // It returns only where the system refuses, and then the code says as much.
        let _ = emulate_default_handler((code.number() - BY_SIGNAL).into());
    }
    code.into()
}
