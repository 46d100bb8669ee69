//! What an end has chosen for its copies.

use core::fmt;

use serde::Serialize;
use superpipe::os::Bytes;
use superpipe::{CopyKernel, Counters, size_class_bytes};

/// Choices of an end for its copies over shared memory, at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copying {
    /// bytes of the peer's landing buffer that this end cycles through
    window_bytes: u64,
    /// reason for it: start, chosen or pinned
    window_reason: &'static str,
    /// times that another window was chosen
    window_changes: u32,
    /// fewest bytes of a message of each class
    class_bytes: [u64; 5],
    /// kernel of copies into the peer's landing buffer, of messages of each class
    copy_in: [&'static str; 5],
    /// kernel of copies out of this end's landing buffer
    copy_out: [&'static str; 5],
    /// copies into the peer's landing buffer that were timed
    timed_in: u64,
    /// copies out of this end's that were timed
    timed_out: u64,
    /// times that another kernel was chosen for copies in
    changes_in: u32,
    /// times that another kernel was chosen for copies out
    changes_out: u32,
}

impl Copying {
    /// Takes the choices out of a connection's counters.
    #[must_use]
    pub fn new(counters: &Counters) -> Self {
        let [timed_in, timed_out] = counters.copies_timed;
        let [changes_in, changes_out] = counters.copy_changes;
        Self {
            window_bytes: counters.window_bytes,
            window_reason: counters.window_reason.name(),
            window_changes: counters.window_changes,
            class_bytes: size_class_bytes(),
            copy_in: counters.copy_in.map(CopyKernel::name),
            copy_out: counters.copy_out.map(CopyKernel::name),
            timed_in,
            timed_out,
            changes_in,
            changes_out,
        }
    }

    /// Returns true if anything was timed.
    #[must_use]
    pub const fn has_any(&self) -> bool {
        self.timed_in + self.timed_out > 0
    }
}

impl fmt::Display for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_class = |kernels: &[&str]| {
            let classes = self.class_bytes.iter().zip(kernels);
            classes
                .map(|(least, kernel)| format!("{} {kernel}", Bytes(*least)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(
            f,
            "window: {} ({}, {} changes); copies in, of messages from: {} ({} timed, {} changes); copies out: {} ({} timed, {} changes)",
            Bytes(self.window_bytes),
            self.window_reason,
            self.window_changes,
            by_class(&self.copy_in),
            self.timed_in,
            self.changes_in,
            by_class(&self.copy_out),
            self.timed_out,
            self.changes_out,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use superpipe::WindowReason;

    #[test]
    fn choices_are_told_to_people_and_programs() {
        let mut counters = Counters::default();
        assert!(!Copying::new(&counters).has_any());
        counters.window_bytes = 128 << 10;
        counters.window_reason = WindowReason::Chosen;
        counters.window_changes = 3;
        counters.copy_in[1] = CopyKernel::Streaming;
        counters.copies_timed = [20, 7];
        counters.copy_changes = [2, 0];
        let copying = Copying::new(&counters);
        assert!(copying.has_any());
        assert_eq!(
            copying.to_string(),
            "window: 128 KiB (chosen, 3 changes); copies in, of messages from: 4 KiB plain, 16 KiB streaming, 256 KiB plain, 4 MiB plain, \
             32 MiB plain (20 timed, 2 changes); copies out: 4 KiB plain, 16 KiB plain, 256 KiB plain, 4 MiB plain, \
             32 MiB plain (7 timed, 0 changes)"
        );
        let json = serde_json::to_value(&copying).unwrap();
        assert_eq!((&json["window_bytes"], &json["copy_in"][1]), (&(128 << 10).into(), &"streaming".into()));
        assert_eq!((&json["window_reason"], &json["window_changes"]), (&"chosen".into(), &3.into()));
        assert_eq!((&json["timed_in"], &json["changes_in"]), (&20.into(), &2.into()));
    }
}
