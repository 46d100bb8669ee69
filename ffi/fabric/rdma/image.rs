//! What core names the peer's memory by.

use crate::fabric::Span;

/// A part of the image of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    pub(super) span: Span,
    /// Offset of the part from the peer's control page, or in a landing buffer that was grown. wire.md 10.3.
    pub(super) base: u32,
}
