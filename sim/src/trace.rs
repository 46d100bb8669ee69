//! What happened, one line an event; the legend is in docs/testing.md.

use core::fmt::{self, Write};

/// Lines, while somebody wants them.
#[derive(Default)]
pub(crate) struct Trace(Option<String>);

impl Trace {
    pub(crate) fn start(&mut self) {
        self.0 = Some(String::new());
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// When, where, what, and of what.
    pub(crate) fn line(&mut self, at_ns: u64, node: usize, what: &str, of: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.0 {
            let written = writeln!(lines, "{at_ns:>9} {node} {what:<8} {of}");
            debug_assert!(written.is_ok(), "a string takes all");
        }
    }

    pub(crate) fn take(&mut self) -> String {
        self.0.take().unwrap_or_default()
    }
}
