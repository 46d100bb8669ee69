//! Questions and answers of the choice of windows.

/// The laps in which a chunk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LapNow {
    /// Blocks of this lap, and of the one before.
    pub(crate) blocks: u32,
    pub(crate) before: u32,
    /// It is the first one in its ring.
    pub(crate) is_first: bool,
}

impl LapNow {
    /// Returns true if the caches are in the state in which laps of this length leave them.
    pub(crate) const fn is_steady(self) -> bool {
        self.blocks == self.before && !self.is_first
    }
}

/// Wish of the choice of windows for a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// As the choice of kernels wishes.
    Any,
    /// Copy it with the chosen kernel, and time it.
    Time,
    /// Copy it with the chosen kernel, and do not time it.
    Quiet,
}

/// Reason for a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowReason {
    /// Nothing was given or chosen: all, or what a choice starts with. There is nothing to choose with posted writes, or in a ring that is too small.
    #[default]
    Start,
    /// It was better than others.
    Chosen,
    /// It was given.
    Pinned,
}

impl WindowReason {
    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Chosen => "chosen",
            Self::Pinned => "pinned",
        }
    }
}
