//! Memory that an operation was given.

/// Memory `M` that was lent to a transfer `T`, whose operation ends with `R`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lent<M, T, R> {
    pub(super) memory: M,
    /// Connection and transfer that it was lent to. An incoming transfer that cannot use it counts as well.
    pub(super) to: Option<(u64, T)>,
    /// The message has ended so, and the memory is being deregistered.
    pub(super) result: Option<R>,
}

impl<M, T, R> Lent<M, T, R> {
    pub(super) const fn new(memory: M) -> Self {
        Self { memory, to: None, result: None }
    }
}
