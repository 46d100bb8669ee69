//! Bounds of what waits.

/// Bounds a handshake.
pub(super) struct Patience<'a> {
    pub(super) deadline_ns: u64,
    pub(super) interrupted: &'a dyn Fn() -> bool,
}
