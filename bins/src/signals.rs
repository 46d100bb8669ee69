//! SIGINT and SIGTERM: the first asks the tool to tell its peer and clean up, the second ends it at once.

use crate::exit::{Code, Failure, explain};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;

/// Whether a signal came, and which.
#[derive(Debug, Clone, Copy)]
pub struct Signals {
    came: &'static AtomicBool,
    which: &'static AtomicUsize,
    /// what they interrupt
    work: &'static str,
}

impl Signals {
    /// Handles both from now on, for the rest of the process: the flags live as long.
    ///
    /// # Errors
    /// When the system refuses, which it has no reason to.
    pub fn install(work: &'static str) -> Result<Self, Failure> {
        let came: &'static Arc<AtomicBool> = Box::leak(Box::default());
        let which: &'static Arc<AtomicUsize> = Box::leak(Box::default());
        let install = || -> io::Result<()> {
            for signal in [SIGINT, SIGTERM] {
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

    /// What the library looks at in every wait.
    #[must_use]
    pub fn flag(&self) -> &'static AtomicBool {
        self.came
    }

    /// The failure that a signal is, if one came.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.came.load(Ordering::Relaxed).then(|| {
            let (code, how) = if self.which.load(Ordering::Relaxed) == SIGTERM.unsigned_abs() as usize {
                (Code::Terminated, "ended by SIGTERM")
            } else {
                (Code::Interrupted, "interrupted by SIGINT")
            };
            Failure::new(code, format!("{how}; the {} is not complete", self.work))
        })
    }
}
