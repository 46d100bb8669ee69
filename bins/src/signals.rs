//! Handling of SIGINT, SIGTERM and SIGHUP. The first signal asks the tool to notify its peer and clean up, the second ends the
//! tool at once. A signal that was ignored when the tool started, as under nohup, stays ignored.

use crate::exit::{Code, Failure, SIGNAL_CODE_BASE, explain};
use crate::os::signals::is_ignored;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

/// Signals that end a tool, each with its exit code and the start of the failure's text.
const ENDING: [(c_int, Code, &str); 3] = [
    (SIGINT, Code::Interrupted, "interrupted by SIGINT"),
    (SIGTERM, Code::Terminated, "ended by SIGTERM"),
    (SIGHUP, Code::HungUp, "ended by SIGHUP"),
];

/// Record of the first signal that the process received.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    has_arrived: &'static AtomicBool,
    number: &'static AtomicUsize,
    /// noun for the interrupted work: "transfer"
    work: &'static str,
}

impl Signals {
    /// Installs the handlers for the rest of the process. The flags are leaked, because they must live as long.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn install(work: &'static str) -> Result<Self, Failure> {
        let has_arrived: &'static Arc<AtomicBool> = Box::leak(Box::default());
        let number: &'static Arc<AtomicUsize> = Box::leak(Box::default());
        let install = || -> io::Result<()> {
            for (signal, ..) in ENDING.into_iter().filter(|&(signal, ..)| !is_ignored(signal)) {
                // The order matters: the default action runs only if `has_arrived` is set already, that is, for the second signal.
                flag::register_conditional_default(signal, Arc::clone(has_arrived))?;
                flag::register_usize(signal, Arc::clone(number), signal.unsigned_abs() as usize)?;
                flag::register(signal, Arc::clone(has_arrived))?;
            }
            // SIGXFSZ is caught and ignored: writing beyond the file size limit is then an I/O error like any other.
            flag::register(libc::SIGXFSZ, Arc::default())?;
            Ok(())
        };
        install().map_err(|error| Failure::new(Code::Device, explain("cannot handle signals", &error)))?;
        Ok(Self { has_arrived, number, work })
    }

    /// Returns the flag that the library checks in every wait.
    #[must_use]
    pub fn flag(&self) -> &'static AtomicBool {
        self.has_arrived
    }

    /// Returns the exit code for the received signal, if there was one, and how it ended the work: "interrupted by SIGINT".
    #[must_use]
    pub fn arrived(&self) -> Option<(Code, &'static str)> {
        let arrived =
            self.has_arrived.load(Ordering::Relaxed).then(|| self.number.load(Ordering::Relaxed))?;
        let ending = ENDING.into_iter().find(|(signal, ..)| signal.unsigned_abs() as usize == arrived);
        let (_, code, how) = ending.unwrap_or(ENDING[0]);
        Some((code, how))
    }

    /// Returns the failure for the received signal, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let (code, how) = self.arrived()?;
        Some(Failure::new(code, format!("{how}; the {} is not complete", self.work)))
    }
}

/// Ends a tool after its cleanup. If a signal ended the work, the process dies by that signal, so that a loop in a shell ends,
/// too. Otherwise returns the exit code.
#[must_use]
pub fn end(code: Code) -> ExitCode {
    if code.is_signal() {
        // This call returns only if the system refuses; the exit code then names the signal.
        let _ = emulate_default_handler((code.number() - SIGNAL_CODE_BASE).into());
    }
    code.into()
}
