//! The kernels that a fabric may have.

/// A way to copy payload. All copy the same bytes; they differ in what they do to the caches of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CopyKernel {
    /// The fabric's usual copy, through the caches.
    #[default]
    Plain,
    /// The processor's string instruction.
    String,
    /// Plain in pieces, the lines of which are fetched for writing some pieces ahead.
    Fetching,
    /// Stores that bypass the caches.
    Streaming,
}

impl CopyKernel {
    /// Every kernel.
    pub const ALL: [Self; 4] = [Self::Plain, Self::String, Self::Fetching, Self::Streaming];

    /// Returns the name that tools use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::String => "string",
            Self::Fetching => "fetching",
            Self::Streaming => "streaming",
        }
    }
}

/// A set of kernels, which always has [`CopyKernel::Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelSet(u8);

impl KernelSet {
    /// The plain kernel alone: there is no choice.
    pub const PLAIN: Self = Self(1 << CopyKernel::Plain as u8);
    /// Every kernel.
    pub const ALL: Self =
        Self::PLAIN.with(CopyKernel::String).with(CopyKernel::Fetching).with(CopyKernel::Streaming);

    /// Returns the set with this kernel as well.
    #[must_use]
    pub const fn with(self, kernel: CopyKernel) -> Self {
        Self(self.0 | 1 << kernel as u8)
    }

    /// Returns the set without this kernel, unless that is the plain one.
    #[must_use]
    pub(crate) const fn without(self, kernel: CopyKernel) -> Self {
        Self(self.0 & !(1 << kernel as u8) | 1 << CopyKernel::Plain as u8)
    }

    /// Returns true if there is more than the plain kernel.
    pub(crate) const fn is_choice(self) -> bool {
        self.0 != Self::PLAIN.0
    }

    /// Returns true if the kernel is in it.
    #[must_use]
    pub const fn has(self, kernel: CopyKernel) -> bool {
        self.0 & 1 << kernel as u8 != 0
    }

    /// Iterates over its kernels.
    pub fn iter(self) -> impl Iterator<Item = CopyKernel> {
        CopyKernel::ALL.into_iter().filter(move |kernel| self.has(*kernel))
    }
}
