//! Outcome of an end's turn.

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turned {
    /// How long the end may sleep.
    pub(crate) nap_ns: u64,
    /// Which ends let go of everything.
    pub(crate) lets_go: [bool; 2],
}
