//! The process that made something, told from its children by fork.

/// A process, by its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process. A system call.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// False in a child that fork made of it. A system call.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}
